"""Voice activity from the energy of frames, as Kaldi's `compute-vad` decides it.

Source: specification sheet of the x-vector family, section 4; `conf/vad.conf` of
Voice-Privacy-Challenge-2022.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.rows import take_rows

ENERGY_THRESHOLD = 5.5
"""Constant part of the threshold, a natural logarithm of energies of 16-bit samples
(``--vad-energy-threshold``)."""

MEAN_SCALE = 0.5
"""Share of the recording's mean that is added to it (``--vad-energy-mean-scale``)."""

CONTEXT_FRAMES = 2
"""Neighbours on each side that have a vote (``--vad-frames-context``)."""

PROPORTION = 0.12
"""Share of votes that a voiced frame needs (``--vad-proportion-threshold``)."""


def voiced_frames(log_energy: Tensor, frames: Tensor) -> Tensor:
    """Decides which frames are voiced.

    Args:
        log_energy: First coefficient of `features.mfcc.XVECTOR_MFCC`, before any mean is
            subtracted, float32 ``(B, N)``. Values behind a recording do not matter.
        frames: Frames of each recording, int64 ``(B,)``, at least 1.

    Returns:
        bool ``(B, N)``, false behind a recording.
    """
    steps = torch.arange(log_energy.shape[1], device=log_energy.device)
    inside = steps < frames[:, None]
    energy = log_energy.double().masked_fill(~inside, 0.0)
    threshold = ENERGY_THRESHOLD + MEAN_SCALE * energy.sum(1) / frames
    votes = _neighbours((energy > threshold[:, None]) & inside)
    return (votes >= PROPORTION * _neighbours(inside)) & inside


def select_voiced(features: Tensor, frames: Tensor, voiced: Tensor) -> tuple[Tensor, Tensor]:
    """Drops unvoiced frames.

    A recording without a voiced frame, which the published recipe leaves out, keeps all of its
    frames.

    Args:
        features: float32 ``(B, N, D)``.
        frames: Frames of each recording, int64 ``(B,)``.
        voiced: bool ``(B, N)``, as `voiced_frames` gives it.

    Returns:
        float32 ``(B, N, D)``, voiced frames in their order first, and their number, int64
        ``(B,)``. Rows after those have no meaning.
    """
    inside = torch.arange(features.shape[1], device=features.device) < frames[:, None]
    kept = torch.where(voiced.any(1, keepdim=True), voiced, inside)
    order = kept.logical_not().byte().argsort(dim=1, stable=True)
    return take_rows(features, order), kept.sum(1)


def _neighbours(marks: Tensor) -> Tensor:
    """Marked frames among each frame and its neighbours, float64 ``(B, N)``."""
    sums = F.pad(marks.double(), (CONTEXT_FRAMES, CONTEXT_FRAMES))
    return sums.unfold(1, 2 * CONTEXT_FRAMES + 1, 1).sum(-1)
