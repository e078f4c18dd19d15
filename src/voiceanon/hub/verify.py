"""Size and digest of weight files: checked at first use, remembered afterwards.

The memory is one small JSON file per weight file in our cache. A file whose path, size and time of
change are those of the record is not hashed again. Where no digest is published, the one that was
found first is held to from then on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from voiceanon.errors import WeightsError
from voiceanon.files import replacing
from voiceanon.hub.paths import records_folder
from voiceanon.types import WeightFile

UNKNOWN = "unknown"
"""What a manifest says where no SHA-256 is published."""

_NOT_STATED = "not stated"
_BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 512
_HTML_STARTS = (b"<!doctype", b"<html", b"<head", b"<!--", b"<?xml")
_LFS_START = b"version https://git-lfs.github.com/spec/"
_SHA256_DIGITS = 64


@dataclass(frozen=True, kw_only=True)
class Record:
    """What was found when a file was checked.

    Attributes:
        path: Of the file itself, links followed.
        address: Public address of what the file should be.
        revision: Its commit, tag or release.
        size: Bytes.
        mtime_ns: Time of the last change, in nanoseconds.
        sha256: Hex digest.
    """

    path: str
    address: str
    revision: str
    size: int
    mtime_ns: int
    sha256: str


def verify(path: Path, file: WeightFile, *, afresh: bool = False) -> str:
    """Makes sure that a file is the published one, or the one that was found first.

    Args:
        path: The local file.
        file: Its passport.
        afresh: Whether to hash it even if a record says that this was done.

    Returns:
        Its SHA-256.

    Raises:
        WeightsError: It is not, with path, expected and found value.
    """
    record = find_record(path, file)
    if record is not None and not afresh and _is_unchanged(path, record):
        _compare_digest(path, expected_digest(path, file), record.sha256)
        return record.sha256
    facts = path.stat()
    digest = check(path, file)
    accept(path, file, digest, facts)
    return digest


def accept(path: Path, file: WeightFile, digest: str, facts: os.stat_result) -> None:
    """Holds a checked file to its record, if no digest is published, and records it.

    Args:
        path: The local file.
        file: Its passport.
        digest: Its SHA-256, as `check` found it.
        facts: Its size and time of change from before it was hashed, so that a change meanwhile
            shows.

    Raises:
        WeightsError: Another content was recorded.
    """
    record = find_record(path, file)
    if record is not None and expected_digest(path, file) is None and digest != record.sha256:
        raise WeightsError(
            f"{path}: the file has changed. Its SHA-256 was {record.sha256} when it was first "
            f"used and is {digest} now. If you replaced it on purpose, delete its record "
            f"{_record_path(path)}; else delete the file and fetch it again."
        )
    _remember(path, file, digest, facts)


def check(path: Path, file: WeightFile, *, shown: Path | None = None) -> str:
    """Compares size, first bytes and digests with the passport, without any record.

    Args:
        path: The local file.
        file: Its passport.
        shown: Path for the message, if the file does not bear its final name yet.

    Returns:
        Its SHA-256.

    Raises:
        WeightsError: Something differs.
    """
    shown = shown or path
    _check_head(path, file, shown)
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        raise WeightsError(
            f"{shown}: expected {file.size} bytes, found {size}. The file is not the one at "
            f"{file.address}; delete it and fetch it again."
        )
    digest, found = _digests(path, file.other_digest)
    _compare_digest(shown, expected_digest(path, file), digest)
    if not found.startswith(file.other_digest.lower()):
        raise WeightsError(
            f"{shown}: expected {file.other_digest}, found {found}. The file is not the published "
            "one; delete it and fetch it again."
        )
    return digest


def expected_digest(path: Path, file: WeightFile) -> str | None:
    """SHA-256 that a file must have, or ``None`` if nobody states one.

    The manifest states it, or the Hub, which names large files by their SHA-256.
    """
    if file.sha256 != UNKNOWN:
        return file.sha256.lower()
    blob = path.resolve()
    is_named_so = file.repository is not None and blob.parent.name == "blobs"
    if is_named_so and len(blob.name) == _SHA256_DIGITS:
        return blob.name.lower()
    return None


def find_record(path: Path, file: WeightFile) -> Record | None:
    """The record of a file, or ``None`` if there is none for this address and revision."""
    record = _read_record(path)
    if record is None or (record.address, record.revision) != (file.address, file.revision):
        return None
    return record


def forget(path: Path) -> None:
    """Deletes the record of a file that was replaced on purpose."""
    _record_path(path).unlink(missing_ok=True)


def known_digest(path: Path, file: WeightFile) -> str | None:
    """SHA-256 from the record, or ``None`` if the file was not checked in its present state."""
    record = find_record(path, file)
    return record.sha256 if record is not None and _is_unchanged(path, record) else None


def digest_of(path: Path) -> str:
    """SHA-256 of a verified file or member of an archive: recorded, or else found by hashing."""
    record = _read_record(path)
    if record is not None and _is_unchanged(path, record):
        return record.sha256
    return _digests(path, _NOT_STATED)[0]


def _remember(path: Path, file: WeightFile, digest: str, facts: os.stat_result) -> None:
    """Records that a file was checked, so that it need not be hashed again."""
    record = Record(
        path=str(path.resolve()),
        address=file.address,
        revision=file.revision,
        size=facts.st_size,
        mtime_ns=facts.st_mtime_ns,
        sha256=digest,
    )
    # Where the cache cannot be written, as in a container with weights built in, the file is
    # hashed again each time; that is slow, not wrong.
    with contextlib.suppress(OSError), replacing(_record_path(path)) as temporary:
        temporary.write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")


def _read_record(path: Path) -> Record | None:
    try:
        record = Record(**json.loads(_record_path(path).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        # Missing, cut short, or of another version: the file is hashed again.
        return None
    return record if record.path == str(path.resolve()) else None


def _record_path(path: Path) -> Path:
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()
    return records_folder() / f"{name}.json"


def _is_unchanged(path: Path, record: Record) -> bool:
    facts = path.stat()
    return (facts.st_size, facts.st_mtime_ns) == (record.size, record.mtime_ns)


def _check_head(path: Path, file: WeightFile, shown: Path) -> None:
    """Names the two things that most often lie where weights should be."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES).lstrip().lower()
    expected = f"expected {file.name} with SHA-256 {file.sha256}, found"
    if not head:
        raise WeightsError(f"{shown}: {expected} an empty file; delete it and fetch it again.")
    if head.startswith(_HTML_STARTS):
        raise WeightsError(
            f"{shown}: {expected} a web page of {path.stat().st_size} bytes. A proxy, a login page "
            "or a moved address answered instead; delete the file and fetch it again."
        )
    if head.startswith(_LFS_START):
        raise WeightsError(
            f"{shown}: {expected} a Git LFS pointer; run 'git lfs pull' in that folder."
        )


