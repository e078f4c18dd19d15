"""ZEBRA: expected and worst-case disclosure of the strength of evidence, and the curve behind it.

Source: specification sheet of the evaluation, section 4.5 (Nautsch et al., Interspeech 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.cllr import softplus, weighted_mean
from voiceanon.eval.metrics.kinds import Float64Array, Meaning
from voiceanon.eval.metrics.pav import Ties, calibrate
from voiceanon.eval.metrics.roc import ScoreCounts, count_scores
from voiceanon.eval.metrics.scores import Scores, read_blocks

ZebraCategory = Literal["0", "A", "B", "C", "D", "E", "F"]

CATEGORIES: tuple[ZebraCategory, ...] = get_args(ZebraCategory)

CATEGORY_LIMITS = (2.2e-16, 1.0, 2.0, 4.0, 5.0, 6.0)
"""Highest worst case, log10, of the categories 0 and A to E; F is above. The first is the rounding
error of 1, up to which the published method means exactly zero."""

MAXIMUM_BITS = 1 / (2 * np.log(2))
"""Expected disclosure of separated scores."""

SERIES_BELOW = 1e-3
"""Absolute value below which the expected disclosure of one ratio is taken from its series, since
the closed form cancels (relative errors of order 1 near 2e-6)."""

PRIOR_LOG_ODDS = tuple(np.linspace(-10, 10, 201))
"""Grid of the published curve."""


@dataclass(frozen=True)
class Zebra:
    """Disclosure of evidence about who speaks.

    Attributes:
        expected: Mean over trials, priors and both classes, in bit, from 0 to `MAXIMUM_BITS`.
        worst_case: Largest absolute log10 likelihood ratio of a trial. It grows with the number of
            trials, so compare it between equal trial lists alone.
        category: Of the worst case, from 0 and A (least) to F (most).
        target_count: Number of target scores.
        nontarget_count: Number of non-target scores.
    """

    unit: ClassVar[str] = "bit; log10 of a likelihood ratio"
    higher_is: ClassVar[Meaning] = "less private"

    expected: float
    worst_case: float
    category: ZebraCategory
    target_count: int
    nontarget_count: int

    def __str__(self) -> str:
        """As printed by the method's authors, with the counts that the worst case depends on."""
        expected = f"{self.expected:.3f}" if self.expected >= 5e-4 else f"{self.expected:.0e}"
        return (
            f"({expected} bit, {self.worst_case:.3f}, {self.category}; "
            f"{self.target_count} target and {self.nontarget_count} non-target trials)"
        )


@dataclass(frozen=True, eq=False)
class EceCurve:
    """Empirical cross-entropy over the prior.

    Attributes:
        prior_log_odds: Natural logarithm, float64 ``(points,)``.
        actual: Of the scores as natural-logarithm likelihood ratios, bit, float64 ``(points,)``.
        minimum: After the best calibration; where it is far below ``without_scores``, the scores
            tell who speaks.
        without_scores: Entropy of the prior alone.
    """

    unit: ClassVar[str] = "bit"
    higher_is: ClassVar[Meaning] = "more private"

    prior_log_odds: Float64Array
    actual: Float64Array
    minimum: Float64Array
    without_scores: Float64Array


def zebra(targets: Scores, nontargets: Scores, *, ties: Ties = "pooled") -> Zebra:
    """Expected disclosure D_ECE, worst case and its category.

    D_ECE = [mean Z(x) over targets + mean Z(-x) over non-targets] / ln 2, with x calibrated
    likelihood ratios and Z as in `expected_gain`. The worst case is the largest absolute
    calibrated ratio with Laplace's pseudo-scores, over ln 10. The prior term of that calibration
    counts the real scores alone, so that constant scores give a worst case of nearly 0 (category A)
    unless both classes are as large.

    Args:
        targets: Scores of pairs of the same speaker; higher means more similar.
        nontargets: Scores of pairs of different speakers.
        ties: For the worst case. ``nontargets_first`` is the published code's; its expected
            disclosure pools ties, too. It fails on a worst case of 0, where this gives category 0.

    Raises:
        ConfigError: As in `count_scores`.
    """
    counts = count_scores(targets, nontargets)
    worst = float(np.abs(calibrate(counts, ties=ties, laplace=True).llrs).max() / np.log(10))
    return Zebra(
        expected=expected_disclosure(counts),
        worst_case=worst,
        category=zebra_category(worst),
        target_count=counts.target_count,
        nontarget_count=counts.nontarget_count,
    )


