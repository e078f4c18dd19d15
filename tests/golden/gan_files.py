"""The three archives of B3 in their published layouts, and Silero's file, with seeded weights.

Recogniser and acoustic model have the sizes of the stored runs; aligner and vocoder are narrower
than the published ones. Style tokens and GAN have their published sizes.
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torchaudio
import yaml
from torch import Tensor

from golden.seeded_weights import seeded_state_dict, seeded_tensor
from golden.silero_files import write_silero
from voiceanon import registry
from voiceanon.components.vad.silero import SileroVad
from voiceanon.systems.gan_fastspeech2_files import artificial_tokens
from voiceanon.types import SystemInfo

FOLDER = Path(__file__).parent / "gan_fastspeech2"
ARCHIVES = ("anonymization.zip", "asr.zip", "tts.zip")
NAMES = ("vpc2024-b3", "vpc2024-t12-4", "vpc2024-t30-1")

TOKENS = 40
"""Of the stored runs' recogniser."""

NARROW_ALIGNER = {512: 16, 1024: 32, 2048: 64}
NARROW_VOCODER = {512: 32, 256: 16, 128: 8, 64: 4, 32: 2}
"""Published widths, and those in these files."""

MEAN, STD = 0.05, 0.4
"""Of the stored GAN."""

GAN_PARAMETERS = {
    "data_dim": [1, 1, 128],
    "z_dim": 16,
    "size": 8,
    "nfilter": 8,
    "nfilter_max": 16,
}

LAYOUTS = ("new", "new with stock", "old")
"""Of ``anonymization.zip``: generator in a folder of its own, without or with a stock beside it;
or both side by side, under other names."""


def table(name: str) -> dict[str, tuple[int, ...]]:
    """Shapes of a published file by entry name."""
    shapes = json.loads((FOLDER / f"entries_{name}.json").read_text())
    return {entry: tuple(shape) for entry, shape in shapes.items()}


def resized(
    shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[int, int]
) -> dict[str, tuple[int, ...]]:
    """The same table at other widths."""
    return {name: tuple(sizes.get(size, size) for size in shape) for name, shape in shapes.items()}


