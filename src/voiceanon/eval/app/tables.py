"""What tables say about recordings: speaker, sex, text, emotion.

Read are CSV files with a header, the tables of Kaldi folders, and transcripts of LibriSpeech.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from voiceanon.corpus.kaldi import UTT2SPK, read_table
from voiceanon.corpus.pools import SPK2GENDER, parse_sexes
from voiceanon.errors import ConfigError
from voiceanon.eval.ids import listed

OF_UTTERANCES = {UTT2SPK: "speaker", "text": "text", "utt2emo": "emotion"}
"""Kaldi tables with a line per utterance, and what they say (specification sheet of the
evaluation, section 3.2)."""

OF_SPEAKERS = {SPK2GENDER: "sex", "spk2fold": "fold"}
"""Kaldi tables with a line per speaker."""

TRANSCRIPTS = "*.trans.txt"
"""Transcripts of LibriSpeech: lines of an utterance and its text, beside the recordings."""

NAMES = ("utterance", "path")
"""Columns of a CSV file that say which recording a row is about."""

FACTS = ("speaker", "text", "emotion")
"""Columns that say something about a recording; ``sex`` is of its speaker."""


@dataclass
class Facts:
    """What is known, by the names that the tables use.

    Attributes:
        of_utterances: For each of `FACTS` and ``sex`` what each table says, by utterance or path
            without ending; a later table counts in place of an earlier one.
        of_speakers: Value by speaker, for ``sex`` and ``fold``.
    """

    of_utterances: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    of_speakers: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, fact: str, keys: Iterable[str]) -> dict[str, str]:
        """Values of a fact by key.

        Args:
            fact: One of `FACTS` or ``sex``.
            keys: Of the recordings: paths without ending, or Kaldi ids. A table may name a
                recording by the last part of its key alone, if no other one has the same.
        """
        keys = tuple(keys)
        owners = Counter(map(_last, keys))
        found = {}
        for named in self.of_utterances.get(fact, ()):
            for key in keys:
                if key in named:
                    found[key] = named[key]
                elif owners[_last(key)] == 1 and _last(key) in named:
                    found[key] = named[_last(key)]
        return found

    def add(self, fact: str, values: Mapping[str, str]) -> None:
        """Adds what one more table says about utterances."""
        self.of_utterances.setdefault(fact, []).append(dict(values))

    def sexes(self, speakers: Mapping[str, str]) -> dict[str, str]:
        """``"f"`` or ``"m"`` of the speakers whose sex is known.

        Args:
            speakers: Speaker by key.

        Raises:
            ConfigError: Tables give a speaker both, or another word.
        """
        sexes = dict(self.of_speakers.get("sex", {}))
        torn = []
        for key, sex in self.of("sex", speakers).items():
            if sexes.setdefault(speakers[key], sex)[:1].lower() != sex[:1].lower():
                torn.append(speakers[key])
        if torn:
            raise ConfigError(
                f"sexes: the tables name two of the speakers {listed(sorted(set(torn)))}; correct "
                "them."
            )
        return parse_sexes({name: sexes[name] for name in set(speakers.values()) & sexes.keys()})


def read_facts(folder: Path, extra: Iterable[Path] = ()) -> Facts:
    """Reads the tables of a folder of recordings.

    Args:
        folder: Its CSV files with a column of `NAMES`, its Kaldi tables, and transcripts of
            LibriSpeech anywhere below it are read.
        extra: More tables; what they say counts in place of what the folder's say.

    Raises:
        ConfigError: A table is malformed, or one of ``extra`` says nothing.
    """
    facts = Facts()
    for path in sorted(folder.rglob(TRANSCRIPTS)):
        facts.add("text", dict(read_table(path)))
    for path in sorted(folder.iterdir()):
        if path.is_file():
            _read(path, facts)
    for path in extra:
        if not path.is_file():
            raise ConfigError(f"--table: there is no file {path}.")
        if not _read(path, facts):
            raise ConfigError(
                f"--table: {path} says nothing; write a CSV file with the column {NAMES[0]} or "
                f"{NAMES[1]} and one of {', '.join((*FACTS, 'sex'))}, or name a Kaldi table as "
                f"Kaldi does ({', '.join((*OF_UTTERANCES, *OF_SPEAKERS))})."
            )
    return facts


def _read(path: Path, facts: Facts) -> bool:
    """Adds what a table says; tells whether it is one."""
    if path.name in OF_UTTERANCES:
        facts.add(OF_UTTERANCES[path.name], dict(read_table(path)))
        return True
    if path.name in OF_SPEAKERS:
        facts.of_speakers.setdefault(OF_SPEAKERS[path.name], {}).update(read_table(path))
        return True
    return path.suffix.lower() == ".csv" and _read_csv(path, facts)


def _read_csv(path: Path, facts: Facts) -> bool:
    rows = _rows(path)
    header = next(rows, {})
    columns = [name for name in (*FACTS, "sex") if name in header]
    if not columns or not any(name in header for name in NAMES):
        return False
    found: dict[str, dict[str, str]] = {column: {} for column in columns}
    for row in rows:
        for column in columns:
            if row[column]:
                found[column].update(dict.fromkeys(_names(row), row[column]))
    for column, values in found.items():
        facts.add(column, values)
    return True


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """The header as a row, then the rows; cells without blanks at their ends."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            fields = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = fields
            yield dict.fromkeys(fields, "")
            for row in reader:
                yield {name: (row[name] or "").strip() for name in fields}
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: not a table of comma-separated UTF-8 ({error}).") from error


def _names(row: Mapping[str, str]) -> Iterator[str]:
    if row.get("utterance"):
        yield row["utterance"]
    if row.get("path"):
        yield str(PurePosixPath(row["path"]).with_suffix(""))


def _last(key: str) -> str:
    return key.rpartition("/")[2]