def expected_disclosure(counts: ScoreCounts) -> float:
    """D_ECE in bit, from counted scores; ties are pooled."""
    calibration = calibrate(counts)
    gain = weighted_mean(expected_gain(calibration.llrs), counts.targets)
    gain += weighted_mean(expected_gain(-calibration.llrs), counts.nontargets)
    return float(gain / np.log(2))


def expected_gain(llrs: Float64Array) -> Float64Array:
    """Gain of one trial over all priors, Z(a) = 1/4 + (a - expm1(a)) / (2 expm1(a)^2), in nat.

    Z(inf) is 1/4, Z(0) is 0. Towards -inf it falls without bound.

    Args:
        llrs: Natural logarithm of likelihood ratios, float64 of any shape; positive if they point
            to the truth.
    """
    small = np.abs(llrs) < SERIES_BELOW
    series = np.where(small, llrs, 0) / 6 - np.where(small, llrs, 0) ** 2 / 24
    safe = np.where(small, 1.0, llrs)
    with np.errstate(over="ignore", invalid="ignore"):
        grown = np.expm1(safe)
        # (a - e) / e^2 as a difference of quotients, since e^2 overflows long before e does.
        closed = 0.25 + (safe / grown - 1) / (2 * grown)
    return np.where(small, series, np.where(np.isinf(grown), 0.25, closed))


def zebra_category(worst_case: float) -> ZebraCategory:
    """Category of a worst case in log10: 0 for none, A up to 1, B 2, C 4, D 5, E 6, F above.

    Raises:
        ConfigError: A worst case below 0, or none.
    """
    if not worst_case >= 0:
        raise ConfigError(f"worst case: {worst_case}; an absolute value, 0 or more, is due.")
    return CATEGORIES[int(np.searchsorted(CATEGORY_LIMITS, worst_case))]


def ece_curve(
    targets: Scores, nontargets: Scores, *, prior_log_odds: npt.ArrayLike = PRIOR_LOG_ODDS
) -> EceCurve:
    """Empirical cross-entropy at given priors.

    ECE(p) = [s(p) mean softplus(-x - p) over targets + s(-p) mean softplus(x + p) over non-targets]
    / ln 2, with s the logistic function. ECE(0) is Cllr (`actual`) and Cllr_min (`minimum`). Time
    grows with the product of scores and priors.

    Args:
        targets: Scores of pairs of the same speaker; higher means more similar.
        nontargets: Scores of pairs of different speakers.
        prior_log_odds: Natural logarithm of the odds that a trial is a target, ``(points,)``.

    Raises:
        ConfigError: As in `count_scores`.
    """
    priors = np.asarray(prior_log_odds, np.float64)
    calibration = calibrate(count_scores(targets, nontargets))
    llrs, counts = calibration.llrs, calibration.counts
    minimum = [
        (
            weighted_mean(softplus(-llrs - prior), counts.targets),
            weighted_mean(softplus(llrs + prior), counts.nontargets),
        )
        for prior in priors
    ]
    means = np.array([*zip(*minimum, strict=True)])
    return EceCurve(
        prior_log_odds=priors,
        actual=_weigh(
            _mean_costs(targets, "target", priors, -1),
            _mean_costs(nontargets, "non-target", priors, 1),
            priors,
        ),
        minimum=_weigh(means[0], means[1], priors),
        without_scores=_weigh(softplus(-priors), softplus(priors), priors),
    )


def _mean_costs(scores: Scores, name: str, priors: Float64Array, sign: int) -> Float64Array:
    """Mean softplus of the signed posterior log-odds at each prior, float64 ``(points,)``."""
    totals, count = np.zeros(len(priors)), 0
    for block in read_blocks(scores, name):
        for index, prior in enumerate(priors):
            totals[index] += softplus(sign * (block.astype(np.float64) + prior)).sum()
        count += len(block)
    return totals / count


def _weigh(targets: Float64Array, nontargets: Float64Array, priors: Float64Array) -> Float64Array:
    """Mean of both classes' costs under each prior, from nat to bit."""
    share = np.exp(-softplus(-priors))
    return np.asarray((share * targets + (1 - share) * nontargets) / np.log(2), np.float64)
