"""The two signals that are tracked in the published algorithm, through a linear-phase band-pass."""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.f0.yaapt.config import YaaptConfig
from voiceanon.components.f0.yaapt.constants import FRAME_SAMPLES, RATE

TAPS = 151
"""Taps of the band-pass; it is causal, so the signals are late by half of them."""

BAND_HZ = (50.0, 1500.0)
"""What passes."""

BLOCK_SAMPLES = 256
"""Samples that one row of the matrix product gives."""


def frame_counts(lengths: Tensor, config: YaaptConfig) -> Tensor:
    """Frames of recordings: all that lie inside, but for one that would end on the last sample.

    Args:
        lengths: int64 ``(B,)`` in samples.
        config: See `YaaptConfig`.

    Returns:
        int64 ``(B,)``, 0 for recordings that are not longer than a frame.
    """
    return -(-(lengths - FRAME_SAMPLES).clamp_min(0) // config.hop_samples)


def band_limited(wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Filters the waveforms and their squares.

    Args:
        wav: float32 ``(B, T)``, 16 kHz, full scale 1.0; what lies in the padding does not matter.
        lengths: int64 ``(B,)`` in samples.

    Returns:
        Linear and squared signal, float64 ``(B, S)``: zeros behind each item, and S enough for
        frames of twice `FRAME_SAMPLES`.
    """
    inside = torch.arange(wav.shape[1], device=wav.device) < lengths[:, None]
    x = wav.double().masked_fill(~inside, 0)
    both = []
    for signal in (x, x.square()):
        both.append(F.pad(_filtered(signal).masked_fill_(~inside, 0), (0, 2 * FRAME_SAMPLES)))
    return both[0], both[1]


def _filtered(x: Tensor) -> Tensor:
    """The band-pass as a product of overlapping blocks and a banded matrix: ``(B, T)``.

    Unlike with Fourier transforms, silence stays exactly silent, and F0 there depends on it.
    """
    size = x.shape[1]
    blocks = -(-size // BLOCK_SAMPLES)
    padded = F.pad(x, (TAPS - 1, blocks * BLOCK_SAMPLES - size))
    rows = padded.unfold(1, BLOCK_SAMPLES + TAPS - 1, BLOCK_SAMPLES)
    return (rows @ _matrix().to(x.device)).flatten(1)[:, :size]


@cache
def _matrix() -> Tensor:
    """Column j holds the taps, the last first, from row j on: ``(BLOCK + TAPS - 1, BLOCK)``."""
    columns = F.pad(band_pass_taps().flip(0), (0, BLOCK_SAMPLES)).repeat(BLOCK_SAMPLES)
    # Rows of one sample more than fit in shift by one each.
    whole = columns[: BLOCK_SAMPLES * (BLOCK_SAMPLES + TAPS - 1)]
    return whole.view(BLOCK_SAMPLES, BLOCK_SAMPLES + TAPS - 1).T.contiguous()


def band_pass_taps() -> Tensor:
    """Ideal band-pass under a symmetric Hamming window, scaled to a gain of 1 in the middle."""
    n = torch.arange(TAPS, dtype=torch.float64, device="cpu") - TAPS // 2
    low, high = (hertz / (RATE / 2) for hertz in BAND_HZ)
    ideal = high * torch.sinc(high * n) - low * torch.sinc(low * n)
    window = torch.hamming_window(TAPS, periodic=False, dtype=torch.float64, device="cpu")
    taps = ideal * window
    return taps / (taps * torch.cos(math.pi * (low + high) / 2 * n)).sum()
