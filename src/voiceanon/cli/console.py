"""Lines for people: coloured on a terminal, plain everywhere else, never wrapped or marked up."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 1000
"""Columns where there is no terminal, so that a row of a table stays one line."""

_MIB = 1 << 20


def make_console(*, stderr: bool = False) -> Console:
    """A console for stdout or stderr."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, width=PLAIN_WIDTH)


def say(line: str, style: str = "") -> None:
    """Prints a line to stdout."""
    make_console().print(_text(line, style), soft_wrap=True)


def complain(line: str, style: str = "red") -> None:
    """Prints a line to stderr."""
    make_console(stderr=True).print(_text(line, style), soft_wrap=True)


@contextlib.contextmanager
def plain_warnings(*, stderr: bool = False) -> Iterator[None]:
    """Prints the warnings of a block as yellow lines when it ends, also if it fails."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for warning in caught:
                (complain if stderr else say)(f"warning: {warning.message}", "yellow")


def _text(line: str, style: str = "") -> Text:
    # File names need not be UTF-8.
    return Text(line.encode("utf-8", "backslashreplace").decode(), style=style)


def show_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table to stdout."""
    table = Table(*headers, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    make_console().print(table)


def show_bytes(count: int) -> str:
    """A size for people."""
    return f"{count / _MIB:.1f} MiB"
