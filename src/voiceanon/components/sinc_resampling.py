"""Resampling of padded batches on their own device, by windowed sinc filters.

Each output sample is a weighted sum of the input samples around it; outside of a recording there
are zeros. Works for any ratio of small integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

Window = Literal["hann", "kaiser"]


@dataclass(frozen=True, kw_only=True)
class SincFilter:
    """A ratio of rates, and the low-pass filter that goes with it.

    Attributes:
        up: Output samples per ``down`` input samples.
        down: See ``up``.
        cutoff: Where the filter has fallen to one half, as a share of half the input rate.
        half_width: Input samples that it reaches on either side.
        window: What the sinc is multiplied with.
        beta: Shape of the Kaiser window; no part in the other.
    """

    up: int
    down: int
    cutoff: float
    half_width: float
    window: Window = "hann"
    beta: float = 0.0


def torchaudio_filter(up: int, down: int) -> SincFilter:
    """The filter of `torchaudio.functional.resample` in its default settings.

    Args:
        up: Output samples per ``down`` input samples, without a common divisor.
        down: See ``up``.
    """
    cutoff = _ROLLOFF * min(up, down) / down
    return SincFilter(up=up, down=down, cutoff=cutoff, half_width=_ZERO_CROSSINGS / cutoff)


_ROLLOFF = 0.99
"""Cutoff as a share of the lower rate's half (default of torchaudio)."""

_ZERO_CROSSINGS = 6
"""Of the sinc, on either side (default of torchaudio)."""

SOXR_HQ_2_3 = SincFilter(
    up=2, down=3, cutoff=0.63791455, half_width=145.24894, window="kaiser", beta=13.03985
)
"""What soxr does at quality HQ from three samples to two, such as 24 to 16 kHz.

Fitted to its impulse response (soxr 1.1): the largest difference is 1.1e-7 of the peak.
"""


def resample(wav: Tensor, lengths: Tensor, filter: SincFilter) -> tuple[Tensor, Tensor]:
    """Resamples a padded batch.

    Args:
        wav: Floating point ``(B, T)``. The values in the padding do not matter.
        lengths: Samples of each recording, int64 ``(B,)``.
        filter: Ratio and low-pass filter.

    Returns:
        ``(B, T')`` with zeros in the padding, and int64 lengths ``(B,)``: each is the input's times
        ``up / down``, rounded up.
    """
    table = torch.from_numpy(_kernel(filter)).to(wav.dtype).to(wav.device)
    reach = math.ceil(filter.half_width)
    inside = _within(lengths, wav.shape[1])
    padded = F.pad(wav.masked_fill(~inside, 0.0), (reach, reach + filter.down))
    with torch.autocast(wav.device.type, enabled=False):
        phases = F.conv1d(padded[:, None], table[:, None], stride=filter.down)
    longest = -(-wav.shape[1] * filter.up // filter.down)
    result = phases.transpose(1, 2).flatten(1)[:, :longest]
    new_lengths = (lengths * filter.up + filter.down - 1).div(filter.down, rounding_mode="floor")
    return result.masked_fill(~_within(new_lengths, longest), 0.0), new_lengths


def _within(lengths: Tensor, size: int) -> Tensor:
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@cache
def _kernel(filter: SincFilter) -> npt.NDArray[np.float64]:
    """Weights ``(up, taps)``: one row for each output sample of a period."""
    reach = math.ceil(filter.half_width)
    taps = np.arange(-reach, reach + filter.down, dtype=np.float64)
    places = np.arange(filter.up, dtype=np.float64)[:, None] * (filter.down / filter.up)
    distance = taps - places
    share = np.clip(distance / filter.half_width, -1.0, 1.0)
    if filter.window == "hann":
        window = np.cos(share * (math.pi / 2)) ** 2
    else:
        window = np.i0(filter.beta * np.sqrt(1 - share**2)) / np.i0(filter.beta)
        window[np.abs(share) >= 1] = 0.0
    weights: npt.NDArray[np.float64] = filter.cutoff * np.sinc(filter.cutoff * distance) * window
    return weights
