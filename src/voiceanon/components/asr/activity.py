"""Where a recording is loud enough to be speech.

Source: specification sheet of the family, section 2, guard 1: frames of 25 ms above the larger of
-50 dBFS and 40 dB below the peak. The peak is that of the frames' levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

FRAME_SECONDS = 0.025
SAMPLE_RATE = 16_000
FRAME_SAMPLES = round(FRAME_SECONDS * SAMPLE_RATE)

_LEAST_POWER = 1e-20
"""Keeps the level of digital silence finite: -200 dBFS."""


@dataclass(frozen=True, kw_only=True)
class ActivityConfig:
    """When a frame counts as active.

    Attributes:
        floor_dbfs: Least level (RMS), dBFS.
        range_db: Most that it may lie below the loudest frame, dB.
    """

    floor_dbfs: float = -50.0
    range_db: float = 40.0


def active_frames(batch: Tensor, lengths: Tensor, config: ActivityConfig) -> Tensor:
    """Tells the active frames of each recording.

    Args:
        batch: float32 ``(B, T)`` at `SAMPLE_RATE`, full scale 1.0. What lies behind a length does
            not matter.
        lengths: int64 ``(B,)`` in samples.
        config: Levels.

    Returns:
        bool ``(B, N)``, a frame every `FRAME_SAMPLES` samples; the last one of a recording may be
        cut short. False behind a recording.
    """
    padded = F.pad(batch, (0, -batch.shape[1] % FRAME_SAMPLES))
    places = torch.arange(padded.shape[1], device=batch.device)
    inside = places < lengths[:, None]
    shape = (len(batch), -1, FRAME_SAMPLES)
    frames = torch.where(inside, padded, 0.0).view(*shape)
    count = inside.view(*shape).sum(2)
    mean = frames.sum(2) / count.clamp_min(1)
    # A constant offset is no sound; samples behind the end do not count.
    power = (frames.square().sum(2) / count.clamp_min(1) - mean.square()).clamp_min(_LEAST_POWER)
    level = 10 * power.log10()
    level = level.masked_fill(count == 0, -math.inf)
    threshold = (level.amax(1) - config.range_db).clamp_min(config.floor_dbfs)
    return level > threshold[:, None]


def pause_cuts(active: list[bool], longest: int, least_pause: int) -> list[tuple[int, int]]:
    """Cuts a recording at pauses into pieces that hold speech.

    Args:
        active: Of one recording.
        longest: Most frames of a piece; where no pause comes in time, it is cut in the middle of
            the longest one that there is, or without a pause.
        least_pause: Frames of the shortest pause at which a piece may end early.

    Returns:
        First frame and end of each piece, without inactive frames at either end.
    """
    runs = _runs(active)
    pieces: list[tuple[int, int]] = []
    for first, end in runs:
        if pieces:
            start, before = pieces[-1]
            if end - start <= longest and first - before < least_pause:
                pieces[-1] = (start, end)
                continue
        while end - first > longest:
            pieces.append((first, first + longest))
            first += longest
        pieces.append((first, end))
    return pieces


def _runs(active: list[bool]) -> list[tuple[int, int]]:
    edges = [
        place
        for place, (before, here) in enumerate(zip([False, *active], [*active, False], strict=True))
        if before != here
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))
