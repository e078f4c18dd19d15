"""Where weights are kept, and whether the network may be used."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import quote, urlsplit

from voiceanon.types import WeightFile

CACHE_VARIABLE = "VOICEANON_CACHE"
"""Environment variable that names the folder of release files and records."""

_OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TRUE = frozenset(("1", "ON", "YES", "TRUE"))
_QUERY_DIGITS = 12


def cache_folder() -> Path:
    """Our own cache: ``$VOICEANON_CACHE``, ``$HF_HOME/voiceanon`` or ``~/.cache/voiceanon``.

    It holds release files, files taken from archives, and the records of checks. Files of the Hub
    lie in the Hub's own cache, `hub_folder`.
    """
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).expanduser()
    if hub_home := os.environ.get("HF_HOME"):
        return Path(hub_home).expanduser() / "voiceanon"
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "voiceanon"


def hub_folder() -> Path:
    """The Hub's cache, as ``huggingface_hub`` found it when it was imported."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def offline_reason() -> str | None:
    """Says which setting forbids the network, or ``None`` if none does."""
    for name in _OFFLINE_VARIABLES:
        if os.environ.get(name, "").upper() in _TRUE:
            return f"{name} is set"
    from huggingface_hub import constants

    return "huggingface_hub is in offline mode" if constants.HF_HUB_OFFLINE else None


def release_path(file: WeightFile) -> Path:
    """Place of a release file in our cache: its address, as folders."""
    parts = urlsplit(file.address)
    folders = [quote(part) for part in parts.path.split("/") if part not in ("", ".")]
    host = parts.netloc.replace(":", "_")
    if parts.query:
        digest = hashlib.sha256(parts.query.encode()).hexdigest()
        host += f"_{digest[:_QUERY_DIGITS]}"
    return cache_folder().joinpath("files", host, *(part.replace("..", "_") for part in folders))


def hub_path(file: WeightFile) -> Path | None:
    """Place of a file in the Hub's cache, or ``None`` if it is not there.

    The layout is that of ``huggingface_hub``: ``snapshots/<commit>/<file>``, and ``refs`` with the
    commit of a branch or tag. It is read here because ``hf_hub_download`` may ask the network for
    other things even with ``local_files_only=True``.
    """
    repository = hub_repository(file)
    ref = repository / "refs" / file.revision
    commit = ref.read_text("utf-8").strip() if ref.is_file() else file.revision
    path = repository / "snapshots" / commit / file.name
    return path if path.is_file() else None


def hub_repository(file: WeightFile) -> Path:
    """Folder of a Hub repository in the Hub's cache."""
    return hub_folder() / "--".join(("models", *str(file.repository).split("/")))


def unpacked_folder(digest: str) -> Path:
    """Folder of files taken from the archive with this SHA-256."""
    return cache_folder() / "unpacked" / digest


def records_folder() -> Path:
    """Folder of the records of checks."""
    return cache_folder() / "records"
