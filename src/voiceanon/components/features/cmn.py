"""Cepstral mean subtraction over a window that slides.

Source: specification sheet of the x-vector family, section 4 (Kaldi's `apply-cmvn-sliding
--norm-vars=false --center=true --cmn-window=300`).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.rows import take_rows

WINDOW_FRAMES = 300
"""Frames of the window: 3 s."""


def subtract_sliding_mean(
    features: Tensor, frames: Tensor, *, window: int = WINDOW_FRAMES
) -> Tensor:
    """Subtracts from every frame the mean of the window around it.

    The window holds as many frames before the frame as from it on. At the ends of a recording it
    is moved inwards, and of a shorter recording it holds all frames.

    Args:
        features: float32 ``(B, N, D)``. Rows behind a recording do not matter.
        frames: Frames of each recording, int64 ``(B,)``, at least 1.
        window: Frames of the window.

    Returns:
        float32 ``(B, N, D)``; rows behind a recording are finite and have no meaning.
    """
    steps = torch.arange(features.shape[1], device=features.device)
    count = frames[:, None]
    kept = features.masked_fill((steps >= count)[..., None], 0.0)
    sums = F.pad(kept.double().cumsum(1), (0, 0, 1, 0))
    start = torch.minimum(steps - window // 2, count - window).clamp_min(0)
    end = torch.minimum(start + window, count)
    total = take_rows(sums, end) - take_rows(sums, start)
    return (kept - total / (end - start)[..., None]).to(features.dtype)
