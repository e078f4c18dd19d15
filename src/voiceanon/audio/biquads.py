"""Second-order filter sections that carry their state from block to block.

Compiled, because a recursion over samples is too slow otherwise; import it where it is used, since
numba costs as much to import as all the rest but torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])

_REST = 1e-30
"""State below this is set to zero now and then: after a sound, states fall to the smallest numbers,
with which processors compute a hundred times slower."""

_REST_PERIOD = 4096
"""Samples between two looks at the state."""


def _compile(kernel: _Kernel) -> _Kernel:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return cast(_Kernel, numba.njit(cache=True, **options)(kernel))
    except RuntimeError:
        # Neither the package's folder nor the user's cache folder can be written to.
        return cast(_Kernel, numba.njit(**options)(kernel))


@_compile
def filter_clamped(
    samples: npt.NDArray[np.float32],
    sections: npt.NDArray[np.float64],
    state: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Filters through sections in turn; what each gives is clamped to full scale, its state not.

    Args:
        samples: ``(T,)``.
        sections: b0, b1, b2, a1, a2 of each section, with a0 = 1: ``(S, 5)``.
        state: ``(S, 2)``, zeros in front of the first block; left as it is behind this one.

    Returns:
        ``(T,)``.
    """
    result = np.empty(len(samples))
    for start in range(0, len(samples), _REST_PERIOD):
        for s in range(len(sections)):
            if abs(state[s, 0]) < _REST and abs(state[s, 1]) < _REST:
                state[s, 0] = 0.0
                state[s, 1] = 0.0
        for t in range(start, min(start + _REST_PERIOD, len(samples))):
            value = float(samples[t])
            for s in range(len(sections)):
                # Transposed direct form II.
                out = sections[s, 0] * value + state[s, 0]
                state[s, 0] = sections[s, 1] * value - sections[s, 3] * out + state[s, 1]
                state[s, 1] = sections[s, 2] * value - sections[s, 4] * out
                value = out
                # NaN is neither, and stays.
                if out > 1.0:
                    value = 1.0
                elif out < -1.0:
                    value = -1.0
            result[t] = value
    return result