def _compare_digest(shown: Path, expected: str | None, found: str) -> None:
    if expected is not None and found != expected:
        raise WeightsError(
            f"{shown}: expected SHA-256 {expected}, found {found}. The file is damaged or is not "
            "the published one; delete it and fetch it again."
        )


def _digests(path: Path, other: str) -> tuple[str, str]:
    """SHA-256 of a file, and its digest in the form of ``other``."""
    kind = _NOT_STATED if other == _NOT_STATED else other.partition(":")[0]
    sha256 = hashlib.sha256()
    second = _second_hash(kind, path)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            sha256.update(block)
            if second is not None:
                second.update(block)
    digest = sha256.hexdigest()
    if kind == _NOT_STATED:
        return digest, _NOT_STATED
    return digest, f"{kind}:{digest if second is None else second.hexdigest()}"


def _second_hash(kind: str, path: Path) -> hashlib._Hash | None:
    if kind == "md5":
        return hashlib.md5(usedforsecurity=False)
    if kind == "git-blob":
        # Git names a content by the SHA-1 of this header and the bytes.
        header = f"blob {path.stat().st_size}\0".encode()
        return hashlib.sha1(header, usedforsecurity=False)
    if kind in (_NOT_STATED, "sha256-prefix"):
        return None
    raise WeightsError(
        f"other_digest: {kind!r} is unknown; it is 'md5:', 'git-blob:' or 'sha256-prefix:' and "
        f"hex digits, or {_NOT_STATED!r}."
    )
