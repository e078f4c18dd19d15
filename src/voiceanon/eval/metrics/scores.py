"""Scores of one class, read block by block and checked on the way.

Source of the block size: specification sheet of the evaluation, section "Speed".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import FloatArray

BLOCK_SCORES = 4_194_304
"""Scores that are sorted or counted at once: 16 MiB as float32, 32 MiB per float64 intermediate."""


@dataclass(frozen=True, eq=False)
class ScoreBlocks:
    """Scores that are too many to be held at once, such as all pairs of two sets of embeddings.

    Attributes:
        start: Begins a new pass over the same scores; gives arrays ``(block,)`` of any size. It is
            called up to three times per metric.
    """

    start: Callable[[], Iterable[npt.ArrayLike]]


Scores = npt.ArrayLike | ScoreBlocks
"""Scores ``(n,)``, or blocks of them. float16 is read as float32, integers as float64."""


def read_blocks(scores: Scores, name: str) -> Iterator[FloatArray]:
    """Gives float32 or float64 arrays ``(block,)`` of at most `BLOCK_SCORES` finite scores.

    Args:
        scores: Of one class.
        name: Of the class, for messages.

    Raises:
        ConfigError: No score, a score that is not finite, not numbers, or more than one dimension.
    """
    found = 0
    parts = scores.start() if isinstance(scores, ScoreBlocks) else (scores,)
    for part in parts:
        array = as_scores(part, name)
        for begin in range(0, len(array), BLOCK_SCORES):
            block = array[begin : begin + BLOCK_SCORES]
            finite = np.isfinite(block)
            if not finite.all():
                where = int(np.argmin(finite))
                raise ConfigError(
                    f"{name} scores: score {found + where} is {block[where]}; every score must be "
                    "finite. Leave failed trials out, and say how many there were."
                )
            found += len(block)
            yield block
    if not found:
        raise ConfigError(
            f"{name} scores: there are none; at least one target and one non-target are due. Check "
            "the trial list and its labels."
        )


def read_all(scores: Scores, name: str) -> FloatArray:
    """The scores ``(n,)`` in one array, checked as by `read_blocks`."""
    return np.concatenate(list(read_blocks(scores, name)))


def as_scores(scores: npt.ArrayLike, name: str) -> FloatArray:
    """An array ``(n,)`` of float32 or float64, which may still be empty or not finite."""
    array = np.asarray(scores)
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise ConfigError(
            f"{name} scores: an array of shape {array.shape} and type {array.dtype}; real numbers "
            "in one dimension are due. Flatten it, or give the scores of the wanted trials alone."
        )
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    return array.astype(np.float32 if array.dtype.itemsize < 4 else array.dtype, copy=False)
