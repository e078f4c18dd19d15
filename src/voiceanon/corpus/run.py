"""`anonymize_folder`: a corpus is more than a list of files."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

from voiceanon import seeding
from voiceanon._version import __version__
from voiceanon.anonymizer import Anonymizer
from voiceanon.corpus import kaldi
from voiceanon.corpus.batches import BatchRunner, BatchSettings
from voiceanon.corpus.items import CorpusResult, Item, ItemResult, Status
from voiceanon.corpus.journal import JOURNAL_NAME, Journal, read_journal
from voiceanon.corpus.outputs import StaleOutputs, place_outputs
from voiceanon.corpus.plan import Plan, Planner
from voiceanon.corpus.sources import find_sources
from voiceanon.corpus.workers import run_in_processes
from voiceanon.devices import resolve_device
from voiceanon.errors import ConfigError
from voiceanon.recording import check_options
from voiceanon.types import Level, Loudness, Seed, Target

FileFormat: TypeAlias = Literal["wav", "flac", "ogg"]

_SHOWN = 3
"""Names that an error message gives as examples."""


def anonymize_folder(
    anon: Anonymizer,
    src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    dst: str | os.PathLike[str],
    *,
    workers: int = 1,
    devices: Sequence[str] | None = None,
    seed: Seed = None,
    level: Level = "utterance",
    speakers: Mapping[str, str] | None = None,
    targets: Mapping[str, Target] | None = None,
    loudness: Loudness = "published",
    mix_channels: bool = False,
    file_format: FileFormat | None = None,
    resume: bool = True,
    on_plan: Callable[[Plan], None] | None = None,
    on_result: Callable[[ItemResult], None] | None = None,
) -> CorpusResult:
    """Anonymizes a corpus: what is done stays done, and what fails leaves no output.

    Every utterance has a key, and its voice depends on seed, system and key alone: not on the other
    utterances, their order or the number of workers. The key is, for a folder, the path below it
    without the ending; for a list, the path as it is written there without the ending; for a single
    file, its name without the ending; for a Kaldi folder, the utterance id.

    ``dst`` mirrors the names of ``src``. Endings stay if they are ``.wav``, ``.flac`` or ``.ogg``,
    and become ``.flac`` otherwise. ``dst/report.jsonl`` gets one line per utterance. It holds the
    pseudo-voices: keep it as private as the recordings. A Kaldi folder gives a Kaldi folder, with
    the audio in ``dst/wav`` as WAV files.

    Args:
        anon: Of `voiceanon.load`.
        src: Audio file; folder; text file (``.txt``, ``.lst``, ``.list``) with one path a line,
            relative to its own folder; sequence of paths; or Kaldi folder (it has a ``wav.scp``).
        dst: Output folder; may lie inside ``src``, and is then left out.
        workers: Processes. With more than one, the script that calls this must keep its own work
            under ``if __name__ == "__main__":``.
        devices: One process for each, such as ``["cuda:0", "cuda:1"]``; ``None`` leaves ``anon``
            where it is. The same device twice overlaps reading and computing.
        seed: As in `Anonymizer.anonymize`. ``None`` draws from the operating system, with
            ``level="speaker"`` once per run.
        level: What shares a voice: the utterance, or all utterances of a speaker.
        speakers: Speaker of each key, for ``level="speaker"`` and for systems that choose a voice
            by the source's sex. ``None``: ``utt2spk`` of a Kaldi folder, or the first folder below
            ``src``.
        targets: Pseudo-voice of some or all keys, instead of a draw.
        loudness: As in `Anonymizer.anonymize`.
        mix_channels: As in `Anonymizer.anonymize`.
        file_format: ``"wav"``, ``"flac"`` or ``"ogg"`` for all outputs.
        resume: Leave out what ``dst/report.jsonl`` says is done with the same settings and the same
            source. ``False`` does everything anew and starts a new report.
        on_plan: Gets the plan before the first utterance, for totals.
        on_result: Gets each result as soon as it is known.

    Raises:
        ConfigError: An option does not fit, there is nothing to do, the system has no voice for
            anybody, an output would take the place of an input, or a worker process cannot get
            ready. No audio has been written then. Faults of single utterances do not raise; they
            are in the result.
    """
    started = time.perf_counter()
    processes = _choose_processes(workers, devices)
    settings = _make_settings(Path(dst), seed, level, loudness, mix_channels)
    sources = find_sources(src, settings.dst)
    items = _assign_speakers(sources.items, speakers)
    outputs = place_outputs(items, settings.dst, file_format)
    journal_path = settings.dst / JOURNAL_NAME
    earlier = read_journal(journal_path) if resume else {}
    planner = Planner(
        settings,
        _describe(anon, settings, file_format),
        _check_targets(targets or {}, items),
        # A voice that was drawn for another run is none of this run's.
        finished={} if settings.drawn else earlier,
    )
    plan = planner.plan(items, outputs, anon.batch_seconds)
    _check_voices(anon, plan)
    if on_plan is not None:
        on_plan(plan)
    results = []
    tidy = StaleOutputs(settings.dst, plan.outputs, earlier)
    with (
        Journal(journal_path, resume=resume) as journal,
        contextlib.closing(_run_batches(anon, settings, plan, processes)) as fresh,
    ):
        for result in itertools.chain(plan.skipped, plan.failed, fresh):
            tidy.remove(result)
            if result.status != "skipped":
                journal.append(result)
            results.append(result)
            if on_result is not None:
                on_result(result)
    corpus = _sum_up(results, sources.not_audio, time.perf_counter() - started)
    if sources.kaldi_folder is not None:
        _write_kaldi(sources.kaldi_folder, settings.dst, corpus)
    return corpus


def _choose_processes(workers: int, devices: Sequence[str] | None) -> Sequence[str | None]:
    """Device of each worker process, ``None`` for the anonymizer's own; empty for no processes."""
    if workers < 1:
        raise ConfigError(f"workers: got {workers}; use 1 or more.")
    if devices is None:
        return [None] * workers if workers > 1 else []
    if isinstance(devices, str) or not devices:
        raise ConfigError(f"devices: got {devices!r}; pass a list such as ['cuda:0', 'cuda:1'].")
    if workers not in (1, len(devices)):
        raise ConfigError(
            f"workers: {workers} with {len(devices)} devices; every device gets one process, so "
            "leave workers out, or name a device several times."
        )
    return [str(resolve_device(device)) for device in devices]


