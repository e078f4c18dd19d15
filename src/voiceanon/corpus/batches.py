"""Converts one batch of files: reads, anonymizes, writes, and says what became of each."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voiceanon.anonymizer import Anonymizer
from voiceanon.audio import io
from voiceanon.corpus.items import ItemResult, Job, explain
from voiceanon.errors import AudioWarning
from voiceanon.seeding import describe
from voiceanon.types import Level, Loudness, Seed


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """What holds for all batches of a run.

    Attributes:
        dst: Output folder.
        seed: As in `Anonymizer.anonymize`.
        drawn: Whether ``seed`` is a secret that was drawn for this run.
        level: What shares a voice.
        loudness: Level step.
        mix_channels: Whether channels are averaged.
    """

    dst: Path
    seed: Seed
    drawn: bool
    level: Level
    loudness: Loudness
    mix_channels: bool


@dataclass
class _Work:
    """An utterance on its way; it has failed as soon as there is a reason."""

    job: Job
    audio: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    output_size: int | None = None
    reason: str | None = None
    notes: list[str] = field(default_factory=list)

    def result(self) -> ItemResult:
        done = self.reason is None
        return ItemResult(
            key=self.job.key,
            status="done" if done else "failed",
            source=str(self.job.source),
            output=str(self.job.output) if done else None,
            seconds=self.job.seconds,
            reason=self.reason,
            warnings=tuple(self.notes),
            source_size=self.job.source_size,
            source_mtime_ns=self.job.source_mtime_ns,
            output_size=self.output_size,
            settings=self.job.settings,
            report=self.report if done else None,
        )


class BatchRunner:
    """Runs batches through one anonymizer."""

    def __init__(self, anon: Anonymizer, settings: BatchSettings) -> None:
        """Takes the anonymizer and what holds for all batches."""
        self._anon = anon
        self._settings = settings

    def run(self, jobs: Sequence[Job]) -> list[ItemResult]:
        """Gives one result per job; whatever goes wrong with an utterance stands in its result."""
        works = [_Work(job) for job in jobs]
        for work in works:
            with _watched(work):
                work.audio = read_job(work.job)
        self._convert([work for work in works if work.reason is None])
        for work in works:
            if work.reason is None:
                with _watched(work):
                    self._write(work)
        return [work.result() for work in works]

    def _convert(self, works: Sequence[_Work]) -> None:
        """Converts a batch; where that fails, its halves, until the bad utterances stand alone."""
        if not works:
            return
        with _watched(*works):
            self._anonymize(works)
        if works[0].reason is None or len(works) == 1:
            return
        for work in works:
            work.reason = None
        half = len(works) // 2
        self._convert(works[:half])
        self._convert(works[half:])

    def _anonymize(self, works: Sequence[_Work]) -> None:
        settings = self._settings
        audios, reports = self._anon.anonymize_batch(
            [work.audio for work in works],
            seed=settings.seed,
            keys=[work.job.key for work in works],
            speakers=[work.job.speaker for work in works],
            level=settings.level,
            targets=[work.job.target for work in works],
            loudness=settings.loudness,
            mix_channels=settings.mix_channels,
            return_reports=True,
        )
        for work, audio, report in zip(works, audios, reports, strict=True):
            work.audio = audio
            work.report = report.to_dict()
            if settings.drawn:
                work.report["seed"] = describe(None)

    def _write(self, work: _Work) -> None:
        path = self._settings.dst / work.job.output
        io.write(path, work.audio["array"], work.audio["sampling_rate"], work.job.subtype)
        work.output_size = path.stat().st_size


def read_job(job: Job) -> dict[str, Any]:
    """Reads an utterance: ``{"array": float32 (C, T), "sampling_rate": Hz}``.

    Raises:
        AudioError: The file is unreadable or ends too early.
    """
    wav, rate = io.read(job.source, job.frames)
    return {"array": wav, "sampling_rate": rate}


@contextlib.contextmanager
def _watched(*works: _Work) -> Iterator[None]:
    """Runs a step of some utterances; an error becomes their reason, warnings their notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AudioWarning)
        try:
            yield
        except Exception as error:
            for work in works:
                work.reason = explain(error)
            if len(works) > 1:
                # The batch is tried again in parts, which then warn on their own.
                return
    where = f"in a batch of {len(works)}: " if len(works) > 1 else ""
    notes = [f"{where}{each.category.__name__}: {each.message}" for each in caught]
    for work in works:
        work.notes.extend(notes)
