"""Facts of the pretrained models of the evaluation: one JSON file each, as systems have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from voiceanon.hub.manifest import weight_files
from voiceanon.hub.resolve import resolve_files
from voiceanon.hub.verify import digest_of
from voiceanon.types import WeightFile

_MANIFESTS = files("voiceanon.eval") / "manifests"


@dataclass(frozen=True, kw_only=True)
class SourceInfo:
    """Facts about a pretrained model that need not its weights.

    Attributes:
        id: Lower-case name.
        label: What it is, for tables.
        training_data: What it was trained on.
        paper: Citation and address.
        code: Address of the published implementation.
        weights: Weight files.
        notes: What a user must know.
    """

    id: str
    label: str
    training_data: str
    paper: str
    code: str
    weights: tuple[WeightFile, ...]
    notes: tuple[str, ...] = ()


def list_sources() -> tuple[str, ...]:
    """Ids of all pretrained models that have a manifest, sorted."""
    names = (entry.name for entry in _MANIFESTS.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def read_source(source_id: str) -> SourceInfo:
    """Reads the facts of a pretrained model from ``manifests/<id>.json``."""
    facts: dict[str, Any] = json.loads((_MANIFESTS / f"{source_id}.json").read_text("utf-8"))
    facts["weights"] = tuple(weight_files(facts["weights"]))
    facts["notes"] = tuple(facts.get("notes", ()))
    return SourceInfo(**facts)


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a model's files may be got.

    Attributes:
        weights: Folder with the published files; ``None`` for the cache, which is filled.
        local_files_only: Never use the network.
        token: The Hub's access token.
    """

    weights: str | Path | None = None
    local_files_only: bool = False
    token: str | bool | None = None


def resolve_source(info: SourceInfo, access: Access) -> dict[str, Path]:
    """Gives verified local paths of a model's files, by published name or member of an archive.

    Args:
        info: Facts of the model.
        access: How they may be got.

    Raises:
        WeightsError: A file is missing, damaged, or not the published one.
    """
    paths = resolve_files(
        info.weights,
        owner=info.id,
        weights=access.weights,
        local_files_only=access.local_files_only,
        token=access.token,
    )
    names = {file.key: file.name for file in info.weights}
    return {names.get(key, key): path for key, path in paths.items()}


def identity_of(info: SourceInfo, paths: Mapping[str, Path], *settings: str) -> str:
    """Tells a model, its weights and its settings from all others."""
    digests = [f"{name}={digest_of(paths[name])}" for name in sorted(paths)]
    return " ".join([info.id, *digests, *settings])
