"""Networks, loss and schedule of attackers, held to the published ones."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import fill_, seeded_state_dict
from training_voices import TINY, tiny

from voiceanon import ConfigError
from voiceanon.errors import MissingDependencyError
from voiceanon.eval.attackers import AttackerConfig
from voiceanon.eval.attackers.front_ends import LogMel
from voiceanon.eval.attackers.network import EmbeddingNetwork, build_for_training
from voiceanon.eval.attackers.schedule import cyclic_rate
from voiceanon.eval.attackers.speechbrain import speechbrain_module
from voiceanon.eval.sources.ecapa import EcapaConfig
from voiceanon.eval.sources.ecapa_embedder import challenge_form

GOLDEN = Path(__file__).parents[1] / "golden" / "eval"
MODELS = np.load(GOLDEN / "asv_models.npz")
CHALLENGE_SPEAKERS = 921

TOLERANCE = 2e-4
"""Absolute, for embeddings of a standard deviation of 2 to 5; from the stored features 1.4e-5."""


def entries(name):
    return {k: tuple(v) for k, v in json.loads((GOLDEN / name).read_text()).items()}


@pytest.fixture(scope="module")
def official():
    """Network and loss in the challenge's sizes, with the weights of the stored values."""
    pytest.importorskip("speechbrain")
    network, loss = build_for_training(LogMel(), CHALLENGE_SPEAKERS, AttackerConfig())
    weights = seeded_state_dict(entries("entries_asv_ecapa_embedding_model.ckpt.json"))
    network.encoder.load_state_dict(weights, strict=True)
    fill_(loss.classifier.state_dict())
    return network.eval(), loss


@pytest.fixture(scope="module")
def embeddings():
    stored = np.stack([MODELS["utt_embedding"], MODELS["syn_embedding"]])
    return torch.from_numpy(stored)


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


# Golden values.


def test_classifier_has_the_published_entry(official):
    _, loss = official
    shapes = {name: tuple(value.shape) for name, value in loss.classifier.state_dict().items()}
    assert shapes == entries("entries_asv_ecapa_classifier.ckpt.json")


@pytest.mark.parametrize("name", ["utt", "syn"])
def test_embedding_from_stored_features(official, name):
    levels = torch.from_numpy(MODELS[f"{name}_fbank"])[None]
    result = official[0].encoder(levels - levels.mean(1, keepdim=True))[0, 0]
    expected = torch.from_numpy(MODELS[f"{name}_embedding"])
    torch.testing.assert_close(result, expected, rtol=0, atol=TOLERANCE)


def test_embedding_from_the_waveform(official):
    wave = challenge_form(torch.from_numpy(MODELS["wave_syn"]))
    expected = torch.from_numpy(MODELS["syn_embedding"])
    torch.testing.assert_close(official[0](wave[None])[0], expected, rtol=0, atol=TOLERANCE)


def test_classifier_cosines(official, embeddings):
    cosines = official[1].classifier(embeddings[:, None])[:, 0, ::8]
    stored = [MODELS[f"{name}_classifier_cosines_every8"] for name in ("utt", "syn")]
    torch.testing.assert_close(cosines, torch.from_numpy(np.stack(stored)), rtol=0, atol=1e-5)


def test_loss(official, embeddings):
    loss, mistaken = official[1](embeddings, torch.tensor([3, 700]))
    assert float(loss) == pytest.approx(float(MODELS["aam_loss"]), abs=1e-3)
    assert mistaken.tolist() == [True, True]


# The loss by hand.


def aam(cosines, true, margin=0.2, scale=30.0):
    """Mean cross entropy after the margin; floats and lists only."""
    losses = []
    for row, label in zip(cosines, true, strict=True):
        angle = math.acos(row[label])
        moved = list(row)
        if angle + margin < math.pi:
            moved[label] = math.cos(angle + margin)
        else:
            moved[label] = row[label] - margin * math.sin(margin)
        total = sum(math.exp(scale * (value - max(moved))) for value in moved)
        losses.append(scale * (max(moved) - moved[label]) + math.log(total))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("opposite", [False, True])
def test_loss_by_hand(opposite):
    pytest.importorskip("speechbrain")
    _, loss = build_for_training(LogMel(), 5, TINY)
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(3, TINY.sizes.embedding, generator=generator)
    true = torch.tensor([4, 0, 2])
    if opposite:
        # Angles of nearly pi, where the margin would turn back.
        points = -loss.classifier.weight[true] + 1e-3 * points
    units = torch.nn.functional.normalize(points)
    weights = torch.nn.functional.normalize(loss.classifier.weight)
    cosines = (units.double() @ weights.double().T).clamp(-1, 1)
    value, mistaken = loss(points, true)
    assert float(value) == pytest.approx(aam(cosines.tolist(), true.tolist()), rel=1e-4)
    assert torch.equal(mistaken, cosines.argmax(1) != true)


# The network for embeddings is that of the training.


