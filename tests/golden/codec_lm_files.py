"""Files of the published layouts, with seeded weights, for B4."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from golden.seeded_weights import seeded_state_dict

FOLDER = Path(__file__).parent / "codec_lm"
CONFIG = json.loads((FOLDER / "config.json").read_text())
PROMPTS = np.load(FOLDER / "prompts.npz")
VOICES = ("en_speaker_0", "ru_speaker_1", "zh_speaker_9")
"""The three prompts that are stored."""

PARTS = ("semantic", "coarse", "fine")
COMMIT = "f4f32d4cd480dfec1c245d258174bc9bde3c2148"
"""Of the authors' repository of Bark."""

OFFICIAL_GPT = {1024: 64, 3072: 192, 4096: 256}
OFFICIAL_HUBERT = {512: 32, 768: 48, 3072: 96}
OFFICIAL_QUANTISER = {768: 48, 1024: 64, 4096: 256}
"""Widths of the published networks, and those of the stored runs."""

CONTEXT = 1024
"""Positions of both models, in every size."""

ORIGINAL_NAMES = (
    (r"^layers\.", "transformer.h."),
    (r"\.layernorm_([12])\.", r".ln_\1."),
    (r"\.att_proj\.", ".c_attn."),
    (r"\.(?:attn)\.out_proj\.", ".attn.c_proj."),
    (r"\.in_proj\.", ".c_fc."),
    (r"\.mlp\.out_proj\.", ".mlp.c_proj."),
    (r"^input_embeds_layer\.", "transformer.wte."),
    (r"^input_embeds_layers\.", "transformer.wtes."),
    (r"^position_embeds_layer\.", "transformer.wpe."),
    (r"^layernorm_final\.", "transformer.ln_f."),
)
"""From the Hub's names of Bark's entries to the original ones, under which they are filled."""


def table(name: str) -> dict[str, tuple[int, ...]]:
    """Shapes of a published file by entry name."""
    shapes = json.loads((FOLDER / f"entries_{name}.json").read_text())
    return {entry: tuple(shape) for entry, shape in shapes.items()}


def resized(
    shapes: Mapping[str, tuple[int, ...]], sizes: Mapping[int, int]
) -> dict[str, tuple[int, ...]]:
    """The same table at other widths."""
    return {name: tuple(sizes.get(size, size) for size in shape) for name, shape in shapes.items()}


def original_name(name: str) -> str:
    for pattern, replacement in ORIGINAL_NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def small_gpt(name: str) -> dict[str, tuple[int, ...]]:
    """Table of a model of the stored runs, in original names: 2 layers of width 64."""
    shapes = {
        entry: shape
        for entry, shape in table(name).items()
        if int((re.search(r"\.h\.(\d+)\.", entry) or [0, 0])[1]) < 2
    }
    shapes = resized(shapes, OFFICIAL_GPT)
    return {**shapes, "transformer.wpe.weight": (CONTEXT, 64)}


def coarse_entries() -> dict[str, Tensor]:
    """Weights of the coarse model of the stored runs, in original names."""
    return seeded_state_dict(small_gpt("coarse_2"))


def fine_entries() -> dict[str, Tensor]:
    """Weights of the fine model of the stored runs, in original names."""
    return tied(seeded_state_dict(small_gpt("fine_2")))


def tied(entries: dict[str, Tensor]) -> dict[str, Tensor]:
    """Heads and embeddings that are one tensor have the head's value."""
    for number in range(7):
        entries[f"transformer.wtes.{number + 1}.weight"] = entries[f"lm_heads.{number}.weight"]
    return entries


