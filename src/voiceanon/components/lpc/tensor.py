"""The backend for any device: every step is a tensor operation over all frames.

All arithmetic is float64. Inside, frames lie along the last dimension, so that each operation runs
over contiguous memory.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from voiceanon.components.lpc.constants import (
    EXHAUSTED,
    MAX_ITERATIONS,
    REAL_TOLERANCE,
    START_ANGLE,
    START_RADIUS_MIN,
    TINY,
    TOLERANCE,
)

_ITERATIONS_PER_CHECK = 4
"""Asking a GPU whether all roots are final stops its queue."""


def burg(frames: Tensor, order: int) -> Tensor:
    """Linear prediction by Burg's method.

    Args:
        frames: float64 ``(K, L)``.
        order: Number of coefficients.

    Returns:
        Prediction error filters, float64 ``(K, order + 1)``, the first coefficient 1.
    """
    samples = frames.T.contiguous()
    forward, backward = samples[1:], samples[:-1]
    a = samples.new_zeros(order + 1, samples.shape[1])
    a[0] = 1.0
    energy = forward.square().sum(0) + backward.square().sum(0)
    least = EXHAUSTED * energy
    for i in range(order):
        reflection = -2.0 * (forward * backward).sum(0) / (energy + TINY)
        reflection = torch.where(energy > least, reflection, 0)
        a[1 : i + 2] = a[1 : i + 2] + reflection * a[: i + 1].flip(0)
        forward, backward = forward + reflection * backward, backward + reflection * forward
        energy = (1.0 - reflection.square()) * energy - backward[-1].square() - forward[0].square()
        forward, backward = forward[1:], backward[:-1]
    return a.T


def find_roots(coefficients: Tensor) -> Tensor:
    """Roots of monic real polynomials, by the Ehrlich-Aberth iteration from a ring.

    Args:
        coefficients: float64 ``(K, order + 1)``, the first 1.

    Returns:
        complex128 ``(K, order)``.
    """
    a = coefficients.T.contiguous()
    order = len(a) - 1
    steps = torch.arange(order, dtype=a.dtype, device=a.device)
    angles = 2.0 * math.pi / order * steps + START_ANGLE
    radius = (a[-1].abs() ** (1.0 / order)).clamp_min(START_RADIUS_MIN)
    roots = torch.polar(radius.expand(order, -1), angles[:, None].expand(-1, a.shape[1]))
    for iteration in range(1, MAX_ITERATIONS + 1):
        step = _aberth_step(a, roots)
        roots = roots - step
        if iteration % _ITERATIONS_PER_CHECK == 0:
            final = step.abs() <= TOLERANCE * roots.abs()
            if bool(final.all()):
                break
    return roots.T


def _aberth_step(a: Tensor, roots: Tensor) -> Tensor:
    value = torch.ones_like(roots)
    slope = torch.zeros_like(roots)
    for coefficient in a[1:]:
        slope = slope * roots + value
        value = value * roots + coefficient
    difference = roots[:, None] - roots
    near = torch.where(difference == 0, 0, 1 / difference).sum(1)
    step = value / (slope - value * near)
    return torch.where(torch.isfinite(step), step, 0)


def warp(coefficients: Tensor, alphas: Tensor) -> Tensor:
    """Raises the angle of every non-real pole to a power; magnitudes stay.

    Args:
        coefficients: float64 ``(K, order + 1)``, the first 1.
        alphas: McAdams coefficient per frame, float64 ``(K,)``.

    Returns:
        float64 ``(K, order + 1)``, the first 1.
    """
    roots = find_roots(coefficients).T
    size, angle = roots.abs(), roots.angle()
    warped = torch.polar(size, angle.sign() * angle.abs() ** alphas)
    warped = torch.where(roots.imag.abs() > REAL_TOLERANCE * size, warped, roots)
    expanded = torch.zeros(len(roots) + 1, roots.shape[1], dtype=roots.dtype, device=roots.device)
    expanded[0] = 1.0
    for i, root in enumerate(warped):
        expanded[1 : i + 2] = expanded[1 : i + 2] - root * expanded[: i + 1]
    return expanded.real.T


def refilter(frames: Tensor, whitening: Tensor, shaping: Tensor) -> Tensor:
    """Filters each frame with ``whitening / shaping`` from rest, cut at the frame's end.

    Args:
        frames: float64 ``(K, L)``.
        whitening: FIR coefficients, float64 ``(K, order + 1)``.
        shaping: All-pole coefficients, float64 ``(K, order + 1)``, the first 1.

    Returns:
        float64 ``(K, L)``.
    """
    samples = frames.T.contiguous()
    length, order = len(samples), whitening.shape[1] - 1
    padded = torch.cat([samples.new_zeros(order, samples.shape[1]), samples])
    result = torch.zeros_like(padded)
    for lag, coefficient in enumerate(whitening.T):
        result[order:].addcmul_(coefficient, padded[order - lag : order - lag + length])
    feedback = shaping.T[1:].flip(0).contiguous()
    for t in range(length):
        result[order + t] -= (feedback * result[t : order + t]).sum(0)
    return result[order:].T
