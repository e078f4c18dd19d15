"""The spectral track: one smooth F0 contour for a recording, from candidates of its frames."""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.components.f0 import masked
from voiceanon.components.f0.yaapt.config import SA_TOOLKIT, YaaptConfig
from voiceanon.components.f0.yaapt.constants import F0_MIN, MIN_FRAMES
from voiceanon.components.f0.yaapt.frames import in_blocks
from voiceanon.components.f0.yaapt.harmonics import harmonics_correlation, magnitudes
from voiceanon.components.f0.yaapt.peaks import CANDIDATES, shc_candidates
from voiceanon.components.f0.yaapt.stock_interpolation import fill
from voiceanon.components.f0.yaapt.viterbi import best_path

MEDIAN_FRAMES = 5
"""Width of the median filters."""

PREFERRED_F0 = 0.8
"""Candidates near this share of the mean F0 are smoothed."""

FEW_FRAMES = 2
"""With no more voiced frames than this, all of them are given `DEFAULT_HZ`."""

DEFAULT_HZ = 150.0
"""F0 of a recording with few voiced frames."""

TRANSITION_WEIGHT = 11.0
"""Weight of changes of F0, times the relative spread of the recording's F0."""

LINEAR_TRANSITION = 0.05
"""Weight of a change beside that of its square."""

LEAST_SPREAD = 0.05
"""Least standard deviation of a track in the port, as a share of its mean."""


def spectral_candidates(
    squared: Tensor, flagged: Tensor, config: YaaptConfig = SA_TOOLKIT
) -> tuple[Tensor, Tensor]:
    """Finds F0 candidates of the flagged frames.

    Args:
        squared: Squared signal of `signals.band_limited`, ``(B, S)``.
        flagged: Frames that may be voiced, bool ``(B, M)``.
        config: See `YaaptConfig`.

    Returns:
        F0 in Hz and merits, ``(B, M, CANDIDATES)``; 0 and 1 where not voiced.
    """
    hertz = squared.new_zeros(*flagged.shape, CANDIDATES)
    merits = torch.ones_like(hertz)

    def work(item: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:
        spectra = magnitudes(squared, item, frame, config)
        return shc_candidates(harmonics_correlation(spectra, config), config)

    in_blocks(flagged, work, (hertz, merits))
    return hertz, merits


def spectral_track(
    hertz: Tensor, merits: Tensor, frames: Tensor, config: YaaptConfig = SA_TOOLKIT
) -> tuple[Tensor, Tensor, Tensor]:
    """Chooses among the candidates, smooths, and fills the frames between.

    Args:
        hertz: Candidates in Hz, ``(B, M, CANDIDATES)``, M at least `MIN_FRAMES`.
        merits: Their merits, of the same shape.
        frames: Frames of each recording, int64 ``(B,)``.
        config: See `YaaptConfig`.

    Returns:
        F0 in Hz of every frame, ``(B, M)``; the spread of F0 in Hz, ``(B,)``; and
        whether there is a track, bool ``(B,)``: a recording without a voiced frame, or shorter than
        `MIN_FRAMES`, has none, and its values are finite but mean nothing.
    """
    voiced = hertz[..., 0] > 0
    places, inside = masked.compact(voiced)
    if not places.shape[1]:
        tracked = torch.zeros_like(frames, dtype=torch.bool)
        return hertz[..., 0], hertz.new_zeros(len(hertz)), tracked
    chosen = places[..., None].expand(-1, -1, CANDIDATES)
    values = _choose(hertz.gather(1, chosen), merits.gather(1, chosen), inside, config)
    counts = inside.sum(1)
    values = values.where((counts > FEW_FRAMES)[:, None], DEFAULT_HZ).masked_fill(~inside, 0)
    average = masked.mean(values, inside).to(values.dtype)
    spread = _deviation(values, inside, config)
    track = torch.zeros_like(hertz[..., 0]).scatter(1, places, values)
    track = _lift_ends(track, average, frames)
    track = _stretch(track, frames) if config.ported else fill(track)
    # As published: the first two frames are those two frames later.
    track[:, :2] = track[:, 2:4].clone()
    tracked = (counts > 0) & (frames >= MIN_FRAMES)
    if config.ported:
        spread = torch.maximum(spread, LEAST_SPREAD * average)
    return track, spread, tracked


def _choose(hertz: Tensor, merits: Tensor, inside: Tensor, config: YaaptConfig) -> Tensor:
    """Dynamic programming over the voiced frames: ``(B, V, CANDIDATES)`` to Hz ``(B, V)``."""
    mean = masked.mean(hertz[..., 0], inside).to(hertz.dtype)
    deviation = _deviation(hertz[..., 0], inside, config)
    distance = (hertz - PREFERRED_F0 * mean[:, None, None]).abs() * (3 - merits)
    nearest = distance.argmin(-1, keepdim=True)
    picked = hertz.gather(-1, nearest)[..., 0].masked_fill(~inside, 0)
    hertz = hertz.scatter(-1, nearest, masked.median_filter(picked, MEDIAN_FRAMES)[..., None])
    change = (hertz[:, 1:, None, :] - hertz[:, :-1, :, None]).abs() / F0_MIN
    weight = TRANSITION_WEIGHT * deviation / mean.where(mean > 0, 1)
    transitions = (LINEAR_TRANSITION * change + change.square()) * weight[:, None, None, None]
    path = best_path(1 - merits, transitions, inside.sum(1), ported=config.ported)
    picked = hertz.gather(-1, path[..., None])[..., 0].masked_fill(~inside, 0)
    return masked.median_filter(picked, MEDIAN_FRAMES)


def _deviation(values: Tensor, inside: Tensor, config: YaaptConfig) -> Tensor:
    """Standard deviation of each row, in the port the unbiased one."""
    variance = masked.variance(values, inside)
    if not config.ported:
        counts = inside.sum(1).clamp_min(1)
        variance = variance * (counts - 1) / counts
    return variance.sqrt().to(values.dtype)


def _lift_ends(track: Tensor, average: Tensor, frames: Tensor) -> Tensor:
    """Gives the first and the last frame of each recording the average, unless they have an F0."""
    for place in (torch.zeros_like(frames), (frames - 1).clamp_min(0)):
        value = track.gather(1, place[:, None])
        lifted = torch.where(value < average[:, None] / 2, average[:, None], value)
        track = track.scatter(1, place[:, None], lifted)
    return track


def _stretch(track: Tensor, frames: Tensor) -> Tensor:
    """Stretches the values that are not 0, whatever their places (as published), over all frames.

    The same values as `torch.nn.functional.interpolate` gives on a CPU with ``mode="linear"`` for
    each recording; float64 stands in for the fused steps of its arithmetic.
    """
    places, inside = masked.compact(track > 0)
    values, counts = track.gather(1, places), inside.sum(1, keepdim=True)
    time = torch.arange(track.shape[1], dtype=torch.float32, device=track.device) + 0.5
    step = counts.float() / frames[:, None].float()
    source = (step.double() * time.double() - 0.5).float().clamp_min(0)
    last = (counts - 1).clamp_min(0)
    left = torch.minimum(source.long(), last)
    right = torch.minimum(left + 1, last)
    share = source - left
    first = (1 - share).double() * values.gather(1, left).double()
    return (first + share * values.gather(1, right)).float()
