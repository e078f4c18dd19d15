"""Reference speech of target speakers: opened, brought to one rate and one channel, trimmed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from voiceanon.audio.forms import open_audio
from voiceanon.audio.resample import resample
from voiceanon.audio.source import Source
from voiceanon.audio.trim import trim_voice
from voiceanon.errors import ConfigError


def open_references(
    speaker: str,
    recordings: Any,
    *,
    rate: int,
    max_seconds: float | None,
    piece_seconds: float | None,
    trim_level: float,
    min_samples: int,
) -> list[Tensor]:
    """Opens the reference speech of one speaker.

    Args:
        speaker: Name, for messages.
        recordings: A recording or a sequence of them, in any form that `open_audio` takes.
        rate: Of the system, Hz.
        max_seconds: Most speech in all, after trimming; the rest is left out. ``None`` for all.
        piece_seconds: Longer recordings are cut into pieces of this, since the memory of encoders
            grows with the square of the length; ``None`` for never.
        trim_level: Trigger level of the voice activity trim; 0 for no trim.
        min_samples: Shorter recordings, and remainders, are left out.

    Returns:
        float32 ``(T,)`` at ``rate``, full scale 1.0; at least one.

    Raises:
        AudioError: A recording is not usable as it is.
        ConfigError: No recording is long enough.
    """
    several = isinstance(recordings, Sequence) and not isinstance(recordings, str | bytes)
    left = None if max_seconds is None else int(max_seconds * rate)
    waves: list[Tensor] = []
    for recording in recordings if several else [recordings]:
        opened = open_audio(recording, None, rate)
        source = Source(opened.samples, opened.rate, mix=True)
        wav = resample(source.read(0, 0, source.samples).cpu(), opened.rate, rate)
        if trim_level:
            wav = trim_voice(wav, rate, trim_level, min_samples=min_samples)
        wav = wav[:left]
        if len(wav) < min_samples:
            continue
        piece = len(wav) if piece_seconds is None else int(piece_seconds * rate)
        waves += [part for part in torch.split(wav, piece) if len(part) >= min_samples]
        if left is not None:
            left -= len(wav)
            if left < min_samples:
                break
    if not waves:
        raise ConfigError(
            f"pool: speaker {speaker!r} has no recording of {min_samples / rate:g} s or longer; "
            "add reference speech."
        )
    return waves
