"""The data of an evaluation: original recordings with what is known about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import numpy.typing as npt

from voiceanon.audio import io
from voiceanon.corpus.items import Item
from voiceanon.corpus.plan import cut_frames
from voiceanon.corpus.sources import find_sources
from voiceanon.errors import AudioError, ConfigError
from voiceanon.eval.app.tables import read_facts
from voiceanon.eval.ids import check_known, listed
from voiceanon.eval.sources.base import Recording
from voiceanon.eval.sources.waves import open_wave


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder of recordings.

    Attributes:
        path: Where it is.
        is_kaldi: Whether it is a Kaldi folder.
        keys: All its recordings: paths below it without ending, or Kaldi ids.
        used: Those that are not left out.
    """

    path: Path
    is_kaldi: bool
    keys: tuple[str, ...]
    used: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Original recordings. Utterances bear their keys in their folder as names.

    Attributes:
        name: Of the folders, for tables.
        folders: Where they are.
        originals: Recording by utterance.
        speakers: By utterance, where known. One name in several folders is one speaker.
        sexes: ``"f"`` or ``"m"`` by speaker, where known.
        texts: By utterance, where known.
        emotions: By utterance, where known.
        folds: By speaker, for classifiers with one model per fold.
    """

    name: str
    folders: tuple[Folder, ...]
    originals: Mapping[str, Item]
    speakers: Mapping[str, str]
    sexes: Mapping[str, str]
    texts: Mapping[str, str]
    emotions: Mapping[str, str]
    folds: Mapping[str, str]

    def speakers_of(self, utterances: Sequence[str]) -> list[str]:
        """Speaker of each utterance.

        Raises:
            ConfigError: Some are not known; they are listed.
        """
        check_known(
            utterances,
            self.speakers,
            "speakers: those of the utterances",
            "put each speaker's files into a folder of their own, or give a table with --table",
        )
        return [self.speakers[name] for name in utterances]


class Waves(Mapping[str, npt.NDArray[np.float32]]):
    """Opens recordings when they are asked for: float32 ``(T,)``, 16 kHz."""

    def __init__(self, items: Mapping[str, Item], names: Sequence[str] | None = None) -> None:
        """Takes recordings by utterance, and the utterances wanted, in this order."""
        self._items = items if names is None else {name: items[name] for name in names}

    def __getitem__(self, name: str) -> npt.NDArray[np.float32]:
        """Opens one.

        Raises:
            AudioError: It cannot be used; the message names utterance and file.
        """
        item = self._items[name]
        try:
            array, rate = io.read(_source(item), cut_frames(item, io.read_facts(_source(item))))
            return open_wave({"array": array, "sampling_rate": rate}).numpy()
        except AudioError as error:
            raise AudioError(f"{name}: {error}") from error

    def __iter__(self) -> Iterator[str]:
        """Utterances in their order."""
        return iter(self._items)

    def __len__(self) -> int:
        """Number of recordings."""
        return len(self._items)

    def recordings(self) -> Mapping[str, Recording]:
        """The same for functions that open recordings themselves: paths, where they are whole."""
        if any(item.segment is not None for item in self._items.values()):
            return self
        return {name: _source(item) for name, item in self._items.items()}

    def seconds(self, name: str) -> float:
        """Duration, from the header of the file.

        Raises:
            AudioError: As for opening.
        """
        item = self._items[name]
        try:
            facts = io.read_facts(_source(item))
            first, last = cut_frames(item, facts)
        except AudioError as error:
            raise AudioError(f"{name}: {error}") from error
        return (last - first) / facts.sample_rate


def read_corpus(
    folders: Sequence[Path],
    *,
    out: Path,
    tables: Sequence[Path] = (),
    leave_out: Sequence[str] = (),
) -> Corpus:
    """Finds recordings and what tables say about them; opens no audio.

    Args:
        folders: Folders of audio files, or Kaldi folders.
        out: Folder of the results; left out where it lies inside a folder.
        tables: More tables, see `tables.read_facts`.
        leave_out: Patterns such as ``pool/*`` of keys that are not used.

    Raises:
        ConfigError: There is nothing, a key is in two folders, a pattern fits no key, or a table is
            malformed.
    """
    found: list[Folder] = []
    originals: dict[str, Item] = {}
    facts: dict[str, dict[str, str]] = {}
    for path in folders:
        items, is_kaldi = read_folder(path, out)
        used = [key for key in items if not any(fnmatchcase(key, each) for each in leave_out)]
        found.append(Folder(path=path, is_kaldi=is_kaldi, keys=tuple(items), used=tuple(used)))
        twice = sorted(originals.keys() & set(used))
        if twice:
            raise ConfigError(
                f"ORIGINAL: the utterances {listed(twice)} are in two folders; evaluate the "
                "folders one by one, or pass the folder above them."
            )
        originals |= {key: items[key] for key in used}
        for fact, values in _facts(path, items, used, tables).items():
            facts[fact] = facts.get(fact, {}) | values
    _check_patterns(leave_out, found)
    return Corpus(
        name=" + ".join(path.resolve().name for path in folders),
        folders=tuple(found),
        originals=originals,
        speakers=facts["speaker"],
        sexes=facts["sex"],
        texts=facts["text"],
        emotions=facts["emotion"],
        folds=facts["fold"],
    )


def read_folder(path: Path, out: Path) -> tuple[dict[str, Item], bool]:
    """Recordings of a folder by key, and whether it is a Kaldi folder.

    Raises:
        ConfigError: It is no folder, holds no audio, or two files differ in their endings alone.
    """
    if not path.is_dir():
        raise ConfigError(f"{path}: there is no such folder; pass folders of recordings.")
    sources = find_sources(path, out)
    items = {item.key: item for item in sorted(sources.items, key=lambda item: item.key)}
    if len(items) < len(sources.items):
        counts = Counter(item.key for item in sources.items)
        twice = sorted(key for key, count in counts.items() if count > 1)
        raise ConfigError(
            f"{path}: several files have the names {listed(twice)} and differ in their endings; "
            "keep one of each."
        )
    return items, sources.kaldi_folder is not None


def _facts(
    path: Path, items: Mapping[str, Item], used: Sequence[str], tables: Sequence[Path]
) -> dict[str, dict[str, str]]:
    facts = read_facts(path, tables)
    known = {key: item.speaker for key, item in items.items() if item.speaker is not None}
    speakers = known | facts.of("speaker", items)
    chosen = {key: speakers[key] for key in used if key in speakers}
    folds = facts.of_speakers.get("fold", {})
    texts, emotions = facts.of("text", items), facts.of("emotion", items)
    return {
        "speaker": chosen,
        "sex": facts.sexes(chosen),
        "fold": {name: folds[name] for name in set(chosen.values()) & folds.keys()},
        "text": {key: texts[key] for key in used if key in texts},
        "emotion": {key: emotions[key] for key in used if key in emotions},
    }


def _check_patterns(patterns: Sequence[str], folders: Sequence[Folder]) -> None:
    keys = [key for folder in folders for key in folder.keys]
    for pattern in patterns:
        if not any(fnmatchcase(key, pattern) for key in keys):
            raise ConfigError(
                f"--leave-out: {pattern!r} fits no recording; the first here is {min(keys)!r}."
            )
    if not any(folder.used for folder in folders):
        raise ConfigError("--leave-out: no recording is left.")


def _source(item: Item) -> Path:
    if item.source is None:
        raise AudioError(item.problem or "no file is known")
    return item.source
