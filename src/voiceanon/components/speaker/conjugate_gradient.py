"""A fixed number of steps towards the solution of a linear system, for batches.

Source: specification sheet of the x-vector family, section 6; `LinearCgd` and
`SolveQuadraticProblem` of Kaldi (`src/matrix`, Apache 2.0).
"""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 15
"""Steps of conjugate gradient (``--num-cg-iters``)."""

TOLERANCE = 1e-10
"""Share of the right side's squared norm by which a squared residual may grow."""

CONDITION = 1e4
"""Eigenvalues are at least the largest over this where a system is solved exactly."""


def approach(quadratic: Tensor, linear: Tensor, start: Tensor) -> Tensor:
    """Runs `STEPS` steps of conjugate gradient from a start.

    Where the residual ends larger than it began, the system is solved exactly instead.

    Kaldi carries the residual along and computes it afresh only when its squared norm has moved by
    a factor of 1e4; here every step computes it, which is the same but for rounding.

    Args:
        quadratic: Symmetric and positive definite, float64 ``(B, S, S)``.
        linear: Right side, float64 ``(B, S)``.
        start: float64 ``(B, S)``.

    Returns:
        float64 ``(B, S)``.
    """
    b, x = linear[..., None], start[..., None]
    residual = torch.baddbmm(b, quadratic, x, beta=-1)
    direction = -residual
    first = norm = residual.square().sum(1, keepdim=True)
    for _ in range(STEPS):
        product = torch.bmm(quadratic, direction)
        along = (direction * residual).sum(1, keepdim=True)
        curvature = (direction * product).sum(1, keepdim=True)
        x = x - _ratio(along, curvature) * direction
        residual = torch.baddbmm(b, quadratic, x, beta=-1)
        before, norm = norm, residual.square().sum(1, keepdim=True)
        direction = _ratio(norm, before) * direction - residual
    worse = norm > first + TOLERANCE * b.square().sum(1, keepdim=True)
    # One look at the device per solution: eigenvalues of all systems would cost far more.
    if bool(worse.any()):
        x = torch.where(worse, _solve(quadratic, b, start[..., None]), x)
    return x[..., 0]


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient, 0 where the system is solved already and nothing remains to divide by."""
    solved = denominator == 0
    return (numerator / denominator.masked_fill(solved, 1.0)).masked_fill(solved, 0.0)


def _solve(quadratic: Tensor, b: Tensor, start: Tensor) -> Tensor:
    """Solves systems with right sides ``(B, S, 1)``, small eigenvalues raised."""
    values, vectors = torch.linalg.eigh(quadratic)
    values = values[..., None]
    values = torch.maximum(values, values.amax(1, keepdim=True) / CONDITION)
    rest = torch.baddbmm(b, quadratic, start, alpha=-1)
    moved: Tensor = vectors @ ((vectors.mT @ rest) / values)
    return start + moved
