"""Equal error rate, in the five forms that circulate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.eer_thresholds import (
    kaldi_crossing,
    nearest_crossing,
    speechbrain_crossing,
)
from voiceanon.eval.metrics.kinds import Meaning
from voiceanon.eval.metrics.pav import Ties, pooled_counts
from voiceanon.eval.metrics.roc import ScoreCounts, count_scores, crossing_rate, roc_points
from voiceanon.eval.metrics.scores import Scores

EerVariant = Literal["nearest", "nearest_sb", "kaldi", "rocch", "interp"]

AT_A_THRESHOLD = {
    "nearest": nearest_crossing,
    "nearest_sb": speechbrain_crossing,
    "kaldi": kaldi_crossing,
}
"""Variants that are read off at one threshold; the others are crossings of a curve."""


@dataclass(frozen=True)
class EqualErrorRate:
    """An equal error rate.

    Attributes:
        value: Fraction; 0.5 is ideal. Above 0.5 is a legal result and is not folded.
        variant: The definition used.
        threshold: Score at which both error rates are read off, None for a crossing of curves.
        target_count: Number of target scores.
        nontarget_count: Number of non-target scores.
    """

    unit: ClassVar[str] = "fraction"
    higher_is: ClassVar[Meaning] = "more private"

    value: float
    variant: EerVariant
    threshold: float | None
    target_count: int
    nontarget_count: int

    @property
    def percent(self) -> float:
        """The value in percent, as in the tables of the VoicePrivacy Challenges."""
        return 100 * self.value


def equal_error_rate(
    targets: Scores, nontargets: Scores, *, variant: EerVariant = "nearest", ties: Ties = "pooled"
) -> EqualErrorRate:
    """Error rate of an attacker's speaker verification where both kinds of error are as frequent.

    With misses = share of targets at or below the threshold, and false alarms = share of
    non-targets above it:

    - ``nearest``: the first threshold with the least difference, as whole numbers; the mean of both
      rates. The number of VoicePrivacy 2024 and 2026 and of VoicePAT.
    - ``nearest_sb``: the same with the rounding of SpeechBrain 0.5.16, which takes another one of
      several equally good thresholds (0.35 instead of 0.25 on 5 and 10 scores).
    - ``kaldi``: a multiple of 1 / targets. The number of VoicePrivacy 2020 and 2022. Up to 0.18
      points above ``nearest`` with 448 targets or more.
    - ``rocch``: the convex hull's crossing, never above 0.5. The second number of VoicePrivacy
      2020 and 2022; up to 1 point below ``nearest``.
    - ``interp``: the crossing of the curve of straight lines, as often done with scikit-learn.

    The first three compare scores as float32; the others as they are.

    Args:
        targets: Scores of pairs of the same speaker; higher means more similar.
        nontargets: Scores of pairs of different speakers.
        variant: See above.
        ties: For ``rocch`` alone; see `voiceanon.eval.metrics.pav`.

    Returns:
        0 for separated scores, 0.5 for equal distributions, 1 for separated scores of the wrong
        sign (0.5 for ``rocch``). Scores that are all equal give 0.5, with ``kaldi``
        (T - 1) / T.

    Raises:
        ConfigError: An empty class, a score that is not finite, or an unknown variant.

    Source: specification sheet of the evaluation, section 4.1.
    """
    if variant not in get_args(EerVariant):
        raise ConfigError(
            f"variant: {variant!r}; allowed are {', '.join(get_args(EerVariant))}. Numbers of "
            "VoicePrivacy 2024 are 'nearest'."
        )
    if variant in AT_A_THRESHOLD:
        found = AT_A_THRESHOLD[variant](targets, nontargets)
        return EqualErrorRate(
            found.rate, variant, found.threshold, found.target_count, found.nontarget_count
        )
    counts = count_scores(targets, nontargets)
    rate = crossing_of_curve(counts, hull=variant == "rocch", ties=ties)
    return EqualErrorRate(rate, variant, None, counts.target_count, counts.nontarget_count)


def crossing_of_curve(counts: ScoreCounts, *, hull: bool, ties: Ties = "pooled") -> float:
    """The variants ``rocch`` and ``interp`` of `equal_error_rate`, from counted scores."""
    if hull:
        counts = pooled_counts(counts, ties=ties)
    return crossing_rate(*roc_points(counts))
