"""Time-domain F0 candidates as the published algorithm chooses them, up to three for each frame."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.f0.yaapt.config import YaaptConfig
from voiceanon.components.f0.yaapt.constants import F0_MIN, RATE
from voiceanon.components.f0.yaapt.correlation import (
    CLEAR_PEAK,
    MATCH_SPREADS,
    MERIT_BOOST,
    RANGE_SPREADS,
    SIDE_LAGS,
    lowest_lag,
    normalised_correlation,
    peaks_of,
)
from voiceanon.components.f0.yaapt.frames import frames_of, in_blocks

CANDIDATES = 3
"""Candidates per frame."""

MEMORY_FRAMES = 64
"""Frames after which the mean of one has no effect: it falls by at least 0.55 per frame."""


def nccf_candidates(
    signal: Tensor, track: Tensor, spread: Tensor, wanted: Tensor, config: YaaptConfig
) -> tuple[Tensor, Tensor]:
    """Finds the F0 candidates of each frame.

    Args:
        signal: Linear or squared signal of `stock_signals.band_limited`, float64 ``(B, S)``.
        track: Spectral track in Hz, float64 ``(B, M)``.
        spread: Spread of F0 in Hz, float64 ``(B,)``.
        wanted: Frames of recordings that have a track, bool ``(B, M)``.
        config: See `YaaptConfig`.

    Returns:
        F0 in Hz, 0 for candidates that a frame lacks, and merits, float64 ``(B, M, CANDIDATES)``.
    """
    hertz = track.new_zeros(*track.shape, CANDIDATES)
    merits = torch.zeros_like(hertz)
    means = _subtracted_means(signal, wanted, config)

    def work(item: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:
        rows = frames_of(signal, item, frame, config.correlation_samples, config.hop_samples)
        # As published: a mean is subtracted in place, also from what later frames share.
        for back, shared in enumerate(_shared_samples(config), start=1):
            before = means[item, (frame - back).clamp_min(0)].where(frame >= back, 0)
            rows[:, :shared] -= before[:, None]
        rows -= means[item, frame][:, None]
        centre, width = track[item, frame], RANGE_SPREADS * spread[item]
        low, high = (centre - width).clamp_min(F0_MIN), (centre + width).clamp_max(config.f0_max)
        first, last = (RATE / high).long() - SIDE_LAGS, (RATE / low).long() + SIDE_LAGS
        correlation = normalised_correlation(rows, first, last, config)
        found, merit = best_peaks(correlation, first, last, config)
        limit = MATCH_SPREADS * spread[item, None]
        off = (found - centre[:, None]).abs()
        match = (1 - off / limit).where(off < limit, 0)
        return found, MERIT_BOOST * merit * match

    in_blocks(wanted, work, (hertz, merits))
    return hertz, merits


def best_peaks(
    correlation: Tensor, first: Tensor, last: Tensor, config: YaaptConfig
) -> tuple[Tensor, Tensor]:
    """Takes the highest peak where one is clear, else the highest three.

    Args:
        correlation: Result of `normalised_correlation`, float64 ``(n, lags)``.
        first: First lag in samples, int64 ``(n,)``.
        last: Lag behind the last, int64 ``(n,)``.
        config: See `YaaptConfig`.

    Returns:
        F0 in Hz and merits up to 1, float64 ``(n, CANDIDATES)``, the best first; 0 for candidates
        that a frame lacks.
    """
    here = correlation[:, SIDE_LAGS:-SIDE_LAGS]
    peaks = peaks_of(correlation, first, last, config)
    clear = (correlation.amax(1, keepdim=True) > CLEAR_PEAK) & peaks.any(1, keepdim=True)
    # A peak is the first maximum of its surroundings, unless one is clear.
    alone = (here > correlation[:, : -2 * SIDE_LAGS]) & (here >= correlation[:, 2 * SIDE_LAGS :])
    heights = here.where(peaks & (alone | clear), 0)
    merits, places = heights.topk(CANDIDATES, dim=1)
    number = torch.arange(CANDIDATES, device=places.device)
    merits = merits.masked_fill(clear & (number > 0), 0)
    # The published period is one sample longer than the lag.
    period = places + (lowest_lag(config) + SIDE_LAGS + 1)
    hertz = (RATE / period.to(merits.dtype)).where(merits > 0, 0)
    return hertz, merits / merits[:, :1].clamp_min(1)


def _shared_samples(config: YaaptConfig) -> range:
    """Samples that a frame shares with the one before, with the one before that, and so on."""
    hop = config.hop_samples
    return range(config.correlation_samples - hop, 0, -hop)


def _subtracted_means(signal: Tensor, wanted: Tensor, config: YaaptConfig) -> Tensor:
    """Mean that is subtracted from each frame, after those of the frames before: ``(B, M)``.

    Each is the frame's own mean less the shares of those before; this recursion is a filter, whose
    response to a single frame is applied.
    """
    window, hop = config.correlation_samples, config.hop_samples
    own = torch.zeros_like(signal[:, :1]).expand_as(wanted).contiguous()

    def work(item: Tensor, frame: Tensor) -> tuple[Tensor]:
        return (frames_of(signal, item, frame, window, hop).mean(1),)

    in_blocks(wanted, work, (own,))
    response = [1.0]
    while len(response) < MEMORY_FRAMES:
        recent = zip(_shared_samples(config), reversed(response), strict=False)
        response.append(-sum(shared / window * value for shared, value in recent))
    taps = torch.tensor(response[::-1], dtype=signal.dtype, device=signal.device)
    return F.conv1d(F.pad(own, (MEMORY_FRAMES - 1, 0))[:, None], taps[None, None])[:, 0]
