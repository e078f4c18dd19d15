"""Energy at low frequencies, normalised over the recording, and the voicing flag from it."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from voiceanon.components.f0 import masked
from voiceanon.components.f0.yaapt.config import SA_TOOLKIT, YaaptConfig
from voiceanon.components.f0.yaapt.constants import FFT_SIZE, FRAME_SAMPLES
from voiceanon.components.f0.yaapt.frames import frames_of, in_blocks

FIRST_BIN = 60
"""First bin that counts: one below twice the lowest F0."""

VOICED_ENERGY = 0.75
"""Normalised energy above which a frame is flagged as voiced."""


@cache
def window(device: torch.device, config: YaaptConfig = SA_TOOLKIT) -> Tensor:
    """A Hann window, periodic in the port, without its ends: ``(FRAME_SAMPLES,)``."""
    hann = torch.hann_window(
        FRAME_SAMPLES + 2, periodic=config.ported, dtype=config.dtype, device="cpu"
    )
    return hann[1:-1].to(device)


def energy_and_mean(
    linear: Tensor, valid: Tensor, config: YaaptConfig = SA_TOOLKIT
) -> tuple[Tensor, Tensor]:
    """Computes the energy of each frame.

    Args:
        linear: Linear signal of `signals.band_limited`, ``(B, S)``.
        valid: Frames of the recordings, bool ``(B, M)``.
        config: See `YaaptConfig`.

    Returns:
        Energies in units of the recording's mean, ``(B, M)``, 0 for silence and behind each item;
        and that mean, ``(B,)``.
    """
    energy = linear.new_zeros(valid.shape)
    # The bin behind the last that counts is the one after the highest F0.
    bins = slice(FIRST_BIN, round(config.highest_bin))

    def work(item: Tensor, frame: Tensor) -> tuple[Tensor]:
        rows = frames_of(linear, item, frame, FRAME_SAMPLES, config.hop_samples)
        rows *= window(linear.device, config)
        return (torch.fft.rfft(rows, FFT_SIZE)[:, bins].abs().sum(1),)

    in_blocks(valid, work, (energy,))
    mean = masked.mean(energy, valid).to(energy.dtype)
    scale = mean.where(mean > 0, 1)
    return energy / scale[:, None], mean


def voicing_flag(energy: Tensor) -> Tensor:
    """Tells frames that may be voiced, by their normalised energy: bool of its shape."""
    return energy > VOICED_ENERGY
