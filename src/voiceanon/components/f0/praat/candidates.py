"""F0 candidates of single frames: maxima of the autocorrelation, refined between lags."""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.components.f0.praat.correlation import around_lags, between_lags
from voiceanon.components.f0.praat.maximum import maximise
from voiceanon.components.f0.praat.settings import OCTAVE_COST, VOICING, Settings

LEAST_MAXIMUM = VOICING / 2
"""Autocorrelation that a maximum has to exceed."""

FIRST_LAG = 2
"""The lowest at which a maximum counts."""

CHOICE_DEPTH = 30
"""Lags on either side in the interpolation by which candidates are chosen where there are many."""

DEPTH = 70
"""Lags on either side in the interpolation whose maximum is looked for.

Above 0.3 of the rate Praat takes 700, which cannot matter: there, all is above the ceiling.
"""


def candidates(correlation: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
    """Finds the voiced candidates of frames.

    Args:
        correlation: Result of `correlation.autocorrelation`, float64 ``(n, L)``.
        settings: See `Settings`.

    Returns:
        F0 in Hz, 0 where there are fewer candidates, and strengths, 0 to 1, float64
        ``(n, voiced_candidates)``, in the order of their lags.
    """
    before, here, after = (correlation[:, FIRST_LAG + i : settings.end_lag + i] for i in (-1, 0, 1))
    maxima = (here > LEAST_MAXIMUM) & (here > before) & (here >= after)
    maxima = _strongest(correlation, maxima, settings)
    # What lies above the ceiling is unvoiced, and no better than the unvoiced candidate.
    lags = torch.arange(FIRST_LAG, settings.end_lag, device=here.device)
    maxima &= lags + 1 >= settings.rate / settings.ceiling
    # The host has to know how many there are, to launch the work for them.
    row, column = maxima.nonzero().unbind(1)
    lag = column + FIRST_LAG
    offset, value = _refined(correlation, row, lag)
    found = settings.rate / (lag + offset)
    slot = maxima.cumsum(1)[row, column] - 1
    hertz = correlation.new_zeros(len(correlation), settings.voiced_candidates)
    strength = torch.zeros_like(hertz)
    hertz[row, slot] = found.where(found <= settings.ceiling, 0)
    strength[row, slot] = _folded(value)
    return hertz, strength


def _strongest(correlation: Tensor, maxima: Tensor, settings: Settings) -> Tensor:
    """Leaves so many maxima of each frame as it may have: bool ``(n, lags)`` to the same."""
    many = maxima.sum(1, keepdim=True) > settings.voiced_candidates
    # Of few frames, if any: those of periodic signals of some kHz.
    row, column = (maxima & many).nonzero().unbind(1)
    lag = column + FIRST_LAG
    before, here, after = (correlation[row, lag + i] for i in (-1, 0, 1))
    offset = (after - before) / 2 / (2 * here - before - after)
    around = around_lags(correlation, row, lag, CHOICE_DEPTH)
    strength = _folded(between_lags(around, _room(correlation, lag), offset))
    period = (lag + offset) / settings.rate
    merit = torch.full_like(maxima, -torch.inf, dtype=torch.float64)
    merit[row, column] = strength - OCTAVE_COST * (settings.floor * period).log2()
    chosen = merit.topk(min(settings.voiced_candidates, merit.shape[1])).indices
    return maxima & (~many | torch.zeros_like(maxima).scatter(1, chosen, True))


def _refined(correlation: Tensor, row: Tensor, lag: Tensor) -> tuple[Tensor, Tensor]:
    """Looks for maxima around lags: int64 ``(m,)`` to offsets and values, float64 ``(m,)``."""
    around, room = around_lags(correlation, row, lag, DEPTH), _room(correlation, lag)
    values = torch.stack([correlation[row, lag + i] for i in (-1, 0, 1)])
    return maximise(
        lambda number, offset: between_lags(around[number], room[number], offset), values
    )


def _room(correlation: Tensor, lag: Tensor) -> Tensor:
    """Lags behind each one that there are."""
    return (correlation.shape[1] - 1 - lag).double()


def _folded(strength: Tensor) -> Tensor:
    """Interpolation may exceed 1; as far as it does, the strength is taken to be below it."""
    return torch.where(strength > 1, 1 / strength, strength)
