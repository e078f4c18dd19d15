"""Viterbi algorithm over the frames of all recordings of a batch at once."""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.components.f0.praat.settings import (
    COST_SECONDS,
    OCTAVE_COST,
    OCTAVE_JUMP_COST,
    SILENCE,
    VOICING,
    VOICING_CHANGE_COST,
    Settings,
)

BLOCK_FRAMES = 256
"""Frames for which costs of changes are held at once, for each item 0.5 MB."""


def best_path(
    hertz: Tensor, strength: Tensor, intensity: Tensor, frames: Tensor, settings: Settings
) -> Tensor:
    """Chooses a candidate, or none, for each frame.

    Args:
        hertz: F0 of candidates in Hz, 0 for none, float64 ``(B, N, C)``, N at least 1.
        strength: Their strengths, float64 ``(B, N, C)``.
        intensity: Peaks of frames as shares of the recordings' peaks, 0 to 1, float64 ``(B, N)``.
        frames: Frames of each item, int64 ``(B,)``; what lies behind does not matter.
        settings: See `Settings`.

    Returns:
        F0 in Hz, 0 where unvoiced and behind each item, float64 ``(B, N)``.
    """
    octaves = (hertz / settings.ceiling).log2()
    voiced = hertz > 0
    values = torch.where(voiced, strength + OCTAVE_COST * octaves, -torch.inf)
    unvoiced = VOICING + (2 - intensity * ((1 + VOICING) / SILENCE)).clamp_min(0)
    values = torch.cat([unvoiced[..., None], values], 2)
    # State 0 is the unvoiced one.
    octaves = torch.cat([torch.zeros_like(unvoiced)[..., None], octaves.where(voiced, 0)], 2)
    states = _viterbi(values, octaves, frames, COST_SECONDS / settings.step)
    chosen = torch.cat([torch.zeros_like(unvoiced)[..., None], hertz], 2)
    inside = torch.arange(hertz.shape[1], device=hertz.device) < frames[:, None]
    return chosen.gather(2, states[..., None])[..., 0].where(inside, 0)


def _viterbi(values: Tensor, octaves: Tensor, frames: Tensor, scale: float) -> Tensor:
    """States of the best path: ``(B, N, S)`` to int64 ``(B, N)``, any state behind an item."""
    total = values[:, 0]
    totals, pointers = [total], []
    for start in range(1, values.shape[1], BLOCK_FRAMES):
        here = octaves[:, start : start + BLOCK_FRAMES]
        before = octaves[:, start - 1 : start - 1 + here.shape[1]]
        costs = (here[:, :, None] - before[..., None]).abs_().mul_(OCTAVE_JUMP_COST * scale)
        costs[..., 1:, 0] = VOICING_CHANGE_COST * scale
        costs[..., 0, 1:] = VOICING_CHANGE_COST * scale
        block = values[:, start : start + BLOCK_FRAMES]
        # One frame after the other: what is chosen depends on all that was chosen before.
        for cost, value in zip(costs.mT.unbind(1), block.unbind(1), strict=True):
            # Of equal totals that of the first state wins.
            best, pointer = (total[:, None] - cost).max(2)
            total = best + value
            totals.append(total)
            pointers.append(pointer)
    return _trace_back(torch.stack(totals, 1), pointers, frames)


def _trace_back(totals: Tensor, pointers: list[Tensor], frames: Tensor) -> Tensor:
    """Follows the pointers from the best state of the last frame of each item.

    Args:
        totals: Value of the best path to each state, float64 ``(B, N, S)``.
        pointers: For each frame but the first, the state before each state, int64 ``(B, S)``.
        frames: Frames of each item, int64 ``(B,)``.

    Returns:
        int64 ``(B, N)``.
    """
    last = (frames - 1).clamp_min(0)[:, None]
    ends = totals.gather(1, last[..., None].expand(-1, 1, totals.shape[2])).argmax(2)
    state = ends
    states = [state]
    for t in range(len(pointers) - 1, -1, -1):
        state = torch.where(last > t, pointers[t].gather(1, state), ends)
        states.append(state)
    return torch.cat(states[::-1], 1)
