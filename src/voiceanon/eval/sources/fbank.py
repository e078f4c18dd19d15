"""Log-mel energies in dB, as SpeechBrain's speaker models take them.

Source: specification sheet of the evaluation, section 3.3, row "features"; SpeechBrain 0.5.16,
`lobes/features.py` and `processing/features.py`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SAMPLE_RATE = 16_000
"""Hz."""

WINDOW_SAMPLES = 400
"""25 ms; also the length of the Fourier transform."""

HOP_SAMPLES = 160
"""10 ms."""

FLOOR_POWER = 1e-10
"""Powers below this are taken for it."""

RANGE_DB = 80.0
"""Energies further below the loudest one of the recording are raised to this distance."""

_MEL_BREAK_HZ = 700.0
_MEL_FACTOR = 2595.0


class Fbank(nn.Module):
    """Energies of mel bands, without deltas and context. Has no weights."""

    window: Tensor
    filters: Tensor

    def __init__(self, bands: int = 80) -> None:
        """Makes the window and the filters for a number of mel bands."""
        super().__init__()
        window = torch.hamming_window(WINDOW_SAMPLES, periodic=True, dtype=torch.float32)
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("filters", mel_filters(bands), persistent=False)

    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Computes features.

        Args:
            wav: float32 ``(B, T)``, 16 kHz. The values in the padding do not matter.
            lengths: Samples of each recording, int64 ``(B,)``, at least 1.

        Returns:
            Energies in dB, float32 ``(B, N, bands)``, 0 in the padding, and the frames of each
            recording, int64 ``(B,)``. Frames are centred, one every `HOP_SAMPLES`, the first at
            sample 0. A recording's rows do not depend on the rest of the batch.
        """
        inside = torch.arange(wav.shape[1], device=wav.device) < lengths[:, None]
        spectrum = torch.stft(
            # The frames at the end of a recording that is alone see zeros, too.
            wav.where(inside, wav.new_zeros(())),
            WINDOW_SAMPLES,
            HOP_SAMPLES,
            window=self.window,
            center=True,
            pad_mode="constant",
            return_complex=True,
        )
        power = spectrum.real.square() + spectrum.imag.square()
        energies = F.linear(power.transpose(1, 2), self.filters)
        decibels = 10.0 * energies.clamp_min(FLOOR_POWER).log10()
        frames = 1 + lengths // HOP_SAMPLES
        outside = torch.arange(decibels.shape[1], device=wav.device) >= frames[:, None]
        peak = decibels.masked_fill(outside[..., None], -torch.inf).amax((1, 2), keepdim=True)
        limited = torch.maximum(decibels, peak - RANGE_DB)
        return limited.masked_fill(outside[..., None], 0.0), frames


def subtract_mean(features: Tensor, frames: Tensor) -> Tensor:
    """Takes each recording's mean from each band.

    Args:
        features: float32 ``(B, N, D)``.
        frames: int64 ``(B,)``.

    Returns:
        float32 ``(B, N, D)``, 0 in the padding.
    """
    outside = torch.arange(features.shape[1], device=features.device) >= frames[:, None]
    total = features.masked_fill(outside[..., None], 0.0).sum(1, keepdim=True)
    centred = features - total / frames[:, None, None]
    return centred.masked_fill(outside[..., None], 0.0)


def mel_filters(bands: int) -> Tensor:
    """Triangles over the frequency in Hz, float32 ``(bands, WINDOW_SAMPLES // 2 + 1)``.

    Both sides of a triangle have the width that its lower neighbour is away, so that neighbours do
    not add up to 1; that is how the published models were trained.
    """
    top = SAMPLE_RATE / 2
    highest_mel = _MEL_FACTOR * math.log10(1 + top / _MEL_BREAK_HZ)
    mels = torch.linspace(0.0, highest_mel, bands + 2, dtype=torch.float32, device="cpu")
    hertz = _MEL_BREAK_HZ * (10.0 ** (mels / _MEL_FACTOR) - 1.0)
    width = hertz[1:-1] - hertz[:-2]
    count = WINDOW_SAMPLES // 2 + 1
    frequencies = torch.linspace(0.0, top, count, dtype=torch.float32, device="cpu")
    slope: Tensor = (frequencies - hertz[1:-1, None]) / width[:, None]
    return (1.0 - slope.abs()).clamp_min(0.0)
