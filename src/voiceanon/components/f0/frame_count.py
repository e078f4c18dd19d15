"""F0 for as many frames as other features have."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def fit_frames(f0: Tensor, tracked: Tensor, frames: Tensor, size: int) -> Tensor:
    """Cuts F0 contours, or lengthens them with unvoiced frames.

    Nothing is moved: frame t stays frame t, as in B1, whose F0 has two frames less than the other
    features (specification sheet of B1, section 2).

    Args:
        f0: Hz, 0 where unvoiced, ``(B, M)``. What lies behind an item does not matter.
        tracked: Frames that each item has, int64 ``(B,)``.
        frames: Frames that each item shall have, int64 ``(B,)``.
        size: Frames that the result shall have, at least the greatest of them.

    Returns:
        ``(B, size)``, 0 behind each item.
    """
    fitted = F.pad(f0, (0, size - f0.shape[1]))
    steps = torch.arange(size, device=f0.device)
    return fitted.masked_fill(steps >= torch.minimum(tracked, frames)[:, None], 0)