def hubert_entries() -> dict[str, Tensor]:
    """Weights of HuBERT of the stored chain."""
    shapes = resized(table("hubert_base_ls960_transformers"), OFFICIAL_HUBERT)
    groups = CONFIG["hubert"]["num_conv_pos_embedding_groups"]
    shapes["encoder.pos_conv_embed.conv.weight_v"] = (48, 48 // groups, 128)
    return seeded_state_dict(shapes)


def quantiser_entries(sizes: Mapping[int, int]) -> dict[str, Tensor]:
    """Weights of a quantiser, ``{}`` for the official size."""
    shapes = resized(table("quantifier_hubert_base_ls960_14"), sizes)
    entries = seeded_state_dict(shapes)
    # The rule fills them around 1, which would hold every gate open.
    return {name: value - 1 if "lstm.bias" in name else value for name, value in entries.items()}


def codec_entries(*, whole: bool = False) -> dict[str, Tensor]:
    """Weights of EnCodec, in original names; what decoding needs, or the ``whole`` of it."""
    shapes = table("encodec_24khz")
    used = re.compile(r"decoder\.|quantizer\.vq\.layers\.[0-7]\._codebook\.embed$")
    needed = {name: shape for name, shape in shapes.items() if whole or used.match(name)}
    # The rest is left out by name, before its shape is looked at.
    return {name: torch.zeros(1) for name in shapes} | seeded_state_dict(needed)


def hub_codec_name(name: str) -> str:
    name = re.sub(r"^(encoder|decoder)\.model\.", r"\1.layers.", name)
    name = re.sub(r"\.conv\.conv\.|\.convtr\.convtr\.", ".conv.", name)
    return re.sub(r"quantizer\.vq\.layers\.(\d+)\._codebook", r"quantizer.layers.\1.codebook", name)


def hub_bark_entries() -> dict[str, Tensor]:
    """What the Hub's file holds, by the names of its table, but for most of the text model."""
    originals = {"coarse_acoustics": coarse_entries(), "fine_acoustics": fine_entries()}
    codec = {hub_codec_name(name): value for name, value in codec_entries().items()}
    entries = {}
    for name in table("suno_bark_pytorch_model"):
        part, rest = name.split(".", 1)
        layer = re.match(r"layers\.(\d+)\.", rest)
        if part == "codec_model":
            entries[name] = codec[rest]
        elif layer is not None and int(layer[1]) >= 2:
            continue
        elif rest.endswith(".attn.bias"):
            entries[name] = torch.ones(1, 1, 4, 4, dtype=torch.bool)
        elif part == "semantic":
            entries[name] = torch.zeros(1)
        else:
            entries[name] = originals[part][original_name(rest)]
    return entries


def hub_bark_settings() -> dict[str, Any]:
    """The parts of the Hub's ``config.json`` that tell sizes."""
    settings = {}
    for part in ("coarse", "fine"):
        given = CONFIG[part]
        names = {"n_layer": "num_layers", "n_head": "num_heads", "n_embd": "hidden_size"}
        settings[f"{part}_acoustics_config"] = {
            names.get(name, name): value for name, value in given.items()
        }
    codec = {"num_filters": 32, "hidden_size": 128, "upsampling_ratios": [8, 5, 4, 2]}
    return settings | {"codec_config": codec, "model_type": "bark"}


def original_bark(part: str, entries: Mapping[str, Tensor]) -> dict[str, Any]:
    """What ``coarse_2.pt`` and ``fine_2.pt`` hold."""
    prefixed = {f"_orig_mod.{name}": value for name, value in entries.items()}
    prefixed["_orig_mod.transformer.h.0.attn.bias"] = torch.ones(1, 1, 4, 4)
    return {
        "model": prefixed,
        "model_args": CONFIG[part],
        "best_val_loss": np.float64(2.5),
        "iter_num": 7,
    }


def prompt(voice: str, part: str) -> np.ndarray[Any, Any]:
    """A part of a stored prompt, in the published type."""
    return PROMPTS[f"{voice}.{part}"].astype(np.int32 if part == "fine" else np.int64)


def write_hub_prompts(folder: Path) -> None:
    """Writes prompts as the Hub's repository of Bark has them."""
    place = folder / "bark" / "speaker_embeddings" / "v2"
    place.mkdir(parents=True, exist_ok=True)
    for voice in VOICES:
        for part in PARTS:
            np.save(place / f"{voice}_{part}_prompt.npy", prompt(voice, part))


def write_prompts(folder: Path) -> None:
    """Writes prompts as single files of the authors' repository."""
    for voice in VOICES:
        arrays = {f"{part}_prompt": prompt(voice, part) for part in PARTS}
        np.savez(folder / f"{voice}.npz", **arrays)


def write_repository(folder: Path) -> None:
    """Writes an archive of the authors' repository."""
    root = PurePosixPath(f"bark-{COMMIT}/bark/assets/prompts")
    with zipfile.ZipFile(folder / f"{COMMIT}.zip", "w") as archive:
        archive.writestr(str(root / "readme.md"), "voices")
        for voice in VOICES:
            stream = io.BytesIO()
            np.savez(stream, **{f"{part}_prompt": prompt(voice, part) for part in PARTS})
            archive.writestr(str(root / "v2" / f"{voice}.npz"), stream.getvalue())


def write(folder: Path) -> Path:
    """Writes all files of the stored chain, Bark in both namings."""
    for name in ("hubert-base-ls960", "bark"):
        (folder / name).mkdir(exist_ok=True)
    torch.save(hubert_entries(), folder / "hubert-base-ls960" / "pytorch_model.bin")
    (folder / "hubert-base-ls960" / "config.json").write_text(json.dumps(CONFIG["hubert"]))
    name = "quantifier_hubert_base_ls960_14.pth"
    torch.save(quantiser_entries(OFFICIAL_QUANTISER), folder / name)
    torch.save(hub_bark_entries(), folder / "bark" / "pytorch_model.bin")
    (folder / "bark" / "config.json").write_text(json.dumps(hub_bark_settings()))
    torch.save(original_bark("coarse", coarse_entries()), folder / "coarse_2.pt")
    torch.save(original_bark("fine", fine_entries()), folder / "fine_2.pt")
    torch.save(codec_entries(), folder / "encodec_24khz-d7cc33bc.th")
    write_hub_prompts(folder)
    write_repository(folder)
    return folder
