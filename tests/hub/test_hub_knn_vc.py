"""`t8-2` from files of the published names and layouts: a folder, a release, the Hub."""

import json
import os
import re
from pathlib import Path

import pytest
import torch
from golden.seeded_weights import seeded_state_dict
from systems.test_knn_vc import SOURCE, entries, random_pool, write_weights

from voiceanon import WeightsError, load
from voiceanon.components.content.wavlm_config import is_unused_entry

GOLDEN = Path(__file__).parents[1] / "golden" / "knn_vc"
RELEASE = "/bshall/knn-vc/releases/download/v0.1/"
HUB_RENAMES = json.loads((GOLDEN / "map_WavLM-Large_to_hub.json").read_text())


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def served(serve_release, small):
    """The system, with its release on loopback."""
    return serve_release("t8-2", RELEASE, small)


def test_a_release_is_fetched_verified_cached_and_then_used_offline(
    served, server, small, no_sockets, monkeypatch
):
    # The sizes of the vocoder lie beside its weights; a release does not have them.
    sizes = load("t8-2", weights=small, device="cpu").config.vocoder
    first = load("t8-2", device="cpu", vocoder=sizes, pool=random_pool())
    assert sorted(map(os.path.basename, server.paths())) == [
        "WavLM-Large.pt",
        "prematch_g_02500000.pt",
    ]
    expected = first.anonymize(SOURCE, seed=1)
    tried = no_sockets()
    again = load("t8-2", device="cpu", vocoder=sizes, pool=random_pool())
    assert torch.equal(*(torch.from_numpy(x) for x in (again.anonymize(SOURCE, seed=1), expected)))
    assert again.weight_digests == first.weight_digests
    assert not tried


def test_the_hubs_copy_of_the_encoder_gives_the_same(hub, served, small, monkeypatch, tmp_path):
    original = entries("entries_wavlm_small.json")
    renamed = {HUB_RENAMES[name]: value for name, value in original.items()}
    torch.save(renamed, tmp_path / "pytorch_model.bin")
    settings = json.loads((GOLDEN / "config_wavlm_small.json").read_text())["hub"]
    for name, data in (
        ("pytorch_model.bin", (tmp_path / "pytorch_model.bin").read_bytes()),
        ("config.json", json.dumps(settings).encode()),
    ):
        hub.hub("microsoft/wavlm-large", name, data, linked=name.endswith(".bin"))
    sizes = load("t8-2", weights=small, device="cpu").config.vocoder
    system = load(
        "t8-2", device="cpu", encoder_file="wavlm-large/pytorch_model.bin", vocoder=sizes,
        pool=random_pool(),
    )  # fmt: skip
    expected = load("t8-2", weights=small, device="cpu", pool=random_pool())
    assert "wavlm-large/config.json" in system.weight_digests
    results = [each.anonymize(SOURCE, seed=1) for each in (system, expected)]
    assert abs(results[0] - results[1]).max() < 1e-6


def rewritten(small, folder, change):
    """The small files with something changed."""
    write_weights(folder)
    data = torch.load(folder / "WavLM-Large.pt", weights_only=True)
    change(data["model"])
    torch.save(data, folder / "WavLM-Large.pt")
    return folder


def drop(model):
    del model["encoder.layers.3.fc1.weight"]


def add(model):
    model["encoder.layers.3.fc9.weight"] = torch.zeros(2)


def reshape(model):
    model["layer_norm.bias"] = torch.zeros(7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop, r"missing from the file:\n  encoder\.layers\.3\.fc1\.weight"),
        (add, r"of no use to the network:\n  encoder\.layers\.3\.fc9\.weight"),
        (reshape, r"layer_norm\.bias: \(7,\), \(32,\)"),
    ],
)
def test_entries_that_do_not_fit_are_listed(small, tmp_path, change, message):
    with pytest.raises(WeightsError, match=message) as caught:
        load("t8-2", weights=rewritten(small, tmp_path, change), device="cpu")
    assert "WavLM-Large.pt" in str(caught.value)


def test_a_missing_file_names_itself_and_the_command(small, tmp_path):
    (tmp_path / "WavLM-Large.pt").write_bytes((small / "WavLM-Large.pt").read_bytes())
    with pytest.raises(
        WeightsError, match=r"(?s)prematch_g_02500000\.pt.*voiceanon download"
    ) as caught:
        load("t8-2", weights=tmp_path, device="cpu")
    assert re.search(
        r"https://github\.com/bshall/knn-vc/releases/download/v0\.1/", str(caught.value)
    )


@pytest.mark.slow
def test_files_of_the_published_shapes_load_strictly(tmp_path):
    """All 488 and 236 entries of the published tables, 1.3 GB."""

    def table(name):
        shapes = json.loads((GOLDEN / name).read_text())
        return {entry: tuple(shape) for entry, shape in shapes.items()}

    encoder = table("entries_WavLM-Large.json")
    used = {name: shape for name, shape in encoder.items() if not is_unused_entry(name, layers=6)}
    model = seeded_state_dict(used) | {
        name: torch.zeros(shape) for name, shape in encoder.items() if name not in used
    }
    assert len(model) == 488
    assert len(used) == 143
    torch.save({"cfg": {}, "model": model}, tmp_path / "WavLM-Large.pt")
    del model
    vocoder = seeded_state_dict(table("entries_prematch_g_02500000.json"))
    assert len(vocoder) == 236
    torch.save({"generator": vocoder}, tmp_path / "prematch_g_02500000.pt")
    system = load("t8-2", weights=tmp_path, device="cpu")
    assert sum(p.numel() for p in system.vocoder.parameters()) == 16_523_393
    assert system.wavlm.config.width == 1024
    system.use_pool({"a": SOURCE})
    result = system.anonymize(SOURCE[:16000], seed=0)
    assert result.shape == (16000,)
    assert abs(result).max() > 0
