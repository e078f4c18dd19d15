"""Worker processes: each holds its own anonymizer, and one that dies does not end the run."""

from __future__ import annotations

import multiprocessing
import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import torch

from voiceanon.anonymizer import Anonymizer
from voiceanon.corpus.batches import BatchRunner, BatchSettings
from voiceanon.corpus.items import ItemResult, Job
from voiceanon.errors import ConfigError

DEATH = (
    "the worker process ended while it held this utterance alone (a crash in native code, or the "
    "system ran out of memory); leave it out, or cut it into shorter pieces."
)


@dataclass(frozen=True)
class _Start:
    """All that a worker process needs to begin.

    The anonymizer is pickled beforehand: left to multiprocessing, its weights would move into
    shared memory, which containers keep short, and stay there.
    """

    anon: bytes
    settings: BatchSettings
    device: str | None
    threads: int


@dataclass(frozen=True)
class _Task:
    """A batch to do; ``again`` if a process has died with its utterances."""

    jobs: tuple[Job, ...]
    again: bool = False


class _Worker:
    """One process at a time; a new one takes the place of one that died."""

    def __init__(self, start: _Start) -> None:
        self._start = start
        self._open()

    def _open(self) -> None:
        # One pool per process, so that a death is tied to one batch and leaves the others alone.
        self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        self._begun = self._pool.submit(_begin, self._start)

    def submit(self, task: _Task) -> Future[list[ItemResult]]:
        try:
            return self._pool.submit(_run, task.jobs)
        except BrokenProcessPool:
            self.replace()
            return self._pool.submit(_run, task.jobs)

    def check_begun(self) -> None:
        """Raises what went wrong while the process got ready."""
        try:
            self._begun.result()
        except BrokenProcessPool as error:
            raise ConfigError(
                "workers: a worker process ended while it got ready. Either memory is short (use "
                "fewer workers), or the script that starts the run does not keep its own work "
                "under 'if __name__ == \"__main__\":'."
            ) from error

    def replace(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def run_in_processes(
    anon: Anonymizer,
    settings: BatchSettings,
    batches: Sequence[tuple[Job, ...]],
    devices: Sequence[str | None],
) -> Iterator[ItemResult]:
    """Runs batches in one process per device and gives results as they come.

    The utterances of a batch whose process died are tried again one at a time; the one that ends
    its process again has failed.

    Args:
        anon: Sent to every process once.
        settings: What holds for all batches.
        batches: In the order in which they start.
        devices: One per process; ``None`` leaves the anonymizer on its own device.

    Raises:
        ConfigError: The anonymizer cannot be pickled, or a process cannot get ready.
    """
    try:
        pickled = pickle.dumps(anon)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"workers: {anon.info.id} cannot be sent to a worker process ({error}); use workers=1."
        ) from error
    used = devices[: len(batches)]
    # What this process may use is shared out, since threads of all workers add up.
    threads = max(1, torch.get_num_threads() // len(used))
    workers = [_Worker(_Start(pickled, settings, device, threads)) for device in used]
    try:
        yield from _share_out(deque(_Task(batch) for batch in batches), workers)
    finally:
        for worker in workers:
            worker.close()


def _share_out(waiting: deque[_Task], workers: Sequence[_Worker]) -> Iterator[ItemResult]:
    idle = list(workers)
    running: dict[Future[list[ItemResult]], tuple[_Worker, _Task]] = {}
    while waiting or running:
        while waiting and idle:
            worker, task = idle.pop(), waiting.popleft()
            running[worker.submit(task)] = worker, task
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            worker, task = running.pop(future)
            idle.append(worker)
            worker.check_begun()
            try:
                results = future.result()
            except BrokenProcessPool:
                worker.replace()
                if not task.again:
                    waiting.extendleft(_Task((job,), again=True) for job in task.jobs)
                    continue
                results = [_died(job) for job in task.jobs]
            yield from results


def _died(job: Job) -> ItemResult:
    return ItemResult(
        key=job.key,
        status="failed",
        source=str(job.source),
        seconds=job.seconds,
        reason=DEATH,
        source_size=job.source_size,
        source_mtime_ns=job.source_mtime_ns,
        settings=job.settings,
    )


# What follows runs in the worker process.

_runner: BatchRunner | None = None


def _begin(start: _Start) -> None:
    global _runner
    torch.set_num_threads(start.threads)
    anon = pickle.loads(start.anon)
    if start.device is not None:
        anon.to(start.device)
    _runner = BatchRunner(anon, start.settings)


def _run(jobs: tuple[Job, ...]) -> list[ItemResult]:
    if _runner is None:
        raise RuntimeError("the worker process has no anonymizer")
    return _runner.run(jobs)
