"""From probabilities of speech to where the speech of a recording begins and ends.

Source: specification sheet of B3, section 3 (defaults of Silero's ``get_speech_timestamps``; the
same rule for its versions 4, 5 and 6).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK_SAMPLES = 512
"""Samples (16 kHz) that share one probability."""

SPEECH_PROBABILITY = 0.5
"""From which on a block is speech."""

SILENCE_PROBABILITY = 0.35
"""Below which a block in speech may be the first of a silence."""

MIN_SILENCE_SAMPLES = 1600
"""From the first block of a silence to the one that ends the speech before it: 100 ms."""

MIN_SPEECH_SAMPLES = 4000
"""A segment must be longer: 250 ms."""

PADDING_SAMPLES = 480
"""Added on both sides: 30 ms."""


def speech_bounds(
    probabilities: Tensor, blocks: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Finds the start of the first segment of speech and the end of the last one.

    A segment starts with a block of speech. It ends with the first block of the first silence that
    is long enough and holds no block of speech, or with the recording.

    Args:
        probabilities: Of `BLOCK_SAMPLES` samples each, ``(B, N)``; what lies behind an item's
            blocks is not looked at.
        blocks: Of each item, int64 ``(B,)``, 0 to N.
        lengths: Samples of each item, int64 ``(B,)``.

    Returns:
        First sample and the one behind the last, int64 ``(B,)``, with the padding; and whether
        there is a segment at all, bool ``(B,)``. Without one the whole recording is given.
    """
    places = torch.arange(probabilities.shape[1], device=probabilities.device)
    inside = places < blocks[:, None]
    speech = inside & (probabilities >= SPEECH_PROBABILITY)
    silence = inside & (probabilities < SILENCE_PROBABILITY)

    # Speech is going on from each block of speech until a silence has become long enough, so that
    # where a silence counts follows from the last block of speech before it alone.
    last_speech = _last(speech, places)
    opens = silence & (last_speech >= 0) & (_before(_last(silence, places)) <= last_speech)
    opened = _last(opens, places)
    long_enough = (places - opened) * BLOCK_SAMPLES >= MIN_SILENCE_SAMPLES
    closes = silence & (opened > last_speech) & long_enough
    starts = speech & (_before(_last(closes, places)) >= _before(last_speech))
    started = _last(starts, places)

    closed = closes & ((opened - started) * BLOCK_SAMPLES > MIN_SPEECH_SAMPLES)
    first = _final(started) * BLOCK_SAMPLES
    going_on = _final(last_speech) > _final(_last(closes, places))
    going_on &= lengths - first > MIN_SPEECH_SAMPLES

    none = probabilities.shape[1] * BLOCK_SAMPLES + lengths
    start = torch.where(closed, started * BLOCK_SAMPLES, none[:, None])
    start = torch.cat([start, torch.where(going_on, first, none)[:, None]], dim=1).amin(1)
    end = torch.where(closed, opened * BLOCK_SAMPLES, -1)
    end = torch.cat([end, torch.where(going_on, lengths, -1)[:, None]], dim=1).amax(1)

    found = end >= 0
    start = torch.where(found, (start - PADDING_SAMPLES).clamp_min(0), 0)
    end = torch.where(found, torch.minimum(end + PADDING_SAMPLES, lengths), lengths)
    return start, end, found


def _last(flags: Tensor, places: Tensor) -> Tensor:
    """Place of the last flag up to each block, this one included; -1 for none."""
    return torch.where(flags, places, -1).cummax(1).values


def _before(values: Tensor) -> Tensor:
    """Values of the block before each block; -1 for the first."""
    return F.pad(values, (1, 0), value=-1)[:, :-1]


def _final(values: Tensor) -> Tensor:
    """Value of the last block, ``(B,)``; -1 for no block."""
    return F.pad(values, (1, 0), value=-1)[:, -1]
