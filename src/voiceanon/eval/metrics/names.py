"""Names of speakers, utterances and classes, turned into numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import IntArray


def first_seen(names: npt.ArrayLike, expected: int) -> tuple[list[str], IntArray]:
    """Different names in the order of first appearance, and the number of each entry's name.

    Raises:
        ConfigError: Not as many names as expected, or a text in place of a list of texts.
    """
    values = np.asarray(names).astype(str)
    if values.shape != (expected,):
        raise ConfigError(
            f"names: shape {values.shape}; a list of {expected} is due, one for each recording."
        )
    unique, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return [str(name) for name in unique[order]], places[inverse]
