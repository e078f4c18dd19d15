"""Reads the manifests: one JSON file per system, with all facts that stand in `SystemInfo`."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from voiceanon.types import PublishedResult, SystemInfo, WeightFile


def read_manifest(system_id: str) -> SystemInfo:
    """Reads the facts of a built-in system from ``manifests/<id>.json``."""
    path = files("voiceanon.hub") / "manifests" / f"{system_id}.json"
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    facts["published"] = tuple(PublishedResult(**entry) for entry in facts["published"])
    facts["weights"] = tuple(WeightFile(**entry) for entry in facts["weights"])
    for name in ("aliases", "notes"):
        facts[name] = tuple(facts[name])
    return SystemInfo(**facts)
