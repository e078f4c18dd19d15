"""Rows of the items of a batch, such as frames, at places of their own."""

from __future__ import annotations

import torch
from torch import Tensor


def take_rows(x: Tensor, places: Tensor) -> Tensor:
    """Takes rows of each item.

    Args:
        x: ``(B, N, D)``.
        places: Rows to take of each item, from 0 to N - 1, int64 ``(B, ...)``.

    Returns:
        ``(B, ..., D)``.
    """
    batch, rows, width = x.shape
    starts = rows * torch.arange(batch, device=x.device)
    index = places + starts.view(-1, *(1,) * (places.ndim - 1))
    # Copying whole rows is faster than a gather of single values.
    return x.flatten(0, 1).index_select(0, index.flatten()).view(*places.shape, width)
