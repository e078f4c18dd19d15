"""What a matrix of features is after Kaldi stored it in one byte per value and read it again.

The published recipe keeps features, i-vectors and bottleneck features in that form.

Source: specification sheet of the x-vector family, section 15.3; `CompressedMatrix` of Kaldi
(`src/matrix/compressed-matrix.cc`, Apache 2.0), methods ``kSpeechFeature`` and ``kTwoByteAuto``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.components.rows import take_rows

SHORT_ROWS = 8
"""Matrices with as many rows or fewer keep two bytes per value."""

LEVELS = 65_535
"""Largest number that two bytes hold."""

LEVEL_SIZE = 1.52590218966964e-05
"""Kaldi's 1 / `LEVELS`."""

LEVEL_BIAS = 0.499
"""Added before the fraction of a level is cut off."""

ANCHOR_STEPS = (64, 128, 63)
"""Bytes from a column's smallest value to its lower quartile, on to its upper quartile, and to its
largest value; between two of them they lie on a straight line."""


def compress_and_restore(features: Tensor, frames: Tensor) -> Tensor:
    """Gives each recording's features the error of Kaldi's lossy compression.

    Args:
        features: float32 ``(B, N, D)``, finite within each recording. Rows behind a recording do
            not matter.
        frames: Frames of each recording, int64 ``(B,)``, at least 1.

    Returns:
        float32 ``(B, N, D)``; rows behind a recording are finite and have no meaning.
    """
    count = frames[:, None, None]
    inside = torch.arange(features.shape[1], device=features.device)[:, None] < count
    # Copies of the first frame leave the extremes of the recording as they are.
    x = torch.where(inside, features.float(), features[:, :1].float())
    low, high = x.amin((1, 2), keepdim=True), x.amax((1, 2), keepdim=True)
    high = torch.where(high == low, low + (1 + low.abs()), high)
    span = high - low
    anchors = _anchors(x.masked_fill(~inside, torch.inf), frames, low, span)
    one_byte = _restored(x, _values(anchors, low, span))
    two_bytes = _values(_levels(x, low, span), low, span)
    return torch.where(count > SHORT_ROWS, one_byte, two_bytes)


def _levels(values: Tensor, low: Tensor, span: Tensor) -> Tensor:
    """Values as whole numbers from 0 to `LEVELS`, float32."""
    share = ((values - low) / span).clamp(0, 1)
    # Kaldi multiplies in float32 and adds in float64.
    return ((share * LEVELS).double() + LEVEL_BIAS).floor().float()


def _values(levels: Tensor, low: Tensor, span: Tensor) -> Tensor:
    """The inverse of `_levels`, as far as there is one."""
    return low + span * torch.tensor(LEVEL_SIZE, dtype=span.dtype, device=span.device) * levels


def _anchors(x: Tensor, frames: Tensor, low: Tensor, span: Tensor) -> Tensor:
    """Levels of the four order statistics of every column, rising, float32 ``(B, 4, D)``.

    Args:
        x: ``(B, N, D)``, infinite behind a recording.
        frames: int64 ``(B,)``.
        low: Smallest value of each recording, ``(B, 1, 1)``.
        span: Largest minus smallest, ``(B, 1, 1)``.
    """
    quarter = frames // 4
    ranks = torch.stack((0 * frames, quarter, 3 * quarter, frames - 1), dim=1)
    ordered = x.sort(dim=1).values
    levels = _levels(take_rows(ordered, ranks), low, span)
    rising = [levels[:, 0].clamp_max(LEVELS - 3)]
    for place in range(1, len(ANCHOR_STEPS) + 1):
        above = torch.maximum(levels[:, place], rising[-1] + 1)
        rising.append(above.clamp_max(LEVELS - 3 + place))
    return torch.stack(rising, dim=1)


def _restored(x: Tensor, anchors: Tensor) -> Tensor:
    """Values ``(B, N, D)`` after rounding to bytes between anchors ``(B, 4, D)``."""
    pieces = []
    for place, steps in enumerate(ANCHOR_STEPS):
        start, end = anchors[:, place, None], anchors[:, place + 1, None]
        share = (x - start) / (end - start)
        step = ((share * steps).double() + 0.5).trunc().clamp(0, steps).float()
        pieces.append((start + ((end - start) * step).double() / steps).float())
    lower, middle, upper = pieces
    inner = torch.where(x < anchors[:, 2, None], middle, upper)
    return torch.where(x < anchors[:, 1, None], lower, inner)
