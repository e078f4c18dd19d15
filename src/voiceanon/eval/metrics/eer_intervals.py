"""How sure an equal error rate is, and whether two systems differ: bootstrap over speakers.

Trials share speakers, so they are not independent, and speakers are drawn with replacement in place
of trials. A speaker that is drawn w times counts w times on both sides: a pair of different
speakers i and j has the weight w_i w_j; a pair of recordings of one speaker has the weight w_i,
since copies of a speaker are not compared with each other.

Source: the bootstrap for dyadic data (Snijders and Borgatti, 1999), applied to speakers. The
VoicePrivacy Challenges publish no interval for equal error rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import (
    BoolArray,
    Float64Array,
    FloatArray,
    Generator,
    IntArray,
    Meaning,
    draw_indices,
)
from voiceanon.eval.metrics.names import first_seen
from voiceanon.eval.metrics.scores import read_all

REPLICATES = 1000
"""Draws of speakers; the ends of a 95 % interval then rest on 25 draws each."""

LEVEL = 0.95

FEWEST_SPEAKERS = 5
"""With fewer, most draws repeat or miss speakers so much that the interval says nothing."""


@dataclass(frozen=True, eq=False)
class EerInterval:
    """An equal error rate (variant ``nearest``) with a percentile interval.

    Attributes:
        value: Of all trials, fraction.
        low: Lower end, fraction.
        high: Upper end.
        level: Share of draws inside the interval.
        replicates: Rate of every draw, float64 ``(replicates,)``.
        speaker_count: Speakers drawn from.
    """

    unit: ClassVar[str] = "fraction"
    higher_is: ClassVar[Meaning] = "more private"

    value: float
    low: float
    high: float
    level: float
    replicates: Float64Array
    speaker_count: int


@dataclass(frozen=True, eq=False)
class EerDifference:
    """Equal error rate of one system minus that of another, on the same trials.

    Attributes:
        value: Of all trials, fraction; above 0 if the first system is more private.
        low: Lower end of the percentile interval.
        high: Upper end; the systems differ at the level if 0 is outside.
        level: Share of draws inside the interval.
        p_value: Two-sided, of no difference: twice the share of draws on the other side of 0, at
            least 2 / (replicates + 1).
        replicates: Difference of every draw, float64 ``(replicates,)``.
        speaker_count: Speakers drawn from.
    """

    unit: ClassVar[str] = "fraction"
    higher_is: ClassVar[Meaning] = "more private"

    value: float
    low: float
    high: float
    level: float
    p_value: float
    replicates: Float64Array
    speaker_count: int


def eer_interval(
    scores: npt.ArrayLike,
    enrolment_speakers: npt.ArrayLike,
    trial_speakers: npt.ArrayLike,
    *,
    generator: Generator,
    replicates: int = REPLICATES,
    level: float = LEVEL,
) -> EerInterval:
    """Equal error rate with its interval over speakers.

    A trial is a target if its two speakers are the same. Time grows with the product of trials and
    replicates, about 0.2 ms for 10,000 trials.

    Args:
        scores: ``(trials,)``; higher means more similar; compared as float32.
        enrolment_speakers: ``(trials,)``.
        trial_speakers: True speakers of the trial recordings, ``(trials,)``.
        generator: One draw of as many speakers as there are per replicate. Draws that leave no
            target or no non-target trial are made again.
        replicates: Number of draws.
        level: Share of draws inside the interval, in (0, 1).

    Raises:
        ConfigError: Lists of different lengths, a missing class, fewer than `FEWEST_SPEAKERS`
            speakers, a score that is not finite, or options out of range.
    """
    trials = _Trials.of(enrolment_speakers, trial_speakers)
    system = _Ordered.of(scores, trials)
    values = _replicate([system], trials, generator, replicates)[0]
    return _interval(system.rate(trials.once()), values, level, trials.speaker_count)


def eer_difference(
    scores: npt.ArrayLike,
    other_scores: npt.ArrayLike,
    enrolment_speakers: npt.ArrayLike,
    trial_speakers: npt.ArrayLike,
    *,
    generator: Generator,
    replicates: int = REPLICATES,
    level: float = LEVEL,
) -> EerDifference:
    """Paired test of two systems on one trial list: both see the same draws of speakers.

    Scores are not swapped between systems, as a permutation test would, since every attacker has a
    scale of its own.

    Args:
        scores: Of the first system, ``(trials,)``.
        other_scores: Of the second system, for the same trials in the same order.
        enrolment_speakers: ``(trials,)``.
        trial_speakers: True speakers of the trial recordings, ``(trials,)``.
        generator: See `eer_interval`.
        replicates: Number of draws.
        level: Share of draws inside the interval, in (0, 1).

    Raises:
        ConfigError: As in `eer_interval`.
    """
    trials = _Trials.of(enrolment_speakers, trial_speakers)
    systems = [_Ordered.of(scores, trials), _Ordered.of(other_scores, trials)]
    first, second = _replicate(systems, trials, generator, replicates)
    whole = trials.once()
    found = _interval(
        systems[0].rate(whole) - systems[1].rate(whole),
        first - second,
        level,
        trials.speaker_count,
    )
    beyond = min(int((found.replicates <= 0).sum()), int((found.replicates >= 0).sum()))
    p_value = min(1.0, 2 * (beyond + 1) / (replicates + 1))
    return EerDifference(
        found.value,
        found.low,
        found.high,
        level,
        p_value,
        found.replicates,
        found.speaker_count,
    )


def mean_eer_interval(intervals: Sequence[EerInterval]) -> EerInterval:
    """Interval of the plain mean of rates from lists without common speakers.

    So the ranking number of VoicePrivacy 2024 is the mean of the female and the male list.

    Args:
        intervals: Of the lists, drawn one after another from one generator, with the same level and
            number of replicates.

    Raises:
        ConfigError: No interval, or different levels or numbers of replicates.
    """
    if len({(item.level, len(item.replicates)) for item in intervals}) != 1:
        raise ConfigError(
            f"mean interval: {len(intervals)} intervals with different levels or numbers of "
            "replicates; at least one is due, and all must have the same."
        )
    return _interval(
        float(np.mean([item.value for item in intervals])),
        np.mean([item.replicates for item in intervals], axis=0),
        intervals[0].level,
        sum(item.speaker_count for item in intervals),
    )


@dataclass(frozen=True, eq=False)
class _Trials:
    """Who meets whom in a list of trials."""

    enrolment: IntArray
    trial: IntArray
    is_target: BoolArray
    speaker_count: int

    @classmethod
    def of(cls, enrolment_speakers: npt.ArrayLike, trial_speakers: npt.ArrayLike) -> _Trials:
        count = np.size(enrolment_speakers)
        if np.size(trial_speakers) != count:
            raise ConfigError(
                f"trials: {count} enrolment and {np.size(trial_speakers)} trial speakers; one of "
                "each per trial is due."
            )
        both = np.concatenate([np.asarray(enrolment_speakers), np.asarray(trial_speakers)])
        names, numbers = first_seen(both, 2 * count)
        enrolment, trial = numbers[:count], numbers[count:]
        if len(names) < FEWEST_SPEAKERS:
            raise ConfigError(
                f"trials: {len(names)} speakers; an interval over speakers needs at least "
                f"{FEWEST_SPEAKERS}."
            )
        is_target = enrolment == trial
        if is_target.all() or not is_target.any():
            raise ConfigError(
                f"trials: {int(is_target.sum())} of {count} have one speaker; both kinds are due. "
                "Check that both lists name speakers alike."
            )
        return cls(enrolment, trial, is_target, len(names))

    def once(self) -> IntArray:
        """Weights that count every speaker once, int64 ``(speakers,)``."""
        return np.ones(self.speaker_count, np.int64)

    def draw(self, generator: Generator) -> IntArray:
        """How often each speaker is drawn, int64 ``(speakers,)``."""
        while True:
            drawn = draw_indices(generator, self.speaker_count, (self.speaker_count,))
            counts = np.bincount(drawn, minlength=self.speaker_count)
            weights = self.weights(counts)
            if weights[self.is_target].any() and weights[~self.is_target].any():
                return counts

    def weights(self, counts: IntArray) -> IntArray:
        """Weight of each trial, int64 ``(trials,)``."""
        return counts[self.enrolment] * np.where(self.is_target, 1, counts[self.trial])


@dataclass(frozen=True, eq=False)
class _Ordered:
    """A system's trials in the order of their scores, and where ties end."""

    trials: _Trials
    ends: IntArray

    @classmethod
    def of(cls, scores: npt.ArrayLike, trials: _Trials) -> _Ordered:
        values: FloatArray = read_all(scores, "trial").astype(np.float32)
        if len(values) != len(trials.is_target):
            raise ConfigError(
                f"trials: {len(values)} scores for {len(trials.is_target)} trials; one each is due."
            )
        order = np.argsort(values, kind="stable")
        ends = np.flatnonzero(np.append(np.diff(values[order]) > 0, True))
        ordered = _Trials(
            trials.enrolment[order],
            trials.trial[order],
            trials.is_target[order],
            trials.speaker_count,
        )
        return cls(ordered, ends)

    def rate(self, counts: IntArray) -> float:
        """The variant ``nearest`` of the equal error rate with weighted trials."""
        weights = self.trials.weights(counts)
        misses = np.cumsum(np.where(self.trials.is_target, weights, 0))[self.ends]
        rejected = np.cumsum(np.where(self.trials.is_target, 0, weights))[self.ends]
        alarms = rejected[-1] - rejected
        best = int(np.argmin(np.abs(misses * rejected[-1] - alarms * misses[-1])))
        return float((misses[best] / misses[-1] + alarms[best] / rejected[-1]) / 2)


def _replicate(
    systems: list[_Ordered], trials: _Trials, generator: Generator, replicates: int
) -> Float64Array:
    if replicates < 1:
        raise ConfigError(f"replicates: {replicates}; at least 1 is due, 1000 is usual.")
    values = np.empty((len(systems), replicates))
    for index in range(replicates):
        counts = trials.draw(generator)
        values[:, index] = [system.rate(counts) for system in systems]
    return values


def _interval(
    value: float, replicates: Float64Array, level: float, speaker_count: int
) -> EerInterval:
    if not 0 < level < 1:
        raise ConfigError(f"level: {level}; a fraction between 0 and 1 is due, such as 0.95.")
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return EerInterval(value, float(low), float(high), level, replicates, speaker_count)
