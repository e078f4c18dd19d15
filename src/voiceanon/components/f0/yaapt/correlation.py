"""F0 candidates of single frames, from the normalised cross-correlation (NCCF) at each lag.

The port's choice among the peaks; `stock_correlation` has that of the published algorithm.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.f0.yaapt.config import SA_TOOLKIT, YaaptConfig
from voiceanon.components.f0.yaapt.constants import F0_MIN, RATE
from voiceanon.components.f0.yaapt.frames import frames_of, in_blocks

RANGE_SPREADS = 2.0
"""Spreads of F0 on both sides of the spectral track within which F0 is looked for."""

SIDE_LAGS = 2
"""Lags on both sides of a peak that belong to it; the range is wider by as many."""

CLEAR_PEAK = 0.9
"""Largest correlation from which on a peak need not be the first maximum of its surroundings."""

MERIT_BOOST = 1.2
"""Factor of the merit of a candidate that lies on the spectral track."""

MATCH_SPREADS = 5.0
"""Spreads of F0 from the spectral track at which a candidate's merit has fallen to 0."""

LAST_LAG = int(RATE / F0_MIN) + 2 * SIDE_LAGS
"""Lag above all that are looked at: 270."""

MEAN_FRAMES = 32
"""Frames after which the mean of one has no effect: 0.2^32 is below the rounding of float64."""


def lowest_lag(config: YaaptConfig) -> int:
    """Lag below all that are looked at: 36 for F0 up to 400 Hz."""
    return int(RATE / config.f0_max) - 2 * SIDE_LAGS


