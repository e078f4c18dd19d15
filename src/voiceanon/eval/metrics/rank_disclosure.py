"""Similarity rank disclosure (Baeckstroem et al., arXiv 2508.05250; Chandra et al., 2605.07291).

Every query ranks the templates of N speakers; how far the distribution of the true speaker's rank
is from uniform tells what the voice discloses.

Source: specification sheet of the evaluation, section 8. The published fit criterion and tie rule
are not known; maximum likelihood and 1 + the number of strictly greater scores are used. Published
values are cut, not rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.dependencies import required
from voiceanon.eval.metrics.kinds import Float64Array, IntArray, Meaning

RankModel = Literal["empirical", "beta_binomial"]

LOG_PARAMETER_LIMIT = 12.0
"""Largest absolute natural logarithm of a fitted parameter: e^12 is a point mass, or a binomial
distribution, to all digits shown. Without it, queries that all have one rank have no fit."""

FIT_TOLERANCE = 1e-9
"""Of the logarithms of the parameters."""


@dataclass(frozen=True, eq=False)
class RankDisclosure:
    """What ranks disclose, in bit.

    Attributes:
        mean: log2 N minus the entropy of the rank, from 0 to log2 N.
        worst_case: log2 N + log2 P(r) of the most frequent rank r.
        worst_rank: That rank, from 1.
        identification_rate: P(1), fraction.
        rank_spread: Share of ranks that are more frequent than 1 / N, fraction.
        probabilities: P(r) for r = 1 ... N, float64 ``(N,)``.
        model: Where they come from.
        parameters: Alpha and beta of the beta-binomial distribution of r - 1 on N - 1 trials, NaN
            for the empirical one.
    """

    unit: ClassVar[str] = "bit"
    higher_is: ClassVar[Meaning] = "less private"

    mean: float
    worst_case: float
    worst_rank: int
    identification_rate: float
    rank_spread: float
    probabilities: Float64Array
    model: RankModel
    parameters: tuple[float, float]


def rank_disclosure(
    ranks: npt.ArrayLike, candidate_count: int, *, model: RankModel = "empirical"
) -> RankDisclosure:
    """Disclosure of the ranks of the true speakers.

    Args:
        ranks: Of each query, 1 + `voiceanon.eval.metrics.legal.better_candidates`, ``(queries,)``.
        candidate_count: N, at least 2.
        model: ``empirical`` takes relative frequencies, whose mean disclosure is too high with few
            queries; ``beta_binomial`` fits a distribution by maximum likelihood.

    Raises:
        ConfigError: No rank, one out of range, or an unknown model.
    """
    if model not in get_args(RankModel):
        raise ConfigError(f"model: {model!r}; allowed are {', '.join(get_args(RankModel))}.")
    histogram = _histogram(ranks, candidate_count)
    if model == "empirical":
        return disclosure_of(histogram / histogram.sum())
    alpha, beta = _fit(histogram)
    return disclosure_of_beta_binomial(alpha, beta, candidate_count)


def disclosure_of(probabilities: npt.ArrayLike) -> RankDisclosure:
    """Disclosure of a distribution of ranks.

    Args:
        probabilities: Of ranks 1 ... N, ``(N,)``, at least 0, with sum 1.

    Raises:
        ConfigError: No distribution.
    """
    values = np.asarray(probabilities, np.float64)
    if values.ndim != 1 or len(values) < 2 or not (values >= 0).all():
        raise ConfigError(
            f"probabilities: shape {values.shape}; at least two of 0 or more are due."
        )
    if abs(values.sum() - 1) > 1e-6:
        raise ConfigError(f"probabilities: their sum is {values.sum()}; 1 is due.")
    positive = values[values > 0]
    worst = int(values.argmax())
    return RankDisclosure(
        mean=float(np.log2(len(values)) + positive @ np.log2(positive)),
        worst_case=float(np.log2(len(values) * values[worst])),
        worst_rank=worst + 1,
        identification_rate=float(values[0]),
        rank_spread=float((values > 1 / len(values)).mean()),
        probabilities=values,
        model="empirical",
        parameters=(float("nan"), float("nan")),
    )


def disclosure_of_beta_binomial(alpha: float, beta: float, candidate_count: int) -> RankDisclosure:
    """Disclosure of ranks whose r - 1 is beta-binomial on N - 1 trials.

    Args:
        alpha: Above 0.
        beta: Above 0.
        candidate_count: N, at least 2.
    """
    if not (alpha > 0 and beta > 0):
        raise ConfigError(f"alpha: {alpha}, beta: {beta}; both must be above 0.")
    logarithms = _log_probabilities(alpha, beta, candidate_count)
    found = disclosure_of(np.exp(logarithms))
    return replace(found, model="beta_binomial", parameters=(alpha, beta))


def _histogram(ranks: npt.ArrayLike, candidate_count: int) -> IntArray:
    values = np.asarray(ranks)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iu":
        raise ConfigError(
            f"ranks: shape {values.shape} and type {values.dtype}; whole numbers in one dimension "
            "are due, at least one."
        )
    if candidate_count < 2 or values.min() < 1 or values.max() > candidate_count:
        raise ConfigError(
            f"ranks: from {values.min()} to {values.max()} among {candidate_count} candidates; "
            "ranks from 1 to the number of candidates are due, and at least two candidates."
        )
    return np.bincount(values - 1, minlength=candidate_count)


def _log_probabilities(alpha: float, beta: float, candidate_count: int) -> Float64Array:
    special = required("scipy.special", "rank disclosure")
    gammaln, betaln = special.gammaln, special.betaln
    trials = candidate_count - 1
    hits = np.arange(candidate_count)
    choices = gammaln(trials + 1) - gammaln(hits + 1) - gammaln(trials - hits + 1)
    return np.asarray(
        choices + betaln(hits + alpha, trials - hits + beta) - betaln(alpha, beta), np.float64
    )


def _fit(histogram: IntArray) -> tuple[float, float]:
    """Alpha and beta of maximum likelihood."""

    def cost(logarithms: Float64Array) -> float:
        alpha, beta = np.exp(logarithms)
        return -float(histogram @ _log_probabilities(alpha, beta, len(histogram)))

    found = required("scipy.optimize", "rank disclosure").minimize(
        cost,
        np.zeros(2),
        method="Nelder-Mead",
        bounds=[(-LOG_PARAMETER_LIMIT, LOG_PARAMETER_LIMIT)] * 2,
        options={"xatol": FIT_TOLERANCE, "fatol": 0.0, "maxiter": 1000},
    )
    alpha, beta = np.exp(found.x)
    return float(alpha), float(beta)
