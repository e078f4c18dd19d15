"""What differs between the programs of this name."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from voiceanon.components.f0.yaapt.constants import BIN_HZ, F0_MAX, HOP_SAMPLES


@dataclass(frozen=True, kw_only=True)
class YaaptConfig:
    """Settings of a tracker.

    Attributes:
        hop_samples: Samples between frames.
        f0_max: Hz; the highest F0 that is looked for. The lowest is 60 Hz everywhere.
        correlation_samples: Samples of the frames of the time-domain candidates.
        least_peak: Correlation at a peak.
        ported: Whether it is SA-toolkit's port, which leaves the published algorithm in several
            places and computes in float32, or that algorithm, in float64.
    """

    hop_samples: int
    f0_max: float
    correlation_samples: int
    least_peak: float
    ported: bool

    @property
    def dtype(self) -> torch.dtype:
        """Type of the arithmetic."""
        return torch.float32 if self.ported else torch.float64

    @property
    def highest_bin(self) -> float:
        """The highest F0 in bins of a spectrum."""
        return self.f0_max / BIN_HZ


SA_TOOLKIT = YaaptConfig(
    hop_samples=HOP_SAMPLES, f0_max=F0_MAX, correlation_samples=400, least_peak=0.25, ported=True
)
"""That of B5 and B6 (their specification sheet, section 6)."""

AMFM_DECOMPY = YaaptConfig(
    hop_samples=160, f0_max=600.0, correlation_samples=560, least_peak=0.3, ported=False
)
"""That of B1 (its specification sheet, section 8): the package AMFM_decompy 1.0.8.1 with frames
every 10 ms and F0 up to 600 Hz. Later releases of the package give other values."""
