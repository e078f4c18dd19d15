"""Where frames lie, and what they contain."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from voiceanon.components.f0.praat.settings import Settings


def frame_count(lengths: Tensor, settings: Settings) -> Tensor:
    """Frames of recordings; those shorter than a window have none.

    Args:
        lengths: Samples, int64 of any shape.
        settings: See `Settings`.

    Returns:
        int64 of the same shape.
    """
    # The order of the operations here and in `frame_start` is Praat's, down to the rounding, which
    # decides where frames of an odd number of samples begin.
    seconds = lengths.double() * settings.sample_seconds - settings.window_seconds
    return ((seconds / settings.step).floor() + 1).clamp_min(0).long()


def frame_start(length: Tensor, frame: Tensor, settings: Settings) -> Tensor:
    """First samples of frames, which lie around the middle of their recordings.

    Args:
        length: Samples of the recording of each frame, int64 ``(n,)``.
        frame: Its number, int64 ``(n,)``.
        settings: See `Settings`.

    Returns:
        int64 ``(n,)``.
    """
    step, sample = settings.step, settings.sample_seconds
    span = frame_count(length, settings).double() * step
    first = length.double() * sample * 0.5 - 0.5 * span + 0.5 * step
    centre = first + frame.double() * step
    left = ((centre - 0.5 * sample) / sample).floor().long()
    return left + 1 - settings.half_window


@cache
def window(settings: Settings, device: torch.device) -> Tensor:
    """A Hann window without its first and its last point: float64 ``(window,)``."""
    hann = torch.hann_window(settings.window + 2, periodic=False, dtype=torch.float64, device="cpu")
    return hann[1:-1].to(device)


def cut_frames(
    wav: Tensor, item: Tensor, start: Tensor, settings: Settings
) -> tuple[Tensor, Tensor]:
    """Cuts frames, takes their means off and multiplies them with the window.

    Args:
        wav: ``(B, T)``.
        item: Their rows, int64 ``(n,)``.
        start: Their first samples, int64 ``(n,)``.
        settings: See `Settings`.

    Returns:
        float64 ``(n, window)``; and the peak of each in its middle, float64 ``(n,)``.
    """
    half, period, near = settings.half_window, settings.longest_period, settings.half_period
    rows = wav.unfold(1, settings.window, 1)[item, start].double()
    rows -= rows[:, half - period : half + period].mean(1, keepdim=True)
    rows *= window(settings, wav.device)
    return rows, rows[:, half - near : half + near].abs().amax(1)


def peaks(wav: Tensor, inside: Tensor) -> Tensor:
    """Largest distance of each recording from its mean.

    Args:
        wav: ``(B, T)``.
        inside: What belongs to the recordings, bool ``(B, T)``.

    Returns:
        float64 ``(B,)``; exactly 0 for a constant.
    """
    low = wav.masked_fill(~inside, torch.inf).amin(1).double()
    high = wav.masked_fill(~inside, -torch.inf).amax(1).double()
    total = wav.masked_fill(~inside, 0).sum(1, dtype=torch.float64)
    mean = total / inside.sum(1).clamp_min(1)
    return torch.maximum(high - mean, mean - low).where(high > low, 0)
