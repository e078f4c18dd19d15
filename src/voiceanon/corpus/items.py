"""What a corpus consists of, and what became of each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

from voiceanon.types import Target

Status: TypeAlias = Literal["done", "failed", "skipped"]
"""Anonymized in this run, not anonymized, or taken over from an earlier run."""

Identity: TypeAlias = tuple[str, str]
"""Key and ending of the source: ``a.wav`` and ``a.mp3`` share a key, and so a voice."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One utterance as the corpus names it; its file has not been looked at yet.

    Attributes:
        key: Name of the utterance in the draw; depends on no other utterance.
        source: File to read; ``None`` where there is a ``problem``.
        name: Path of the output below the output folder, with the ending of the source.
        speaker: Name of the speaker, if the corpus tells.
        segment: Start and end in seconds in ``source``, or ``None`` for the whole file; an end of
            -1 is the end of the file.
        problem: Why the corpus names no file that may be read.
    """

    key: str
    source: Path | None
    name: PurePosixPath
    speaker: str | None = None
    segment: tuple[float, float] | None = None
    problem: str | None = None

    @property
    def identity(self) -> Identity:
        """What tells this utterance from all others of the corpus."""
        return identity(self.key, self.source)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One utterance that is ready to be read, converted and written.

    Attributes:
        key: Name of the utterance in the draw.
        source: File to read.
        output: File to write, as a path below the output folder.
        speaker: Name of the speaker in the draw, if any.
        target: The pseudo-voice, or ``None`` to draw it.
        frames: First sample and sample after the last one in ``source``.
        seconds: Duration.
        rows: Channels that the system converts.
        subtype: libsndfile's name of the sample format of ``source``.
        source_size: Bytes.
        source_mtime_ns: Time of last change in nanoseconds.
        settings: Digest of all that decides the output, apart from the audio.
    """

    key: str
    source: Path
    output: PurePosixPath
    speaker: str | None
    target: Target | None
    frames: tuple[int, int]
    seconds: float
    rows: int
    subtype: str
    source_size: int
    source_mtime_ns: int
    settings: str


@dataclass(frozen=True, kw_only=True)
class ItemResult:
    """What became of one utterance: one line of ``report.jsonl``.

    Attributes:
        key: Name of the utterance in the draw.
        status: ``"done"``, ``"failed"``, or ``"skipped"`` if an earlier run has done it.
        source: File that was read, if the corpus names one.
        output: File that was written, as a path below the output folder; ``None`` if failed.
        seconds: Duration; 0 where the file could not be read.
        reason: Why it failed: type and message of the error.
        warnings: What the user should know about this utterance, such as "scaled down".
        source_size: Bytes; ``None`` where there is no such file.
        source_mtime_ns: Time of last change in nanoseconds.
        output_size: Bytes.
        settings: Digest of all that decides the output, apart from the audio.
        report: What was done, as plain values (see `voiceanon.types.Report`).
    """

    key: str
    status: Status
    source: str | None
    output: str | None = None
    seconds: float = 0.0
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    source_size: int | None = None
    source_mtime_ns: int | None = None
    output_size: int | None = None
    settings: str = ""
    report: Mapping[str, Any] | None = None

    @property
    def identity(self) -> Identity:
        """What tells this utterance from all others of the corpus."""
        return identity(self.key, self.source)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ItemResult:
        """Takes back what `to_dict` gave.

        Raises:
            TypeError: A name is missing or unknown.
        """
        return cls(**{**values, "warnings": tuple(values.get("warnings", ()))})


@dataclass(frozen=True, kw_only=True)
class CorpusResult:
    """What became of a corpus.

    Attributes:
        done: Utterances anonymized in this run.
        failed: Utterances without output, each with its reason.
        skipped: Utterances that an earlier run has done with the same settings.
        not_audio: Number of files of the source folder that are not audio by their ending.
        seconds: Audio in ``done``, in seconds.
        elapsed: Wall clock in seconds, planning included.
    """

    done: tuple[ItemResult, ...]
    failed: tuple[ItemResult, ...]
    skipped: tuple[ItemResult, ...]
    not_audio: int
    seconds: float
    elapsed: float

    @property
    def speed(self) -> float:
        """Seconds of audio per second of wall clock."""
        return self.seconds / self.elapsed if self.elapsed > 0 else 0.0


def identity(key: str, source: str | Path | None) -> Identity:
    """Key and ending of the source."""
    return key, "" if source is None else Path(source).suffix


def explain(error: Exception) -> str:
    """Type and message of an error, as it stands in the report."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
