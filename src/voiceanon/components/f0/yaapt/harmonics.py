"""Spectral harmonics correlation: how well the harmonics of a frequency line up in a spectrum."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from voiceanon.components.f0.yaapt.constants import FFT_SIZE, FRAME_SAMPLES
from voiceanon.components.f0.yaapt.frames import frames_of

WINDOW_SAMPLES = 2 * FRAME_SAMPLES
"""Samples of a frame of the spectral track: 70 ms."""

WINDOW_BETA = 0.5
"""Of its periodic Kaiser window."""

HARMONICS = 4
"""Multiples of a frequency whose magnitudes are multiplied."""

SPREAD_BINS = 21
"""Neighbouring bins over which those products are added up: 40 Hz."""

FIRST_BIN = 31
"""Bin of the lowest frequency that is looked at."""

LAST_BIN = 256
"""Bin of the highest, and number of places of the result."""


@cache
def window(device: torch.device) -> Tensor:
    """The Kaiser window, float32 ``(WINDOW_SAMPLES,)``."""
    kaiser = torch.kaiser_window(
        WINDOW_SAMPLES, periodic=True, beta=WINDOW_BETA, dtype=torch.float32, device="cpu"
    )
    return kaiser.to(device)


def magnitudes(squared: Tensor, item: Tensor, frame: Tensor) -> Tensor:
    """Spectra of windowed frames without their mean.

    Args:
        squared: Squared signal of `signals.band_limited`, float32 ``(B, S)``.
        item: Rows of the frames, int64 ``(n,)``.
        frame: Numbers of the frames, int64 ``(n,)``.

    Returns:
        float32 ``(n, bins)``: the bins from 0 on that `harmonics_correlation` reaches.
    """
    rows = frames_of(squared, item, frame, WINDOW_SAMPLES).mul_(window(squared.device))
    rows -= rows.mean(1, keepdim=True)
    reached = HARMONICS * LAST_BIN + SPREAD_BINS // 2 + 1
    spectra: Tensor = torch.fft.rfft(rows, FFT_SIZE)
    return spectra[:, :reached].abs()


def harmonics_correlation(spectra: Tensor) -> Tensor:
    """Adds up, around each frequency, the products of the magnitudes at its first multiples.

    Args:
        spectra: Result of `magnitudes`, float32 ``(n, bins)``.

    Returns:
        float32 ``(n, LAST_BIN)``. Bin r stands at place ``r - 1`` (as published); places that are
        not looked at are 0.
    """
    count, bins = spectra.shape
    side = SPREAD_BINS // 2
    # With frames last, each step below runs over contiguous memory.
    by_bin = spectra.new_zeros(side + bins, count)
    by_bin[side:] = spectra.T
    frequencies = LAST_BIN - FIRST_BIN + 1
    places = spectra.new_zeros(LAST_BIN, count)
    total = places[FIRST_BIN - 1 :]
    product = torch.empty_like(total)
    for shift in range(SPREAD_BINS):
        first, second, *others = (
            by_bin[FIRST_BIN * harmonic + shift :: harmonic][:frequencies]
            for harmonic in range(1, HARMONICS + 1)
        )
        torch.mul(first, second, out=product)
        for factor in others:
            product *= factor
        total += product
    return places.T.contiguous()
