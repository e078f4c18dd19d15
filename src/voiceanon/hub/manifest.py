"""Reads the manifests: one JSON file per system, with all facts that stand in `SystemInfo`.

Besides these, a manifest may list public pools of target voices. Weight files that share a
passport may share an entry: its ``files`` list what differs, and braces in its ``address`` stand
for other fields, such as ``".../resolve/{revision}/{name}"``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from voiceanon.types import PublishedResult, SystemInfo, WeightFile

_MANIFESTS = files("voiceanon.hub") / "manifests"


@dataclass(frozen=True, kw_only=True)
class PublicPool:
    """A published set of target voices, as a manifest lists it.

    Attributes:
        id: Lower-case name.
        content: Speakers, amount and form.
        file: Where it lies, with licence and training data of the features, if any.
        notes: What a user must know.
    """

    id: str
    content: str
    file: WeightFile
    notes: tuple[str, ...] = ()


def list_manifests() -> tuple[str, ...]:
    """Ids of all systems that have a manifest, sorted."""
    names = (entry.name for entry in _MANIFESTS.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in names if name.endswith(".json")))


def read_manifest(system_id: str) -> SystemInfo:
    """Reads the facts of a built-in system from ``manifests/<id>.json``."""
    facts = _read(system_id)
    facts.pop("pools", None)
    facts["published"] = tuple(PublishedResult(**entry) for entry in facts["published"])
    facts["weights"] = tuple(weight_files(facts["weights"]))
    for name in ("aliases", "notes", "guesses"):
        facts[name] = tuple(facts.get(name, ()))
    return SystemInfo(**facts)


def read_pools(system_id: str) -> tuple[PublicPool, ...]:
    """Reads the public pools of target voices that a built-in system can use."""
    return tuple(_pool(entry) for entry in _read(system_id).get("pools", []))


def _read(system_id: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((_MANIFESTS / f"{system_id}.json").read_text("utf-8"))
    return facts


def weight_files(entries: list[dict[str, Any]]) -> Iterator[WeightFile]:
    """Reads the entries of a manifest's list of files, with what they share filled in."""
    for entry in entries:
        shared = {name: value for name, value in entry.items() if name != "files"}
        for own in entry.get("files", [{}]):
            yield _weight_file({**shared, **own})


def _weight_file(fields: Mapping[str, Any]) -> WeightFile:
    address = fields["address"].format_map(fields)
    members = tuple(fields.get("members", ()))
    return WeightFile(**{**fields, "address": address, "members": members})


def _pool(entry: Mapping[str, Any]) -> PublicPool:
    (file,) = weight_files([entry["file"]])
    return PublicPool(
        id=entry["id"], content=entry["content"], file=file, notes=tuple(entry.get("notes", ()))
    )
