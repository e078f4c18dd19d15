"""Simplified PLDA, an alternative to the cosine of two embeddings.

An embedding is ``mean + F h + e`` with a standard normal ``h`` for each speaker and normal ``e`` of
covariance Sigma for each utterance.

Source: specification sheet of the evaluation, section 3.3: SpeechBrain's simplified PLDA as the
VoicePrivacy Challenge 2024 runs it: rank 100, 10 rounds of expectation maximization, no whitening,
no length normalisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError

Matrix = npt.NDArray[np.float64]

RANK = 100
"""Values of ``h``."""

ROUNDS = 10
"""Rounds of expectation maximization."""


@dataclass(frozen=True, eq=False)
class Plda:
    """A fitted model.

    Attributes:
        mean: float64 ``(d,)``.
        loading: F, float64 ``(d, rank)``; only ``F F^T`` is determined.
        noise: Sigma, float64 ``(d, d)``.
    """

    mean: Matrix
    loading: Matrix
    noise: Matrix

    @classmethod
    def fit(
        cls,
        embeddings: npt.ArrayLike,
        speakers: npt.ArrayLike,
        *,
        rank: int = RANK,
        rounds: int = ROUNDS,
    ) -> Plda:
        """Fits a model to embeddings of the attacker's training speech.

        F starts from the largest principal components, of length 1, and Sigma from the whole
        covariance.

        Args:
            embeddings: ``(n, d)``, finite.
            speakers: Name or number of the speaker of each, ``(n,)``.
            rank: 1 to d.
            rounds: Of expectation maximization.

        Raises:
            ConfigError: Shapes or rank do not fit, or there are too few embeddings for a covariance
                that can be inverted.
        """
        data = np.asarray(embeddings, dtype=np.float64)
        _, classes = np.unique(np.asarray(speakers), return_inverse=True)
        _check(data, classes, rank)
        mean = data.mean(axis=0)
        centred = data - mean
        scatter = centred.T @ centred
        noise = scatter / len(data)
        counts = np.bincount(classes)
        sums = np.zeros((len(counts), data.shape[1]))
        np.add.at(sums, classes, centred)
        loading = np.linalg.eigh(noise)[1][:, ::-1][:, :rank]
        for _ in range(rounds):
            loading, noise = _improve(loading, noise, counts, sums, scatter)
        return cls(mean, loading, noise)

    def scores(self, enrolment: npt.ArrayLike, trials: npt.ArrayLike) -> Matrix:
        """Log ratios of the likelihoods of "same speaker" and "different speakers".

        Args:
            enrolment: ``(m, d)``, one row for each speaker, taken for a single utterance.
            trials: ``(k, d)``.

        Returns:
            float64 ``(m, k)``, natural logarithms.
        """
        first = np.asarray(enrolment, dtype=np.float64) - self.mean
        second = np.asarray(trials, dtype=np.float64) - self.mean
        between = self.loading @ self.loading.T
        total = between + self.noise
        inverse = np.linalg.inv(total)
        # Blocks of the inverse of [[total, between], [between, total]].
        diagonal = np.linalg.inv(total - between @ inverse @ between)
        own = inverse - diagonal
        cross = inverse @ between @ diagonal
        joint = np.block([[total, between], [between, total]])
        constant = np.linalg.slogdet(total)[1] - np.linalg.slogdet(joint)[1] / 2
        scores: Matrix = first @ cross @ second.T
        scores += ((first @ own) * first).sum(axis=1)[:, None] / 2
        scores += ((second @ own) * second).sum(axis=1) / 2 + constant
        return scores


def _improve(
    loading: Matrix, noise: Matrix, counts: npt.NDArray[np.int64], sums: Matrix, scatter: Matrix
) -> tuple[Matrix, Matrix]:
    """One round: what ``h`` of each speaker is likely to be, and the model that fits it best."""
    rank = loading.shape[1]
    projection = np.linalg.solve(noise, loading)
    precision = np.eye(rank) + counts[:, None, None] * (loading.T @ projection)
    spread = np.linalg.inv(precision)
    factors = np.einsum("cij,cj->ci", spread, sums @ projection)
    moments = spread + factors[:, :, None] * factors[:, None, :]
    shared = factors.T @ sums
    fitted = np.linalg.solve(np.tensordot(counts.astype(np.float64), moments, axes=1), shared).T
    residual = (scatter - fitted @ shared) / counts.sum()
    # The speakers' factors get covariance 1 again, as the model says.
    scale = np.linalg.cholesky(moments.mean(axis=0))
    return fitted @ scale, (residual + residual.T) / 2


def _check(data: Matrix, classes: npt.NDArray[np.int64], rank: int) -> None:
    if data.ndim != 2 or len(data) != len(classes):
        raise ConfigError(
            f"PLDA: embeddings of shape {data.shape} with {len(classes)} speakers; (n, d) with n "
            "speakers are due."
        )
    count, width = data.shape
    if not 1 <= rank <= width:
        raise ConfigError(f"PLDA: rank {rank} given; 1 to {width}, the width, is allowed.")
    if count <= width or not np.isfinite(data).all():
        raise ConfigError(
            f"PLDA: {count} embeddings of width {width}; more than {width} are due, all finite. "
            "Add training utterances."
        )
    if np.linalg.matrix_rank(data - data.mean(axis=0)) < width:
        raise ConfigError(
            f"PLDA: the embeddings do not vary in all of their {width} dimensions; add training "
            "utterances, or take an attacker of narrower embeddings."
        )
