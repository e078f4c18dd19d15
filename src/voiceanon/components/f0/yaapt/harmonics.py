"""Spectral harmonics correlation: how well the harmonics of a frequency line up in a spectrum."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from voiceanon.components.f0.yaapt.config import SA_TOOLKIT, YaaptConfig
from voiceanon.components.f0.yaapt.constants import BIN_HZ, FFT_SIZE, FRAME_SAMPLES
from voiceanon.components.f0.yaapt.frames import frames_of

WINDOW_SAMPLES = 2 * FRAME_SAMPLES
"""Samples of a frame of the spectral track: 70 ms."""

WINDOW_BETA = 0.5
"""Of its Kaiser window, which is periodic in the port."""

HARMONICS = 4
"""Multiples of a frequency whose magnitudes are multiplied."""

SPREAD_BINS = 21
"""Neighbouring bins over which those products are added up: 40 Hz."""

FIRST_BIN = 31
"""Bin of the lowest frequency that is looked at."""

ABOVE_HZ = 100.0
"""Hz above the highest F0 up to which frequencies are looked at."""


def last_bin(config: YaaptConfig) -> int:
    """Bin of the highest frequency that is looked at, and number of places of the result."""
    return int((config.f0_max + ABOVE_HZ) / BIN_HZ)


@cache
def window(device: torch.device, config: YaaptConfig = SA_TOOLKIT) -> Tensor:
    """The Kaiser window, ``(WINDOW_SAMPLES,)``."""
    kaiser = torch.kaiser_window(
        WINDOW_SAMPLES, periodic=config.ported, beta=WINDOW_BETA, dtype=config.dtype, device="cpu"
    )
    return kaiser.to(device)


def magnitudes(
    squared: Tensor, item: Tensor, frame: Tensor, config: YaaptConfig = SA_TOOLKIT
) -> Tensor:
    """Spectra of windowed frames without their mean.

    Args:
        squared: Squared signal of `signals.band_limited`, ``(B, S)``.
        item: Rows of the frames, int64 ``(n,)``.
        frame: Numbers of the frames, int64 ``(n,)``.
        config: See `YaaptConfig`.

    Returns:
        ``(n, bins)``: the bins from 0 on that `harmonics_correlation` reaches.
    """
    rows = frames_of(squared, item, frame, WINDOW_SAMPLES, config.hop_samples)
    rows *= window(squared.device, config)
    rows -= rows.mean(1, keepdim=True)
    reached = HARMONICS * last_bin(config) + SPREAD_BINS // 2 + 1
    spectra: Tensor = torch.fft.rfft(rows, FFT_SIZE)
    return spectra[:, :reached].abs()


def harmonics_correlation(spectra: Tensor, config: YaaptConfig = SA_TOOLKIT) -> Tensor:
    """Adds up, around each frequency, the products of the magnitudes at its first multiples.

    Args:
        spectra: Result of `magnitudes`, ``(n, bins)``.
        config: See `YaaptConfig`.

    Returns:
        ``(n, last_bin)``. Bin r stands at place ``r - 1`` (as published); places that are
        not looked at are 0.
    """
    count, bins = spectra.shape
    side = SPREAD_BINS // 2
    # With frames last, each step below runs over contiguous memory.
    by_bin = spectra.new_zeros(side + bins, count)
    by_bin[side:] = spectra.T
    last = last_bin(config)
    frequencies = last - FIRST_BIN + 1
    places = spectra.new_zeros(last, count)
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
