"""Steps over sequences of unequal lengths, the same for an item of a batch as for the item alone.

Sums are float64 and run from the first value to the last, so that what is masked or padded, which
counts as 0, changes no bit of them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the masked values of each row.

    Args:
        values: ``(B, N)``.
        mask: bool ``(B, N)``.

    Returns:
        float64 ``(B,)``, 0 for a row without any.
    """
    return _sum(exact(values), mask) / mask.sum(1).clamp_min(1)


def variance(values: Tensor, mask: Tensor) -> Tensor:
    """Unbiased variance of the masked values of each row.

    Args:
        values: ``(B, N)``.
        mask: bool ``(B, N)``.

    Returns:
        float64 ``(B,)``, 0 for a row with fewer than two.
    """
    squares = (exact(values) - mean(values, mask)[:, None]).square()
    return _sum(squares, mask) / (mask.sum(1) - 1).clamp_min(1)


def exact(values: Tensor) -> Tensor:
    """Values of any shape in float64, or in float32 on devices (mps) that lack it."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)


def _sum(values: Tensor, mask: Tensor) -> Tensor:
    if not values.shape[1]:
        return values.new_zeros(len(values))
    return values.masked_fill(~mask, 0).cumsum(1)[:, -1]


def median_filter(values: Tensor, width: int) -> Tensor:
    """Running median over ``width`` values (odd), as if zeros stood around each row ``(B, N)``."""
    side = width // 2
    windows = F.pad(values, (side, side)).unfold(1, width, 1)
    return windows.sort(-1).values[..., side]


def compact(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Finds the places of the masked values of each row, in their order.

    Args:
        mask: bool ``(B, N)``.

    Returns:
        Places, int64 ``(B, V)`` with V the most that a row has; and which of them are of masked
        values, bool ``(B, V)``: those of a row come first, any others after them.
    """
    counts = mask.sum(1)
    # The host has to know how much memory the result takes.
    most = int(counts.max())
    places = (~mask).to(torch.uint8).sort(dim=1, stable=True).indices[:, :most]
    return places, torch.arange(most, device=mask.device) < counts[:, None]
