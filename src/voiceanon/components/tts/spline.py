"""Inverse of a monotonic rational-quadratic spline, the identity outside its range.

Source: Durkan et al. 2019, "Neural Spline Flows", arXiv:1906.04032, equations 6 to 8 of the
appendix; constants as in VITS (`transforms.py`) and transformers.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

MIN_BIN = 1e-3
"""Least width and height of a bin, as a share of the range."""

MIN_SLOPE = 1e-3
"""Least derivative at a knot."""

_LAST_EDGE = 1e-6
"""By how much the last edge is moved out, so that the bound itself falls into the last bin."""


def inverse_spline(
    y: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor, bound: float
) -> Tensor:
    """Gives the x whose spline is y.

    Args:
        y: float32 ``(...)``.
        widths: Of the bins before softmax, ``(..., bins)``.
        heights: As ``widths``.
        slopes: Derivatives at the inner knots before softplus, ``(..., bins - 1)``; at the ends the
            derivative is 1.
        bound: The spline covers ``-bound`` to ``bound``.

    Returns:
        float32 ``(...)``.
    """
    x_edges, x_sizes = _edges(widths, bound)
    y_edges, y_sizes = _edges(heights, bound)
    at_ends = math.log(math.expm1(1 - MIN_SLOPE))
    derivatives = MIN_SLOPE + F.softplus(F.pad(slopes, (1, 1), value=at_ends))
    within = y.clamp(-bound, bound)
    limits = torch.cat([y_edges[..., :-1], y_edges[..., -1:] + _LAST_EDGE], -1)
    bins = ((within[..., None] >= limits).sum(-1) - 1)[..., None]

    def pick(values: Tensor) -> Tensor:
        return values.gather(-1, bins)[..., 0]

    x_start, width = pick(x_edges), pick(x_sizes)
    y_start, height = pick(y_edges), pick(y_sizes)
    slope = height / width
    first, last = pick(derivatives), pick(derivatives[..., 1:])
    offset = within - y_start
    bend = offset * (first + last - 2 * slope)
    a = height * (slope - first) + bend
    b = height * first - bend
    c = -slope * offset
    # Rounding can take it below 0, where it is due to be 0.
    root = (b.square() - 4 * a * c).clamp_min(0.0).sqrt()
    x = 2 * c / (-b - root) * width + x_start
    return torch.where(within == y, x, y)


def _edges(sizes: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Edges of the bins, ``(..., bins + 1)``, and their sizes."""
    bins = sizes.shape[-1]
    shares = MIN_BIN + (1 - MIN_BIN * bins) * sizes.softmax(-1)
    inner = 2 * bound * shares.cumsum(-1)[..., :-1] - bound
    edges = F.pad(F.pad(inner, (1, 0), value=-bound), (0, 1), value=bound)
    return edges, edges.diff(dim=-1)
