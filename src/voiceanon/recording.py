"""One recording on its way through `Anonymizer`: options, choices and results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypedDict, get_args

from torch import Tensor

from voiceanon.audio.forms import Opened
from voiceanon.audio.level import Meter
from voiceanon.audio.source import Source
from voiceanon.errors import ConfigError
from voiceanon.types import Level, Loudness, Seed, Target

ChunkSeconds = float | Literal["auto"] | None
"""Longest piece that is converted at once: seconds, the system's own, or never cut."""


class AnonymizeOptions(TypedDict, total=False):
    """The keyword options of `Anonymizer.anonymize`, but for ``return_report``."""

    seed: Seed
    key: str | None
    speaker: str | None
    level: Level
    target: object
    loudness: Loudness
    mix_channels: bool
    chunk_seconds: ChunkSeconds


@dataclass(frozen=True)
class Voice:
    """The voice that a recording gets.

    Attributes:
        target: All random decisions that define it.
        secret: Key material for further draws, see `seeding.seed_secret`.
        key: Name of the utterance in the draws, if any.
        speaker: Name of the source speaker, if any.
    """

    target: Target
    secret: bytes
    key: str | None
    speaker: str | None


@dataclass
class Recording:
    """A recording, its voice, and what has been done to it so far.

    Attributes:
        opened: As the caller passed it.
        source: The checked samples.
        voice: The voice that it gets.
        meters: What measured each converted channel at the model's rate; silent ones have none.
        chunks: Pieces that the longest channel was cut into.
        gain: Of the level step.
        result: float32 ``(C, T)`` at the recording's rate, once finished.
    """

    opened: Opened
    source: Source
    voice: Voice
    meters: list[Meter] = field(default_factory=list)
    chunks: int = 0
    gain: float = 1.0
    result: Tensor = field(default_factory=lambda: Tensor())


def check_options(level: str, loudness: str) -> None:
    """Raises `ConfigError` where an option is none of the words it can be."""
    for name, value, allowed in (
        ("level", level, get_args(Level)),
        ("loudness", loudness, get_args(Loudness)),
    ):
        if value not in allowed:
            raise ConfigError(f"{name}: {value!r} is not one of {', '.join(allowed)}.")
