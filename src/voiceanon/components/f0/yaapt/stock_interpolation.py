"""The spectral track between voiced frames in the published algorithm: a monotone cubic."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.f0 import masked

SMOOTHED_FRAMES = 3
"""Frames over which the track is averaged, each with those before it."""


def fill(track: Tensor) -> Tensor:
    """Interpolates over the frames that are 0, and smooths.

    Args:
        track: Hz, float64 ``(B, M)``; of each item, its first and its last frame are not 0, and
            frames behind are.

    Returns:
        float64 ``(B, M)``; what lies behind an item means nothing.
    """
    known = track > 0
    places, inside = masked.compact(known)
    if places.shape[1] < 2:
        return track
    x, y = places.to(track.dtype), track.gather(1, places)
    both = inside[:, 1:]
    widths = (x[:, 1:] - x[:, :-1]).where(both, 1)
    slopes = ((y[:, 1:] - y[:, :-1]) / widths).where(both, 0)
    counts = inside.sum(1, keepdim=True).clamp_min(2)
    rates = _derivatives(widths, slopes, counts)
    interval = (known.cumsum(1) - 1).clamp_min(0).minimum(counts - 2)
    width, slope, start, value, left, right = (
        part.gather(1, interval) for part in (widths, slopes, x, y, rates, rates[:, 1:])
    )
    time = torch.arange(track.shape[1], dtype=track.dtype, device=track.device) - start
    second = (3 * slope - 2 * left - right) / width
    third = (left + right - 2 * slope) / width.square()
    filled = value + time * (left + time * (second + time * third))
    return F.pad(filled, (SMOOTHED_FRAMES - 1, 0)).unfold(1, SMOOTHED_FRAMES, 1).mean(2)


def _derivatives(widths: Tensor, slopes: Tensor, counts: Tensor) -> Tensor:
    """Derivatives at the known frames (Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5, 1984).

    Args:
        widths: Of the intervals between known frames, ``(B, V - 1)``.
        slopes: Of the same.
        counts: Known frames of each item, at least 2, int64 ``(B, 1)``.

    Returns:
        ``(B, V)``.
    """
    before, after = slopes[:, :-1], slopes[:, 1:]
    first_weight = widths[:, :-1] + 2 * widths[:, 1:]
    second_weight = 2 * widths[:, :-1] + widths[:, 1:]
    harmonic = (first_weight + second_weight) / (first_weight / before + second_weight / after)
    rates = F.pad(harmonic.where(before * after > 0, 0), (1, 1))
    zero = torch.zeros_like(counts)
    beside_first, beside_last = (counts > 2).long(), (counts - 3).clamp_min(0)
    rates = rates.scatter(1, zero, _end(widths, slopes, zero, beside_first))
    return rates.scatter(1, counts - 1, _end(widths, slopes, counts - 2, beside_last))


def _end(widths: Tensor, slopes: Tensor, outer: Tensor, inner: Tensor) -> Tensor:
    """Derivative at an end from its two intervals ``(B, 1)``; with one interval, its slope."""
    width, next_width = widths.gather(1, outer), widths.gather(1, inner)
    slope, next_slope = slopes.gather(1, outer), slopes.gather(1, inner)
    rate = ((2 * width + next_width) * slope - width * next_slope) / (width + next_width)
    turns = slope.sign() != next_slope.sign()
    rate = torch.where(turns & (rate.abs() > 3 * slope.abs()), 3 * slope, rate)
    return rate.where(rate.sign() == slope.sign(), 0)
