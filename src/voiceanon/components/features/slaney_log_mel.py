"""Log-mel spectra with Slaney's bands, as librosa computes them, for padded batches.

Source: specification sheet of B3, section 3. The style embedding, the aligner and the synthesis
share them.
"""

from __future__ import annotations

import torch
import torchaudio
from torch import Tensor, nn

from voiceanon.components.edges import reflect_edges

SAMPLE_RATE = 16_000
"""Hz."""

FFT_SAMPLES = 1024
"""Samples of a frame and of its periodic Hann window."""

HOP_SAMPLES = 256
"""Samples between the middles of frames: 16 ms."""

BANDS = 80
"""Mel bands, D."""

LOW_HZ, HIGH_HZ = 40.0, 8000.0
"""Edges of the first and of the last band."""

LEAST_MAGNITUDE = 1e-10
"""Smallest value of a band, before the logarithm."""


class LogMel(nn.Module):
    """Waveforms to decimal logarithms of mel bands. Computes in float32, under autocast, too."""

    window: Tensor
    mel: Tensor

    def __init__(self) -> None:
        """Computes window and bands."""
        super().__init__()
        # Constants: no file fills them, so that they need memory even if the rest has none yet.
        with torch.device("cpu"):
            window = torch.hann_window(FFT_SAMPLES, dtype=torch.float32)
            bands = torchaudio.functional.melscale_fbanks(
                FFT_SAMPLES // 2 + 1,
                LOW_HZ,
                HIGH_HZ,
                BANDS,
                SAMPLE_RATE,
                norm="slaney",
                mel_scale="slaney",
            )
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("mel", bands.float(), persistent=False)

    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the spectra.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0. The values in the padding do not
                matter.
            lengths: Samples of each recording, int64 ``(B,)``, 1 to T.

        Returns:
            Logarithms of magnitudes (not of powers), float32 ``(B, N, D)``, and the frames of each
            recording, int64 ``(B,)``. Rows after those are finite and have no meaning.
        """
        with torch.autocast(wav.device.type, enabled=False):
            frames = mirrored_frames(wav.float(), lengths)
            magnitude = torch.fft.rfft(frames * self.window).abs()
            level = (magnitude @ self.mel).clamp_min(LEAST_MAGNITUDE).log10()
        return level, frame_count(lengths)


def frame_count(samples: Tensor) -> Tensor:
    """Frames of recordings: int64 samples of any shape to frames."""
    return 1 + samples.div(HOP_SAMPLES, rounding_mode="floor")


def mirrored_frames(wav: Tensor, lengths: Tensor) -> Tensor:
    """Cuts recordings into overlapping frames, each around a multiple of `HOP_SAMPLES`.

    Every recording is mirrored at its own ends; see `reflect_edges`.

    Args:
        wav: ``(B, T)``. The values in the padding do not matter.
        lengths: Samples of each recording, int64 ``(B,)``, 1 to T.

    Returns:
        ``(B, N, FFT_SAMPLES)`` with ``N = 1 + T // HOP_SAMPLES``, of the type of ``wav``.
    """
    return reflect_edges(wav, lengths, FFT_SAMPLES // 2).unfold(1, FFT_SAMPLES, HOP_SAMPLES)