def test_both_networks_agree_and_padding_does_not_matter():
    pytest.importorskip("speechbrain")
    training, _ = build_for_training(LogMel(), 3, TINY)
    fill_(training.encoder.state_dict())
    network = EmbeddingNetwork(LogMel(), TINY.sizes).eval()
    network.encoder.load_state_dict(training.encoder.state_dict(), strict=True)
    generator = torch.Generator().manual_seed(2)
    lengths = torch.tensor([9000, 16000, 8000])
    batch = torch.randn(3, 16000, generator=generator)
    result = network(batch, lengths)
    for row, wave, length in zip(result, batch, lengths, strict=True):
        alone = training.eval()(wave[None, :length])[0]
        torch.testing.assert_close(row, alone, rtol=1e-4, atol=1e-4)


def test_start_follows_from_the_seed_alone():
    pytest.importorskip("speechbrain")

    def start(config):
        network, loss = build_for_training(LogMel(), 3, config)
        return {**network.state_dict(), **loss.state_dict()}

    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = start(TINY)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    torch.set_default_dtype(torch.float64)
    try:
        second = start(TINY)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = start(tiny(seed=3))
    name = "encoder.blocks.0.conv.conv.weight"
    assert not torch.equal(first[name], other[name])


# The schedule.


@pytest.mark.parametrize(
    ("step", "share"),
    [(1, 0.1), (5, 0.5), (10, 1.0), (13, 0.7), (19, 0.1), (20, 0.0), (21, 0.1), (30, 1.0)],
)
def test_schedule_is_a_triangle(step, share):
    config = tiny(base_rate=1e-4, max_rate=3e-2, half_cycle=10)
    assert cyclic_rate(step, config) == pytest.approx(1e-4 + share * (3e-2 - 1e-4), abs=1e-12)


def test_schedule_of_the_challenge():
    # 10 epochs of 1350 steps stay below a quarter of the maximum.
    assert cyclic_rate(13_500, AttackerConfig()) == pytest.approx(2.0769e-3, rel=1e-4)
    assert cyclic_rate(65_000, AttackerConfig()) == pytest.approx(0.01)


def test_schedule_is_speechbrains():
    pytest.importorskip("speechbrain")
    schedulers = speechbrain_module("nnet.schedulers")
    original = schedulers.CyclicLRScheduler(base_lr=1e-8, max_lr=0.01, step_size=7)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    for step in range(1, 40):
        original.on_batch_end(optimiser)
        rate = optimiser.param_groups[0]["lr"]
        assert cyclic_rate(step, tiny(half_cycle=7)) == pytest.approx(rate, rel=1e-12)


# Settings.


def test_labels_of_configurations():
    challenge = AttackerConfig()
    assert challenge.label == "challenge configuration"
    assert replace(challenge, seed=1, utterances_per_speaker=50).label == challenge.label
    small = "small configuration: not the challenge's"
    assert AttackerConfig.small().label == small
    for other in (replace(challenge, epochs=9), replace(challenge, front_end="wavlm"), TINY):
        assert other.label == "changed configuration: not the challenge's"


def test_the_challenge_network_has_the_published_size(official):
    count = sum(parameter.numel() for parameter in official[0].parameters())
    assert count == 6_194_048


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"front_end": "mfcc"}, "'mfcc' is not one of fbank, wavlm"),
        ({"epochs": 0}, "epochs: 0 given"),
        ({"max_rate": float("nan")}, "max_rate: nan given"),
        ({"utterances_per_speaker": -1}, "utterances_per_speaker: -1"),
        ({"batch_size": 1}, "batch normalisation needs at least 2"),
        ({"validation_share": 1.0}, "must lie between 0 and 1"),
        ({"margin": -0.1}, "margin: -0.1 given"),
        ({"sizes": EcapaConfig(width=20)}, "width: 20 given; a multiple of scale, 8, is due"),
    ],
)
def test_settings_that_do_not_fit(changes, message):
    with pytest.raises(ConfigError, match=message):
        tiny(**changes)


# SpeechBrain as a guest.


def test_without_speechbrain(monkeypatch):
    monkeypatch.setitem(sys.modules, "speechbrain.lobes.models.ECAPA_TDNN", None)
    with pytest.raises(MissingDependencyError, match="speechbrain"):
        build_for_training(LogMel(), 3, TINY)


IMPORT = """
import os
import torch
from voiceanon.eval.attackers.speechbrain import speechbrain_module

def state():
    return (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        # Gives the old value.
        torch._C._jit_set_profiling_executor(True),
        torch.get_num_threads(),
        dict(os.environ),
    )

torch.backends.cudnn.allow_tf32 = False
before = state()
speechbrain_module("lobes.models.ECAPA_TDNN")
speechbrain_module("nnet.losses")
assert state() == before, (before, state())
"""


@pytest.mark.slow
def test_importing_speechbrain_changes_nothing():
    pytest.importorskip("speechbrain")
    subprocess.run([sys.executable, "-c", IMPORT], check=True, timeout=120)
