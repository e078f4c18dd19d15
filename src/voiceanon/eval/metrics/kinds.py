"""What every result has in common: a unit, and what a higher value means.

Rates and probabilities are fractions in [0, 1], never percent; results that are printed in percent
have a property `percent`. A higher score always means more similar speakers.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]
"""float32 or float64."""

Float64Array = npt.NDArray[np.float64]

IntArray = npt.NDArray[np.int64]

BoolArray = npt.NDArray[np.bool_]

Generator = np.random.Generator | np.random.RandomState
"""Where random draws come from. `RandomState` is for numbers that were published with it."""

Meaning = Literal[
    "more private", "less private", "more useful", "less useful", "less fair", "no order"
]
"""What a higher value of a metric means to the user of an anonymization system."""


class MetricWarning(UserWarning):
    """A metric says less than it seems to: too few scores, or recordings that do not fit."""


def draw_indices(generator: Generator, count: int, shape: tuple[int, ...]) -> IntArray:
    """Draws with replacement from 0 ... ``count`` - 1.

    Args:
        generator: Advanced by one draw per number.
        count: Number of things to draw from, at least 1.
        shape: Of the result.
    """
    if isinstance(generator, np.random.RandomState):
        return np.asarray(generator.randint(0, count, shape), np.int64)
    return generator.integers(0, count, shape)
