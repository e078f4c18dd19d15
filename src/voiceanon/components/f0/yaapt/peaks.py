"""F0 candidates of single frames, from the peaks of their harmonics correlation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.f0.yaapt.config import SA_TOOLKIT, YaaptConfig
from voiceanon.components.f0.yaapt.constants import BIN_HZ

CANDIDATES = 4
"""Candidates per frame."""

LOW_PLACE = 17
"""First place over which a frame is scaled and averaged."""

SIDE_PLACES = 13
"""Places on both sides of a peak that must not be higher: half of 50 Hz, rounded."""

LEAST_MAXIMUM = 1e-14
"""Where a frame's maximum is below this, it is not scaled to 1 (as published)."""

LEAST_CREST = 5.0
"""Maximum of a voiced frame, in units of its mean."""

LEAST_PEAK = 1.25
"""Height of a peak, in units of the frame's mean."""

DOUBLE_HZ = 150.0
"""Where the best candidate is above this, half of it is another; where below, twice."""

EXTRA_MERIT = 0.4
"""Merit of that other candidate."""


def shc_candidates(correlation: Tensor, config: YaaptConfig = SA_TOOLKIT) -> tuple[Tensor, Tensor]:
    """Picks the highest peaks of each frame.

    Args:
        correlation: Result of `harmonics.harmonics_correlation`, ``(n, places)``.
        config: See `YaaptConfig`.

    Returns:
        F0 in Hz and merits, ``(n, CANDIDATES)``, the best first. Frames without a clear
        peak have F0 0 and merit 1 throughout.
    """
    high = int(config.highest_bin + SIDE_PLACES)
    inside = slice(LOW_PLACE, high + 1)
    maximum = correlation[:, inside].amax(1, keepdim=True)
    heights = correlation / maximum.where(maximum > LEAST_MAXIMUM, 1)
    mean = heights[:, inside].mean(1, keepdim=True)
    peaks = heights.where(_peaks(heights, mean, high), 0)
    merits, places = peaks.sort(dim=1, descending=True, stable=True)
    merits, hertz = merits[:, :CANDIDATES], places[:, :CANDIDATES].to(merits.dtype) * BIN_HZ
    best, best_hertz = merits[:, :1], hertz[:, :1]
    count = (peaks > 0).sum(1, keepdim=True)
    # Candidates that a frame lacks are copies of its best, but for the first, which is added.
    number = torch.arange(CANDIDATES, device=correlation.device)
    extra = number == count.clamp_max(CANDIDATES - 1)
    lacking = (number > count) & ~extra
    merits = merits.where(~lacking, best).masked_fill(extra, EXTRA_MERIT)
    other = torch.where(best_hertz > DOUBLE_HZ, best_hertz / 2, best_hertz * 2)
    hertz = torch.where(extra, other, hertz.where(~lacking, best_hertz))
    voiced = (mean <= 1 / LEAST_CREST) & (best / mean >= LEAST_CREST)
    return hertz.where(voiced, 0), merits.where(voiced, 1)


def _peaks(heights: Tensor, mean: Tensor, high: int) -> Tensor:
    """Tells the places that count as peaks: ``(n, places)`` and ``(n, 1)`` to bool ``(n, places)``.

    ``high`` is the last place over which a frame is scaled and averaged.
    A peak is above the threshold and its neighbours, and the first maximum of its surroundings.
    """
    first, end = LOW_PLACE + SIDE_PLACES + 1, high - SIDE_PLACES + 1
    # highest[i] is the maximum of the places i to i + SIDE_PLACES - 1.
    highest = F.max_pool1d(heights[:, None], SIDE_PLACES, 1)[:, 0]
    here = heights[:, first:end]
    before = highest[:, first - SIDE_PLACES : end - SIDE_PLACES]
    after = highest[:, first + 1 : end + 1]
    next_one = heights[:, first + 1 : end + 1]
    peaks = (here > before) & (here >= after) & (here > next_one) & (here > LEAST_PEAK * mean)
    return F.pad(peaks, (first, heights.shape[1] - end))
