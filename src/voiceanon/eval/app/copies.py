"""Anonymized copies of the originals: found in folders, or made."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast, get_args

from voiceanon.corpus.items import Item
from voiceanon.corpus.journal import JOURNAL_NAME, read_journal
from voiceanon.errors import ConfigError
from voiceanon.eval.app.data import Corpus, Folder, Waves, read_folder
from voiceanon.eval.ids import listed
from voiceanon.eval.protocol.condition import Side
from voiceanon.types import Level

if TYPE_CHECKING:
    from voiceanon.anonymizer import Anonymizer
    from voiceanon.corpus import CorpusResult

ANONYMIZED = "anonymized"
"""Folder of the copies below that of the results."""

SELECTED = "selected"
"""Folder of links to the originals that are anonymized, where some are left out."""

Anonymize = Callable[["Anonymizer", Path, Path, Mapping[str, str]], "CorpusResult"]
"""Anonymizes a folder into another one, with the speaker of each key."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is evaluated.

    Attributes:
        corpus: Original recordings.
        copies: Anonymized recording of each utterance.
        system: Id or name of the system that made them.
        level: What shares a pseudo-voice in them.
    """

    corpus: Corpus
    copies: Mapping[str, Item]
    system: str
    level: Level

    def waves(self, side: Side, names: Sequence[str] | None = None) -> Waves:
        """Recordings of one side: all utterances, or some."""
        items = self.corpus.originals if side == "original" else self.copies
        return Waves(items, names)


def find_copies(
    corpus: Corpus,
    folders: Sequence[Path],
    *,
    out: Path,
    system: str | None = None,
    level: str | None = None,
) -> Subject:
    """Finds copies that exist: files with the same paths below their folder, or the same ids.

    Args:
        corpus: Originals.
        folders: One for each folder of the originals, in the same order. Endings may differ.
        out: Folder of the results.
        system: Name of the system; ``None`` for what the folders' ``report.jsonl`` say.
        level: What shares a voice; ``None`` likewise.

    Raises:
        ConfigError: Not as many folders, utterances that do not match (all are listed), or no word
            about system and level.
    """
    if len(folders) != len(corpus.folders):
        raise ConfigError(
            f"--anonymized: {len(folders)} folders for {len(corpus.folders)} folders of originals; "
            "one each is due, in the same order."
        )
    copies: dict[str, Item] = {}
    unmatched: list[str] = []
    for own, path in zip(corpus.folders, folders, strict=True):
        items, _ = read_folder(path, out)
        unmatched += [f"{key} (no copy in {path})" for key in own.used if key not in items]
        surplus = sorted(items.keys() - set(own.keys))
        unmatched += [f"{key} (no original in {own.path})" for key in surplus]
        copies |= {key: items[key] for key in own.used if key in items}
    if unmatched:
        raise ConfigError(
            f"--anonymized: the utterances {listed(unmatched)} do not match; both folders need the "
            "same relative paths or Kaldi ids. Leave originals out with --leave-out."
        )
    told = _told(folders)
    return Subject(
        corpus=corpus,
        copies=copies,
        system=_decide("--system", system, {name for name, _ in told}),
        level=check_level(_decide("--level", level, {each for _, each in told})),
    )


def make_copies(
    corpus: Corpus, anon: Anonymizer, *, level: Level, out: Path, anonymize: Anonymize
) -> Subject:
    """Makes copies in ``out/anonymized``, or goes on where an earlier run stopped.

    A folder of which something is left out, or that holds ``out``, is anonymized through links in
    ``out/selected``, so that keys, and with a seed the voices, are those of the whole folder.

    Args:
        corpus: Originals.
        anon: System.
        level: What shares a voice.
        out: Folder of the results.
        anonymize: Anonymizes one folder.

    Raises:
        ConfigError: A recording could not be anonymized; all are listed.
    """
    copies: dict[str, Item] = {}
    failed: list[str] = []
    for folder in corpus.folders:
        target = out / ANONYMIZED / folder.path.resolve().name
        speakers = {key: corpus.speakers[key] for key in folder.used if key in corpus.speakers}
        result = anonymize(anon, _selected(folder, corpus, out), target, speakers)
        failed += [f"{each.key}: {each.reason}" for each in result.failed]
        for each in (*result.done, *result.skipped):
            if each.key in corpus.originals:
                copies[each.key] = _item(target, each.key, each.output)
    if failed:
        raise ConfigError(
            f"--system: {listed(failed)} could not be anonymized; repair them, or leave them out "
            "with --leave-out."
        )
    return Subject(corpus=corpus, copies=copies, system=anon.info.id, level=level)


def check_names(folders: Sequence[Path]) -> None:
    """Checks that the copies of different folders get different places.

    Raises:
        ConfigError: Two folders of originals have one name.
    """
    places: dict[str, Path] = {}
    for folder in folders:
        path = folder.resolve()
        if places.setdefault(path.name, path) != path:
            raise ConfigError(
                f"ORIGINAL: {path} and {places[path.name]} have one name, so their copies would "
                "get one place; rename one."
            )


def check_level(level: str) -> Level:
    """Checks what shares a voice.

    Raises:
        ConfigError: It is another word.
    """
    if level not in get_args(Level):
        raise ConfigError(f"--level: {level!r} is none of {', '.join(get_args(Level))}.")
    return cast(Level, level)


def _selected(folder: Folder, corpus: Corpus, out: Path) -> Path:
    """The folder itself, or one of links to what is used of it."""
    is_whole = len(folder.used) == len(folder.keys)
    if folder.is_kaldi and not is_whole:
        raise ConfigError(
            f"--leave-out: {folder.path} is a Kaldi folder; make a smaller one with Kaldi's "
            "subset_data_dir.sh, and anonymize that."
        )
    # Results inside the folder are recordings, too, and none of its own.
    is_apart = not out.resolve().is_relative_to(folder.path.resolve())
    if folder.is_kaldi or (is_whole and is_apart):
        return folder.path
    root = out / SELECTED / folder.path.resolve().name
    for key in folder.used:
        source = corpus.originals[key].source
        link = root / corpus.originals[key].name
        if source is not None and not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source.resolve())
    return root


def _item(target: Path, key: str, output: str | None) -> Item:
    name = PurePosixPath(output or "")
    return Item(key=key, source=target / name, name=name)


def _told(folders: Sequence[str | os.PathLike[str]]) -> set[tuple[str, str]]:
    """System and level in the reports of the folders."""
    reports = [
        result.report
        for folder in folders
        for result in read_journal(Path(folder) / JOURNAL_NAME).values()
        if result.report is not None
    ]
    return {(str(report["system"]), str(report["level"])) for report in reports}


def _decide(option: str, given: str | None, told: set[str]) -> str:
    if given is not None:
        return given
    if len(told) != 1:
        found = f"{JOURNAL_NAME} names {', '.join(sorted(told))}" if told else "nothing names it"
        raise ConfigError(f"{option}: {found}; name the one that made the copies.")
    return told.pop()
