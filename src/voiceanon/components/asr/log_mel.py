"""Whisper's input: logarithmic mel spectra, 100 frames per second.

Sources: `WhisperFeatureExtractor` of transformers and `preprocessor_config.json` (window, hop,
bands, constants); `log_mel_spectrogram` of the original code (silence behind a recording).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.asr.whisper_config import HOP_SAMPLES, SAMPLE_RATE

FFT_SAMPLES = 400
MAX_FREQUENCY = 8000.0
LEAST_POWER = 1e-10
RANGE_BELS = 8.0
"""Powers of ten below the loudest value of a recording that are kept."""

LINEAR_HERTZ, LINEAR_MELS, MELS_PER_FACTOR = 1000.0, 15.0, 27.0 / math.log(6.4)
"""Slaney's mel scale: even up to this frequency, that many mels, and logarithmic from there."""

SHIFT, SCALE = 4.0, 4.0
"""Values leave as ``(log10 power + SHIFT) / SCALE``."""


class LogMel(nn.Module):
    """Waveform to log-mel frames."""

    window: Tensor
    filters: Tensor

    def __init__(self, bins: int) -> None:
        """Computes the mel filters.

        Args:
            bins: Mel bands.
        """
        super().__init__()
        window = torch.hann_window(FFT_SAMPLES, dtype=torch.float32)
        self.register_buffer("filters", _filters(bins), persistent=False)
        self.register_buffer("window", window, persistent=False)

    def forward(self, batch: Tensor, lengths: Tensor, silence: int) -> Tensor:
        """Computes the frames.

        Args:
            batch: float32 ``(B, T)``, 16 kHz, full scale 1.0. What lies behind a length does not
                matter.
            lengths: int64 ``(B,)`` in samples.
            silence: Samples of silence that follow the longest recording.

        Returns:
            float32 ``(B, bins, F)`` with ``F = (T + silence) // HOP_SAMPLES``. The first
            ``lengths // HOP_SAMPLES`` frames of a row are the recording's, silence follows; a row
            does not depend on the others.
        """
        inside = torch.arange(batch.shape[1], device=batch.device) < lengths[:, None]
        wave = F.pad(torch.where(inside, batch, 0.0), (0, silence))
        with torch.autocast(batch.device.type, enabled=False):
            spectrum = torch.stft(
                wave.float(), FFT_SAMPLES, HOP_SAMPLES, window=self.window, return_complex=True
            )[..., :-1]
            power = torch.view_as_real(spectrum).square().sum(-1)
            mel = self.filters.T @ power
            level = mel.clamp_min(LEAST_POWER).log10()
            floor = level.amax((1, 2), keepdim=True) - RANGE_BELS
            return (torch.maximum(level, floor) + SHIFT) / SCALE


def _filters(bins: int) -> Tensor:
    """Triangles of equal area over the bins of the FFT, float32 ``(FFT_SAMPLES // 2 + 1, bins)``.

    Computed in double precision, as in transformers.
    """
    highest = LINEAR_MELS + math.log(MAX_FREQUENCY / LINEAR_HERTZ) * MELS_PER_FACTOR
    mels = torch.linspace(0.0, highest, bins + 2, dtype=torch.float64)
    above = LINEAR_HERTZ * torch.exp((mels - LINEAR_MELS) / MELS_PER_FACTOR)
    corners = torch.where(mels < LINEAR_MELS, mels * LINEAR_HERTZ / LINEAR_MELS, above)
    hertz = torch.linspace(0.0, SAMPLE_RATE / 2, FFT_SAMPLES // 2 + 1, dtype=torch.float64)
    distance = corners - hertz[:, None]
    rising = -distance[:, :-2] / corners.diff()[:-1]
    falling = distance[:, 2:] / corners.diff()[1:]
    triangles = torch.minimum(rising, falling).clamp_min(0.0)
    return (triangles * 2.0 / (corners[2:] - corners[:-2])).float()
