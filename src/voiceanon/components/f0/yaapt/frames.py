"""Frames of a batch as rows of a matrix, and back."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from voiceanon.components.f0.yaapt.constants import HOP_SAMPLES

CPU_BLOCK_FRAMES = 64
"""Frames that are worked on at once on a CPU: spectra of 2 MB, which share a core's cache."""

BLOCK_FRAMES = 2048
"""The same elsewhere: spectra of 67 MB, enough to keep a GPU busy."""


def frames_of(
    signal: Tensor, item: Tensor, frame: Tensor, size: int, hop: int = HOP_SAMPLES
) -> Tensor:
    """Cuts frames.

    Args:
        signal: ``(B, S)``.
        item: Their rows, int64 ``(n,)``.
        frame: Their numbers, int64 ``(n,)``.
        size: Samples of each.
        hop: Samples from the start of one to that of the next.

    Returns:
        ``(n, size)``, a copy.
    """
    return signal.unfold(1, size, hop)[item, frame]


def in_blocks(
    mask: Tensor, work: Callable[[Tensor, Tensor], tuple[Tensor, ...]], results: tuple[Tensor, ...]
) -> None:
    """Fills in what ``work`` gives for the masked frames, some at a time to bound the memory.

    Args:
        mask: bool ``(B, M)``.
        work: Takes items and numbers of n frames, int64 ``(n,)`` each; gives ``(n, ...)`` for each
            result. What a frame gives must not depend on the others.
        results: ``(B, M, ...)``; other frames stay as they are.
    """
    block = CPU_BLOCK_FRAMES if mask.device.type == "cpu" else BLOCK_FRAMES
    # The host has to know how many frames there are, to launch the work for them.
    places = mask.nonzero()
    for start in range(0, len(places), block):
        item, frame = places[start : start + block].unbind(1)
        for result, part in zip(results, work(item, frame), strict=True):
            result[item, frame] = part


def within(frames: Tensor, most: int) -> Tensor:
    """Tells which frames of a batch belong to a recording: ``(B,)`` to bool ``(B, most)``."""
    return torch.arange(most, device=frames.device) < frames[:, None]
