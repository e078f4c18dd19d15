"""Levels of recordings."""

from __future__ import annotations

import torch
from torch import Tensor


def peak_normalise(batch: Tensor, lengths: Tensor) -> Tensor:
    """Brings the largest absolute value of each recording to 1; silence stays as it is.

    B3 sets the loudness to -30 LUFS before, which its division by the peak undoes (specification
    sheet of B3, section 3).

    Args:
        batch: float32 ``(B, T)``. The values in the padding do not matter.
        lengths: Samples of each recording, int64 ``(B,)``.

    Returns:
        float32 ``(B, T)``, 0 in the padding.
    """
    inside = torch.arange(batch.shape[1], device=batch.device) < lengths[:, None]
    kept = batch.masked_fill(~inside, 0)
    if not batch.shape[1]:
        return kept
    peak = kept.abs().amax(1, keepdim=True)
    return kept / peak.where(peak > 0, 1)
