"""Files of the layout of SA-toolkit's releases, with seeded weights, for B5, B6 and siblings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from golden.seeded_weights import seeded_state_dict

FOLDER = Path(__file__).parent / "vqbn_hifigan"

REDUCED_SPEAKERS = ("6081", "19", "1069", "200", "26", "8629", "103")
"""In the order in which the reduced runs were given them."""

TABLES = {
    "b6_official": "hifigan_bn_tdnnf_600h_vq_48_v1",
    "b6_reduced": "b6_reduced_golden",
    "b5_reduced": "b5_reduced_golden",
}
"""Entry table of each stored run."""

SPEAKERS = {
    "b6_official": tuple(str(number) for number in range(247)),
    "b6_reduced": REDUCED_SPEAKERS,
    "b5_reduced": REDUCED_SPEAKERS,
}

_LONG, _SHORT = ".tdnn.bottleneck_func.quant.", ".bottleneck_func.quant."


def entry_shapes(table: str) -> dict[str, tuple[int, ...]]:
    """Shapes by published name."""
    shapes = json.loads((FOLDER / f"entries_{table}.json").read_text())
    return {name: tuple(shape) for name, shape in shapes.items()}


def entries(run: str) -> dict[str, Tensor]:
    """Weights of a stored run by published name."""
    state = seeded_state_dict(entry_shapes(TABLES[run]))
    codebook = torch.from_numpy(np.load(FOLDER / f"{run}.npz")["codebook"])
    for name, value in state.items():
        if _SHORT in name and _LONG not in name:
            # One storage under two names, filled under the longer one.
            state[name] = state[name.replace(_SHORT, _LONG)]
        elif name.endswith("num_batches_tracked"):
            state[name] = torch.zeros_like(value, dtype=torch.int64)
    for name in state:
        if name.endswith("quant._embedding.weight"):
            state[name] = codebook
    return state


def checkpoint(state: dict[str, Tensor], speakers: Iterable[str]) -> dict[str, Any]:
    """What ``final.pt`` holds."""
    utterances = {f"{name}_{i}": name for name in speakers for i in range(2)}
    return {
        "base_model_state_dict": state,
        "base_model_params": {"utt2spk": utterances},
        "base_model_args": {"asrbn_model": "../../asr/librispeech/exp/chain/encoder/final.pt"},
        "base_model_path": "local/tuning/hifigan.py",
        "task_path": "egs/vc/libritts",
        "install_path": "/home/somebody/SA-toolkit",
    }


def write(folder: Path, run: str) -> Path:
    """Writes the ``final.pt`` of a stored run into a folder."""
    torch.save(checkpoint(entries(run), SPEAKERS[run]), folder / "final.pt")
    return folder
