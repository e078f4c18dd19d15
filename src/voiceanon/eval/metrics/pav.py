"""Calibration by pooling adjacent violators, and the convex hull that it finds.

Sorted by score, the share of targets is made monotone; a share p becomes the natural-logarithm
likelihood ratio logit(p) - ln(targets / non-targets). This is the best that any monotone
calibration can do on these scores.

Source: specification sheet of the evaluation, section 4.2. Against other code: the implementations
around the VoicePrivacy Challenges put the non-targets before the targets inside a tie, so that tied
scores look perfectly ordered (``ties="nontargets_first"``), and add a ramp of at most 1e-6 to keep
the order strict, which is left out here (Cllr_min changes by less than 2e-7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.dependencies import required
from voiceanon.eval.metrics.kinds import BoolArray, Float64Array, FloatArray, IntArray
from voiceanon.eval.metrics.roc import ScoreCounts, count_scores, roc_points
from voiceanon.eval.metrics.scores import Scores, as_scores

Ties = Literal["pooled", "nontargets_first"]
"""What tied scores are: equal, or ordered as if the score knew the answer (published code)."""

RAMP = 1e-6
"""Rise of calibrated values over all scores in the published code (section 4.2)."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Calibrated likelihood ratios per group of scores, ascending.

    Attributes:
        llrs: float64 ``(groups,)``, natural logarithm; -inf where only non-targets are, inf where
            only targets are.
        counts: Of the same groups.
    """

    llrs: Float64Array
    counts: ScoreCounts


def calibrate(counts: ScoreCounts, *, ties: Ties = "pooled", laplace: bool = False) -> Calibration:
    """Calibrates counted scores on themselves.

    Args:
        counts: Of both classes.
        ties: See `Ties`.
        laplace: Whether one pseudo-score of each class is added at both ends (target, non-target,
            scores, target, non-target), which makes all values finite. The prior stays that of the
            real scores.
    """
    counts = _with_ties(counts, ties)
    padding = 2 if laplace else 0
    targets = np.pad(counts.targets, padding)
    nontargets = np.pad(counts.nontargets, padding)
    if laplace:
        targets[[0, -2]] = 1
        nontargets[[1, -1]] = 1
    starts = _block_starts(targets, nontargets)
    with np.errstate(divide="ignore"):
        blocks = np.log(np.add.reduceat(targets, starts[:-1]).astype(np.float64))
        blocks -= np.log(np.add.reduceat(nontargets, starts[:-1]).astype(np.float64))
    blocks -= np.log(counts.target_count / counts.nontarget_count)
    llrs = np.repeat(blocks, np.diff(starts))
    return Calibration(llrs[padding : len(llrs) - padding], counts)


def calibrate_scores(
    scores: npt.ArrayLike,
    is_target: npt.ArrayLike,
    *,
    ties: Ties = "pooled",
    laplace: bool = False,
    ramp: bool = False,
) -> Float64Array:
    """Calibrated likelihood ratio of every score, natural logarithm, in the order given.

    Args:
        scores: ``(n,)``.
        is_target: bool ``(n,)``.
        ties: See `Ties`.
        laplace: See `calibrate`.
        ramp: Whether the i-th value in ascending order is raised by i / n times `RAMP`, as in the
            published code.

    Returns:
        float64 ``(n,)``.

    Raises:
        ConfigError: As in `count_scores`, or a label is missing.
    """
    values = as_scores(scores, "calibrated")
    labels = np.asarray(is_target, np.bool_)
    if values.shape != labels.shape:
        raise ConfigError(
            f"calibrated scores: {values.shape} scores and {labels.shape} labels; one for each is "
            "due."
        )
    # Checks both classes, too.
    calibration = calibrate(
        count_scores(values[labels], values[~labels]), ties=ties, laplace=laplace
    )
    order, groups = _order(values, labels, calibration.counts, ties)
    llrs = np.empty(len(values))
    llrs[order] = calibration.llrs[groups]
    if ramp:
        llrs[order] += np.arange(len(values)) * (RAMP / len(values))
    return llrs


def pooled_counts(counts: ScoreCounts, *, ties: Ties = "pooled") -> ScoreCounts:
    """Counts of the groups that calibration gives one value: the edges of the convex hull."""
    counts = _with_ties(counts, ties)
    starts = _block_starts(counts.targets, counts.nontargets)[:-1]
    return ScoreCounts(
        np.add.reduceat(counts.targets, starts), np.add.reduceat(counts.nontargets, starts)
    )


def hull_vertices(targets: Scores, nontargets: Scores) -> tuple[Float64Array, Float64Array]:
    """Vertices of the convex hull of the curve of errors, with ties pooled.

    Returns:
        Miss and false-alarm rates, float64 ``(vertices,)`` each, from (0, 1) to (1, 0). A point
        on the straight line between its neighbours is no vertex.

    Raises:
        ConfigError: As in `count_scores`.
    """
    misses, false_alarms = roc_points(pooled_counts(count_scores(targets, nontargets)))
    miss_steps, alarm_steps = np.diff(misses), -np.diff(false_alarms)
    turns = miss_steps[1:] * alarm_steps[:-1] != miss_steps[:-1] * alarm_steps[1:]
    kept = np.concatenate([[True], turns, [True]])
    return misses[kept] / misses[-1], false_alarms[kept] / false_alarms[0]


def _block_starts(targets: IntArray, nontargets: IntArray) -> IntArray:
    """First group of each block of the isotonic regression, and the number of groups."""
    optimize = required("scipy.optimize", "calibration")
    sizes = (targets + nontargets).astype(np.float64)
    blocks = optimize.isotonic_regression(targets / sizes, weights=sizes).blocks
    return np.asarray(blocks, np.int64)


def _with_ties(counts: ScoreCounts, ties: Ties) -> ScoreCounts:
    """The groups themselves, or each one as its non-targets and then its targets."""
    if ties not in get_args(Ties):
        raise ConfigError(
            f'ties: {ties!r}; allowed are "pooled" and "nontargets_first". The first is right, the '
            "second that of published code."
        )
    if ties == "pooled":
        return counts
    targets = np.zeros(2 * len(counts.targets), np.int64)
    nontargets = np.zeros_like(targets)
    targets[1::2], nontargets[::2] = counts.targets, counts.nontargets
    kept = (targets + nontargets) > 0
    return ScoreCounts(targets[kept], nontargets[kept])


def _order(
    values: FloatArray, labels: BoolArray, counts: ScoreCounts, ties: Ties
) -> tuple[IntArray, IntArray]:
    """Order of the scores by rising value, and the group of each score in that order."""
    # Inside a tie the published code has the non-targets first; else the order has no effect.
    order = np.lexsort((labels if ties == "nontargets_first" else ~labels, values))
    return order, np.repeat(np.arange(len(counts.targets)), counts.targets + counts.nontargets)
