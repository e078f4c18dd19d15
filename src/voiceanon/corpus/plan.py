"""What a run will do: who is skipped, who fails before it starts, and the batches of the rest."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from voiceanon.audio.io import FileFacts, read_facts
from voiceanon.batching import plan_batches
from voiceanon.corpus.batches import BatchSettings
from voiceanon.corpus.items import Identity, Item, ItemResult, Job, explain
from voiceanon.errors import AudioError, ConfigError
from voiceanon.types import Target

MAX_OVERSHOOT_SECONDS = 0.5
"""A segment may end this much after its file, as in Kaldi's ``extract-segments``."""

_DIGEST_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run before it starts.

    Attributes:
        batches: Jobs that are converted together; the longest come first.
        failed: Utterances that fail for what is known about them.
        skipped: Utterances that an earlier run has done with the same settings.
        outputs: Where the output of each utterance is, or would be, below the output folder.
    """

    batches: tuple[tuple[Job, ...], ...]
    failed: tuple[ItemResult, ...]
    skipped: tuple[ItemResult, ...]
    outputs: Mapping[Identity, PurePosixPath]

    @property
    def files(self) -> int:
        """Number of utterances, skipped and failed ones included."""
        return len(self.outputs)

    @property
    def seconds(self) -> float:
        """Audio to convert, in seconds."""
        return sum(job.seconds for batch in self.batches for job in batch)


class Planner:
    """Looks at each utterance's file and decides what to do with it."""

    def __init__(
        self,
        settings: BatchSettings,
        described: Mapping[str, Any],
        targets: Mapping[str, Target],
        finished: Mapping[Identity, ItemResult],
    ) -> None:
        """Takes what holds for the whole run.

        Args:
            settings: What holds for all batches.
            described: All that decides the outputs of all utterances, as JSON values.
            targets: Pseudo-voice of some keys.
            finished: What earlier runs say, as far as it may be taken over.
        """
        self._dst = settings.dst
        self._mix_channels = settings.mix_channels
        self._needs_speaker = settings.level == "speaker"
        self._described = described
        self._targets = targets
        self._finished = finished
        self._facts: dict[Path, FileFacts] = {}

    def plan(
        self, items: Sequence[Item], outputs: Sequence[PurePosixPath], batch_seconds: float
    ) -> Plan:
        """Plans a run.

        Args:
            items: All utterances.
            outputs: Path below the output folder for each.
            batch_seconds: Most seconds, padding included, in one batch.
        """
        jobs: list[Job] = []
        failed: list[ItemResult] = []
        skipped: list[ItemResult] = []
        for item, output in sorted(zip(items, outputs, strict=True), key=lambda p: p[0].identity):
            settings = self._digest(item)
            earlier = self._finished.get(item.identity)
            if earlier is not None and self._is_current(earlier, item, output, settings):
                skipped.append(replace(earlier, status="skipped"))
                continue
            try:
                jobs.append(self._prepare(item, output, settings))
            except Exception as error:
                failed.append(_fail(item, settings, explain(error)))
        return Plan(
            batches=_batch(jobs, batch_seconds),
            failed=tuple(failed),
            skipped=tuple(skipped),
            outputs={i.identity: output for i, output in zip(items, outputs, strict=True)},
        )

    def _digest(self, item: Item) -> str:
        values = {
            **self._described,
            "target": self._targets.get(item.key),
            "speaker": item.speaker,
            "segment": item.segment,
        }
        text = json.dumps(values, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]

    def _is_current(
        self, earlier: ItemResult, item: Item, output: PurePosixPath, settings: str
    ) -> bool:
        if (earlier.status, earlier.settings) != ("done", settings):
            return False
        source, written = _stat(item.source), _stat(self._dst / output)
        if source is None or written is None or earlier.output != str(output):
            return False
        found = source.st_size, source.st_mtime_ns, written.st_size
        return found == (earlier.source_size, earlier.source_mtime_ns, earlier.output_size)

    def _prepare(self, item: Item, output: PurePosixPath, settings: str) -> Job:
        if item.source is None:
            raise AudioError(f"{item.key}: {item.problem}")
        if self._needs_speaker and item.speaker is None:
            raise ConfigError(
                f"{item.key}: level='speaker' needs a speaker, and none is known; pass speakers, "
                "or put each speaker's files into a folder of their own."
            )
        if item.source not in self._facts:
            self._facts[item.source] = read_facts(item.source)
        facts = self._facts[item.source]
        frames = cut_frames(item, facts)
        stat = item.source.stat()
        return Job(
            key=item.key,
            source=item.source,
            output=output,
            speaker=item.speaker,
            target=self._targets.get(item.key),
            frames=frames,
            seconds=(frames[1] - frames[0]) / facts.sample_rate,
            rows=1 if self._mix_channels else facts.channels,
            subtype=facts.subtype,
            source_size=stat.st_size,
            source_mtime_ns=stat.st_mtime_ns,
            settings=settings,
        )


def cut_frames(item: Item, facts: FileFacts) -> tuple[int, int]:
    """First sample of an utterance and sample after its last one."""
    if item.segment is None:
        return 0, facts.samples
    start, end = item.segment
    if end == -1:
        end = facts.seconds
    if not 0 <= start < end <= facts.seconds + MAX_OVERSHOOT_SECONDS or start >= facts.seconds:
        raise AudioError(
            f"{item.key}: the segment {start:g} ... {end:g} s does not lie in {item.source}, which "
            f"lasts {facts.seconds:.3f} s; correct the segment."
        )
    return round(start * facts.sample_rate), min(round(end * facts.sample_rate), facts.samples)


def _batch(jobs: Sequence[Job], batch_seconds: float) -> tuple[tuple[Job, ...], ...]:
    """Batches that depend on durations and keys alone; the longest first.

    So the heaviest batch shows at once whether memory suffices, and workers end together.
    """
    ordered = sorted(jobs, key=lambda job: (job.seconds * job.rows, job.key, job.output))
    groups = plan_batches([job.seconds * job.rows for job in ordered], batch_seconds)
    return tuple(tuple(ordered[index] for index in group) for group in reversed(groups))


def _fail(item: Item, settings: str, reason: str) -> ItemResult:
    stat = _stat(item.source)
    return ItemResult(
        key=item.key,
        status="failed",
        source=None if item.source is None else str(item.source),
        reason=reason,
        source_size=None if stat is None else stat.st_size,
        source_mtime_ns=None if stat is None else stat.st_mtime_ns,
        settings=settings,
    )


def _stat(path: Path | None) -> os.stat_result | None:
    """Facts of a file, or ``None`` where there is no file that may be looked at."""
    return path.stat() if path is not None and os.path.isfile(path) else None