def nccf_candidates(
    signal: Tensor,
    track: Tensor,
    spread: Tensor,
    wanted: Tensor,
    config: YaaptConfig = SA_TOOLKIT,
) -> tuple[Tensor, Tensor]:
    """Finds the F0 candidate of each frame.

    Args:
        signal: Linear or squared signal of `signals.band_limited`, float32 ``(B, S)``.
        track: Spectral track in Hz, float32 ``(B, M)``.
        spread: Spread of F0 in Hz, float32 ``(B,)``.
        wanted: Frames of recordings that have a track, bool ``(B, M)``.
        config: See `YaaptConfig`.

    Returns:
        F0 in Hz, 0 where there is no candidate, and merits, float32 ``(B, M)``. A candidate far off
        the spectral track keeps its F0, but has merit 0.
    """
    hertz, merits = torch.zeros_like(track), torch.zeros_like(track)
    means = _subtracted_means(signal, wanted, config)
    window, shared = config.correlation_samples, config.correlation_samples - config.hop_samples

    def work(item: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:
        rows = frames_of(signal, item, frame, window, config.hop_samples)
        # As published: a mean is subtracted in place, also from what the next frame shares.
        before = means[item, (frame - 1).clamp_min(0)].where(frame > 0, 0)
        rows[:, :shared] -= before[:, None]
        rows -= means[item, frame][:, None]
        centre, width = track[item, frame], RANGE_SPREADS * spread[item]
        low, high = (centre - width).clamp_min(F0_MIN), (centre + width).clamp_max(config.f0_max)
        # As published, multiplied by the inverse, which may round to another integer.
        first = (high.reciprocal() * RATE).floor().long() - SIDE_LAGS
        last = (low.reciprocal() * RATE).floor().long() + SIDE_LAGS
        correlation = normalised_correlation(rows, first, last, config)
        found, merit = first_peak(correlation, first, last, config)
        limit = MATCH_SPREADS * spread[item]
        off = (found - centre).abs()
        match = (1 - off / limit) * (off < limit)
        return found, (MERIT_BOOST * merit) * match

    in_blocks(wanted, work, (hertz, merits))
    return hertz, merits


def _subtracted_means(signal: Tensor, wanted: Tensor, config: YaaptConfig) -> Tensor:
    """Mean that is subtracted from each frame, after that of the frame before: ``(B, M)``.

    It is mean(t) - 0.2 subtracted(t - 1), since a fifth of a frame is shared. The recursion is
    solved in steps that span 1, 2, 4, ... frames.
    """
    window, hop = config.correlation_samples, config.hop_samples
    result = signal.new_zeros(wanted.shape, dtype=torch.float64)

    def work(item: Tensor, frame: Tensor) -> tuple[Tensor]:
        return (frames_of(signal, item, frame, window, hop).mean(1, dtype=torch.float64),)

    in_blocks(wanted, work, (result,))
    factor, delay = -(window - hop) / window, 1
    while delay < min(wanted.shape[1], MEAN_FRAMES):
        result = torch.cat([result[:, :delay], result[:, delay:] + factor * result[:, :-delay]], 1)
        factor, delay = factor**2, 2 * delay
    return result.float()


def normalised_correlation(
    rows: Tensor, first: Tensor, last: Tensor, config: YaaptConfig = SA_TOOLKIT
) -> Tensor:
    """Correlates the beginning of each frame with the frame itself at the lags of its range.

    The beginning has ``last`` samples less than the frame, so that it fits in at the largest lag.

    Args:
        rows: Frames, ``(n, correlation_samples)``.
        first: First lag in samples, int64 ``(n,)``, above `lowest_lag`.
        last: Lag behind the last, int64 ``(n,)``, below `LAST_LAG`.
        config: See `YaaptConfig`.

    Returns:
        ``(n, lags)`` for the lags from `lowest_lag` to `LAST_LAG`: -1 to 1, 0 for lags out of
        range, and, as published, not finite where the energies are next to nothing.
    """
    # Sums in float64: many lags of a smooth frame are equally good to within the rounding of
    # float32, and the order of a sum would choose among them. What follows is float32 in the port,
    # as in near silence the product of two energies leaves its range.
    exact, window = rows.double(), rows.shape[1]
    # At least a frame: products of samples that far apart do not meet.
    points = 1 << (window - 1).bit_length()
    size = window - last[:, None]
    time = torch.arange(window, device=rows.device)
    lowest = lowest_lag(config)
    beginning = torch.fft.rfft(exact.masked_fill(time >= size, 0), points)
    spectrum = beginning.conj_physical_().mul_(torch.fft.rfft(exact, points))
    products = torch.fft.irfft(spectrum, points)[:, lowest : LAST_LAG + 1].to(rows.dtype)
    energy = F.pad(exact.square().cumsum(1), (1, 0))
    lags = torch.arange(lowest, LAST_LAG + 1, device=rows.device)
    ends = energy.gather(1, (lags + size).clamp_max(window))
    energies = (ends - energy[:, lowest : LAST_LAG + 1]).to(rows.dtype)
    own = energy.gather(1, size).to(rows.dtype)
    inside = (lags >= first[:, None]) & (lags < last[:, None])
    correlation: Tensor = products / (energies * own).sqrt()
    return correlation.where(inside, 0)


def first_peak(
    correlation: Tensor, first: Tensor, last: Tensor, config: YaaptConfig = SA_TOOLKIT
) -> tuple[Tensor, Tensor]:
    """Takes the peak at the shortest lag (as published), if it is one.

    Args:
        correlation: Result of `normalised_correlation`, float32 ``(n, lags)``.
        first: First lag in samples, int64 ``(n,)``.
        last: Lag behind the last, int64 ``(n,)``.
        config: See `YaaptConfig`.

    Returns:
        F0 in Hz and merits up to 1, float32 ``(n,)``, both 0 where there is none.
    """
    here = correlation[:, SIDE_LAGS:-SIDE_LAGS]
    peaks = peaks_of(correlation, first, last, config)
    place = peaks.to(torch.uint8).argmax(1, keepdim=True)
    around = place + torch.arange(2 * SIDE_LAGS + 1, device=place.device)
    highest = correlation.gather(1, around).argmax(1) == SIDE_LAGS
    found = peaks.any(1) & ((correlation.amax(1) > CLEAR_PEAK) | highest)
    merit = here.gather(1, place)[:, 0].clamp_max(1)
    # The published period is one sample longer than the lag.
    period = (place[:, 0] + lowest_lag(config) + SIDE_LAGS + 1).float()
    hertz = torch.full_like(period, RATE) / period
    return hertz.where(found, 0), merit.where(found, 0)


def peaks_of(correlation: Tensor, first: Tensor, last: Tensor, config: YaaptConfig) -> Tensor:
    """Tells the lags of a frame's range that are above the threshold and above both neighbours.

    Args:
        correlation: Result of `normalised_correlation`, ``(n, lags)``.
        first: First lag in samples, int64 ``(n,)``.
        last: Lag behind the last, int64 ``(n,)``.
        config: See `YaaptConfig`.

    Returns:
        bool ``(n, lags - 2 * SIDE_LAGS)``, for lags from the one at `SIDE_LAGS` on.
    """
    here = correlation[:, SIDE_LAGS:-SIDE_LAGS]
    lags = torch.arange(here.shape[1], device=here.device) + lowest_lag(config) + SIDE_LAGS
    peaks = (lags >= first[:, None] + SIDE_LAGS) & (lags <= last[:, None] - SIDE_LAGS)
    above = here > config.least_peak
    peaks &= (here > correlation[:, 1:-3]) & (here > correlation[:, 3:-1]) & above
    return peaks
