"""Voice similarity matrices, de-identification (DeID) and gain of voice distinctiveness (G_VD).

Entry (i, j) is the logistic function of the mean score between recordings of speaker i on one side
and of speaker j on the other, pairs of the same utterance left out. How far the diagonal stands out
tells how distinct voices are.

Source: specification sheet of the evaluation, section 4.6 (Noe et al., 2020 and 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import BoolArray, Float64Array, FloatArray, IntArray, Meaning
from voiceanon.eval.metrics.names import first_seen
from voiceanon.eval.metrics.pav import calibrate_scores

SimilarityMode = Literal["calibrated", "vpc2022", "voicepat", "voicepat_calibrated"]


@dataclass(frozen=True)
class _Recipe:
    """What the modes differ in: calibrated or raw scores, pairs in use, entries in use."""

    calibration: Literal["none", "ties_pooled", "published"]
    triangle: bool
    mirrored: bool


RECIPES: dict[str, _Recipe] = {
    "calibrated": _Recipe("ties_pooled", triangle=False, mirrored=False),
    "vpc2022": _Recipe("published", triangle=True, mirrored=True),
    "voicepat": _Recipe("none", triangle=False, mirrored=True),
    "voicepat_calibrated": _Recipe("published", triangle=False, mirrored=True),
}


@dataclass(frozen=True, eq=False)
class SimilarityMatrix:
    """Similarity of voices.

    Attributes:
        values: float64 ``(speakers, speakers)``, in (0, 1), or with raw cosines in 0.27 ... 0.73.
        speakers: Of rows and columns.
        mode: How it was made.
    """

    unit: ClassVar[str] = "none, from 0 to 1"
    higher_is: ClassVar[Meaning] = "no order"

    values: Float64Array
    speakers: tuple[str, ...]
    mode: SimilarityMode

    @property
    def diagonal_dominance(self) -> float:
        """D_diag: absolute difference of the means on and off the diagonal."""
        count = len(self.values)
        on = float(np.trace(self.values))
        off = float(self.values.sum()) - on
        return abs(on / count - off / (count * (count - 1)))


@dataclass(frozen=True)
class VoiceDistinctiveness:
    """How voices differ after anonymization.

    Attributes:
        deid: 1 - D_diag(original-anonymized) / D_diag(original): 1 is unlinkable, 0 is unchanged,
            below 0 is possible. NaN if the original voices do not differ. Higher is more private.
        gain_db: 10 log10(D_diag(anonymized) / D_diag(original)) in dB: 0 is as distinct as
            original, -inf is one voice for all. Higher is more useful.
    """

    unit: ClassVar[str] = "deid: none; gain_db: dB"
    higher_is: ClassVar[Meaning] = "more useful"

    deid: float
    gain_db: float


def similarity_matrix(
    scores: npt.ArrayLike,
    row_speakers: npt.ArrayLike,
    row_utterances: npt.ArrayLike,
    column_speakers: npt.ArrayLike | None = None,
    column_utterances: npt.ArrayLike | None = None,
    *,
    mode: SimilarityMode = "calibrated",
) -> SimilarityMatrix:
    """Similarity matrix from the scores between all recordings of two sides.

    - ``calibrated``: all pairs of different utterances; scores calibrated on themselves with
      Laplace's pseudo-scores and ties pooled.
    - ``vpc2022``: as in VoicePrivacy 2020 and 2022. Pairs with a column at or after the row alone;
      calibrated with non-targets first in ties and the ramp of the published code; entries on and
      above the diagonal, mirrored. Both sides must list the same speakers, utterances grouped by
      speaker, or directions mix.
    - ``voicepat``: as VoicePAT computes it: all pairs, raw scores, mirrored. Its code calibrates
      and then averages the raw scores.
    - ``voicepat_calibrated``: as VoicePAT means it.

    Args:
        scores: ``(rows, columns)``; higher means more similar.
        row_speakers: ``(rows,)``, each with at least one pair of different utterances.
        row_utterances: ``(rows,)``; an utterance and its anonymized version bear one name.
        column_speakers: ``(columns,)``; those of the rows if not given.
        column_utterances: ``(columns,)``.
        mode: See above.

    Returns:
        A matrix with speakers in the order of the rows.

    Raises:
        ConfigError: Fewer than two speakers, different speakers on both sides, a pair of speakers
            without a pair of utterances, scores that are not finite or lists that do not fit.
    """
    if mode not in RECIPES:
        raise ConfigError(f"mode: {mode!r}; allowed are {', '.join(get_args(SimilarityMode))}.")
    recipe = RECIPES[mode]
    values = _checked(scores)
    speakers, rows = first_seen(row_speakers, values.shape[0])
    columns = rows
    if column_speakers is not None:
        columns = _same_speakers(speakers, *first_seen(column_speakers, values.shape[1]))
    if column_utterances is None:
        column_utterances = row_utterances
    used = _different(row_utterances, column_utterances, values.shape)
    if recipe.triangle:
        used &= np.triu(np.ones(values.shape, np.bool_))
    if len(speakers) < 2:
        raise ConfigError("similarity: one speaker; at least two are due.")
    means = _block_means(_calibrated(values, used, rows, columns, recipe), used, rows, columns)
    if recipe.mirrored:
        means = np.triu(means) + np.triu(means, 1).T
    if np.isnan(means).any():
        i, j = (int(place[0]) for place in np.nonzero(np.isnan(means)))
        raise ConfigError(
            f"similarity: speakers {speakers[i]} and {speakers[j]} have no pair of different "
            "utterances. Every speaker needs two, and vpc2022 needs them grouped by speaker."
        )
    return SimilarityMatrix(_logistic(means), tuple(speakers), mode)


def voice_distinctiveness(
    original: SimilarityMatrix, cross: SimilarityMatrix, anonymized: SimilarityMatrix
) -> VoiceDistinctiveness:
    """DeID and G_VD from three matrices.

    Args:
        original: Original against original.
        cross: Original against anonymized.
        anonymized: Anonymized against anonymized.

    Raises:
        ConfigError: Matrices of different speakers or modes.
    """
    matrices = (original, cross, anonymized)
    if len({(frozenset(matrix.speakers), matrix.mode) for matrix in matrices}) != 1:
        raise ConfigError(
            "similarity: the three matrices have different speakers or modes; they must have the "
            "same."
        )
    base = original.diagonal_dominance
    if base == 0:
        return VoiceDistinctiveness(float("nan"), float("nan"))
    with np.errstate(divide="ignore"):
        gain = 10 * np.log10(anonymized.diagonal_dominance / base)
    return VoiceDistinctiveness(1 - cross.diagonal_dominance / base, float(gain))


def _checked(scores: npt.ArrayLike) -> FloatArray:
    values = np.asarray(scores)
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise ConfigError(
            f"similarity: scores of shape {values.shape} and type {values.dtype}; numbers "
            "(rows, columns) are due."
        )
    if not np.isfinite(values).all():
        raise ConfigError("similarity: a score is not finite; all of them must be.")
    return values.astype(np.float64)


def _same_speakers(speakers: list[str], others: list[str], columns: IntArray) -> IntArray:
    """Numbers of the columns' speakers in the order of the rows' speakers."""
    if set(speakers) != set(others):
        odd = sorted(set(speakers) ^ set(others))[:3]
        raise ConfigError(
            f"similarity: speakers such as {', '.join(odd)} are on one side alone; both sides need "
            "the same."
        )
    return np.array([speakers.index(name) for name in others])[columns]


def _different(
    row_utterances: npt.ArrayLike, column_utterances: npt.ArrayLike, shape: tuple[int, ...]
) -> BoolArray:
    names = [np.asarray(side).astype(str) for side in (row_utterances, column_utterances)]
    if names[0].shape != shape[:1] or names[1].shape != shape[1:]:
        raise ConfigError(
            f"similarity: {names[0].shape} and {names[1].shape} utterances for scores of shape "
            f"{shape}; one for each row and column is due."
        )
    return np.asarray(names[0][:, None] != names[1], np.bool_)


def _calibrated(
    values: FloatArray, used: BoolArray, rows: IntArray, columns: IntArray, recipe: _Recipe
) -> Float64Array:
    """Scores to average; those of pairs that are not in use are 0."""
    result = np.zeros(values.shape)
    published = recipe.calibration == "published"
    if recipe.calibration == "none":
        result[used] = values[used]
    else:
        result[used] = calibrate_scores(
            values[used],
            (rows[:, None] == columns)[used],
            ties="nontargets_first" if published else "pooled",
            laplace=True,
            ramp=published,
        )
    return result


def _block_means(
    scores: Float64Array, used: BoolArray, rows: IntArray, columns: IntArray
) -> Float64Array:
    """Mean over the pairs in use of each pair of speakers; NaN where there is none."""
    count = int(rows.max()) + 1
    left = (np.arange(count)[:, None] == rows).astype(np.float64)
    right = (columns[:, None] == np.arange(count)).astype(np.float64)
    pairs = left @ used @ right
    with np.errstate(invalid="ignore"):
        return np.where(pairs > 0, left @ scores @ right / pairs, np.nan)


def _logistic(values: Float64Array) -> Float64Array:
    return np.asarray(0.5 * (1 + np.tanh(values / 2)), np.float64)
