"""Mel-frequency cepstral coefficients as Kaldi computes them, for padded batches.

Sources: specification sheet of the x-vector family, section 3; `conf/mfcc.conf` and
`conf/mfcc_hires.conf` of Voice-Privacy-Challenge-2022; the conventions of Kaldi's
`compute-mfcc-feats`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.content.filter_bank import (
    PRE_EMPHASIS,
    SAMPLE_SCALE,
    FilterBank,
    FilterBankConfig,
)

ENERGY_FLOOR = torch.finfo(torch.float32).eps
"""Smallest energy before a logarithm, with samples in units of 16-bit integers."""


@dataclass(frozen=True, kw_only=True)
class MfccConfig:
    """Numbers of cepstral features at 16 kHz.

    Attributes:
        cepstra: Coefficients of a frame, D.
        bins: Mel bands.
        low_hz: Lower edge of the first band.
        high_hz: Upper edge of the last band.
        lifter: Kaldi's ``--cepstral-lifter``.
        frame_samples: Samples of a frame: 25 ms.
        shift_samples: Samples between frames: 10 ms.
        snip_edges: Whether only frames that lie within the recording count. If not, there is one
            frame per shift, and the recording is mirrored at its ends.
        log_energy: Whether the first coefficient is the logarithm of the frame's energy.
    """

    cepstra: int
    bins: int
    low_hz: float = 20.0
    high_hz: float = 7600.0
    lifter: float = 22.0
    frame_samples: int = 400
    shift_samples: int = 160
    snip_edges: bool
    log_energy: bool


XVECTOR_MFCC = MfccConfig(cepstra=30, bins=30, snip_edges=False, log_energy=True)
"""Features of the x-vector network (`conf/mfcc.conf`)."""

HIRES_MFCC = MfccConfig(cepstra=40, bins=40, snip_edges=True, log_energy=False)
"""Features of the bottleneck and i-vector extractors (`conf/mfcc_hires.conf`)."""


class Mfcc(nn.Module):
    """Waveforms to cepstral coefficients. Computes in float32, under autocast, too."""

    transform: Tensor

    def __init__(self, config: MfccConfig) -> None:
        """Computes window, bands and cosine transform."""
        super().__init__()
        self.config = config
        self.bank = FilterBank(
            FilterBankConfig(
                bins=config.bins,
                frame_samples=config.frame_samples,
                shift_samples=config.shift_samples,
                low_hz=config.low_hz,
                high_hz=config.high_hz,
                floor=ENERGY_FLOOR,
            )
        )
        # A constant: no file fills it, so that it needs memory even if the rest has none yet.
        self.register_buffer("transform", _liftered_cosines(config), persistent=False)

    def frame_count(self, samples: Tensor) -> Tensor:
        """Frames of recordings: int64 samples of any shape to frames."""
        size, shift = self.config.frame_samples, self.config.shift_samples
        room = samples - size + shift if self.config.snip_edges else samples + shift // 2
        return room.div(shift, rounding_mode="floor")

    def forward(
        self,
        wav: Tensor,
        lengths: Tensor,
        *,
        dither: float = 0.0,
        generators: Sequence[torch.Generator] = (),
    ) -> tuple[Tensor, Tensor]:
        """Computes the coefficients.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0. The values in the padding do not
                matter.
            lengths: Samples of each recording, int64 ``(B,)``, a frame (400) to T. The caller
                guarantees the lower bound.
            dither: Standard deviation of the noise that is added to every frame, in units of
                16-bit integers. Kaldi's default is 1.
            generators: One for each recording, where there is dither. It gives the samples of the
                first frame, then those of the second, ...

        Returns:
            float32 ``(B, N, D)``, and the frames of each recording, int64 ``(B,)``. Rows after
            those are finite and have no meaning.
        """
        counts = self.frame_count(lengths)
        with torch.autocast(wav.device.type, enabled=False):
            frames = self._frames(wav, lengths)
            if dither:
                frames = frames + dither * _noise(frames, counts, generators)
            frames = frames - frames.mean(-1, keepdim=True)
            # Kaldi pairs the first sample of a frame with itself.
            before = F.pad(frames, (1, 0), mode="replicate")[..., :-1]
            windowed = (frames - PRE_EMPHASIS * before) * self.bank.window
            spectrum = torch.fft.rfft(windowed, n=self.bank.config.fft_samples)
            power = torch.view_as_real(spectrum).square().sum(-1)
            energies = (power @ self.bank.mel).clamp_min(ENERGY_FLOOR).log()
            cepstra = energies @ self.transform
            if self.config.log_energy:
                energy = frames.square().sum(-1).clamp_min(ENERGY_FLOOR).log()
                cepstra = torch.cat((energy[..., None], cepstra[..., 1:]), dim=-1)
        return cepstra, counts

    def _frames(self, wav: Tensor, lengths: Tensor) -> Tensor:
        """Overlapping frames ``(B, N, frame_samples)``, in Kaldi's units."""
        size, shift = self.config.frame_samples, self.config.shift_samples
        last = lengths[:, None] - 1
        if self.config.snip_edges:
            places = torch.arange(wav.shape[1], device=wav.device)
            samples = wav.float().masked_fill(places > last, 0.0)
        else:
            count = (wav.shape[1] + shift // 2) // shift
            places = torch.arange((count - 1) * shift + size, device=wav.device)
            places = places - (size - shift) // 2
            places = torch.where(places < 0, -1 - places, places)
            # Frames behind a recording would be mirrored beyond its start.
            index = torch.where(places > last, 2 * last + 1 - places, places).clamp_min(0)
            samples = wav.float().gather(1, index)
        return (samples * SAMPLE_SCALE).unfold(1, size, shift)


def _noise(frames: Tensor, counts: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """Normal values for the own frames of each recording, 0 behind them: ``(B, N, W)``."""
    noise = torch.zeros_like(frames)
    # A generator must not be drawn from for the padding, or what it gives next would depend on the
    # batch: hence numbers on the CPU, and a loop.
    for row, count, generator in zip(noise, counts.tolist(), generators, strict=True):
        size = (count, frames.shape[2])
        device = generator.device
        row[:count] = torch.randn(size, generator=generator, dtype=row.dtype, device=device)
    return noise


def _liftered_cosines(config: MfccConfig) -> Tensor:
    """Orthonormal DCT-II with the lifter, float32 ``(bins, cepstra)``."""
    bins = torch.arange(config.bins, dtype=torch.float64, device="cpu")[:, None]
    order = torch.arange(config.cepstra, dtype=torch.float64, device="cpu")
    cosines = (math.pi / config.bins * (bins + 0.5) * order).cos() * math.sqrt(2 / config.bins)
    cosines[:, 0] = math.sqrt(1 / config.bins)
    lifter = 1 + config.lifter / 2 * (math.pi * order / config.lifter).sin()
    return (cosines * lifter).float()