def filled(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Seeded entries; counters of batch norms are integers."""
    state = seeded_state_dict({name: shape for name, shape in shapes.items() if shape})
    counters = {name: torch.tensor(7) for name, shape in shapes.items() if not shape}
    return {name: {**state, **counters}[name] for name in shapes}


def mel_matrix() -> Tensor:
    """Bands of the recogniser's front end, 257 x 80."""
    return torchaudio.functional.melscale_fbanks(
        257, 0.0, 8000.0, 80, 16_000, norm="slaney", mel_scale="slaney"
    )


def recognizer_settings(**changes: Any) -> dict[str, Any]:
    """What the archive's ``config.yaml`` holds."""
    return {
        "token_list": list(artificial_tokens(TOKENS)),
        "token_type": "bpe",
        "bpemodel": "data/token_list/bpe_unigram100/bpe.model",
        "frontend": "default",
        "frontend_conf": {"n_fft": 512, "hop_length": 160},
        "normalize": "global_mvn",
        "normalize_conf": {"stats_file": "exp/asr_stats/train/feats_stats.npz"},
        "specaug": "specaug",
        "encoder": "branchformer",
        "encoder_conf": {
            "output_size": 32,
            "attention_heads": 4,
            "cgmlp_linear_units": 64,
            "cgmlp_conv_kernel": 31,
            "num_blocks": 2,
        },
        "decoder": "transformer",
        "decoder_conf": {"attention_heads": 4, "linear_units": 64, "num_blocks": 2},
        "model_conf": {"ctc_weight": 0.3},
        **changes,
    }


def recognizer_entries() -> dict[str, Tensor]:
    """Weights of the stored runs' recogniser, with the parts that lie in front of it."""
    state = filled(table("asr_reduced"))
    state["frontend.logmel.melmat"] = mel_matrix()
    state["normalize.mean"] = torch.full((80,), -9.0)
    state["normalize.std"] = torch.full((80,), 4.0)
    return state


def write_espnet(path: Path, settings: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
    """Writes an archive as ESPnet packs its models."""
    weights, config = "exp/asr_train/valid.acc.ave_10best.pth", "exp/asr_train/config.yaml"
    meta = {
        "espnet": "202209",
        "files": {"asr_model_file": weights},
        "yaml_files": {"asr_train_config": config},
        "torch": "1.12.1",
    }
    stream = io.BytesIO()
    torch.save(dict(state), stream)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.yaml", yaml.safe_dump(meta))
        archive.writestr(config, yaml.safe_dump(dict(settings), allow_unicode=True))
        archive.writestr(weights, stream.getvalue())
        archive.writestr("exp/asr_stats/train/feats_stats.npz", b"not needed")


def contents(layout: str = "new") -> dict[str, Any]:
    """What the archives hold, but for the recogniser, by path."""
    vocoder = resized(table("hifigan_best"), NARROW_VOCODER)
    gan = {
        "generator_state_dict": filled(table("gan_generator")),
        "critic_state_dict": filled(table("gan_critic")),
        "gen_optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 1e-4}]},
        "model_parameters": GAN_PARAMETERS,
        "mean": torch.tensor(MEAN),
        "std": torch.tensor(STD),
        "iterations": 100_000,
    }
    names = {
        "new": ("anonymization/gan_style-embed/style-embed_wgan.pt", None),
        "new with stock": (
            "anonymization/gan_style-embed/style-embed_wgan.pt",
            "anonymization/style-embed_wgan.pt",
        ),
        "old": (
            "anonymization/style-embed_wgan.pt",
            "anonymization/style-embed_wgan_generated_vectors.pt",
        ),
    }
    generator, stock = names[layout]
    files = {
        "tts/Embedding/embedding_function.pt": {
            "style_emb_func": filled(table("embedding_function"))
        },
        "tts/Aligner/aligner.pt": {
            "asr_model": filled(resized(table("aligner"), NARROW_ALIGNER)),
            "optimizer": {"state": {}, "param_groups": [{"lr": 0.1}]},
            "tts_model": None,
            "step_counter": 500_000,
        },
        "tts/FastSpeech2_Multi/prosody_cloning.pt": {
            "model": filled(table("fastspeech2_reduced")),
            "default_emb": torch.zeros(128),
        },
        "tts/HiFiGAN_combined/best.pt": {"generator": filled(vocoder)},
        generator: gan,
    }
    return files if stock is None else {**files, stock: stored_vectors()}


def stored_vectors() -> Tensor:
    """A stock of 30 vectors."""
    return torch.from_numpy(seeded_tensor("stock", (30, 128)))


def write(folder: Path, layout: str = "new", *, unpacked: bool = False) -> Path:
    """Writes a folder of weights.

    Args:
        folder: Is there.
        layout: One of `LAYOUTS`.
        unpacked: Whether archives lie there unpacked, side by side.
    """
    for name, content in contents(layout).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        torch.save(content, folder / name)
    (folder / "asr").mkdir(exist_ok=True)
    espnet = folder / "asr" / "asr_branchformer_tts-phn_en.zip"
    write_espnet(espnet, recognizer_settings(), recognizer_entries())
    if not unpacked:
        pack(folder)
    network = SileroVad()
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    constant = re.compile(r"basis_buffer$|filter_$")
    seeded = seeded_state_dict({n: s for n, s in shapes.items() if not constant.search(n)})
    network.load_state_dict({**network.state_dict(), **seeded})
    write_silero(folder / "silero_vad.onnx", network)
    return folder


def pack(folder: Path) -> None:
    """Packs the three folders as they are published, and removes them."""
    for name in ARCHIVES:
        place = folder / name.removesuffix(".zip")
        paths = sorted(path for path in place.rglob("*") if path.is_file())
        with zipfile.ZipFile(folder / name, "w") as archive:
            for path in paths:
                archive.write(path, str(path.relative_to(folder)))
                path.unlink()
        for path in sorted(place.rglob("*"), reverse=True):
            path.rmdir()
        place.rmdir()


def unpin_vad(monkeypatch: pytest.MonkeyPatch) -> dict[str, SystemInfo]:
    """Lets a folder hold another detector than the published one, whose digest is known."""
    known = dict(registry._built_in())
    for name in NAMES:
        info = known[name].info
        weights = tuple(
            dataclasses.replace(file, sha256="unknown", size=None) for file in info.weights
        )
        known[name] = dataclasses.replace(
            known[name], info=dataclasses.replace(info, weights=weights)
        )
    monkeypatch.setattr(registry, "_built_in", lambda: known)
    return {name: known[name].info for name in NAMES}
