"""F0 as a network reads it: normalised, and with as many frames as its other inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.components.f0 import masked

VARIANCE_FLOOR = 1e-6
"""Added to the variance (specification sheet of B5 and B6, section 7), Hz squared."""


def normalize_f0(f0: Tensor, frames: Tensor) -> Tensor:
    """Moves the voiced frames of each item to mean 0 and variance 1.

    Mean and unbiased variance are those of the item's own voiced frames. (SA-toolkit takes them
    over all items of a batch, which makes an item depend on the others.)

    Args:
        f0: Hz, 0 where unvoiced, float32 ``(B, M)``; what lies behind an item does not matter.
        frames: Frames of each item, int64 ``(B,)``.

    Returns:
        float32 ``(B, M)``, 0 where unvoiced and behind each item. A single voiced frame becomes 0,
        too: the published code gives no number for it.
    """
    inside = torch.arange(f0.shape[1], device=f0.device) < frames[:, None]
    voiced = inside & (f0 != 0)
    centred = masked.exact(f0) - masked.mean(f0, voiced)[:, None]
    scale = (masked.variance(f0, voiced) + VARIANCE_FLOOR).sqrt()
    return (centred / scale[:, None]).float().masked_fill(~voiced, 0)


def align_nearest(values: Tensor, frames: Tensor, wanted: Tensor) -> Tensor:
    """Stretches each item to another number of frames, by repeating or leaving out values.

    The same values as `torch.nn.functional.interpolate` gives with ``mode="nearest"`` for each item
    alone.

    Args:
        values: float32 ``(B, M)``.
        frames: Frames of each item that there are, int64 ``(B,)``, at least 1.
        wanted: Frames of each item that there shall be, int64 ``(B,)``.

    Returns:
        float32 ``(B, N)`` with N the most that is wanted; 0 behind each item.
    """
    # The host has to know how much memory the result takes.
    target = torch.arange(int(wanted.max()), device=values.device)
    # In float32, which rounds up in recordings of more than 4096 frames, as the original does.
    scale = frames.float() / wanted.float()
    source = (target.float() * scale[:, None]).long()
    aligned = values.gather(1, torch.minimum(source, frames[:, None] - 1))
    return aligned.masked_fill(target >= wanted[:, None], 0)
