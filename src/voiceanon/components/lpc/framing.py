"""Frames: the analysis window, how many frames there are, cutting and overlap-add.

Source: challenge module `anonymization/modules/mcadams` (repository
Voice-Privacy-Challenge/Voice-Privacy-Challenge-2024, commit 400de3a8).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def analysis_window(length: int, hop: int) -> Tensor:
    """Square root of a symmetric Hann window, scaled so that overlapping squares sum to about 1.

    Args:
        length: Samples.
        hop: Samples.

    Returns:
        float64 ``(length,)``.
    """
    hann = torch.hann_window(length, periodic=False, dtype=torch.float64)
    return torch.sqrt(hann * hop / hann.sum())


def split(wav: Tensor, length: int, hop: int) -> Tensor:
    """Cuts ``(B, T)`` into ``(B, M, length)``, a view; an incomplete last frame is left out."""
    return wav.unfold(1, length, hop)


def overlap_add(frames: Tensor, hop: int) -> Tensor:
    """Adds up frames.

    Args:
        frames: ``(B, M, length)``.
        hop: Samples between frames.

    Returns:
        ``(B, (M - 1) * hop + length)``.
    """
    batch, count, length = frames.shape
    parts = -(-length // hop)
    if length % hop:
        frames = F.pad(frames, (0, parts * hop - length))
    segments = frames.view(batch, count, parts, hop)
    result = frames.new_zeros(batch, count + parts - 1, hop)
    for part in range(parts):
        result[:, part : part + count] += segments[:, :, part]
    return result.view(batch, -1)[:, : (count - 1) * hop + length]
