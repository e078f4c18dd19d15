"""One recording on its way through `Anonymizer`: options, choices, results and report."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from torch import Tensor

from voiceanon import seeding
from voiceanon._version import __version__
from voiceanon.audio.checks import check_duration
from voiceanon.audio.forms import Opened, open_audio
from voiceanon.audio.level import Meter, decibels
from voiceanon.audio.source import Source
from voiceanon.errors import AudioError, AudioWarning, ConfigError
from voiceanon.types import Level, Loudness, Report, Seed, Target

if TYPE_CHECKING:
    from voiceanon.anonymizer import Anonymizer

_warned_narrow_band: set[str] = set()

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
    match_length: bool


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
        voice: The voice that it gets; completed once its first chunk is there.
        meters: What measured each converted channel at the model's rate, for the published level
            step; silent channels have none.
        settled: Whether the voice is complete.
        chunks: Pieces that the longest channel was cut into.
        gain: Of the level step.
        result: float32 ``(C, T)`` at the recording's rate, once finished.
    """

    opened: Opened
    source: Source
    voice: Voice
    meters: list[Meter] = field(default_factory=list)
    settled: bool = False
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


def choose_voice(
    system: Anonymizer,
    secret: bytes | None,
    level: Level,
    key: str | None,
    speaker: str | None,
    given: object,
) -> Voice:
    """Draws a voice, or takes the one that was given.

    Args:
        system: Draws, or checks what was given.
        secret: Key material; ``None`` for fresh one.
        level: What shares a voice.
        key: Name of the utterance, if any.
        speaker: Name of the source speaker, if any.
        given: A target instead of a draw, or ``None``.

    Raises:
        ConfigError: No speaker at speaker level, or a target that does not fit.
    """
    secret = seeding.fresh_secret() if secret is None else secret
    if given is not None:
        return Voice(system.parse_target(given), secret, key, speaker)
    if level == "speaker" and speaker is None:
        raise ConfigError(
            "speaker: level='speaker' needs the name of the speaker; pass speaker=..., or use "
            "level='utterance'."
        )
    name = (speaker if level == "speaker" else key) or ""
    draw = seeding.generator(seeding.stream(secret, system.info.id, "target", level, name))
    return Voice(system.draw_target(draw, speaker), secret, key, speaker)


def open_recordings(
    system: Anonymizer,
    audios: Sequence[Any],
    sample_rate: int | None,
    mix_channels: bool,
    secret: bytes | None,
    level: Level,
    names: Sequence[tuple[str | None, str | None, object]],
) -> list[Recording]:
    """Chooses the voice of each recording, and opens and checks it.

    Args:
        system: As in `choose_voice`.
        audios: What the caller passed.
        sample_rate: Of bare arrays, in Hz.
        mix_channels: Whether channels are averaged.
        secret: As in `choose_voice`.
        level: As in `choose_voice`.
        names: Of `names_of_items`.

    Raises:
        AudioError: A recording cannot be anonymized as it is; of several, the message says which.
        ConfigError: A name or target does not fit.
    """
    recordings = []
    for index, (audio, item) in enumerate(zip(audios, names, strict=True)):
        try:
            voice = choose_voice(system, secret, level, *item)
            recordings.append(open_recording(system, audio, sample_rate, mix_channels, voice))
        except (AudioError, ConfigError) as error:
            if len(audios) == 1:
                raise
            raise type(error)(f"item {index}: {error}") from error
    return recordings


def open_recording(
    system: Anonymizer, audio: Any, sample_rate: int | None, mix_channels: bool, voice: Voice
) -> Recording:
    """Opens and checks what the caller passed.

    Raises:
        AudioError: The audio cannot be anonymized as it is.
    """
    opened = open_audio(audio, sample_rate, system.sample_rate)
    info = system.info
    check_duration(opened.samples.shape[1], opened.rate, info.min_seconds, info.id)
    if info.training_rate is not None and opened.rate < info.training_rate:
        _warn_narrow_band(info.id, opened.rate, info.training_rate)
    try:
        source = Source(opened.samples, opened.rate, mix=mix_channels)
    except AudioError as error:
        if opened.origin is None:
            raise
        raise AudioError(f"{opened.origin}: {error}") from error
    return Recording(opened, source, voice)


def _warn_narrow_band(system: str, rate: int, training_rate: int) -> None:
    if system in _warned_narrow_band:
        return
    _warned_narrow_band.add(system)
    warnings.warn(
        f"{system}: audio at {rate} Hz; the published weights were trained on speech at "
        f"{training_rate} Hz, so the result may be worse than published. (Said once per process.)",
        AudioWarning,
        stacklevel=5,
    )


def make_report(
    system: Anonymizer, recording: Recording, seed: Seed, level: Level, loudness: Loudness
) -> Report:
    """Says what was done to a finished recording."""
    return Report(
        system=system.info.id,
        version=__version__,
        config=asdict(system.config),
        target=recording.voice.target,
        seed=seeding.describe(seed),
        key=recording.voice.key,
        speaker=recording.voice.speaker,
        level=level,
        loudness=loudness,
        gain_db=decibels(recording.gain),
        sample_rate=recording.opened.rate,
        model_rate=system.sample_rate,
        channels=recording.source.channels,
        samples=recording.result.shape[1],
        chunks=recording.chunks,
        silent_channels=recording.source.silent,
        device=str(system.device),
        precision=system.precision,
        weights=dict(system.weight_digests),
        guesses=system.info.guesses,
    )


def names_of_items(
    count: int,
    keys: Sequence[str] | None,
    speakers: Sequence[str | None] | None,
    targets: Sequence[object] | None,
) -> list[tuple[str | None, str | None, object]]:
    """Key, speaker and target of each recording; raises `ConfigError` where some lack one."""
    return list(
        zip(
            names_per_item("keys", keys, count),
            names_per_item("speakers", speakers, count),
            one_per_item("targets", targets, count),
            strict=True,
        )
    )


def one_per_item(name: str, values: Sequence[Any] | None, count: int) -> Sequence[Any]:
    """Gives ``None`` for each recording where there are no values; raises where some lack one."""
    if values is None:
        return [None] * count
    if isinstance(values, str | bytes) or len(values) != count:
        raise ConfigError(f"{name}: {len(values)} given for {count} recordings; pass one for each.")
    return values


def names_per_item(name: str, values: Sequence[str | None] | None, count: int) -> Sequence[Any]:
    """The same for names, which are text."""
    names = one_per_item(name, values, count)
    for value in names:
        if not isinstance(value, str | None):
            raise ConfigError(f"{name}: {value!r} is no text; a name is a str.")
    return names
