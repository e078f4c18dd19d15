"""Log-mel filter bank as Kaldi computes it, for padded batches, and cepstral mean subtraction.

Sources: specification sheet of B5 and B6, section 3; conventions of Kaldi's `compute-fbank-feats`
with ``--snip-edges=false --dither=0``. Apart from the floor, the numbers are those of
`torchaudio.compliance.kaldi.fbank`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SAMPLE_RATE = 16_000
"""Hz."""

SAMPLE_SCALE = 32_768.0
"""Kaldi reads 16-bit samples as they are: full scale 1.0 becomes this."""

PRE_EMPHASIS = 0.97
"""Share of the sample before that is subtracted (default of Kaldi's ``--preemphasis-coefficient``).
"""

WINDOW_POWER = 0.85
"""Exponent of the symmetric Hann window that makes it Kaldi's "povey" window."""

MEL_FACTOR = 1127.0
"""With `MEL_BREAK_HZ`: mel = 1127 ln(1 + f / 700)."""

MEL_BREAK_HZ = 700.0


@dataclass(frozen=True, kw_only=True)
class FilterBankConfig:
    """Numbers of a filter bank; the defaults are those of B6 (section 3).

    Attributes:
        bins: Mel bands, D.
        frame_samples: Samples of a frame: 25 ms.
        shift_samples: Samples between frames: 10 ms.
        low_hz: Lower edge of the first band.
        high_hz: Upper edge of the last band.
        floor: Smallest energy of a band, before the logarithm, with samples in units of 16-bit
            integers. Kaldi and torchaudio have 1.19e-7.
    """

    bins: int = 80
    frame_samples: int = 400
    shift_samples: int = 160
    low_hz: float = 20.0
    high_hz: float = 8000.0
    floor: float = 1e-6

    @property
    def fft_samples(self) -> int:
        """Samples that a frame is filled up to: the next power of two."""
        return 1 << (self.frame_samples - 1).bit_length()


class FilterBank(nn.Module):
    """Waveforms to logarithmic energies of mel bands. Computes in float32, under autocast, too."""

    window: Tensor
    mel: Tensor

    def __init__(self, config: FilterBankConfig | None = None) -> None:
        """Computes window and bands.

        Args:
            config: The filter bank of B6 if left out.
        """
        super().__init__()
        self.config = config or FilterBankConfig()
        # Constants: no file fills them, so that they need memory even if the rest has none yet.
        self.register_buffer("window", _povey_window(self.config.frame_samples), persistent=False)
        self.register_buffer("mel", _mel_bands(self.config), persistent=False)

    def frame_count(self, samples: Tensor) -> Tensor:
        """Frames of recordings: int64 samples of any shape to frames."""
        shift = self.config.shift_samples
        return (samples + shift // 2).div(shift, rounding_mode="floor")

    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the energies.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0. The values in the padding do not
                matter.
            lengths: Samples of each recording, int64 ``(B,)``, a frame (400) to T. The caller
                guarantees the lower bound.

        Returns:
            Natural logarithms of energies, float32 ``(B, N, D)``, and the frames of each
            recording, int64 ``(B,)``. Rows after those are finite and have no meaning.
        """
        with torch.autocast(wav.device.type, enabled=False):
            frames = self._frames(wav, lengths)
            frames = frames - frames.mean(-1, keepdim=True)
            # Kaldi pairs the first sample of a frame with itself.
            before = F.pad(frames, (1, 0), mode="replicate")[..., :-1]
            windowed = (frames - PRE_EMPHASIS * before) * self.window
            spectrum = torch.fft.rfft(windowed, n=self.config.fft_samples)
            power = torch.view_as_real(spectrum).square().sum(-1)
            energies = (power @ self.mel).clamp_min(self.config.floor).log()
        return energies, self.frame_count(lengths)

    def _frames(self, wav: Tensor, lengths: Tensor) -> Tensor:
        """Overlapping frames ``(B, N, frame_samples)``, in Kaldi's units.

        Every recording is mirrored at its own ends, the outermost samples included.
        """
        size, shift = self.config.frame_samples, self.config.shift_samples
        count = (wav.shape[1] + shift // 2) // shift
        places = torch.arange((count - 1) * shift + size, device=wav.device) - (size - shift) // 2
        places = torch.where(places < 0, -1 - places, places)
        last = lengths[:, None] - 1
        # Frames behind a recording would be mirrored beyond its start.
        index = torch.where(places > last, 2 * last + 1 - places, places).clamp_min(0)
        samples = wav.float().gather(1, index) * SAMPLE_SCALE
        return samples.unfold(1, size, shift)


def subtract_mean(features: Tensor, lengths: Tensor) -> Tensor:
    """Subtracts from every feature its mean over the recording.

    Args:
        features: float32 ``(B, N, D)``. Rows behind a recording do not matter.
        lengths: Frames of each recording, int64 ``(B,)``, at least 1.

    Returns:
        float32 ``(B, N, D)``; rows behind a recording have no meaning.
    """
    steps = torch.arange(features.shape[1], device=features.device)
    padded = steps >= lengths[:, None]
    total = features.masked_fill(padded[..., None], 0.0).sum(1, keepdim=True)
    return features - total / lengths[:, None, None]


def _povey_window(samples: int) -> Tensor:
    hann = torch.hann_window(samples, periodic=False, dtype=torch.float32, device="cpu")
    return hann.pow(WINDOW_POWER)


def _mel_bands(config: FilterBankConfig) -> Tensor:
    """Weights of the bands, float32 ``(fft_samples / 2 + 1, bins)``: triangles over mel."""
    low, high = (
        MEL_FACTOR * math.log1p(hz / MEL_BREAK_HZ) for hz in (config.low_hz, config.high_hz)
    )
    width = (high - low) / (config.bins + 1)
    # In float32, as published: rounding moves energies of low bands by 1e-4.
    edges = low + width * torch.arange(config.bins + 2, dtype=torch.float32, device="cpu")
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    lines = torch.arange(config.fft_samples // 2, dtype=torch.float32, device="cpu")[:, None]
    hertz = lines * (SAMPLE_RATE / config.fft_samples)
    mel = MEL_FACTOR * (1 + hertz / MEL_BREAK_HZ).log()
    rising, falling = (mel - left) / (centre - left), (right - mel) / (right - centre)
    weights = torch.minimum(rising, falling).clamp_min(0)
    # Kaldi leaves out the line at half the sampling rate.
    return F.pad(weights, (0, 0, 0, 1))
