"""Checked speaker embeddings, their directions and their cosines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import FloatArray


def normalised_mean(embeddings: npt.ArrayLike) -> FloatArray:
    """Mean ``(D,)`` of L2-normalised embeddings ``(n, D)``, normalised once more.

    So the legally motivated metrics average a conversation. Source: specification sheet of the
    evaluation, section 7.
    """
    mean: FloatArray = unit_length(as_embeddings(embeddings)).mean(axis=0, keepdims=True)
    return np.asarray(unit_length(mean)[0])


def cosine_scores(enrolment: npt.ArrayLike, trials: npt.ArrayLike) -> FloatArray:
    """Cosine of every pair, ``(enrolled, trials)``, in the type of the embeddings.

    Args:
        enrolment: ``(enrolled, D)``.
        trials: ``(trials, D)``.

    Raises:
        ConfigError: Embeddings of different sizes, all zeros, not finite, or none at all.
    """
    rows, columns = as_embeddings(enrolment), as_embeddings(trials)
    if rows.shape[1] != columns.shape[1]:
        raise ConfigError(
            f"embeddings: {rows.shape[1]} and {columns.shape[1]} features; both sides need the "
            "same extractor."
        )
    return unit_length(rows) @ unit_length(columns).T


def unit_length(values: FloatArray) -> FloatArray:
    """Rows ``(n, D)`` scaled to length 1.

    Raises:
        ConfigError: A row is all zeros and has no direction.
    """
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    if not norms.all():
        raise ConfigError(
            f"embeddings: row {int(np.argmin(norms))} is all zeros, which has no direction. Check "
            "the recording it comes from; it may be silent."
        )
    return np.asarray(values / norms, values.dtype)


def as_embeddings(embeddings: npt.ArrayLike) -> FloatArray:
    """Checked embeddings ``(n, D)``, float32 or float64."""
    values = np.asarray(embeddings)
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind != "f":
        raise ConfigError(
            f"embeddings: an array of shape {values.shape} and type {values.dtype}; floating-point "
            "(recordings, features) are due, at least one of each."
        )
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        raise ConfigError(
            f"embeddings: row {int(np.argmin(finite))} is not finite. Leave recordings that the "
            "extractor failed on out, and say how many there were."
        )
    return values.astype(np.float32 if values.dtype.itemsize < 4 else values.dtype, copy=False)
