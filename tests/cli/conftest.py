"""Runs the command in this process, with caches of its own."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import signals
import soundfile
import torch
from golden.seeded_weights import seeded_state_dict
from huggingface_hub import constants

from voiceanon import cli, registry, system_info

TESTS = Path(__file__).parents[1]
# The server on loopback is that of the tests of the weights layer.
sys.path.append(str(TESTS / "hub"))

VOCODER_SETTINGS = {
    "hubert_dim": 64,
    "hifi_dim": 32,
    "upsample_initial_channel": 64,
    "upsample_rates": [10, 8, 2, 2],
    "upsample_kernel_sizes": [20, 16, 4, 4],
    "resblock_kernel_sizes": [3, 7, 11],
    "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
}
"""`config_v1_wavlm.json` in small."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Empty caches."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HOME", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VOICEANON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def small_weights(tmp_path_factory):
    """A folder with the published files of t8-2, in small."""
    golden = TESTS / "golden" / "knn_vc"
    folder = tmp_path_factory.mktemp("weights")

    def entries(name):
        return seeded_state_dict(json.loads((golden / f"entries_{name}_small.json").read_text()))

    cfg = json.loads((golden / "config_wavlm_small.json").read_text())["original"]
    torch.save({"cfg": cfg, "model": entries("wavlm")}, folder / "WavLM-Large.pt")
    for name in ("prematch_g_02500000.pt", "g_02500000.pt"):
        torch.save({"generator": entries("hifigan")}, folder / name)
    (folder / "config_v1_wavlm.json").write_text(json.dumps(VOCODER_SETTINGS))
    return folder


@pytest.fixture
def register(monkeypatch):
    """Makes a system known to `load` while a test runs; options are those of its family."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))

    def start(system_id, weights=None, **options):
        from voiceanon.systems.knn_vc import KnnVC

        info = replace(system_info("t8-2"), id=system_id, aliases=())
        info = info if weights is None else replace(info, weights=tuple(weights))
        registry.register(KnnVC, info, **options)
        return info

    return start


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs ``voiceanon`` with arguments; gives exit status, stdout and stderr."""

    def start(*arguments):
        monkeypatch.setattr("sys.argv", ["voiceanon", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return start


@pytest.fixture
def corpus(tmp_path):
    """A folder with three files."""
    folder = tmp_path / "in"
    for index, name in enumerate(("ann/a1.wav", "ann/a2.flac", "ben/b1.wav")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, signals.speech(0.3, seed=index).numpy(), signals.RATE)
    return folder


@pytest.fixture
def recording(corpus):
    return corpus / "ann" / "a1.wav"
