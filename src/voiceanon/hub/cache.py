"""What is in the cache: list it, check it afresh, remove it. No function here uses the network."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from voiceanon.errors import WeightsError
from voiceanon.hub import fetch, verify
from voiceanon.hub.paths import unpacked_folder
from voiceanon.types import SystemInfo, WeightFile

State: TypeAlias = Literal["verified", "recorded", "not checked", "not cached"]
"""Checked against a published digest; digest recorded at first use, none is published; or not."""


@dataclass(frozen=True, kw_only=True)
class CachedFile:
    """One weight file and its state in the cache.

    Attributes:
        system: Id of the system.
        file: The passport.
        path: Local path, or ``None`` if it is not cached.
        size: Bytes on disk; 0 if it is not cached.
        sha256: Digest that was found, or ``"unknown"`` if it was not checked.
        state: What is known about it.
    """

    system: str
    file: WeightFile
    path: Path | None
    size: int
    sha256: str
    state: State


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A cached file that did not pass.

    Attributes:
        system: Id of the system.
        path: The file.
        message: What is wrong and what to do.
    """

    system: str
    path: Path
    message: str


def list_cached(infos: Iterable[SystemInfo]) -> list[CachedFile]:
    """All weight files of some systems, cached or not, in the order of the manifests."""
    return [_describe(info.id, file) for info in infos for file in info.weights]


def verify_cached(infos: Iterable[SystemInfo]) -> list[Fault]:
    """Hashes all cached files of some systems, whatever the records say.

    Returns:
        Those that did not pass; empty if all is well.
    """
    faults = []
    for info in infos:
        for file, path in _cached(info):
            try:
                verify.verify(path, file, afresh=True)
            except WeightsError as error:
                faults.append(Fault(system=info.id, path=path, message=str(error)))
    return faults


def remove_cached(infos: Iterable[SystemInfo]) -> int:
    """Deletes the cached files of some systems, what was unpacked from them, and their records.

    Other systems, and for files of the Hub other programs, that use the same files have to fetch
    them again.

    Returns:
        Bytes of the deleted weight files.
    """
    freed = 0
    for info in infos:
        for file, path in _cached(info):
            freed += path.stat().st_size
            digest = verify.known_digest(path, file)
            if digest is not None and unpacked_folder(digest).is_dir():
                shutil.rmtree(unpacked_folder(digest))
            verify.forget(path)
            fetch.drop(path)
    return freed


def _cached(info: SystemInfo) -> Iterator[tuple[WeightFile, Path]]:
    for file in info.weights:
        path = fetch.find(file)
        if path is not None:
            yield file, path


def _describe(system: str, file: WeightFile) -> CachedFile:
    path = fetch.find(file)
    if path is None:
        return CachedFile(
            system=system, file=file, path=None, size=0, sha256=verify.UNKNOWN, state="not cached"
        )
    digest = verify.known_digest(path, file)
    expected = verify.expected_digest(path, file)
    state: State = "verified" if digest == expected else "recorded"
    if digest is None or expected not in (None, digest):
        state = "not checked"
    return CachedFile(
        system=system,
        file=file,
        path=path,
        size=path.stat().st_size,
        sha256=digest or verify.UNKNOWN,
        state=state,
    )
