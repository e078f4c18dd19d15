"""The two signals that are tracked: the waveform and its square, both through a band-pass.

The published cut-off frequencies stand in the wrong places: a low-pass of 50 Hz and a high-pass of
1500 Hz. Together they are a band-pass from 50 to 1500 Hz with a gain of (50 / 1500)^2, which stays,
since later stages compare absolute values.
"""

from __future__ import annotations

import math
from functools import cache

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor

from voiceanon.components.f0.yaapt.constants import FRAME_SAMPLES, HOP_SAMPLES, RATE

PADDING_SAMPLES = FRAME_SAMPLES // 2
"""Zeros in front of and behind a recording."""

LOW_PASS_HZ = 50.0
"""Cut-off frequency of the first section."""

HIGH_PASS_HZ = 1500.0
"""Cut-off frequency of the second section."""

QUALITY = 0.707
"""Q of both sections, that of `torchaudio.functional.lowpass_biquad`."""

BLOCK_SAMPLES = 2**23
"""Samples that are filtered at once, unless a row has more: 64 MiB for each copy in float64."""

UNFUSED_SAMPLES = 20_478
"""Largest filtered signal for which torch takes a convolution without fused steps: with two samples
of padding, `use_mkldnn` in its `aten/src/ATen/native/Convolution.cpp` compares with 20480."""

NEGLIGIBLE = 1e-17
"""Share of a pole's response that float64 can leave out."""


def band_limited(wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Filters the waveforms and their squares.

    Args:
        wav: float32 ``(B, T)``, 16 kHz, full scale 1.0; what lies in the padding does not matter.
        lengths: int64 ``(B,)`` in samples.

    Returns:
        Linear and squared signal, float32 ``(B, S)``: `PADDING_SAMPLES` more on both sides of each
        recording, zeros behind that, and S enough for frames of twice `FRAME_SAMPLES`.
    """
    batch, size = wav.shape
    frames = -(-size // HOP_SAMPLES)
    total = (frames - 1) * HOP_SAMPLES + 2 * FRAME_SAMPLES
    both = wav.new_zeros(2, batch, total)
    linear, squared = both
    time = torch.arange(size, device=wav.device)
    inside = linear[:, PADDING_SAMPLES : PADDING_SAMPLES + size]
    inside.copy_(wav).masked_fill_(time >= lengths[:, None], 0)
    torch.square(linear, out=squared)
    ends = (lengths + 2 * PADDING_SAMPLES).repeat(2)
    # On a CPU, row by row up to its end: more would outgrow the caches. Elsewhere, ends are asked
    # for once per block.
    block = 1 if wav.device.type == "cpu" else max(1, BLOCK_SAMPLES // total)
    parts = torch.split(both.view(-1, total), block), torch.split(ends, block)
    for rows, sizes in zip(*parts, strict=True):
        part = rows[:, : int(sizes.max())]
        part.copy_(band_pass(part, sizes))
    time = torch.arange(total, device=wav.device)
    both.masked_fill_(time >= ends[:batch, None], 0)
    return linear, squared


def band_pass(rows: Tensor, sizes: Tensor) -> Tensor:
    """Both sections, each clamped to full scale.

    Args:
        rows: float32 ``(R, S)``.
        sizes: Samples of each row, int64 ``(R,)``.

    Returns:
        float32 ``(R, S)``.
    """
    fused = (sizes > UNFUSED_SAMPLES)[:, None]
    # One sample after the other is about as fast as the rest on a CPU, and gives published bits.
    feedback = recursive if rows.device.type == "cpu" else parallel
    for zeros, poles in (_low_pass(), _high_pass()):
        rows = feedback(_feed_forward(rows, zeros, fused), poles).clamp_(-1, 1)
    return rows


def _feed_forward(rows: Tensor, zeros: tuple[float, float, float], fused: Tensor) -> Tensor:
    """The zeros of a section, rounded as the convolution of the published code rounds.

    Products are added to the sum in one step, with one rounding, where ``fused``, bool ``(R, 1)``;
    else they are rounded before. A convolution itself would choose by batch and threads as well.
    """
    samples = F.pad(rows, (2, 0)).double()
    size = rows.shape[1]
    result = (samples[:, :size] * zeros[2]).float()
    for delay in (1, 0):
        product = samples[:, 2 - delay : 2 - delay + size] * zeros[delay]
        result = product.where(fused, product.float()).add_(result).float()
    return result


def recursive(rows: Tensor, poles: tuple[float, float]) -> Tensor:
    """The poles of a section, sample after sample in float32.

    Args:
        rows: float32 ``(R, S)``.
        poles: Coefficients of the last output and of the one before it.

    Returns:
        float32 ``(R, S)``.
    """
    denominator = torch.tensor([1.0, *poles], dtype=torch.float32, device=rows.device)
    numerator = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float32, device=rows.device)
    filtered: Tensor = torchaudio.functional.lfilter(rows, denominator, numerator, clamp=False)
    return filtered


def parallel(rows: Tensor, poles: tuple[float, float]) -> Tensor:
    """As `recursive`, in float64 and in few steps, each over all samples.

    With ``A(z) = 1 + a1 z + a2 z^2`` in delays z, ``A(z) A(-z)`` is a polynomial in ``z^2`` of the
    same form. So ``1 / A(z) = A(-z) B(-z^2) C(-z^4) ...``, until the poles have vanished.
    """
    first, second = poles
    radius, delay = math.sqrt(second), 1
    result = rows.double()
    size = rows.shape[1]
    while delay < size and radius**delay > NEGLIGIBLE:
        before, result = result, result.clone()
        result[:, delay:].sub_(before[:, : size - delay], alpha=first)
        if 2 * delay < size:
            result[:, 2 * delay :].add_(before[:, : size - 2 * delay], alpha=second)
        first, second, delay = 2 * second - first**2, second**2, 2 * delay
    return result.float()


@cache
def _low_pass() -> tuple[tuple[float, float, float], tuple[float, float]]:
    cosine, alpha = _angle(LOW_PASS_HZ)
    return _normalised((1 - cosine) / 2, 1 - cosine, cosine, alpha)


@cache
def _high_pass() -> tuple[tuple[float, float, float], tuple[float, float]]:
    cosine, alpha = _angle(HIGH_PASS_HZ)
    return _normalised((1 + cosine) / 2, -1 - cosine, cosine, alpha)


def _angle(cutoff_hz: float) -> tuple[Tensor, Tensor]:
    """Cosine of the cut-off frequency, and half the width: float32 scalars.

    The published code computes them in float32, which changes the gain of the low-pass by 1e-4.
    """
    cutoff = torch.tensor(cutoff_hz, dtype=torch.float32, device="cpu")
    omega = 2 * math.pi * cutoff / RATE
    # Through float64, as the last bit of a float32 cosine depends on the library at hand.
    sine, cosine = (function(omega.double()).float() for function in (torch.sin, torch.cos))
    quality = torch.tensor(QUALITY, dtype=torch.float32, device="cpu")
    return cosine, sine / 2 / quality


def _normalised(
    outer: Tensor, inner: Tensor, cosine: Tensor, alpha: Tensor
) -> tuple[tuple[float, float, float], tuple[float, float]]:
    """Zeros and poles of a section (R. Bristow-Johnson, "Audio EQ cookbook")."""
    scale = 1 + alpha
    ends, middle = float(outer / scale), float(inner / scale)
    return (ends, middle, ends), (float(-2 * cosine / scale), float((1 - alpha) / scale))
