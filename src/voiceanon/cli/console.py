"""Lines for people: coloured on a terminal, plain everywhere else, never wrapped or marked up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 1000
"""Columns where there is no terminal, so that a row of a table stays one line."""


def make_console(*, stderr: bool = False) -> Console:
    """A console for stdout or stderr."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, width=PLAIN_WIDTH)


def say(line: str, style: str = "") -> None:
    """Prints a line to stdout."""
    make_console().print(_text(line, style), soft_wrap=True)


def complain(line: str) -> None:
    """Prints a red line to stderr."""
    make_console(stderr=True).print(_text(line, "red"), soft_wrap=True)


def _text(line: str, style: str) -> Text:
    # File names need not be UTF-8.
    return Text(line.encode("utf-8", "backslashreplace").decode(), style=style)


def show_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table to stdout."""
    table = Table(*headers, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    make_console().print(table)
