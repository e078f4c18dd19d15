"""What lies in front of and behind each item of a padded batch: more of the item's own values."""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.components.rows import take_rows


def repeat_edges(x: Tensor, lengths: Tensor, before: int, after: int) -> Tensor:
    """Repeats the first and the last frame of every item.

    Args:
        x: ``(B, N, D)``. What lies behind an item's length is not looked at.
        lengths: Frames of each item, int64 ``(B,)``, at least 1.
        before: Copies of the first frame.
        after: Copies of the last frame, right behind it. What follows is copies, too.

    Returns:
        ``(B, before + N + after, D)``.
    """
    places = torch.arange(-before, x.shape[1] + after, device=x.device).clamp_min(0)
    return take_rows(x, torch.minimum(places, lengths[:, None] - 1))


def reflect_edges(wav: Tensor, lengths: Tensor, samples: int) -> Tensor:
    """Mirrors every recording at its first and its last sample, which are not repeated.

    One that is shorter than what is needed is mirrored back and forth.

    Args:
        wav: ``(B, T)``. What lies behind a recording is not looked at.
        lengths: Samples of each recording, int64 ``(B,)``, at least 1.
        samples: How many are put on each side. What follows is mirrored values, too.

    Returns:
        ``(B, T + 2 * samples)``.
    """
    places = torch.arange(-samples, wav.shape[1] + samples, device=wav.device)
    last = lengths[:, None] - 1
    # A recording of one sample has no way to go, but remainders need one.
    there_and_back = (2 * last).clamp_min(1)
    index = places.remainder(there_and_back)
    return wav.gather(1, torch.minimum(index, there_and_back - index).clamp_max(last))
