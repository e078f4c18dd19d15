"""Maxima of many functions of one variable at once."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

GOLDEN_SHARE = (3 - math.sqrt(5)) / 2
"""Share of an interval at which a golden section cuts it."""

TOLERANCE = 1e-7
"""Of places: near a maximum, values so far apart differ by no more than their rounding."""

MOST_STEPS = 60
"""More than golden sections alone need from an interval of length 2 down to the tolerance."""


def maximise(function: Callable[[Tensor, Tensor], Tensor], values: Tensor) -> tuple[Tensor, Tensor]:
    """Looks for a maximum of each function between -1 and 1, by Brent's method.

    It takes steps to the vertex of the parabola through the three best points, and golden sections
    where such a step would be of no use (Brent, "Algorithms for Minimization without Derivatives",
    1973, chapter 5, `localmin`, which starts with a golden section instead).

    Args:
        function: Takes numbers of functions, int64 ``(m,)``, and places, float64 ``(m,)``; gives
            values, float64 ``(m,)``.
        values: Of each function at -1, 0 and 1, float64 ``(3, n)``, none above that at 0.

    Returns:
        Places and values, float64 ``(n,)``.
    """
    left, best, right = values.unbind()
    places, highest = torch.zeros_like(best), best.clone()
    number = torch.arange(len(best), device=best.device)
    zero, one = torch.zeros_like(best), torch.ones_like(best)
    # Ends; best, second and third place; their values; the last move and the one before.
    state = torch.stack([-one, one, zero, one, -one, best, right, left, 2 * one, 2 * one])
    for _ in range(MOST_STEPS):
        left, right, best = state[:3]
        middle = (left + right) / 2
        going = (best - middle).abs() > 2 * TOLERANCE - (right - left) / 2
        # The host has to know how many are left, since most need few steps and some need many.
        state, number = state[:, going], number[going]
        if not len(number):
            break
        move, before = _next_move(state, middle[going])
        state = _moved(state, move, before, function(number, state[2] + move))
        places[number], highest[number] = state[2], state[5]
    return places, highest


def _next_move(state: Tensor, middle: Tensor) -> tuple[Tensor, Tensor]:
    """Distance from the best place to the next one, and what to remember as the move before."""
    left, right, best, second, third, value, second_value, third_value, last, earlier = state
    r = (best - second) * (value - third_value)
    q = (best - third) * (value - second_value)
    p = (best - third) * q - (best - second) * r
    q = 2 * (q - r)
    p, q = torch.where(q > 0, -p, p), q.abs()
    fits = (earlier.abs() > TOLERANCE) & (p.abs() < (0.5 * q * earlier).abs())
    fits &= (p > q * (left - best)) & (p < q * (right - best))
    vertex = p / q.where(fits, 1)
    place = best + vertex
    near_end = (place - left < 2 * TOLERANCE) | (right - place < 2 * TOLERANCE)
    inward = (middle - best).sign() * TOLERANCE
    vertex = torch.where(near_end, inward, vertex)
    rest = torch.where(best < middle, right, left) - best
    move = torch.where(fits, vertex, GOLDEN_SHARE * rest)
    least = torch.full_like(move, TOLERANCE).copysign(move)
    return torch.where(move.abs() >= TOLERANCE, move, least), last.where(fits, rest)


def _moved(state: Tensor, move: Tensor, before: Tensor, found: Tensor) -> Tensor:
    """The state after a look at the next place, where ``found`` is the value."""
    left, right, best, second, third, value, second_value, third_value = state[:8]
    place = best + move
    better = found >= value
    inner, outer = torch.where(better, best, place), place > best
    # The worse of the two places is the new end on its side.
    left = torch.where(better == outer, inner, left)
    right = torch.where(better == outer, right, inner)
    to_second = ~better & ((found >= second_value) | (second == best))
    to_third = ~better & ~to_second
    to_third &= (found >= third_value) | (third == best) | (third == second)

    def ranked(new: Tensor, first: Tensor, other: Tensor, worst: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.where(better, new, first),
            torch.where(better, first, torch.where(to_second, new, other)),
            torch.where(better | to_second, other, torch.where(to_third, new, worst)),
        )

    places = ranked(place, best, second, third)
    values = ranked(found, value, second_value, third_value)
    return torch.stack([left, right, *places, *values, move, before])
