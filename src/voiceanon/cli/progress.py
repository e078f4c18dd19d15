"""How far a command is: a bar on a terminal, now and then a line everywhere else."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from voiceanon.cli.console import make_console, show_bytes

if TYPE_CHECKING:
    from voiceanon.corpus import ItemResult, Plan

BAR_WIDTH = 20
"""Columns; leaves room for the numbers on a terminal of 80."""

LINE_SECONDS = 30.0
"""Least time between two lines where there is no terminal."""


class _Progress:
    """Draws on stderr while it is open."""

    def __init__(self) -> None:
        self._console = make_console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(BAR_WIDTH),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
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

    def _is_line_due(self) -> bool:
        """Whether a line is to be printed now; a yes counts as printed."""
        now = time.monotonic()
        if not self._bar.disable or now - self._last_line < LINE_SECONDS:
            return False
        self._last_line = now
        return True


class RunProgress(_Progress):
    """Shows files, seconds of audio, speed and time left of a corpus run."""

    def __init__(self) -> None:
        """Starts without totals; the plan brings them."""
        super().__init__()
        self._task = self._bar.add_task("looking at the files", total=None)
        self._files = self._total_files = 0
        self._seconds = self._total_seconds = 0.0
        self._started = time.monotonic()

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
        if self._is_line_due():
            self._console.print(f"{self._describe()}, {self._time_left():.0f} s left")

    def _describe(self) -> str:
        speed = self._seconds / max(time.monotonic() - self._started, 1e-9)
        return (
            f"{self._files}/{self._total_files} files, "
            f"{self._seconds:.0f}/{self._total_seconds:.0f} s of audio, {speed:.1f}x real time"
        )

    def _time_left(self) -> float:
        rest = self._total_seconds - self._seconds
        elapsed = time.monotonic() - self._started
        return rest * elapsed / self._seconds if self._seconds else float("inf")


class PoolProgress(_Progress):
    """Shows the speaker that is worked on."""

    def __init__(self) -> None:
        """Starts without a total; the first speaker brings it."""
        super().__init__()
        self._task = self._bar.add_task("looking at the files", total=None)

    def on_speaker(self, speaker: str, number: int, count: int) -> None:
        """Takes the next speaker."""
        text = f"speaker {number}/{count}: {speaker}"
        self._bar.update(self._task, description=text, completed=number - 1, total=count)
        if self._is_line_due():
            self._console.print(text, markup=False)


class DownloadProgress(_Progress):
    """Shows how much of each file is here."""

    def __init__(self) -> None:
        """Starts without files; they come as they are fetched."""
        super().__init__()
        self._tasks: dict[str, TaskID] = {}

    def on_block(self, name: str, done: int, total: int | None) -> None:
        """Takes file name, bytes so far and bytes in all, if they are known."""
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(name, total=None)
        size = "" if total is None else f" of {show_bytes(total)}"
        text = f"{name}: {show_bytes(done)}{size}"
        self._bar.update(self._tasks[name], description=text, completed=done, total=total)
        if self._is_line_due():
            self._console.print(text, markup=False)
