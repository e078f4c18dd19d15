"""``report.jsonl``: one line for each utterance, written as soon as its fate is known."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from voiceanon.corpus.items import Identity, ItemResult
from voiceanon.errors import ConfigError

JOURNAL_NAME = "report.jsonl"


def read_journal(path: Path) -> dict[Identity, ItemResult]:
    """Reads the latest line of every utterance.

    A last line without its end is what a crash leaves behind; it counts as not written.

    Raises:
        ConfigError: Another line is no record of this library.
    """
    if not path.is_file():
        return {}
    latest: dict[Identity, ItemResult] = {}
    *lines, _ = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            result = ItemResult.from_dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{path}, line {number}: not a record of an earlier run ({error}); move the file "
                "away, or start anew with resume=False."
            ) from error
        latest[result.identity] = result
    return latest


class Journal:
    """The open ``report.jsonl`` of a run.

    Only results go in, so that neither seed nor secret can get there.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Opens the file for appending.

        Args:
            path: File to write; its folder is made.
            resume: Keep the earlier lines.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        if resume and path.exists():
            _cut_open_line(path)
        self._file = path.open("a" if resume else "w", encoding="utf-8", newline="\n")

    def append(self, result: ItemResult) -> None:
        """Writes a line and hands it to the operating system."""
        self._file.write(json.dumps(result.to_dict(), default=str) + "\n")
        self._file.flush()

    def __enter__(self) -> Self:
        """Gives itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the file."""
        self._file.close()


def _cut_open_line(path: Path) -> None:
    content = path.read_bytes()
    os.truncate(path, content.rfind(b"\n") + 1)
