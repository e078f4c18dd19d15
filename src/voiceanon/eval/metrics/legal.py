"""Linkability in the sense of data protection law (Vauquier et al., Interspeech 2025).

The attacker holds one voice of a test speaker and a set of enrolled speakers, and takes the one
that is most similar. Not to be confused with `voiceanon.eval.metrics.linkability.linkability_dsys`.

Source: specification sheet of the evaluation, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.dependencies import required
from voiceanon.eval.metrics.kinds import Float64Array, IntArray, Meaning
from voiceanon.eval.metrics.scores import BLOCK_SCORES


@dataclass(frozen=True, eq=False)
class LegalLinkability:
    """Probability that the attacker takes the right one of so many enrolled speakers.

    Attributes:
        populations: Enrolled speakers in the set, the true one included, int64 ``(sizes,)``.
        values: Probability for each size, float64 ``(sizes,)``.
        enrolled_count: Speakers that sets are drawn from.
        test_count: Test items.
    """

    unit: ClassVar[str] = "probability"
    higher_is: ClassVar[Meaning] = "less private"

    populations: IntArray
    values: Float64Array
    enrolled_count: int
    test_count: int

    @property
    def chance(self) -> Float64Array:
        """Probability of an attacker that guesses, float64 ``(sizes,)``."""
        return 1 / self.populations


def legal_linkability(
    better_counts: npt.ArrayLike, enrolled_count: int, populations: npt.ArrayLike
) -> LegalLinkability:
    """Expected success over all sets of given sizes, in closed form.

    A test item with m better speakers among n enrolled ones is linked in a share
    C(n - 1 - m, N - 1) / C(n - 1, N - 1) of the sets of N that hold the true speaker; the value is
    the mean over items. The paper draws 5 sets at random, which adds noise alone.

    The lists of the VoicePrivacy Challenges have 29 to 40 speakers; add other enrolled speakers
    (anonymized train-clean-360) for larger sets, and report N with the value.

    Args:
        better_counts: By test item, `better_candidates` of an enrolled x test matrix, in
            0 ... n - 1.
        enrolled_count: n.
        populations: Sizes N of sets, each in 1 ... n.

    Raises:
        ConfigError: No test item, counts or sizes out of range.
    """
    better = _whole_numbers(better_counts, "better speakers", 0, enrolled_count - 1)
    sizes = _whole_numbers(populations, "populations", 1, enrolled_count)
    items_by_count = np.bincount(better)
    counts = np.flatnonzero(items_by_count)
    shares = _shares(counts, sizes[:, None], enrolled_count)
    values = shares @ items_by_count[counts] / len(better)
    return LegalLinkability(sizes, values, enrolled_count, len(better))


def better_candidates(scores: npt.ArrayLike, true_rows: npt.ArrayLike) -> IntArray:
    """How many candidates score strictly above the true one; ties favour the attacker.

    Args:
        scores: ``(candidates, queries)``; higher means more similar.
        true_rows: Row of the true candidate of each query, ``(queries,)``.

    Returns:
        int64 ``(queries,)``.

    Raises:
        ConfigError: Shapes that do not fit, a row out of range, or a score that is not finite.
    """
    values = np.asarray(scores)
    rows = _whole_numbers(true_rows, "true rows", 0, len(values) - 1 if values.ndim else 0)
    if values.ndim != 2 or values.shape[1] != len(rows):
        raise ConfigError(
            f"scores: shape {values.shape} for {len(rows)} queries; (candidates, queries) are due."
        )
    true_scores = values[rows, np.arange(len(rows))]
    better = np.zeros(len(rows), np.int64)
    at_once = max(1, BLOCK_SCORES // len(rows))
    for begin in range(0, len(values), at_once):
        block = values[begin : begin + at_once]
        if not np.isfinite(block).all():
            raise ConfigError("scores: one is not finite; all of them must be.")
        better += np.count_nonzero(block > true_scores, axis=0)
    return better


def _whole_numbers(values: npt.ArrayLike, name: str, low: int, high: int) -> IntArray:
    array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        raise ConfigError(
            f"{name}: shape {array.shape} and type {array.dtype}; whole numbers in one dimension "
            "are due, at least one."
        )
    if array.min() < low or array.max() > high:
        raise ConfigError(
            f"{name}: from {array.min()} to {array.max()}; allowed is {low} to {high}."
        )
    return array.astype(np.int64)


def _shares(better: IntArray, sizes: IntArray, enrolled_count: int) -> Float64Array:
    """Share of sets of each size, ``(sizes, 1)``, without any of the better speakers."""
    gammaln = required("scipy.special", "legal linkability").gammaln
    spare = enrolled_count - better - sizes
    possible = spare >= 0
    logarithm = (
        gammaln(enrolled_count - better)
        - gammaln(np.where(possible, spare, 0) + 1)
        - gammaln(enrolled_count)
        + gammaln(enrolled_count - sizes + 1)
    )
    return np.asarray(np.where(possible, np.exp(logarithm), 0), np.float64)