def _make_settings(
    dst: Path, seed: Seed, level: Level, loudness: Loudness, mix_channels: bool
) -> BatchSettings:
    check_options(level, loudness)
    seeding.check_seed(seed)
    if dst.exists() and not dst.is_dir():
        raise ConfigError(f"dst: {dst} is a file; name a folder.")
    drawn = level == "speaker" and seed is None
    return BatchSettings(
        dst=dst,
        seed=seeding.fresh_secret() if drawn else seed,
        drawn=drawn,
        level=level,
        loudness=loudness,
        mix_channels=mix_channels,
    )


def _assign_speakers(items: Sequence[Item], speakers: Mapping[str, str] | None) -> Sequence[Item]:
    if speakers is None:
        return items
    return [replace(item, speaker=speakers.get(item.key)) for item in items]


def _check_targets(targets: Mapping[str, Target], items: Sequence[Item]) -> Mapping[str, Target]:
    """Refuses keys that no utterance bears: a misspelt one would have its voice drawn instead."""
    unknown = sorted(targets.keys() - {item.key for item in items})
    if unknown:
        raise ConfigError(
            f"targets: no utterance has the key {', '.join(map(repr, unknown[:_SHOWN]))} "
            f"({len(unknown)} such keys); the first key here is {min(i.key for i in items)!r}."
        )
    return targets


def _check_voices(anon: Anonymizer, plan: Plan) -> None:
    """Raises the `ConfigError` of a system that cannot draw a voice for anybody here.

    That is, where it lacks a pool, or the sex of every speaker: nothing is written then, while
    single utterances that fail are reported.
    """
    jobs = [job for batch in plan.batches for job in batch]
    if any(job.target is not None for job in jobs):
        return
    refusals = []
    for speaker in dict.fromkeys(job.speaker for job in jobs):
        try:
            anon.draw_target(seeding.generator(seeding.fresh_secret()), speaker)
        except ConfigError as error:
            refusals.append(error)
        else:
            return
    if refusals:
        raise refusals[0]


def _describe(
    anon: Anonymizer, settings: BatchSettings, file_format: FileFormat | None
) -> dict[str, Any]:
    """All that decides the outputs of all utterances, as JSON values."""
    return {
        "system": anon.info.id,
        "version": __version__,
        "config": asdict(anon.config),
        "weights": anon.weight_digests,
        "precision": anon.precision,
        "seed": seeding.fingerprint(None if settings.drawn else settings.seed),
        "level": settings.level,
        "loudness": settings.loudness,
        "mix_channels": settings.mix_channels,
        "file_format": file_format,
    }


def _run_batches(
    anon: Anonymizer, settings: BatchSettings, plan: Plan, processes: Sequence[str | None]
) -> Generator[ItemResult, None, None]:
    if processes and plan.batches:
        yield from run_in_processes(anon, settings, plan.batches, processes)
        return
    runner = BatchRunner(anon, settings)
    for batch in plan.batches:
        yield from runner.run(batch)


def _sum_up(results: Sequence[ItemResult], not_audio: int, elapsed: float) -> CorpusResult:
    by_status: dict[Status, list[ItemResult]] = {"done": [], "failed": [], "skipped": []}
    for result in sorted(results, key=lambda result: result.identity):
        by_status[result.status].append(result)
    return CorpusResult(
        done=tuple(by_status["done"]),
        failed=tuple(by_status["failed"]),
        skipped=tuple(by_status["skipped"]),
        not_audio=not_audio,
        seconds=sum(result.seconds for result in by_status["done"]),
        elapsed=elapsed,
    )


def _write_kaldi(src: Path, dst: Path, corpus: CorpusResult) -> None:
    outputs = {
        result.key: PurePosixPath(result.output)
        for result in (*corpus.done, *corpus.skipped)
        if result.output is not None
    }
    kaldi.write_tables(src, dst, outputs, [result.key for result in corpus.failed])
