"""Time-varying low and high pass: windowed sinc filters with one cut-off per sample."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

ORDER = 31
"""Taps of both filters."""

SIDE = ORDER // 2
"""Taps on either side of the middle, which are the same; and the delay of the filters, samples."""

WINDOW = (0.54, 0.46)
"""Constant and cosine of the window; its period is `ORDER` samples, not one less (as published)."""


def half_filters(cut_off: Tensor) -> tuple[Tensor, Tensor]:
    """Taps of both filters from the middle on.

    Args:
        cut_off: Share of half the rate, between 0 and 1, ``(B, T)``.

    Returns:
        Low pass with a gain of 1 at 0 Hz and high pass with a gain of 1 at half the rate,
        ``(B, T, SIDE + 1)`` each.
    """
    n = torch.arange(1, SIDE + 1, dtype=cut_off.dtype, device=cut_off.device)
    window = WINDOW[0] + WINDOW[1] * torch.cos(2 * math.pi / ORDER * n)
    sides = torch.sin(math.pi * n * cut_off[..., None]) * (window / (math.pi * n))
    middle = cut_off[..., None]
    signs = 1 - 2 * (n % 2)
    low = torch.cat([middle, sides], -1) / (middle + 2 * sides.sum(-1, keepdim=True))
    high = torch.cat([1 - middle, -sides], -1)
    return low, high / (1 - middle - 2 * (signs * sides).sum(-1, keepdim=True))


def apply_half_filter(past: Tensor, signal: Tensor, taps: Tensor) -> Tensor:
    """Filters a piece of a signal; what comes out is delayed by `SIDE` samples.

    Args:
        past: The `ORDER` - 1 samples before this piece, ``(B, ORDER - 1)``.
        signal: ``(B, T)``.
        taps: Result of `half_filters`, ``(B, T, SIDE + 1)``.

    Returns:
        ``(B, T)``.
    """
    windows = torch.cat([past, signal], 1).unfold(1, ORDER, 1)
    pairs = windows[..., SIDE:] + windows[..., : SIDE + 1].flip(-1)
    # The middle, which stands alone, was added to itself.
    half = F.pad(taps.new_full((1,), 0.5), (0, SIDE), value=1.0)
    return (pairs * half * taps).sum(-1)
