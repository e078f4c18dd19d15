"""How far an evaluation is: a bar on a terminal, now and then a line everywhere else, on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from voiceanon.cli.console import complain, make_console
from voiceanon.cli.progress import BAR_WIDTH, LINE_SECONDS

OnStep: TypeAlias = Callable[[str, int, int], None]
"""Gets what is done, how many of it are done, and how many there are."""


class EvaluationProgress:
    """Shows the step that is worked on while it is open."""

    def __init__(self) -> None:
        """Starts without a step."""
        console = make_console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(BAR_WIDTH),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)
        self._step = ""
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        """Starts to draw."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops to draw."""
        self._bar.stop()

    def on_step(self, step: str, done: int, total: int) -> None:
        """Takes how far a step is; a line says when it begins and ends."""
        begins = step != self._step
        if begins:
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(step, total=total)
            self._step = step
        self._bar.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if not begins and done < total and now - self._last_line < LINE_SECONDS:
            return
        self._last_line = now
        if self._bar.disable or done == total:
            complain(f"{step}: {done}/{total}", "")
