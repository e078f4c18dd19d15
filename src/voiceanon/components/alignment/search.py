"""Monotonic alignment of symbols to frames, and durations from it.

Source: specification sheet of B3, section 8. The search is that of Kim et al., "Glow-TTS",
NeurIPS 2020, on the aligner's raw outputs. Everything here is deterministic, and an item of a
padded batch gives what it gives alone.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

FIRST_SHARE = 3, 5
"""Of the summed duration of two equal symbols in a row, as a fraction; the rest is the second's."""


def durations_from_logits(
    logits: Tensor, frames: Tensor, ids: Tensor, id_lengths: Tensor
) -> Tensor:
    """Gives each symbol its frames; the first takes at least one, and all are given away.

    With fewer frames than symbols, symbols after the first have none.

    Args:
        logits: The aligner's outputs, float32 ``(B, F, V)``, no log-softmax.
        frames: int64 ``(B,)``, each at least 1. Rows of ``logits`` behind do not matter.
        ids: int64 ``(B, N)``. What lies behind an item's length does not matter.
        id_lengths: int64 ``(B,)``, each at least 1.

    Returns:
        Durations in frames, int64 ``(B, N)``, 0 behind each item; those of an item add up to its
        frames.
    """
    symbols = torch.arange(ids.shape[1], device=ids.device) < id_lengths[:, None]
    columns = torch.where(symbols, ids, 0)[:, None].expand(-1, logits.shape[1], -1)
    return durations_from_scores(logits.float().gather(2, columns), frames, id_lengths)


def durations_from_scores(scores: Tensor, frames: Tensor, id_lengths: Tensor) -> Tensor:
    """As `durations_from_logits`, from one column for each symbol.

    Args:
        scores: float32 ``(B, F, N)``.
        frames: int64 ``(B,)``, each at least 1.
        id_lengths: int64 ``(B,)``, each at least 1.

    Returns:
        int64 ``(B, N)``.
    """
    steps = torch.arange(scores.shape[1], device=scores.device)
    inside = (steps < frames[:, None])[..., None]
    symbols = torch.arange(scores.shape[2], device=scores.device)
    kept = scores.masked_fill(~(inside & (symbols < id_lengths[:, None, None])), 0.0)
    largest = kept.abs().amax((1, 2), keepdim=True)
    moved = _moves((kept + largest + 1.0).log())
    # Behind an item's frames the path waits at its last symbol; there is nothing before frame 0.
    moved &= inside
    moved[:, 0] = False
    path = _trace(moved, id_lengths - 1)
    # Frame 0 is the first symbol's, also where the path has not come down to it.
    path[:, 0] = 0
    return (inside & (path[..., None] == symbols)).sum(1)


def _moves(gains: Tensor) -> Tensor:
    """Whether the best path to a symbol at a frame comes from the symbol before.

    Args:
        gains: float32 ``(B, F, N)``.

    Returns:
        bool ``(B, F, N)``; the first frame's values have no meaning.
    """
    batch, frames, symbols = gains.shape
    # Time first, so that a frame lies in one piece; a column in front that nothing comes from.
    best = gains.new_full((frames, batch, symbols + 1), -math.inf)
    best[0, :, 1] = gains[:, 0, 0]
    for before, now, gain in zip(best[:-1], best[1:], gains.transpose(0, 1)[1:], strict=True):
        now[:, 1:] = gain + torch.maximum(before[:, :-1], before[:, 1:])
    # Ties go to the symbol before.
    from_before = best[:-1, :, :-1] >= best[:-1, :, 1:]
    moved = torch.ones_like(gains, dtype=torch.bool)
    moved[:, 1:] = from_before.transpose(0, 1)
    return moved


def _trace(moved: Tensor, last: Tensor) -> Tensor:
    """Follows the moves back.

    Args:
        moved: bool ``(B, F, N)``.
        last: Symbol at the last frame, int64 ``(B,)``.

    Returns:
        Symbol at each frame, int64 ``(B, F)``.
    """
    backwards = moved.to(torch.int64).transpose(0, 1).flip(0)
    symbol = last[:, None]
    path = []
    for step in backwards:
        path.append(symbol)
        symbol = symbol - step.gather(1, symbol)
    return torch.cat(path, 1).flip(1)


def insert_boundaries(durations: Tensor, is_boundary: Tensor, lengths: Tensor) -> Tensor:
    """Puts word boundaries, which last no frame, back between the symbols.

    Args:
        durations: Of the symbols without boundaries, int64 ``(B, N)``, N at least 1.
        is_boundary: bool ``(B, M)``. What lies behind an item's length does not matter.
        lengths: Symbols with boundaries, int64 ``(B,)``.

    Returns:
        int64 ``(B, M)``, 0 at boundaries and behind each item.
    """
    steps = torch.arange(is_boundary.shape[1], device=is_boundary.device)
    sounds = ~is_boundary & (steps < lengths[:, None])
    places = torch.where(sounds, sounds.cumsum(1) - 1, 0)
    return torch.where(sounds, durations.gather(1, places), 0)


def split_repeats(durations: Tensor, vectors: Tensor, lengths: Tensor) -> Tensor:
    """Shares the frames of equal symbols in a row out between them, pair by pair from the left.

    The search gives most of them to one. What a pair ends with is what the next pair begins with.

    Args:
        durations: int64 ``(B, M)``.
        vectors: All features, marks included, ``(B, M, 62)``. What lies behind an item's length
            does not matter.
        lengths: Symbols, int64 ``(B,)``.

    Returns:
        int64 ``(B, M)`` with the same sums.
    """
    numerator, denominator = FIRST_SHARE
    steps = torch.arange(1, vectors.shape[1], device=vectors.device)
    repeats = (vectors[:, 1:] == vectors[:, :-1]).all(-1) & (steps < lengths[:, None])
    result = durations.clone()
    for place, repeat in enumerate(repeats.unbind(1)):
        pair = result[:, place : place + 2]
        both = pair.sum(1)
        first = both * numerator // denominator
        shared = torch.stack([first, both - first], 1)
        pair.copy_(torch.where(repeat[:, None], shared, pair))
    return result
