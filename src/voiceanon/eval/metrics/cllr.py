"""Cost of log-likelihood ratios, as given and after the best calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceanon.eval.metrics.kinds import Float64Array, FloatArray, IntArray, Meaning
from voiceanon.eval.metrics.pav import Calibration, Ties, calibrate
from voiceanon.eval.metrics.roc import count_scores
from voiceanon.eval.metrics.scores import Scores, read_blocks


@dataclass(frozen=True)
class LikelihoodRatioCost:
    """Costs in bit.

    Attributes:
        minimum: Cllr_min, in [0, 1]: 0 is fully linkable, 1 is no information.
        actual: Cllr of the scores as natural-logarithm likelihood ratios. Means nothing if they are
            none, as cosines are.
        target_count: Number of target scores.
        nontarget_count: Number of non-target scores.
    """

    unit: ClassVar[str] = "bit"
    higher_is: ClassVar[Meaning] = "more private"

    minimum: float
    actual: float
    target_count: int
    nontarget_count: int

    @property
    def calibration_loss(self) -> float:
        """What the actual cost is above the minimum, at least 0 but for rounding."""
        return self.actual - self.minimum


def likelihood_ratio_cost(
    targets: Scores, nontargets: Scores, *, ties: Ties = "pooled"
) -> LikelihoodRatioCost:
    """Cllr and Cllr_min.

    Cllr = [mean softplus(-s) over targets + mean softplus(s) over non-targets] / (2 ln 2), with
    scores s taken as natural-logarithm likelihood ratios. Cllr_min is the same after
    `voiceanon.eval.metrics.pav.calibrate`; only Cllr_min describes privacy.

    Args:
        targets: Scores of pairs of the same speaker; higher means more similar.
        nontargets: Scores of pairs of different speakers.
        ties: See `voiceanon.eval.metrics.pav`. With ``nontargets_first`` Cllr_min is that of the
            VoicePrivacy Challenges, too low as soon as scores of both classes are equal: 0 instead
            of 1 for constant scores.

    Returns:
        Costs; large scores do not overflow, where published code returns infinity below -745.

    Raises:
        ConfigError: As in `count_scores`.

    Source: specification sheet of the evaluation, section 4.3.
    """
    counts = count_scores(targets, nontargets)
    actual = _mean_softplus(targets, "target", -1) + _mean_softplus(nontargets, "non-target", 1)
    return LikelihoodRatioCost(
        minimum=minimum_cost(calibrate(counts, ties=ties)),
        actual=float(actual / (2 * np.log(2))),
        target_count=counts.target_count,
        nontarget_count=counts.nontarget_count,
    )


def minimum_cost(calibration: Calibration) -> float:
    """Cllr_min in bit, of scores that are calibrated already."""
    llrs, counts = calibration.llrs, calibration.counts
    targets = weighted_mean(softplus(-llrs), counts.targets)
    nontargets = weighted_mean(softplus(llrs), counts.nontargets)
    return float((targets + nontargets) / (2 * np.log(2)))


def softplus(values: FloatArray) -> Float64Array:
    """ln(1 + exp(x)) in float64, without overflow; 0 at -inf, inf at inf."""
    values = values.astype(np.float64)
    return np.maximum(values, 0) + np.log1p(np.exp(-np.abs(values)))


def weighted_mean(values: Float64Array, counts: IntArray) -> float:
    """Mean over scores of a value per group; a value without a score may be infinite."""
    used = counts > 0
    return float(np.dot(values[used], counts[used].astype(np.float64)) / counts.sum())


def _mean_softplus(scores: Scores, name: str, sign: int) -> float:
    total, count = 0.0, 0
    for block in read_blocks(scores, name):
        total += float(softplus(sign * block).sum())
        count += len(block)
    return total / count
