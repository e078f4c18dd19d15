"""Resampling from 48 to 16 kHz by the filter "kaiser_best" of resampy 0.4.

Source: specification sheet of B3, section 13. The filter is a sinc under a Kaiser window, of which
resampy keeps a table. From three samples to one it always reads the same places of the table, so
that all is one filter with a stride of three and without delay.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

ZERO_CROSSINGS = 50
"""Of the sinc, on either side."""

TABLE_STEPS = 8192
"""Places in the table from one zero crossing to the next."""

ROLLOFF = 0.9173473712608761
"""Cutoff as a share of half the output rate."""

BETA = 12.984585183
"""Shape of the Kaiser window."""

FACTOR = 3
"""Input samples per output sample."""

TAP_STEPS = TABLE_STEPS // FACTOR
"""Places in the table from one input sample to the next, cut to a whole number as published."""


def resample_48_to_16(wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Resamples a padded batch; outside of a recording there are zeros.

    Args:
        wav: float32 or float64 ``(B, T)``, 48 kHz. The values in the padding do not matter.
        lengths: Samples of each recording, int64 ``(B,)``.

    Returns:
        16 kHz, of the type of ``wav``, ``(B, T // 3)`` with zeros in the padding; and int64 lengths
        ``(B,)``, a third of the input's, rounded down.
    """
    left, right = (torch.from_numpy(side) for side in taps())
    weights = torch.cat([left.flip(0), right]).to(wav.dtype).to(wav.device)
    inside = torch.arange(wav.shape[1], device=wav.device) < lengths[:, None]
    padded = F.pad(wav.masked_fill(~inside, 0), (len(left) - 1, len(right) + 1))
    with torch.autocast(wav.device.type, enabled=False):
        result = F.conv1d(padded[:, None], weights[None, None], stride=FACTOR)[:, 0]
    result = result[:, : wav.shape[1] // FACTOR]
    new_lengths = lengths.div(FACTOR, rounding_mode="floor")
    outside = torch.arange(result.shape[1], device=wav.device) >= new_lengths[:, None]
    return result.masked_fill(outside, 0), new_lengths


@cache
def taps() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Weights for output sample n.

    Returns:
        float64: those of the input samples 3n, 3n - 1, ..., and those of 3n + 1, 3n + 2, ...
    """
    end = ZERO_CROSSINGS * TABLE_STEPS
    # As published, nothing is read less than a step before the end of the table.
    left = _table(np.arange(0, end + 1 - TAP_STEPS, TAP_STEPS))
    share = TABLE_STEPS / FACTOR - TAP_STEPS
    places = np.arange(TAP_STEPS, end + 1 - TAP_STEPS, TAP_STEPS)
    right = (1 - share) * _table(places) + share * _table(places + 1)
    return left / FACTOR, right / FACTOR


def _table(places: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    time = places / TABLE_STEPS
    bend = np.sqrt(1 - (time / ZERO_CROSSINGS) ** 2)
    values: npt.NDArray[np.float64] = ROLLOFF * np.sinc(ROLLOFF * time) * np.i0(BETA * bend)
    return values / np.i0(BETA)
