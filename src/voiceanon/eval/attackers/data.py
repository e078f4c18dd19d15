"""Speech that an attacker is trained on: utterances by speaker, and how they are reduced."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from voiceanon import seeding
from voiceanon.corpus.items import Item
from voiceanon.corpus.journal import JOURNAL_NAME, read_journal
from voiceanon.corpus.sources import find_sources
from voiceanon.errors import ConfigError

Wave: TypeAlias = npt.NDArray[np.float32]
_T = TypeVar("_T")

ORIGINAL = "original"
"""Stands in place of a system's name for speech that is not anonymized."""

_LIBRISPEECH_NAME = re.compile(r"\d+-(?P<chapter>\d+)-\d+")
"""Speaker, chapter and number, with which LibriSpeech's names of utterances begin."""

_SHOWN = 3
"""Names that an error message gives as examples."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingUtterance:
    """One utterance.

    Attributes:
        name: Tells it from all others.
        speaker: Who spoke, whatever the voice sounds like.
        source: File at 16 kHz, or float32 ``(T,)`` at 16 kHz.
        chapter: Session it comes from, for the choice of fewer utterances.
    """

    name: str
    speaker: str
    source: Path | Wave
    chapter: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingData:
    """Utterances, and how they were anonymized.

    Attributes:
        utterances: At least two speakers.
        system: Name of the system that anonymized them, or `ORIGINAL`.
        level: What shared a pseudo-voice: ``"utterance"`` or ``"speaker"``; ``None`` for original
            speech.
    """

    utterances: tuple[TrainingUtterance, ...]
    system: str
    level: str | None = None

    def __post_init__(self) -> None:
        """Checks names and speakers."""
        if (self.system == ORIGINAL) != (self.level is None):
            raise ConfigError(
                f"training data: system {self.system!r} with level {self.level!r}; anonymized "
                f"speech has the level 'utterance' or 'speaker', {ORIGINAL!r} speech has none."
            )
        counts = Counter(utterance.name for utterance in self.utterances)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise ConfigError(
                f"training data: {len(twice)} names stand for several utterances, such as "
                f"{', '.join(twice[:_SHOWN])}; give each its own."
            )
        speakers = {utterance.speaker for utterance in self.utterances}
        if len(speakers) < 2:
            raise ConfigError(
                f"training data: {len(self.utterances)} utterances of {len(speakers)} speakers; an "
                "attacker learns to tell at least 2 speakers apart."
            )


def read_training_data(
    folder: str | os.PathLike[str], *, system: str | None = None, level: str | None = None
) -> TrainingData:
    """Lists the utterances of a folder; opens no audio file.

    Args:
        folder: As `voiceanon.corpus.anonymize_folder` wrote it: one folder per speaker, or a Kaldi
            folder. Chapters are those of LibriSpeech's names (``103-1240-0000``), or else the
            folder that a file lies in.
        system: Name of the system, or `ORIGINAL`; ``None`` for what ``report.jsonl`` says.
        level: As in `TrainingData`; ``None`` for what ``report.jsonl`` says, if there is one.

    Raises:
        ConfigError: There is no speech, an utterance has no speaker or no file, or neither
            ``report.jsonl`` nor the arguments tell how the speech was anonymized.
    """
    place = Path(folder)
    items = find_sources(place, place / JOURNAL_NAME).items
    _check_items(place, items)
    if system is None:
        system, level = _read_origin(place / JOURNAL_NAME)
    utterances = tuple(_utterance(item) for item in sorted(items, key=lambda item: item.key))
    return TrainingData(utterances=utterances, system=system, level=level)


def reduce_utterances(
    utterances: Sequence[TrainingUtterance], per_speaker: int, seed: int
) -> tuple[TrainingUtterance, ...]:
    """Keeps exactly ``min(per_speaker, available)`` utterances of each speaker.

    Chapters take turns, in a drawn order, and give their utterances in a drawn order, so that as
    many chapters as possible are heard (specification sheet of the evaluation, section 3.3:
    "spk-diverse-sess" as it is meant). Draws depend on the seed, the speaker and its own utterances
    alone.

    Args:
        utterances: Of all speakers, in any order.
        per_speaker: At least 1.
        seed: Of the training.

    Returns:
        What is kept, in the order of ``utterances``.
    """
    secret = seeding.seed_secret(seed)
    by_speaker: dict[str, list[TrainingUtterance]] = {}
    for utterance in utterances:
        by_speaker.setdefault(utterance.speaker, []).append(utterance)
    kept: set[str] = set()
    for speaker, own in by_speaker.items():
        source = seeding.stream(secret, "attacker", "reduce", speaker)
        kept.update(_take_turns(own, per_speaker, seeding.generator(source)))
    return tuple(utterance for utterance in utterances if utterance.name in kept)


def _take_turns(
    utterances: Iterable[TrainingUtterance], count: int, generator: torch.Generator
) -> list[str]:
    """Names of ``count`` utterances, chapter after chapter."""
    chapters: dict[str, list[str]] = {}
    for utterance in sorted(utterances, key=lambda u: (u.chapter, u.name)):
        chapters.setdefault(utterance.chapter, []).append(utterance.name)
    drawn = [_shuffled(names, generator) for names in chapters.values()]
    turns = _shuffled(drawn, generator)
    rounds = max(map(len, turns))
    in_turn = [names[i] for i in range(rounds) for names in turns if i < len(names)]
    return in_turn[:count]


def _shuffled(values: Sequence[_T], generator: torch.Generator) -> list[_T]:
    order = torch.randperm(len(values), generator=generator, device="cpu")
    return [values[i] for i in order.tolist()]


def _utterance(item: Item) -> TrainingUtterance:
    """Takes an item that `_check_items` has passed."""
    source, speaker = cast(Path, item.source), cast(str, item.speaker)
    found = _LIBRISPEECH_NAME.match(source.stem)
    chapter = found["chapter"] if found else item.name.parent.as_posix()
    return TrainingUtterance(name=item.key, speaker=speaker, source=source, chapter=chapter)


def _check_items(folder: Path, items: Sequence[Item]) -> None:
    for fault, advice, bad in _faults(items):
        if bad:
            raise ConfigError(
                f"{folder}: {len(bad)} utterances {fault}, such as {', '.join(bad[:_SHOWN])}; "
                f"{advice}."
            )


def _faults(items: Sequence[Item]) -> Iterator[tuple[str, str, list[str]]]:
    yield (
        "have no file",
        "mend the tables",
        [f"{item.key} ({item.problem})" for item in items if item.source is None],
    )
    yield (
        "have no speaker",
        "put each speaker's files into a folder of its own, or write utt2spk",
        [item.key for item in items if item.speaker is None],
    )
    yield (
        "are pieces of longer files",
        "cut the files first",
        [item.key for item in items if item.segment is not None],
    )


def _read_origin(report: Path) -> tuple[str, str]:
    """System and level of an anonymized folder, from its ``report.jsonl``."""
    results = read_journal(report).values()
    found = {
        (str(result.report["system"]), str(result.report["level"]))
        for result in results
        if result.report is not None
    }
    if len(found) == 1:
        return found.pop()
    what = "says nothing" if not found else f"says several things ({sorted(found)})"
    raise ConfigError(
        f"{report}: {what} about how the speech was anonymized; pass system= and level=, or "
        f"system={ORIGINAL!r} for speech that is not anonymized."
    )
