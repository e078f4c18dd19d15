"""Weights that depend on an entry's name and shape alone.

Every golden value came from a network whose entries were filled in this way. Two implementations
whose entries agree by name get the same weights; one with other names maps its names to the
published ones first, exactly as it has to for the published checkpoint.

`numpy.random.RandomState` is used because its streams are frozen by NumPy's compatibility policy.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, MutableMapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def seeded_tensor(name: str, shape: Sequence[int]) -> npt.NDArray[np.float32]:
    """Value of the entry ``name`` with ``shape``, as float32.

    ============================================  =============================
    entry                                         value
    ============================================  =============================
    name ends in ``running_var``                  1 + 0.1 abs(n)
    name ends in ``running_mean`` or ``bias``     0.1 n
    name ends in ``weight_g`` / ``original0``     1 + 0.1 n
    0 or 1 dimension, anything else               1 + 0.1 n
    2 or more dimensions                          n / sqrt(product of shape[1:])
    ============================================  =============================

    with n standard normal from ``RandomState(crc32(name))``.
    """
    rng = np.random.RandomState(zlib.crc32(name.encode()) & 0xFFFFFFFF)
    n = np.asarray(rng.standard_normal(tuple(shape)), dtype=np.float32)
    if name.endswith("running_var"):
        value = 1 + 0.1 * np.abs(n)
    elif name.endswith(("running_mean", "bias")):
        value = 0.1 * n
    elif name.endswith(("weight_g", "original0")) or len(shape) < 2:
        value = 1 + 0.1 * n
    else:
        value = n / np.sqrt(np.prod(shape[1:], dtype=np.float64)).astype(np.float32)
    return np.asarray(value, dtype=np.float32)


def seeded_state_dict(shapes: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    """State dict for entries given as {name: shape}, all float32."""
    return {name: torch.from_numpy(seeded_tensor(name, shape)) for name, shape in shapes.items()}


def fill_(state: MutableMapping[str, Tensor]) -> MutableMapping[str, Tensor]:
    """Overwrites every floating-point entry of ``state`` in place; leaves integers alone."""
    for name, value in state.items():
        if torch.is_floating_point(value):
            value.copy_(torch.from_numpy(seeded_tensor(name, tuple(value.shape))))
    return state
