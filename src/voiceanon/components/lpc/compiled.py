"""The CPU backend: one compiled kernel per step, running over frames that share a core's cache.

All arithmetic is float64. A frame's result does not depend on its neighbours, nor on how many
threads share the work. Kernels release Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from math import atan2, copysign, cos, pi, sin, sqrt
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from voiceanon.components.lpc.constants import (
    EXHAUSTED,
    MAX_ITERATIONS,
    REAL_TOLERANCE,
    START_ANGLE,
    START_RADIUS_MIN,
    TINY,
    TOLERANCE,
)

Array = npt.NDArray[np.float64]
_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])

_FASTMATH = {"reassoc", "contract", "nsz"}
"""Sums may be regrouped, so that they use vector registers; NaN and infinity keep their meaning."""


def _compile(kernel: _Kernel) -> _Kernel:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": _FASTMATH}
    try:
        return cast(_Kernel, numba.njit(cache=True, **options)(kernel))
    except RuntimeError:
        # Neither the package's folder nor the user's cache folder can be written to.
        return cast(_Kernel, numba.njit(**options)(kernel))


@_compile
def burg(frames: Array, order: int) -> Array:
    """Linear prediction by Burg's method.

    Args:
        frames: ``(K, L)``.
        order: Number of coefficients.

    Returns:
        Prediction error filters ``(K, order + 1)``, the first coefficient 1.
    """
    count, length = frames.shape
    result = np.zeros((count, order + 1))
    forward = np.empty(length)
    backward = np.empty(length)
    before = np.empty(order + 1)
    for k in range(count):
        a = result[k]
        a[0] = 1.0
        energy = 0.0
        for t in range(length - 1):
            forward[t] = frames[k, t + 1]
            backward[t] = frames[k, t]
            energy += forward[t] * forward[t] + backward[t] * backward[t]
        least = EXHAUSTED * energy
        for i in range(order):
            if energy <= least:
                break
            last = length - 1 - i
            cross = 0.0
            for t in range(last):
                cross += forward[t] * backward[t]
            reflection = -2.0 * cross / (energy + TINY)
            before[: i + 2] = a[: i + 2]
            for j in range(1, i + 2):
                a[j] = before[j] + reflection * before[i + 1 - j]
            for t in range(last):
                ahead = forward[t]
                forward[t] = ahead + reflection * backward[t]
                backward[t] = backward[t] + reflection * ahead
            energy = (
                (1.0 - reflection * reflection) * energy
                - backward[last - 1] * backward[last - 1]
                - forward[0] * forward[0]
            )
            for t in range(last - 1):
                forward[t] = forward[t + 1]
    return result


@_compile
def _evaluate(a: Array, re: Array, im: Array, value: Array, slope: Array) -> None:
    """Horner's scheme for the polynomial and its derivative at all points at once."""
    order = len(a) - 1
    value[0, :] = 1.0
    value[1, :] = 0.0
    slope[:, :] = 0.0
    for j in range(1, order + 1):
        for i in range(order):
            x, y = re[i], im[i]
            real = slope[0, i] * x - slope[1, i] * y + value[0, i]
            slope[1, i] = slope[0, i] * y + slope[1, i] * x + value[1, i]
            slope[0, i] = real
            real = value[0, i] * x - value[1, i] * y + a[j]
            value[1, i] = value[0, i] * y + value[1, i] * x
            value[0, i] = real


@_compile
def _correct(re: Array, im: Array, value: Array, slope: Array) -> float:
    """One Ehrlich-Aberth correction of all roots; returns the largest relative step, squared."""
    largest = 0.0
    for i in range(len(re)):
        x, y = re[i], im[i]
        size = value[0, i] * value[0, i] + value[1, i] * value[1, i]
        if size == 0.0:
            continue
        near_re, near_im = 0.0, 0.0
        for j in range(len(re)):
            dx, dy = x - re[j], y - im[j]
            distance = dx * dx + dy * dy
            inverse = 1.0 / distance if distance > 0.0 else 0.0
            near_re += dx * inverse
            near_im -= dy * inverse
        newton_re = (slope[0, i] * value[0, i] + slope[1, i] * value[1, i]) / size - near_re
        newton_im = (slope[1, i] * value[0, i] - slope[0, i] * value[1, i]) / size - near_im
        size = newton_re * newton_re + newton_im * newton_im
        if size == 0.0:
            continue
        re[i] = x - newton_re / size
        im[i] = y + newton_im / size
        step = 1.0 / size / (x * x + y * y + TINY)
        if step > largest:
            largest = step
    return largest


@_compile
def _find_roots(a: Array, re: Array, im: Array, value: Array, slope: Array) -> None:
    order = len(re)
    radius = max(abs(a[order]) ** (1.0 / order), START_RADIUS_MIN)
    for i in range(order):
        angle = 2.0 * pi * i / order + START_ANGLE
        re[i] = radius * cos(angle)
        im[i] = radius * sin(angle)
    for _ in range(MAX_ITERATIONS):
        _evaluate(a, re, im, value, slope)
        if _correct(re, im, value, slope) < TOLERANCE * TOLERANCE:
            break


@_compile
def warp(coefficients: Array, alphas: Array) -> Array:
    """Raises the angle of every non-real pole to a power; magnitudes stay.

    Args:
        coefficients: ``(K, order + 1)``, the first 1.
        alphas: McAdams coefficient per frame, ``(K,)``.

    Returns:
        ``(K, order + 1)``, the first 1.
    """
    count, order = coefficients.shape[0], coefficients.shape[1] - 1
    result = np.zeros((count, order + 1))
    re, im = np.empty(order), np.empty(order)
    value, slope = np.empty((2, order)), np.empty((2, order))
    expanded = np.empty(order + 1, dtype=np.complex128)
    for k in range(count):
        _find_roots(coefficients[k], re, im, value, slope)
        expanded[:] = 0.0
        expanded[0] = 1.0
        for i in range(order):
            root = complex(re[i], im[i])
            size = sqrt(re[i] * re[i] + im[i] * im[i])
            if abs(im[i]) > REAL_TOLERANCE * size:
                angle = atan2(im[i], re[i])
                angle = copysign(abs(angle) ** alphas[k], angle)
                root = complex(size * cos(angle), size * sin(angle))
            for j in range(i + 1, 0, -1):
                expanded[j] -= root * expanded[j - 1]
        result[k] = expanded.real
    return result


@_compile
def refilter(frames: Array, whitening: Array, shaping: Array, result: Array) -> None:
    """Filters each frame with ``whitening / shaping`` from rest, cut at the frame's end.

    Args:
        frames: ``(K, L)``.
        whitening: FIR coefficients ``(K, order + 1)``.
        shaping: All-pole coefficients ``(K, order + 1)``, the first 1.
        result: ``(K, L)``, filled in.
    """
    count, length = frames.shape
    order = whitening.shape[1] - 1
    state = np.zeros(order + 1)
    for k in range(count):
        state[:] = 0.0
        for t in range(length):
            sample = frames[k, t]
            out = whitening[k, 0] * sample + state[0]
            # Transposed direct form II: the state moves up by one as it is updated.
            for j in range(order):
                state[j] = state[j + 1] + whitening[k, j + 1] * sample - shaping[k, j + 1] * out
            result[k, t] = out
