"""Training segments: which there are, which are held out, and what each epoch reads.

All draws follow from the seed and the number of the epoch, and are made before anything is read.
So neither the number of readers nor an interruption changes them.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from voiceanon import seeding
from voiceanon.audio import io
from voiceanon.errors import AudioError, ConfigError
from voiceanon.eval.attackers.config import AttackerConfig
from voiceanon.eval.attackers.data import TrainingUtterance, Wave
from voiceanon.eval.sources.waves import SAMPLE_RATE

READERS = 8
"""Threads that read files; decoding does without Python's lock."""

_PREFETCHED = 2
"""Batches that are read ahead."""

Window: TypeAlias = tuple[int, int]
"""Index of an utterance, and first sample."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Segments:
    """The segments of a corpus: pieces of equal length, one after the other.

    Attributes:
        utterances: That have at least one segment.
        samples: Length of each.
        speakers: Names, sorted; a speaker's class is its place here.
        classes: Class of each utterance.
        utterance: Index of the utterance of each segment, int64 ``(R,)``.
        start: First sample of each segment, int64 ``(R,)``.
        held_out: Whether an utterance serves validation, bool ``(U,)``.
        digest: Of names, speakers and all samples.
    """

    utterances: tuple[TrainingUtterance, ...]
    samples: tuple[int, ...]
    speakers: tuple[str, ...]
    classes: tuple[int, ...]
    utterance: Tensor
    start: Tensor
    held_out: Tensor
    digest: str

    def training_epoch(self, epoch: int, config: AttackerConfig) -> list[list[Window]]:
        """Draws the batches of an epoch.

        A row of the table of segments stands for its utterance: what is read is a window that
        begins anywhere in it (specification sheet of the evaluation, section 3.3). The order of
        rows is drawn first, then the place of every window.

        Args:
            epoch: From 1.
            config: ``batch_size``, ``segment_seconds`` and ``seed``.

        Returns:
            Windows by batch. A last batch of one joins the one before it, as batch normalisation
            needs two.
        """
        rows = (~self.held_out[self.utterance]).nonzero()[:, 0]
        secret = seeding.seed_secret(config.seed)
        generator = seeding.generator(seeding.stream(secret, "attacker", "epoch", str(epoch)))
        order = torch.randperm(len(rows), generator=generator, device="cpu")
        owners = self.utterance[rows[order]]
        places = torch.rand(len(rows), generator=generator, dtype=torch.float64, device="cpu")
        rooms = torch.tensor(self.samples, device="cpu")[owners] - config.segment_samples + 1
        starts = (places * rooms).long()
        return _batches(owners, starts, config.batch_size)

    def validation(self, config: AttackerConfig) -> list[list[Window]]:
        """The segments that are held out, as they are, so that epochs hear the same."""
        rows = self.held_out[self.utterance].nonzero()[:, 0]
        return _batches(self.utterance[rows], self.start[rows], config.batch_size)


def find_segments(utterances: Sequence[TrainingUtterance], config: AttackerConfig) -> Segments:
    """Reads all utterances once and lists their segments.

    Args:
        utterances: Of at least two speakers.
        config: ``segment_seconds``, ``min_level``, ``validation_share`` and ``seed``.

    Raises:
        AudioError: A file is not usable, or not at 16 kHz.
        ConfigError: Fewer than two speakers have a segment, or nothing can be held out.
    """
    with ThreadPoolExecutor(READERS) as pool:
        scans = list(pool.map(lambda utterance: _scan(utterance, config), utterances))
    used = [(u, scan) for u, scan in zip(utterances, scans, strict=True) if scan.starts]
    speakers = sorted({utterance.speaker for utterance, _ in used})
    classes = {speaker: place for place, speaker in enumerate(speakers)}
    if len(speakers) < 2:
        raise ConfigError(
            f"training data: {len(speakers)} speakers have a segment of {config.segment_seconds} s "
            f"with a mean level of {config.min_level} or more; at least 2 are due. Add longer "
            "utterances, or lower segment_seconds."
        )
    kept = tuple(utterance for utterance, _ in used)
    digest = hashlib.sha256()
    for utterance, scan in used:
        digest.update(f"{utterance.name}\0{utterance.speaker}\0{scan.digest}\n".encode())
    return Segments(
        utterances=kept,
        samples=tuple(scan.samples for _, scan in used),
        speakers=tuple(speakers),
        classes=tuple(classes[utterance.speaker] for utterance in kept),
        utterance=torch.tensor(
            [i for i, (_, scan) in enumerate(used) for _ in scan.starts], device="cpu"
        ),
        start=torch.tensor([s for _, scan in used for s in scan.starts], device="cpu"),
        held_out=_hold_out(kept, config),
        digest=digest.hexdigest(),
    )


def read_batches(
    utterances: Sequence[TrainingUtterance],
    batches: Sequence[Sequence[Window]],
    samples: int,
    *,
    readers: int = READERS,
) -> Iterator[Tensor]:
    """Reads windows of ``samples`` samples, and the next batches ahead.

    Yields:
        float32 ``(B, samples)`` for each batch, in their order.
    """
    pool = ThreadPoolExecutor(readers)
    try:
        ahead: deque[list[Future[Tensor]]] = deque()
        for batch in batches:
            ahead.append([
                pool.submit(_read, utterances[index], start, start + samples)
                for index, start in batch
            ])  # fmt: skip
            if len(ahead) > _PREFETCHED:
                yield torch.stack([future.result() for future in ahead.popleft()])
        while ahead:
            yield torch.stack([future.result() for future in ahead.popleft()])
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class _Scan:
    samples: int
    starts: tuple[int, ...]
    digest: str


def _scan(utterance: TrainingUtterance, config: AttackerConfig) -> _Scan:
    """Finds the segments of one utterance that are loud enough."""
    wave = _open(utterance)
    if not np.isfinite(wave).all():
        raise AudioError(
            f"training data: {utterance.name} has samples that are not finite; leave it out."
        )
    length = config.segment_samples
    whole = len(wave) // length
    levels = np.abs(wave[: whole * length]).reshape(whole, length).mean(axis=1, dtype=np.float64)
    starts = tuple(int(i) * length for i in np.flatnonzero(levels >= config.min_level))
    return _Scan(len(wave), starts, hashlib.sha256(wave.tobytes()).hexdigest())


def _open(utterance: TrainingUtterance, frames: Window | None = None) -> Wave:
    """Reads float32 ``(T,)``: all of an utterance, or from one sample to another."""
    source = utterance.source
    if not isinstance(source, Path):
        return np.ascontiguousarray(source[slice(*frames or (None,))], dtype=np.float32)
    channels, rate = io.read(source, frames)
    if rate != SAMPLE_RATE:
        raise AudioError(
            f"{source}: {rate} Hz; attackers are trained at {SAMPLE_RATE} Hz. Resample the files."
        )
    wave: Wave = channels[0] if len(channels) == 1 else channels.mean(axis=0)
    return wave


def _read(utterance: TrainingUtterance, start: int, stop: int) -> Tensor:
    return torch.from_numpy(_open(utterance, (start, stop)))


def _batches(owners: Tensor, starts: Tensor, size: int) -> list[list[Window]]:
    windows = list(zip(owners.tolist(), starts.tolist(), strict=True))
    batches = [windows[i : i + size] for i in range(0, len(windows), size)]
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [batches[-2] + batches[-1]]
    return batches


def _hold_out(utterances: Sequence[TrainingUtterance], config: AttackerConfig) -> Tensor:
    """Draws the utterances for validation; every speaker keeps one for training.

    Returns:
        bool ``(U,)``.
    """
    secret = seeding.seed_secret(config.seed)
    generator = seeding.generator(seeding.stream(secret, "attacker", "validation"))
    left = Counter(utterance.speaker for utterance in utterances)
    held_out = torch.zeros(len(utterances), dtype=torch.bool, device="cpu")
    wanted = max(1, round(config.validation_share * len(utterances)))
    for index in torch.randperm(len(utterances), generator=generator, device="cpu").tolist():
        speaker = utterances[index].speaker
        if wanted and left[speaker] > 1:
            held_out[index] = True
            left[speaker] -= 1
            wanted -= 1
    if not held_out.any():
        raise ConfigError(
            f"training data: each of the {len(utterances)} speakers has one utterance, so that "
            "none can be held out. Cut the recordings into several utterances, before they are "
            "anonymized."
        )
    return held_out
