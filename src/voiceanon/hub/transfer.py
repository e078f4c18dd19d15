"""One file over HTTPS: resumed after an interruption, checked, and only then given its name."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO, TypeAlias
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from filelock import FileLock

from voiceanon._version import __version__
from voiceanon.errors import WeightsError
from voiceanon.hub.paths import cache_folder

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with file name, bytes so far and bytes in all (``None`` if the server does not say)."""

TIMEOUT_SECONDS = 30.0
"""Longest wait for the server to answer or to send more."""

ATTEMPTS = 4
"""How often a transfer is tried, each time from where it stopped."""

FIRST_PAUSE_SECONDS = 0.5
"""Pause before the second attempt; it doubles each time."""

_BLOCK_BYTES = 1 << 18
_AGENT = f"voiceanon/{__version__}"
_PART_ENDING = ".part"
_WORTH_ANOTHER_TRY = frozenset((408, 425, 429, 500, 502, 503, 504))


class _BrokenOffError(Exception):
    """The transfer stopped for a reason that may pass."""


@dataclass(frozen=True)
class _Job:
    """What is fetched, and the two files that hold it meanwhile."""

    address: str
    target: Path
    size: int | None
    progress: Progress | None

    @property
    def part(self) -> Path:
        return self.target.with_name(f".{self.target.name}{_PART_ENDING}")

    @property
    def note(self) -> Path:
        """Names the version on the server that the part belongs to."""
        return self.part.with_name(f"{self.part.name}.json")

    def drop(self) -> None:
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def download(
    address: str,
    target: Path,
    *,
    check: Callable[[Path], object],
    size: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Brings a file to ``target``, unless another process has just done so.

    What has arrived is kept in a hidden file beside it, so that a later call goes on from there.

    Args:
        address: ``https``; ``http`` only on this machine.
        target: Final path. It comes to exist only when the file is complete and ``check`` passed.
        check: Gets the complete file under a temporary name and raises if it is not right; the
            file is deleted then.
        size: Bytes, if known.
        progress: Called after each block.

    Raises:
        WeightsError: The address is not allowed, does not answer, or serves something else.
    """
    check_address(address)
    job = _Job(address, target, size, progress)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            if target.exists():
                return
            _fetch_part(job)
            try:
                check(job.part)
            except WeightsError:
                job.drop()
                raise
            os.replace(job.part, target)
            job.drop()
    except OSError as error:
        raise WeightsError(
            f"{target}: cannot be written ({error}); make room or choose another folder."
        ) from error


def check_address(address: str, *, came_from: str | None = None) -> None:
    """Refuses addresses that are not ``https``; ``http`` is allowed on this machine only.

    Args:
        address: To be opened.
        came_from: Address that redirected to it, if any.

    Raises:
        WeightsError: It is refused.
    """
    parts = urlsplit(address)
    local = parts.scheme == "http" and _is_loopback(parts.hostname or "")
    if came_from is not None and urlsplit(came_from).scheme == "https":
        local = False
    if parts.scheme != "https" and not local:
        origin = f" (redirected from {came_from})" if came_from else ""
        raise WeightsError(
            f"{address}{origin}: weights are fetched over https only; correct the address."
        )


class _Redirects(HTTPRedirectHandler):
    """Follows redirects to allowed addresses only."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> Request | None:
        try:
            check_address(newurl, came_from=req.full_url)
        except WeightsError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch_part(job: _Job) -> None:
    """Fills the part, with as many attempts as allowed."""
    opener = build_opener(_Redirects)
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        try:
            _fetch_rest(opener, job)
        except _BrokenOffError as error:
            reason: Exception = error
        else:
            return
    kept = job.part.stat().st_size if job.part.exists() else 0
    what_next = f"{kept} bytes are kept: try again to go on from there" if kept else "Try again"
    raise WeightsError(
        f"{job.target.name}: {job.address} could not be fetched in {ATTEMPTS} attempts ({reason}). "
        f"{what_next}, or fetch it where there is a network and pass its folder as weights=."
    )


def _fetch_rest(opener: OpenerDirector, job: _Job) -> None:
    """One attempt: asks for what is missing and appends it."""
    version, have = _read_note(job)
    headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
    if have and version is not None:
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    with _opened(opener, job, headers) as response:
        have = _first_byte(response, have)
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if None not in (job.size, total) and job.size != total:
            job.drop()
            raise WeightsError(
                f"{job.target.name}: expected {job.size} bytes, but {job.address} offers {total}. "
                "The published file was replaced, or something else answered; nothing was kept."
            )
        if not have:
            job.drop()
            _write_note(job, response.headers)
        done = _append(response, job, have, total)
    if total is not None and done != total:
        raise _BrokenOffError(f"the server closed the connection after {done} of {total} bytes")


def _append(response: http.client.HTTPResponse, job: _Job, have: int, total: int | None) -> int:
    done = have
    with job.part.open("ab") as stream:
        while True:
            try:
                block = response.read(_BLOCK_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise _BrokenOffError(str(error) or type(error).__name__) from error
            if not block:
                break
            stream.write(block)
            done += len(block)
            if job.progress is not None:
                job.progress(job.target.name, done, total)
        stream.flush()
        os.fsync(stream.fileno())
    return done


@contextlib.contextmanager
def _opened(
    opener: OpenerDirector, job: _Job, headers: Mapping[str, str]
) -> Iterator[http.client.HTTPResponse]:
    try:
        response = opener.open(Request(job.address, headers=dict(headers)), timeout=TIMEOUT_SECONDS)
    except HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            job.drop()
            raise _BrokenOffError("the server does not know the part that is here") from error
        if error.code in _WORTH_ANOTHER_TRY:
            raise _BrokenOffError(f"HTTP {error.code} {error.reason}") from error
        raise WeightsError(
            f"{job.target.name}: {job.address} answered HTTP {error.code} {error.reason}. The file "
            "may have moved; look there by hand and put it into a folder for weights=."
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(str(error) or type(error).__name__) from error
    with response:
        yield response


def _first_byte(response: http.client.HTTPResponse, have: int) -> int:
    """Position from which the server sends: ours, or 0 if it starts anew."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0
    span = str(response.headers.get("Content-Range", ""))
    if not span.startswith(f"bytes {have}-"):
        raise _BrokenOffError(f"asked for bytes from {have}, the server sent {span!r}")
    return have


def _read_note(job: _Job) -> tuple[str | None, int]:
    """Version on the server that the part belongs to, and the part's bytes."""
    try:
        note = json.loads(job.note.read_text("utf-8"))
        have = job.part.stat().st_size
    except (OSError, ValueError):
        return None, 0
    if not isinstance(note, dict) or note.get("address") != job.address:
        return None, 0
    return note.get("version"), have


def _write_note(job: _Job, headers: Message) -> None:
    """Remembers how the server names this version: a strong ETag, or the time of the last change.

    Without either, an interrupted transfer starts anew: the rest could belong to another version.
    """
    version = headers.get("ETag")
    if version is None or version.startswith("W/"):
        version = headers.get("Last-Modified")
    job.note.write_text(json.dumps({"address": job.address, "version": version}), "utf-8")


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Keeps other processes of this machine from fetching the same file at the same time."""
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(target.resolve()).encode()).hexdigest()
    with FileLock(folder / f"{name}.lock"):
        yield


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
