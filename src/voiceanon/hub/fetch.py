"""Published files in the caches: found there, or fetched from the Hub or over HTTPS.

Files of the Hub come through ``hf_hub_download`` and nothing else of that package, with the
keywords that all its versions share.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from voiceanon.errors import WeightsError
from voiceanon.files import replacing
from voiceanon.hub import transfer, verify
from voiceanon.hub.paths import hub_folder, hub_path, hub_repository, release_path
from voiceanon.hub.transfer import Progress
from voiceanon.types import WeightFile

Token: TypeAlias = str | bool | None
"""The Hub's access token: given, from its own settings (``None`` or ``True``), or ``False``."""

_HUB_SETTINGS = threading.Lock()
"""Held while a setting of the Hub's client is changed, so that it is restored for sure."""


def find(file: WeightFile) -> Path | None:
    """Local path of a cached file, or ``None``. Opens no socket."""
    if file.repository is not None:
        return hub_path(file)
    path = release_path(file)
    return path if path.is_file() else None


def searched(file: WeightFile) -> Path:
    """Folder of the cache in which `find` looks."""
    return release_path(file).parent if file.repository is None else hub_repository(file)


def fetch(file: WeightFile, *, token: Token = None, progress: Progress | None = None) -> Path:
    """Fetches a file into the cache and checks it.

    Args:
        file: What to fetch.
        token: The Hub's access token.
        progress: Called after each block of a release file; the Hub's client has its own bar.

    Returns:
        Its path, after its digest was checked and recorded.

    Raises:
        WeightsError: It cannot be fetched, or something else came; nothing is left of that.
    """
    if file.repository is None:
        return _fetch_release(file, release_path(file), progress)
    path = _fetch_hub(file, token, hub_folder())
    try:
        verify.verify(path, file)
    except WeightsError:
        drop(path)
        raise
    return path


def fetch_to(
    file: WeightFile, target: Path, *, token: Token = None, progress: Progress | None = None
) -> None:
    """Fetches a file to a path of the user's choice and checks it; the caches are not filled.

    Args:
        file: What to fetch.
        target: Path; its folder is made if need be.
        token: The Hub's access token.
        progress: As in `fetch`.

    Raises:
        WeightsError: As in `fetch`.
    """
    cached = find(file)
    if cached is not None:
        verify.verify(cached, file)
        with _writing(target), replacing(target) as temporary:
            shutil.copyfile(cached, temporary)
    elif file.repository is None:
        _fetch_release(file, target, progress)
        return
    else:
        with _writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".hub-") as folder:
                path = _fetch_hub(file, token, Path(folder))
                verify.check(path, file, shown=target)
                os.replace(path.resolve(), target)
    verify.verify(target, file)


def drop(path: Path) -> None:
    """Deletes a cached file; in the Hub's cache, also the content behind the link.

    The content stays if another revision still links to it.
    """
    content = path.resolve()
    path.unlink(missing_ok=True)
    if content != path.absolute() and content.parent.name == "blobs":
        snapshots = content.parent.parent / "snapshots"
        if not any(other.resolve() == content for other in snapshots.rglob("*")):
            content.unlink(missing_ok=True)


def _fetch_release(file: WeightFile, target: Path, progress: Progress | None) -> Path:
    digests: list[str] = []

    def check(part: Path) -> None:
        digests.append(verify.check(part, file, shown=target))

    transfer.download(file.address, target, check=check, size=file.size, progress=progress)
    if not digests:
        # Another process fetched it meanwhile.
        verify.verify(target, file)
        return target
    try:
        verify.accept(target, file, digests[-1], target.stat())
    except WeightsError:
        drop(target)
        raise
    return target


def _fetch_hub(file: WeightFile, token: Token, cache: Path) -> Path:
    from huggingface_hub import hf_hub_download

    folder, _, name = file.name.rpartition("/")
    try:
        with _no_usage_data():
            path = hf_hub_download(
                repo_id=str(file.repository),
                filename=name,
                subfolder=folder or None,
                revision=file.revision,
                cache_dir=str(cache),
                local_files_only=False,
                token=token,
            )
    # The client's errors come from three HTTP packages, depending on its version; all of them
    # mean that there is no file.
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise WeightsError(
            f"{file.key}: the Hub did not give {file.address} ({type(error).__name__}: "
            f"{reason[0]}). Check the network; if the repository asks for a login, pass token= or "
            "run 'hf auth login'."
        ) from error
    return Path(path)


@contextlib.contextmanager
def _no_usage_data() -> Iterator[None]:
    """Keeps the Hub's client from telling about the program that it runs in."""
    from huggingface_hub import constants

    with _HUB_SETTINGS:
        before = constants.HF_HUB_DISABLE_TELEMETRY
        constants.HF_HUB_DISABLE_TELEMETRY = True
        try:
            yield
        finally:
            constants.HF_HUB_DISABLE_TELEMETRY = before


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WeightsError(
            f"{target}: cannot be written ({error}); make room or choose another folder."
        ) from error
