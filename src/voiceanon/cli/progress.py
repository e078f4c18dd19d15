"""How far a corpus run is: a bar on a terminal, now and then a line everywhere else."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from voiceanon.cli.console import make_console

if TYPE_CHECKING:
    from voiceanon.corpus import ItemResult, Plan

BAR_WIDTH = 20
"""Columns; leaves room for the numbers on a terminal of 80."""

LINE_SECONDS = 30.0
"""Least time between two lines where there is no terminal."""


class RunProgress:
    """Shows files, seconds of audio, speed and time left, on stderr."""

    def __init__(self) -> None:
        """Starts without totals; the plan brings them."""
        self._console = make_console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(BAR_WIDTH),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("looking at the files", total=None)
        self._files = self._total_files = 0
        self._seconds = self._total_seconds = 0.0
        self._started = self._last_line = time.monotonic()

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

    def on_plan(self, plan: Plan) -> None:
        """Takes the totals."""
        self._total_files, self._total_seconds = plan.files, plan.seconds
        self._started = self._last_line = time.monotonic()
        self._bar.update(self._task, total=plan.seconds, description=self._describe())

    def on_result(self, result: ItemResult) -> None:
        """Takes one result."""
        self._files += 1
        if result.status != "skipped":
            self._seconds += result.seconds
        self._bar.update(self._task, description=self._describe(), completed=self._seconds)
        now = time.monotonic()
        if self._bar.disable and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._console.print(f"{self._describe()}, {self._time_left(now):.0f} s left")

    def _describe(self) -> str:
        speed = self._seconds / max(time.monotonic() - self._started, 1e-9)
        return (
            f"{self._files}/{self._total_files} files, "
            f"{self._seconds:.0f}/{self._total_seconds:.0f} s of audio, {speed:.1f}x real time"
        )

    def _time_left(self, now: float) -> float:
        rest = self._total_seconds - self._seconds
        return rest * (now - self._started) / self._seconds if self._seconds else float("inf")
