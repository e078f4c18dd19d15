"""Level: what is measured while audio passes, and the gains that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Meter(Protocol):
    """Measures one channel or more while audio passes."""

    def add(self, block: Tensor) -> None:
        """Takes the next float32 samples ``(T,)``, full scale 1.0."""


@dataclass
class LevelMeter:
    """Running peak and power of a channel, or of all channels of a recording.

    Attributes:
        peak: Largest magnitude so far, full scale 1.0.
        squares: Sum of squares so far.
        samples: Samples so far, all channels together.
    """

    peak: float = 0.0
    squares: float = 0.0
    samples: int = 0

    def add(self, block: Tensor) -> None:
        """Takes the next float32 samples, of any shape."""
        if block.numel() == 0:
            return
        self.peak = max(self.peak, float(block.abs().max()))
        self.squares += float(block.square().sum(dtype=torch.float64))
        self.samples += block.numel()

    @property
    def rms(self) -> float:
        """Root mean square, full scale 1.0; 0 before the first sample."""
        return math.sqrt(self.squares / self.samples) if self.samples else 0.0


def peak_gain(peak: float, target: float) -> float:
    """Gain that brings a peak to ``target``; 1 on silence."""
    return target / peak if peak > 0 else 1.0


def rms_gain(source: LevelMeter, result: LevelMeter) -> float:
    """Gain that gives ``result`` the RMS of ``source``; 1 where either is silent."""
    return source.rms / result.rms if source.rms > 0 and result.rms > 0 else 1.0


def decibels(gain: float) -> float:
    """Gain in dB."""
    return 20 * math.log10(gain)
