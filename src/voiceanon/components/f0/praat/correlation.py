"""Normalised autocorrelation of frames, and its values between lags."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from voiceanon.components.f0.praat.frames import window
from voiceanon.components.f0.praat.settings import Settings


def autocorrelation(rows: Tensor, settings: Settings) -> Tensor:
    """Correlates windowed frames with themselves, and divides by what the window does to that.

    Args:
        rows: Frames, float64 ``(n, window)``.
        settings: See `Settings`.

    Returns:
        float64 ``(n, half_window + 1)`` for the lags from 0 on, 1 at lag 0; all 0 for a frame of
        zeros.
    """
    products = _products(rows, settings)
    energy = products[:, :1]
    scale = energy.where(energy > 0, 1) * _window_correlation(settings, rows.device)
    return products / scale


@cache
def _window_correlation(settings: Settings, device: torch.device) -> Tensor:
    products = _products(window(settings, torch.device("cpu"))[None], settings)
    return (products / products[:, :1]).to(device)


def _products(rows: Tensor, settings: Settings) -> Tensor:
    spectrum = torch.fft.rfft(rows, settings.fft_size)
    spectrum *= spectrum.conj()
    products: Tensor = torch.fft.irfft(spectrum, settings.fft_size)
    return products[:, : settings.half_window + 1]


def around_lags(correlation: Tensor, row: Tensor, lag: Tensor, depth: int) -> Tensor:
    """Gathers what `between_lags` needs.

    Args:
        correlation: Result of `autocorrelation`, float64 ``(n, L)``.
        row: Rows to look in, int64 ``(m,)``.
        lag: Lags to look at, int64 ``(m,)``.
        depth: Lags on either side.

    Returns:
        float64 ``(m, 2 * depth + 1)`` with alternating signs, plus in the middle.
    """
    steps = torch.arange(-depth, depth + 1, device=lag.device)
    # An autocorrelation is symmetric; behind its end values do not count.
    index = (lag[:, None] + steps).abs_().clamp_max_(correlation.shape[1] - 1)
    return correlation[row[:, None], index].mul_(1 - 2 * (steps % 2))


def between_lags(around: Tensor, room: Tensor, offset: Tensor) -> Tensor:
    """Interpolates autocorrelations by sincs under raised cosines.

    As many lags are used on either side, but fewer where the right side ends before. The cosine of
    either side reaches 0 one lag behind the outermost one that is used there.

    Args:
        around: Result of `around_lags`, float64 ``(m, 2 * depth + 1)``.
        room: Lags from the middle one to the last that there is, float64 ``(m,)``, at least 1.
        offset: Where to look, in lags from the middle one, float64 ``(m,)``, -1 to 1, the ends
            excluded.

    Returns:
        float64 ``(m,)``.
    """
    depth = around.shape[1] // 2
    steps = torch.arange(-depth, depth + 1, dtype=torch.float64, device=offset.device)
    # On the left of the middle lag, that belongs to the right side.
    early = (offset < 0).double()
    used = (room + early).clamp_max(depth)
    left, right = (used + early + offset).reciprocal(), (used + 1 - early - offset).reciprocal()
    scale = around.new_empty(around.shape)
    scale[:, :depth] = left[:, None]
    scale[:, depth] = torch.where(offset < 0, right, left)
    scale[:, depth + 1 :] = right[:, None]
    distance = offset[:, None] - steps
    cosine = scale.mul_(distance).clamp_(-1, 1).mul_(math.pi).cos_().add_(1)
    total = cosine.div_(distance).mul_(around).sum(1)
    sinc = (offset * math.pi).sin() / (2 * math.pi)
    return torch.where(offset == 0, around[:, depth], sinc * total)
