"""The WavLM front end of attackers, in a reduced size with seeded weights."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict
from training_voices import tiny, training_data, voice

from voiceanon import WeightsError
from voiceanon.components.content.wavlm import WavLM
from voiceanon.eval.attackers import load_attacker, train_attacker
from voiceanon.eval.attackers.front_ends import WavLMLayers, load_wavlm_layers, standardise
from voiceanon.eval.attackers.network import EmbeddingNetwork

pytestmark = [pytest.mark.speechbrain, pytest.mark.usefixtures("one_thread")]

GOLDEN = Path(__file__).parents[1] / "golden" / "knn_vc"
CONFIG = tiny(front_end="wavlm", epochs=4, half_cycle=8)
DATA = training_data(count=4)


def write_wavlm(folder, scale=1.0):
    """WavLM-Large.pt in the published layout."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = json.loads((GOLDEN / "config_wavlm_small.json").read_text())["original"]
    shapes = json.loads((GOLDEN / "entries_wavlm_small.json").read_text())
    entries = seeded_state_dict({name: tuple(shape) for name, shape in shapes.items()})
    entries["post_extract_proj.bias"] *= scale
    torch.save({"cfg": settings, "model": entries}, folder / "WavLM-Large.pt")
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VOICEANON_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return write_wavlm(tmp_path_factory.mktemp("wavlm"))


@pytest.fixture
def front_end(weights):
    return load_wavlm_layers(weights).eval()


def noise(samples, seed=0):
    return torch.randn(samples, generator=torch.Generator().manual_seed(seed))


def test_all_layers_are_there(front_end):
    assert isinstance(front_end.wavlm, WavLM)
    assert front_end.wavlm.layers == 8
    assert front_end.width == 64
    assert front_end.layer_weights.tolist() == [0.0] * 9
    trainable = [name for name, p in front_end.named_parameters() if p.requires_grad]
    assert trainable == ["layer_weights"]


def test_features_are_the_weighted_mean_of_the_layers(front_end):
    wave = 0.1 * noise(8000) + 0.3
    lengths = torch.tensor([8000])
    normal = (wave - wave.mean()) / wave.std(correction=0)
    states, frames = front_end.wavlm.hidden_states(normal[None], lengths, range(9))
    shares = torch.tensor([0.1, 0.2, 0.05, 0.05, 0.1, 0.1, 0.1, 0.1, 0.2])
    mixed = sum(share * state[0] for share, state in zip(shares, states, strict=True))
    expected = (mixed - mixed.mean(0)) / mixed.std(0, correction=0)
    with torch.no_grad():
        front_end.layer_weights.copy_(shares.log() + 3)
        result, counts = front_end(wave[None], lengths)
    assert torch.equal(counts, frames)
    torch.testing.assert_close(result[0], expected, rtol=0, atol=2e-3)


def test_padding_does_not_matter(front_end):
    network = EmbeddingNetwork(front_end, CONFIG.sizes).eval()
    lengths = torch.tensor([5000, 8000, WavLMLayers.min_samples])
    batch = noise(24000).view(3, 8000).clone()
    with torch.no_grad():
        result = network(batch, lengths)
        batch[0, 5000:] = torch.nan
        assert torch.equal(network(batch, lengths)[0], result[0])
        for row, wave, length in zip(result, batch, lengths, strict=True):
            alone = network(wave[None, :length], length[None])[0]
            torch.testing.assert_close(row, alone, rtol=1e-3, atol=1e-4)


def test_standardise():
    x = 5 * noise(2 * 7 * 3).view(2, 7, 3) + 2
    x[1, 4:] = torch.inf
    result = standardise(x, torch.tensor([7, 4]))
    for item, length in zip(result, (7, 4), strict=True):
        torch.testing.assert_close(item[:length].mean(0), torch.zeros(3), rtol=0, atol=1e-5)
        deviation = item[:length].std(0, correction=0)
        torch.testing.assert_close(deviation, torch.ones(3), rtol=0, atol=1e-4)
        assert not item[length:].any()


@pytest.fixture(scope="module")
def trained(weights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacker")
    return train_attacker(DATA, CONFIG, folder, device="cpu", weights=weights), folder


def test_training_moves_the_layer_weights_and_leaves_wavlm(trained, weights):
    attacker, folder = trained
    losses = [result.loss for result in attacker.facts.history]
    assert losses[-1] < 0.7 * losses[0]
    saved = torch.load(folder / "front_end.ckpt", weights_only=True)
    assert list(saved) == ["layer_weights"]
    assert saved["layer_weights"].unique().numel() > 1
    names = torch.load(folder / "training.ckpt", weights_only=True)["network"].keys()
    assert not [name for name in names if "wavlm" in name]
    before = torch.load(weights / "WavLM-Large.pt", weights_only=True)["model"]
    after = attacker._network.front_end.wavlm.state_dict()
    name = "encoder.layers.3.fc1.weight"
    assert torch.equal(after[name], before[name])
    assert attacker.label.startswith("WavLM and ECAPA-TDNN trained on 14 utterances of 4 speakers")
    assert attacker.label.endswith("not the challenge's")


def test_an_interrupted_training_ends_as_one_that_ran_through(trained, weights, tmp_path):
    def stop(report):
        if (report.epoch, report.step) == (2, 1):
            raise KeyboardInterrupt

    options = {"device": "cpu", "weights": weights, "checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        train_attacker(DATA, CONFIG, tmp_path, progress=stop, **options)
    resumed = train_attacker(DATA, CONFIG, tmp_path, **options)
    assert resumed.identity == trained[0].identity
    assert resumed.facts == trained[0].facts


def test_loading(trained, weights):
    attacker, folder = trained
    waves = [voice("ann", 9), voice("bob", 9, 0.7)]
    loaded = load_attacker(folder, device="cpu", weights=weights)
    saved = torch.load(folder / "front_end.ckpt", weights_only=True)["layer_weights"]
    assert torch.equal(loaded._network.front_end.layer_weights, saved)
    assert loaded.identity == attacker.identity
    assert np.array_equal(loaded.embed(waves), attacker.embed(waves))


def test_another_wavlm_is_refused(trained, tmp_path):
    other = write_wavlm(tmp_path / "other", scale=2.0)
    with pytest.raises(WeightsError, match="trained on the WavLM with SHA-256"):
        load_attacker(trained[1], weights=other)


def test_layer_weights_of_another_wavlm_are_refused(trained, weights, tmp_path):
    start = tmp_path / "start"
    start.mkdir()
    for name in ("embedding_model.ckpt", "front_end.ckpt"):
        (start / name).write_bytes((trained[1] / name).read_bytes())
    torch.save({"layer_weights": torch.zeros(13)}, start / "front_end.ckpt")
    options = {"device": "cpu", "weights": weights, "init": start}
    with pytest.raises(WeightsError, match="does not fit a WavLM with 9 hidden states"):
        train_attacker(DATA, replace(CONFIG, epochs=1), tmp_path / "new", **options)


def test_without_weights(tmp_path):
    with pytest.raises(WeightsError, match=r"WavLM-Large\.pt"):
        train_attacker(DATA, CONFIG, tmp_path, weights=tmp_path)
