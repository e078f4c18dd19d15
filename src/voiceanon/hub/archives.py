"""Single files out of published archives (zip, tar), without trusting the archive.

Only what is asked for is written, only to the path that the caller names, and only if it is an
ordinary file of the size that the archive declares.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from voiceanon.errors import WeightsError
from voiceanon.files import replacing

LARGEST_BYTES = 16 << 30
"""No weight file is larger than this."""

FREE_BYTES = 64 << 20
"""Up to this size, how well a file was compressed does not matter."""

LARGEST_RATIO = 100
"""Above `FREE_BYTES`, weights never shrink to less than this part of their size."""

_BLOCK_BYTES = 1 << 20
_ZIP_START = b"PK\x03\x04"
_ENCRYPTED = 0x1
_NOT_A_FILE = "is a folder, a link or a device"
_UNIX_MODE_SHIFT = 16
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
)


@dataclass(frozen=True)
class _Entry:
    """One entry of an archive; ``fault`` says why it may not be read, if it may not."""

    name: str
    size: int
    fault: str | None
    open: Callable[[], IO[bytes] | None]


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or tar archive."""
    return is_zip(path) or tarfile.is_tarfile(path)


def is_zip(path: Path) -> bool:
    """Whether a file begins as a zip archive.

    Unlike `zipfile.is_zipfile`, this is not misled by a zip at the end of another file, such as a
    checkpoint in an uncompressed tar.
    """
    with path.open("rb") as stream:
        return stream.read(len(_ZIP_START)) == _ZIP_START


def list_files(archive: Path) -> tuple[str, ...]:
    """Names of the ordinary files in an archive, in its order.

    Raises:
        WeightsError: It is not a readable archive.
    """
    with _opened(archive) as entries:
        return tuple(entry.name for entry in entries if entry.fault is None)


def extract(archive: Path, member: str, target: Path) -> None:
    """Writes one file of an archive to ``target``.

    Args:
        archive: Zip or tar, also compressed.
        member: Path inside it. If no entry has exactly this path, the only one that ends with it
            is meant, since some archives have a folder around everything.
        target: File to write; it exists only once it is complete.

    Raises:
        WeightsError: The archive is damaged, has no such file, or the entry is not harmless.
    """
    with _opened(archive) as entries:
        entry = _find(archive, member, entries)
        if entry.fault is None:
            entry = _checked_size(entry, archive)
        if entry.fault is not None:
            raise WeightsError(
                f"{archive}: the entry {entry.name!r} {entry.fault} and was not unpacked. The "
                "archive is not the published one; delete it and fetch it again."
            )
        try:
            with replacing(target) as temporary:
                _copy(entry, temporary, archive)
        except gzip.BadGzipFile:
            raise
        except OSError as error:
            raise WeightsError(
                f"{target}: cannot be unpacked from {archive} ({error}); make room, or unpack the "
                "archive by hand beside it."
            ) from error


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[Iterator[_Entry]]:
    try:
        if is_zip(archive):
            with zipfile.ZipFile(archive) as zipped:
                yield _zip_entries(zipped)
        else:
            with tarfile.open(archive, "r:*") as taped:
                yield _tar_entries(taped)
    except _DAMAGED as error:
        raise WeightsError(
            f"{archive}: cannot be read as a zip or tar archive ({error}); delete it and fetch it "
            "again."
        ) from error


def _zip_entries(archive: zipfile.ZipFile) -> Iterator[_Entry]:
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> _UNIX_MODE_SHIFT)
        fault = _name_fault(info.filename)
        if info.is_dir() or kind not in (0, stat.S_IFREG):
            fault = fault or _NOT_A_FILE
        if info.flag_bits & _ENCRYPTED:
            fault = fault or "is encrypted"
        yield _Entry(info.filename, info.file_size, fault, partial(archive.open, info))


def _tar_entries(archive: tarfile.TarFile) -> Iterator[_Entry]:
    total = 0
    for info in archive:
        # All that lies before an entry of a compressed tar must be unpacked to reach it.
        total += info.size
        if total > LARGEST_BYTES:
            raise tarfile.TarError(f"it unpacks to more than {LARGEST_BYTES} bytes")
        fault = _name_fault(info.name)
        if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.issparse():
            fault = fault or _NOT_A_FILE
        yield _Entry(info.name, info.size, fault, partial(archive.extractfile, info))


def _find(archive: Path, member: str, entries: Iterator[_Entry]) -> _Entry:
    inside: list[_Entry] = []
    for entry in entries:
        if entry.name == member:
            return entry
        if entry.name.endswith(f"/{member}"):
            inside.append(entry)
    if len(inside) == 1:
        return inside[0]
    found = f"{len(inside)} entries end with that" if inside else "no entry ends with that"
    raise WeightsError(f"{archive}: expected a file {member!r} inside, but {found}.")


def _name_fault(name: str) -> str | None:
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.drive or windows.root:
        return "has an absolute path"
    return "leads out of its folder" if ".." in windows.parts else None


def _checked_size(entry: _Entry, archive: Path) -> _Entry:
    likely = LARGEST_RATIO * archive.stat().st_size
    if entry.size <= min(LARGEST_BYTES, max(FREE_BYTES, likely)):
        return entry
    return replace(entry, fault=f"would unpack to {entry.size} bytes")


def _copy(entry: _Entry, target: Path, archive: Path) -> None:
    done = 0
    source = entry.open()
    if source is None:
        raise tarfile.TarError(f"{entry.name} has no content")
    with source, target.open("wb") as stream:
        while block := source.read(_BLOCK_BYTES):
            done += len(block)
            if done > entry.size:
                break
            stream.write(block)
    if done != entry.size:
        found = "more" if done > entry.size else done
        raise WeightsError(
            f"{archive}: the entry {entry.name!r} should have {entry.size} bytes, found {found}; "
            "delete the archive and fetch it again."
        )
