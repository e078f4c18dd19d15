"""Results on disk: ``results.json`` with everything, ``measurements.csv`` with one row a number.

``results.json`` holds::

    format      1
    voiceanon   version of this library
    system      id or name of the system that made the copies
    level       what shares a pseudo-voice
    parts       by "privacy", "content" and "emotion", as far as they were measured:
        date          of the measurement, ISO 8601, UTC
        measurements  list of numbers; fields of `voiceanon.eval.protocol.measurement.Measurement`,
                      with "kind" ("attack" or "utility") in condition
        notes         list of texts: warnings of the measurement
        pairs         list of short recordings to listen to: utterance, speaker, and paths of
                      "original" and "anonymized" below the folder of the results
        curves        privacy: list of `curves.ScoreCurves`
        transcripts   content: list of utterance, reference, and text by condition
        confusions    emotion: list of `emotion.Confusion`

Rates are fractions, never percent.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from voiceanon._version import __version__
from voiceanon.errors import ConfigError
from voiceanon.eval.protocol.condition import Attack, Utility
from voiceanon.eval.protocol.measurement import (
    Interval,
    Measurement,
    SpeechCounts,
    TrialCounts,
)
from voiceanon.files import replacing
from voiceanon.types import Level

FORMAT = 1
"""Of ``results.json``; a change that old readers do not understand raises it."""

RESULTS_NAME = "results.json"
TABLE_NAME = "measurements.csv"

PartName: TypeAlias = Literal["privacy", "content", "emotion"]

_COUNTS = {
    TrialCounts: (
        "targets",
        "nontargets",
        "enrolment_speakers",
        "enrolment_utterances",
        "trial_speakers",
        "trial_utterances",
    ),
    SpeechCounts: ("utterances", "speakers", "words"),
}
"""Fields of counts, each of which is a column."""

_NO_VALUE = "none"
"""Stands in columns that do not apply, so that no cell is empty."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one command measured; see above for the fields.

    Attributes:
        measurements: Numbers.
        notes: Warnings.
        date: ISO 8601, UTC.
        extras: Everything else, as plain values by the names above.
    """

    measurements: tuple[Measurement, ...]
    notes: tuple[str, ...] = ()
    date: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Results:
    """All that is known about one system in one folder.

    Attributes:
        system: Id or name.
        level: What shares a pseudo-voice.
        parts: By name.
        version: Of the library that measured last.
    """

    system: str
    level: Level
    parts: Mapping[PartName, Part] = field(default_factory=dict)
    version: str = __version__

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Numbers of all parts."""
        return tuple(each for part in self.parts.values() for each in part.measurements)

    def with_part(self, name: PartName, part: Part) -> Results:
        """The results with a part that was measured now."""
        dated = replace(part, date=datetime.now(UTC).isoformat(timespec="seconds"))
        parts = {**self.parts, name: dated}
        ordered = {each: parts[each] for each in get_args(PartName) if each in parts}
        return replace(self, parts=ordered, version=__version__)


def open_results(folder: Path, system: str, level: Level) -> Results:
    """Results that a folder holds, or none yet.

    Raises:
        ConfigError: They are of another system or level, or the file is not readable.
    """
    if not (folder / RESULTS_NAME).is_file():
        return Results(system=system, level=level)
    found = read_results(folder)
    if (found.system, found.level) != (system, level):
        raise ConfigError(
            f"--out: {folder} holds results of {found.system}, level {found.level}, not of "
            f"{system}, level {level}; take another folder."
        )
    return found


def read_results(folder: Path) -> Results:
    """Reads ``results.json``.

    Raises:
        ConfigError: There is none, or it is not one of ours.
    """
    path = folder / RESULTS_NAME
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file; measure with 'voiceanon-eval all'.")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["format"] != FORMAT:
            raise ConfigError(
                f"{path}: format {values['format']}, this version reads {FORMAT}; measure anew."
            )
        return Results(
            system=values["system"],
            level=values["level"],
            version=values["voiceanon"],
            parts={name: _part_from(part) for name, part in values["parts"].items()},
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{path}: not written by voiceanon-eval ({error!r}); measure anew in another folder."
        ) from error


def write_results(folder: Path, results: Results) -> None:
    """Writes ``results.json`` and ``measurements.csv``, each whole or not at all."""
    values = {
        "format": FORMAT,
        "voiceanon": results.version,
        "system": results.system,
        "level": results.level,
        "parts": {name: _part_to(part) for name, part in results.parts.items()},
    }
    with replacing(folder / RESULTS_NAME) as temporary:
        text = json.dumps(values, indent=1, allow_nan=False, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")
    write_rows(folder / TABLE_NAME, [measurement_row(each) for each in results.measurements])


def write_rows(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    """Writes a CSV file whose header is that of the first row."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def measurement_row(measurement: Measurement) -> dict[str, str]:
    """All facts of a number, none of them empty.

    They are those of `Measurement.to_row`, with the ends of the interval and every count in columns
    of their own.
    """
    row = measurement.to_row()
    interval = measurement.interval
    ends = ("not computed",) * 3
    if interval is not None:
        ends = (f"{interval.low:.6g}", f"{interval.high:.6g}", interval.method)
    row |= dict(zip(("interval low", "interval high", "interval method"), ends, strict=True))
    del row["interval"]
    counts = vars(measurement.counts)
    for name in _count_names():
        value = counts.get(name)
        row[name.replace("_", " ")] = _NO_VALUE if value is None else str(value)
    return row


def _count_names() -> Iterable[str]:
    return (name for names in _COUNTS.values() for name in names)


def _part_to(part: Part) -> dict[str, Any]:
    return {
        "date": part.date,
        "measurements": [_measurement_to(each) for each in part.measurements],
        "notes": list(part.notes),
        **part.extras,
    }


def _part_from(values: Mapping[str, Any]) -> Part:
    rest = dict(values)
    return Part(
        date=rest.pop("date"),
        measurements=tuple(_measurement_from(each) for each in rest.pop("measurements")),
        notes=tuple(rest.pop("notes")),
        extras=rest,
    )


def _measurement_to(measurement: Measurement) -> dict[str, Any]:
    values = asdict(measurement)
    kind = "attack" if isinstance(measurement.condition, Attack) else "utility"
    return {**values, "condition": {"kind": kind, **values["condition"]}}


def _measurement_from(values: Mapping[str, Any]) -> Measurement:
    rest = dict(values)
    condition = dict(rest.pop("condition"))
    counts, interval = rest.pop("counts"), rest.pop("interval")
    is_attack = condition.pop("kind") == "attack"
    return Measurement(
        **rest,
        condition=Attack(**condition) if is_attack else Utility(**condition),
        counts=TrialCounts(**counts) if is_attack else SpeechCounts(**counts),
        interval=None if interval is None else Interval(**interval),
    )
