"""Pitch correlation as in VoicePrivacy 2022, and over voiced frames alone.

Source: specification sheet of the evaluation, section 5.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.dependencies import required
from voiceanon.eval.metrics.kinds import Float64Array, Meaning, MetricWarning

FLOOR_HZ = 75.0
"""Values below it, and above `CEILING_HZ`, count as unvoiced."""

CEILING_HZ = 500.0

HOP_SECONDS = 0.01

MOST_DIFFERENCE_SECONDS = 0.065
"""Difference of lengths above which the Challenge's code warns (its rules say 60 ms)."""

DIRECT_FRAMES = 6000
"""Longest track, one minute, whose cross-correlation is summed directly, as published; the Fourier
transform is faster above."""


@dataclass(frozen=True)
class PitchCorrelation:
    """Correlation of two F0 tracks.

    Attributes:
        value: Over all frames, unvoiced ones as 0 Hz: the number of VoicePrivacy 2022. It mostly
            measures whether the same frames are voiced; a recording played backwards still has 0.54
            on the golden example. 0 if a track is constant.
        voiced_only: Over the frames that are voiced in both; NaN with fewer than two of them, or a
            constant track.
        lag_frames: Frames by which the anonymized track was rolled.
        voiced_share: Share of frames that are voiced in both.
    """

    unit: ClassVar[str] = "none, from -1 to 1"
    higher_is: ClassVar[Meaning] = "more useful"

    value: float
    voiced_only: float
    lag_frames: int
    voiced_share: float


@dataclass(frozen=True)
class MeanPitchCorrelation:
    """Pitch correlation over a set.

    Attributes:
        mean: Of `PitchCorrelation.value`; VoicePrivacy 2022 required 0.3.
        standard_deviation: Of the population.
        voiced_only_mean: Of `PitchCorrelation.voiced_only`, NaNs left out.
        count: Utterances.
    """

    unit: ClassVar[str] = "none, from -1 to 1"
    higher_is: ClassVar[Meaning] = "more useful"

    mean: float
    standard_deviation: float
    voiced_only_mean: float
    count: int


def pitch_correlation(
    original: npt.ArrayLike,
    anonymized: npt.ArrayLike,
    *,
    hop_seconds: float = HOP_SECONDS,
) -> PitchCorrelation:
    """Pearson's correlation of two F0 tracks after aligning them.

    The shorter track is interpolated to the length of the longer one, end points aligned and zeros
    included; values outside of 75 ... 500 Hz become 0; the anonymized track is rolled around by the
    lag of the greatest cross-correlation.

    The Challenge's tracks are Praat's (autocorrelation, 75 ... 500 Hz, a frame each 10 ms). Tracks
    of another extractor give other numbers: name it with the result.

    Args:
        original: F0 in Hz, 0 for unvoiced, ``(frames,)``.
        anonymized: The same of the anonymized recording; ``(frames,)`` may differ.
        hop_seconds: Time between frames; for the warning alone.

    Raises:
        ConfigError: An empty track, or values that are negative or not finite.

    Warns:
        MetricWarning: Lengths differ by more than 65 ms.
    """
    tracks = [_checked(original, "original"), _checked(anonymized, "anonymized")]
    lengths = [len(track) for track in tracks]
    difference = abs(lengths[0] - lengths[1]) * hop_seconds
    if difference > MOST_DIFFERENCE_SECONDS:
        warnings.warn(
            f"pitch: the tracks differ by {difference:.3f} s, more than {MOST_DIFFERENCE_SECONDS} "
            "s; a system that changes durations cannot be compared frame by frame.",
            MetricWarning,
            stacklevel=2,
        )
    reference, other = (_in_range(_stretched(track, max(lengths))) for track in tracks)
    lag = _best_lag(reference, other)
    other = np.roll(other, lag)
    voiced = (reference > 0) & (other > 0)
    value = _pearson(reference, other)
    return PitchCorrelation(
        value=0.0 if np.isnan(value) else value,
        voiced_only=_pearson(reference[voiced], other[voiced]),
        lag_frames=lag,
        voiced_share=float(voiced.mean()),
    )


def mean_pitch_correlation(correlations: Iterable[PitchCorrelation]) -> MeanPitchCorrelation:
    """Mean over the utterances of a set.

    Raises:
        ConfigError: No utterance.
    """
    items = list(correlations)
    if not items:
        raise ConfigError("pitch: no utterance; at least one is due.")
    values = np.array([item.value for item in items])
    voiced = np.array([item.voiced_only for item in items])
    voiced = voiced[~np.isnan(voiced)]
    return MeanPitchCorrelation(
        mean=float(values.mean()),
        standard_deviation=float(values.std()),
        voiced_only_mean=float(voiced.mean()) if len(voiced) else float("nan"),
        count=len(items),
    )


def _checked(track: npt.ArrayLike, name: str) -> Float64Array:
    values = np.asarray(track, np.float64)
    if values.ndim != 1 or not len(values):
        raise ConfigError(f"pitch: the {name} track has shape {values.shape}; (frames,) is due.")
    if not (values >= 0).all() or np.isinf(values).any():
        raise ConfigError(
            f"pitch: the {name} track has values below 0 or not finite; Hz, and 0 for unvoiced "
            "frames, are due."
        )
    return values


def _stretched(track: Float64Array, length: int) -> Float64Array:
    if len(track) == length:
        return track
    places = np.linspace(0, len(track) - 1, length)
    return np.interp(places, np.arange(len(track)), track)


def _in_range(track: Float64Array) -> Float64Array:
    return np.where((track < FLOOR_HZ) | (track > CEILING_HZ), 0, track)


def _best_lag(reference: Float64Array, other: Float64Array) -> int:
    """Frames by which the other track has to be moved to later times."""
    if len(reference) <= DIRECT_FRAMES:
        correlation = np.correlate(reference, other, mode="full")
    else:
        signal = required("scipy.signal", "pitch correlation of long recordings")
        correlation = signal.correlate(reference, other, mode="full", method="fft")
    return int(np.argmax(correlation)) - (len(other) - 1)


def _pearson(first: Float64Array, second: Float64Array) -> float:
    """NaN with fewer than two values, or if one side is constant."""
    if len(first) < 2:
        return float("nan")
    a, b = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale else float("nan")
