"""Frames to samples: what the published moving averages amount to."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.rows import take_rows

NEIGHBOURS = 3
"""Frames that a sample is made from: its own, the one before and the one behind."""


class MovingAverage(nn.Module):
    """Holder of a published average over samples, a constant that is stored in the file."""

    weight: Tensor

    def __init__(self, channels: int, taps: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.full((channels, 1, taps), 1 / taps))


class Upsampling(nn.Module):
    """Repeats each frame and smooths twice, as a fixed combination of neighbouring frames.

    The published network repeats each frame for ``hop`` samples and takes two averages over as many
    taps, with the ends repeated (79 samples in front and 80 behind for 160 taps). Such a sample
    depends on at most three frames, in a way that its place within the hop decides; to repeat the
    first and the last frame once does what repeating the ends of the signals does.
    """

    def __init__(self, channels: int, hop: int) -> None:
        super().__init__()
        self._hop = hop
        self.l_ave1 = MovingAverage(channels, hop)
        self.l_ave2 = MovingAverage(channels, hop)

    def weights(self) -> Tensor:
        """Share of each neighbour in each sample of a frame: ``(NEIGHBOURS, hop, C)``."""
        channels, _, hop = self.l_ave1.weight.shape
        units = torch.eye(NEIGHBOURS, dtype=torch.float32, device=self.l_ave1.weight.device)
        x = units.repeat_interleave(hop, 1)[:, None].expand(-1, channels, -1)
        for average in (self.l_ave2, self.l_ave1):
            x = F.conv1d(x, average.weight, groups=channels)
        # Two samples more remain than the frame in the middle has, both in front.
        return x[..., -hop:].mT


def neighbours(x: Tensor, frames: Tensor) -> Tensor:
    """Puts beside each frame the one before and the one behind; ends are repeated.

    Args:
        x: ``(B, F, C)``.
        frames: int64 ``(B,)``; frames behind an item's end do not matter.

    Returns:
        ``(NEIGHBOURS, B, F, C)``; frames behind an item's end are its last one.
    """
    time = torch.arange(x.shape[1], device=x.device)
    last = (frames - 1)[:, None]
    places = [(time + step).clamp_min(0).minimum(last) for step in (-1, 0, 1)]
    # The frame before the one behind an item's end is of no use, but must not be out of range.
    return torch.stack([take_rows(x, p) for p in places])


def combine(near: Tensor, weights: Tensor) -> Tensor:
    """Samples from frames.

    Args:
        near: ``(NEIGHBOURS, B, F, C)``.
        weights: ``(NEIGHBOURS, hop, C)``.

    Returns:
        ``(B, F * hop, C)``.
    """
    before, here, behind = (x[:, :, None] * w for x, w in zip(near, weights, strict=True))
    samples: Tensor = (before + here + behind).flatten(1, 2)
    return samples


def average_samples(x: Tensor, lengths: Tensor, weight: Tensor) -> Tensor:
    """Moving average of a signal with its ends repeated.

    Args:
        x: ``(B, L)``.
        lengths: int64 ``(B,)`` in samples; what lies behind does not matter.
        weight: ``(1, 1, taps)``, an even number: one more tap looks ahead than back.

    Returns:
        ``(B, L)``.
    """
    taps = weight.shape[-1]
    time = torch.arange(1 - taps // 2, x.shape[1] + taps // 2, device=x.device)
    places = time.clamp_min(0).minimum((lengths - 1)[:, None])
    return F.conv1d(x.gather(1, places)[:, None], weight)[:, 0]
