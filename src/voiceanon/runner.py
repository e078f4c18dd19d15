"""Runs recordings through `convert`: short ones together, long ones chunk by chunk."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from voiceanon import seeding
from voiceanon.audio.checks import all_finite
from voiceanon.audio.level import LevelMeter, Meter, rms_gain
from voiceanon.audio.resample import resampling
from voiceanon.audio.source import BLOCK_SAMPLES, Sink, TrackReader
from voiceanon.batching import pad, plan_batches, unpad
from voiceanon.chunking import ChunkJoiner, ChunkPlan, plan_chunks
from voiceanon.devices import arithmetic
from voiceanon.errors import ConfigError, ConversionError
from voiceanon.recording import ChunkSeconds, Recording
from voiceanon.types import Loudness, SystemInfo

if TYPE_CHECKING:
    from voiceanon.anonymizer import Anonymizer


class Track:
    """One channel of a recording: read at the model's rate, delivered at the recording's."""

    def __init__(
        self, recording: Recording, channel: int, sink: Sink, system: Anonymizer, *, metered: bool
    ) -> None:
        source = recording.source
        model_rate = system.sample_rate
        self.recording = recording
        stepper = system.level_step_of(recording.voice.target)
        self._meters: list[Meter] = [stepper.new_meter()] if metered else []
        recording.meters += self._meters
        self.reader = TrackReader(source, channel, model_rate)
        self._channel = channel
        self._sink = sink
        self._back = resampling(model_rate, source.rate, sink.samples)

    def deliver(self, piece: Tensor, last: bool) -> None:
        """Takes the next float32 ``(T,)`` of the converted channel."""
        for meter in self._meters:
            meter.add(piece)
        self._sink.append(self._channel, self._back.push(piece, last))


class Runner:
    """Runs recordings through one system."""

    def __init__(self, system: Anonymizer, chunk_seconds: float | None) -> None:
        self._system = system
        self._info = system.info
        rate = system.sample_rate
        self._rate = rate
        self._chunk = None if chunk_seconds is None else int(chunk_seconds * rate)
        overlap_seconds = self._info.overlap_seconds if self._info.keeps_length else 0.0
        self._overlap = int(overlap_seconds * rate)
        self._capacity = int(system.batch_seconds * rate)

    def run(self, recordings: Sequence[Recording], loudness: Loudness, match_length: bool) -> None:
        """Fills in the result, gain and chunk count of each recording."""
        sinks = [self._make_sink(recording) for recording in recordings]
        tracks = [
            Track(recording, channel, sink, self._system, metered=loudness == "published")
            for recording, sink in zip(recordings, sinks, strict=True)
            for channel in range(recording.source.channels)
            if channel not in recording.source.silent
        ]
        plans = [self._plan(track.reader.samples) for track in tracks]
        whole = [track for track, plan in zip(tracks, plans, strict=True) if len(plan) == 1]
        self._run_whole(whole)
        for track, plan in zip(tracks, plans, strict=True):
            track.recording.chunks = max(track.recording.chunks, len(plan))
            if len(plan) > 1:
                self._run_chunks(track, plan)
        for recording, sink in zip(recordings, sinks, strict=True):
            samples = recording.source.samples
            recording.result = sink.finish(samples, samples if match_length else None)
            self._set_level(recording, loudness)

    def _make_sink(self, recording: Recording) -> Sink:
        source = recording.source
        samples = source.samples if self._info.keeps_length else None
        return Sink(source.channels, samples, source.device)

    def _plan(self, samples: int) -> ChunkPlan:
        if self._chunk is None:
            return ChunkPlan(samples, (0,), 0)
        return plan_chunks(samples, self._chunk, self._overlap, self._system.hop_samples)

    def _run_whole(self, tracks: Sequence[Track]) -> None:
        for batch in plan_batches([track.reader.samples for track in tracks], self._capacity):
            chosen = [tracks[index] for index in batch]
            waves = [track.reader.read(0, track.reader.samples) for track in chosen]
            results = self._convert(waves, [(track.recording, 0) for track in chosen])
            for track, result in zip(chosen, results, strict=True):
                track.deliver(result, last=True)

    def _run_chunks(self, track: Track, plan: ChunkPlan) -> None:
        longest = max(stop - start for start, stop in map(plan.span, range(len(plan))))
        # What does not keep time is not cut by time again: its chunks just follow each other.
        joiner = ChunkJoiner(plan) if self._info.keeps_length else None
        for group in _groups(range(len(plan)), max(1, self._capacity // longest)):
            waves = [track.reader.read(*plan.span(index)) for index in group]
            results = self._convert(waves, [(track.recording, index) for index in group])
            for index, result in zip(group, results, strict=True):
                piece = result if joiner is None else joiner.push(result)
                track.deliver(piece, last=index + 1 == len(plan))

    def _convert(
        self, waves: Sequence[Tensor], pieces: Sequence[tuple[Recording, int]]
    ) -> list[Tensor]:
        """Converts float32 waves; ``pieces`` says which chunk of which recording each one is."""
        try:
            return self._convert_batch(waves, pieces)
        except torch.OutOfMemoryError:
            if len(waves) == 1:
                raise
        half = len(waves) // 2
        return self._convert(waves[:half], pieces[:half]) + self._convert(
            waves[half:], pieces[half:]
        )

    def _convert_batch(
        self, waves: Sequence[Tensor], pieces: Sequence[tuple[Recording, int]]
    ) -> list[Tensor]:
        system = self._system
        batch, lengths = pad(waves, system.device)
        generators = [self._generator(*piece) for piece in pieces]
        with torch.inference_mode(), arithmetic(system.precision, system.device):
            self._settle_targets(batch, lengths, [recording for recording, _ in pieces])
            targets = [recording.voice.target for recording, _ in pieces]
            result, result_lengths = system.convert(batch, lengths, targets, generators)
        self._check(result, result_lengths, lengths)
        return unpad(result, result_lengths)

    def _settle_targets(
        self, batch: Tensor, lengths: Tensor, recordings: Sequence[Recording]
    ) -> None:
        """Completes the voice of each recording with the first of its pieces to come here."""
        first = {id(recording): row for row, recording in reversed(list(enumerate(recordings)))}
        rows = sorted(row for row in first.values() if not recordings[row].settled)
        if not rows:
            return
        targets = [recordings[row].voice.target for row in rows]
        for row, target in zip(
            rows, self._system.settle_targets(batch[rows], lengths[rows], targets), strict=True
        ):
            recording = recordings[row]
            recording.voice = replace(recording.voice, target=target)
            recording.settled = True

    def _generator(self, recording: Recording, chunk: int) -> torch.Generator:
        voice = recording.voice
        return seeding.generator(
            seeding.stream(voice.secret, self._info.id, "convert", voice.key or "", str(chunk))
        )

    def _check(self, result: Tensor, result_lengths: Tensor, lengths: Tensor) -> None:
        """Fails closed: what is not sound audio of the right length is never handed on."""
        name = self._info.id
        if result.ndim != 2 or result.dtype != torch.float32 or len(result) != len(lengths):
            raise ConversionError(
                f"{name}: convert returned {result.dtype} {tuple(result.shape)} for a batch of "
                f"{len(lengths)}; float32 (B, T) is due."
            )
        given = result_lengths.tolist()
        if len(given) != len(lengths) or not all(0 <= n <= result.shape[1] for n in given):
            raise ConversionError(
                f"{name}: convert returned lengths {given} for {len(lengths)} items of "
                f"{result.shape[1]} samples."
            )
        if self._info.keeps_length and given != lengths.tolist():
            raise ConversionError(
                f"{name}: convert returned lengths {given} for {lengths.tolist()}, but the system "
                "is said to keep them."
            )
        if not all_finite(result):
            raise ConversionError(
                f"{name}: the result holds values that are not finite; nothing was written. Please "
                "report the recording and the target."
            )

    def _set_level(self, recording: Recording, loudness: Loudness) -> None:
        result = recording.result
        if loudness == "published":
            stepper = self._system.level_step_of(recording.voice.target)
            recording.gain = stepper.published_gain(recording.source.level, recording.meters)
        elif loudness == "keep":
            level = LevelMeter()
            for start in range(0, result.shape[1], BLOCK_SAMPLES):
                level.add(result[:, start : start + BLOCK_SAMPLES])
            recording.gain = rms_gain(recording.source.level, level)
        result.mul_(recording.gain)


def chunk_limit(info: SystemInfo, wanted: ChunkSeconds) -> float | None:
    """Longest piece in seconds, or ``None`` for never cut.

    Raises:
        ConfigError: ``wanted`` is no time, or too short for the overlap of chunks.
    """
    if wanted is None or wanted == "auto":
        return info.chunk_seconds if wanted == "auto" else None
    least = 2 * info.overlap_seconds
    number = isinstance(wanted, numbers.Real) and not isinstance(wanted, bool)
    if not number or not least <= wanted < math.inf or wanted * info.sample_rate < 1:
        raise ConfigError(
            f"chunk_seconds: {wanted!r} does not fit {info.id}; use a number of at least {least:g} "
            "that makes a sample, 'auto', or None to never cut."
        )
    return float(wanted)


def _groups(items: Iterable[int], size: int) -> Iterator[list[int]]:
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group
