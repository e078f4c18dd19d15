"""From the waveform to normalised logarithmic mel frames.

Natural logarithm of power, on the waveform as it is. Source: specification sheet of the family,
section 6 ("Front end").
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from voiceanon.components.edges import reflect_edges

LEAST_POWER = 1e-10
"""Smaller values of the mel spectrum are raised to this."""


class MelFrontEnd(nn.Module):
    """Log-mel frames; the mel matrix is an entry of the checkpoint (`logmel.melmat`)."""

    window: Tensor

    def __init__(self, fft_samples: int, hop_samples: int, mel_bins: int) -> None:
        """Makes room for the mel matrix.

        Args:
            fft_samples: Samples in a window, even.
            hop_samples: Samples between frames.
            mel_bins: Bands.
        """
        super().__init__()
        self.fft_samples = fft_samples
        self.hop_samples = hop_samples
        self.logmel = _MelMatrix(fft_samples // 2 + 1, mel_bins)
        # A constant: no file fills it, so that it needs memory even if the rest has none yet.
        with torch.device("cpu"):
            window = torch.hann_window(fft_samples, dtype=torch.float32)
        self.register_buffer("window", window, persistent=False)

    def frame_count(self, lengths: Tensor) -> Tensor:
        """Frames of recordings of ``lengths`` samples, integers of any shape to the same."""
        return 1 + lengths // self.hop_samples

    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the frames, under autocast too in float32.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0. What lies behind a length does not
                matter.
            lengths: Samples of each recording, int64 ``(B,)``, at least 1.

        Returns:
            Natural logarithms of power, float32 ``(B, N, mel_bins)``, and the frames of each
            recording, int64 ``(B,)``. Rows after those are finite and have no meaning.
        """
        with torch.autocast(wav.device.type, enabled=False):
            wave = reflect_edges(wav.float(), lengths, self.fft_samples // 2)
            spectrum = torch.stft(
                wave,
                self.fft_samples,
                self.hop_samples,
                window=self.window,
                center=False,
                return_complex=True,
            )
            power = torch.view_as_real(spectrum).square().sum(-1).transpose(1, 2)
            mel = power @ self.logmel.melmat
            return mel.clamp_min(LEAST_POWER).log(), self.frame_count(lengths)


class _MelMatrix(nn.Module):
    """Holds the matrix under its published name."""

    melmat: Tensor

    def __init__(self, bins: int, mel_bins: int) -> None:
        super().__init__()
        self.register_buffer("melmat", torch.zeros(bins, mel_bins, dtype=torch.float32))


class GlobalNormalization(nn.Module):
    """Mean and standard deviation of the training data's bands are taken away.

    Both are entries of the checkpoint.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mel_bins: int) -> None:
        """Makes room for the entries."""
        super().__init__()
        self.register_buffer("mean", torch.zeros(mel_bins, dtype=torch.float32))
        self.register_buffer("std", torch.ones(mel_bins, dtype=torch.float32))

    def forward(self, frames: Tensor, valid: Tensor) -> Tensor:
        """Turns float32 ``(B, N, mel_bins)`` into the same, 0 where not ``valid`` ``(B, N)``."""
        return ((frames - self.mean) / self.std).masked_fill(~valid[..., None], 0.0)


class UtteranceNormalization(nn.Module):
    """The mean of each utterance's bands is taken away."""

    def forward(self, frames: Tensor, valid: Tensor) -> Tensor:
        """Turns float32 ``(B, N, mel_bins)`` into the same, 0 where not ``valid`` ``(B, N)``."""
        outside = ~valid[..., None]
        total = frames.masked_fill(outside, 0.0).sum(1, keepdim=True)
        mean = total / valid.sum(1)[:, None, None].clamp_min(1)
        return (frames - mean).masked_fill(outside, 0.0)
