"""The condition network: features to what steers the filters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from voiceanon.components.vocoder.hn_sinc_nsf.config import CHANNELS, HnSincNsfConfig
from voiceanon.components.vocoder.hn_sinc_nsf.smoothing import (
    MovingAverage,
    Upsampling,
    average_samples,
    combine,
    neighbours,
)

CUT_OFF_HOPS = 4
"""Frames over which the cut-off is averaged: 640 samples."""

CUT_OFF_DEPTH = 0.2
"""Factor of the network's last channel, from -1 to 1, in the cut-off."""

CUT_OFF_VOICED = 0.4
"""What voicing adds to it."""

CUT_OFF_BASE = 0.3
"""The cut-off without both, as a share of half the rate."""


@dataclass(frozen=True, eq=False)
class Conditions:
    """What the condition network gives.

    Attributes:
        near: Frames of the context, each with its neighbours, ``(3, B, F, 64)``.
        weights: What their samples are made of, ``(3, hop, 64)``; see `Upsampling.weights`.
        cut_off: Between noise and harmonics, as a share of half the rate, ``(B, L)``.
    """

    near: Tensor
    weights: Tensor
    cut_off: Tensor

    def context(self, frames: slice, items: Tensor) -> Tensor:
        """The context of the samples of some frames: ``(len(items), frames * hop, 64)``."""
        return combine(self.near[:, items, frames], self.weights)


class Condition(nn.Module):
    """A bidirectional LSTM and a convolution over frames, and smooth samples of the result."""

    def __init__(self, config: HnSincNsfConfig) -> None:
        super().__init__()
        self._hop = config.hop_samples
        self.l_blstm = _Recurrent(config.input_width)
        self.l_conv1d = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1)
        self.l_upsamp = Upsampling(CHANNELS, self._hop)
        self.l_upsamp_f0_hi = Upsampling(1, self._hop)
        self.l_cut_f_smooth = MovingAverage(1, CUT_OFF_HOPS * self._hop)

    def forward(self, features: Tensor, f0: Tensor, frames: Tensor, counts: Tensor) -> Conditions:
        """Computes it; an item of a batch gives what it gives alone.

        Args:
            features: Normalised, ``(B, F, D)``, the last of them F0; finite everywhere.
            f0: Hz, 0 where unvoiced, ``(B, F)``; it alone decides what is voiced.
            frames: int64 ``(B,)``, the greatest of them F.
            counts: The same on the CPU.
        """
        narrow = torch.tanh(self.l_conv1d(self.l_blstm(features, counts).mT).mT)
        near = neighbours(torch.cat([narrow, features[..., -1:]], 2), frames)
        weights = torch.cat([self.l_upsamp.weights(), self.l_upsamp_f0_hi.weights()], 2)
        last = CHANNELS - 1
        channel = combine(near[..., last : last + 1], weights[..., last : last + 1])[..., 0]
        voiced = (f0 > 0).to(channel.dtype).repeat_interleave(self._hop, 1)
        raw = CUT_OFF_DEPTH * channel + CUT_OFF_VOICED * voiced + CUT_OFF_BASE
        cut_off = average_samples(raw, frames * self._hop, self.l_cut_f_smooth.weight)
        # F0 takes the place of the channel that became the cut-off.
        near[..., last], weights[..., last] = near[..., -1], weights[..., -1]
        return Conditions(near[..., :-1], weights[..., :-1], cut_off)


class _Recurrent(nn.Module):
    """A bidirectional LSTM that starts at each item's own ends."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.l_blstm = nn.LSTM(width, CHANNELS // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        """``(B, F, D)`` to ``(B, F, 64)``, zero behind each item."""
        packed = pack_padded_sequence(x, counts, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.l_blstm(packed)[0], batch_first=True)[0]
