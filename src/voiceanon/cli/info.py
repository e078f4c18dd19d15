"""``voiceanon systems`` and ``voiceanon info``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from voiceanon.cli.console import complain, say, show_bytes, show_table
from voiceanon.cli.options import type_name
from voiceanon.errors import MissingDependencyError

if TYPE_CHECKING:
    from voiceanon.types import SystemInfo

_TABLES = ("published", "weights")
"""Facts that get a table of their own."""

_IN_TABLE = ("name", "optional", "sha256", "size")
"""Facts of a weight file that the table of all files shows."""


def systems() -> None:
    """List all systems."""
    from voiceanon import list_systems, system_info

    infos = [system_info(name) for name in list_systems()]
    show_table(
        ("system", "also", "rate", "summary"),
        [
            (info.id, ", ".join(info.aliases), f"{info.sample_rate} Hz", info.summary)
            for info in infos
        ],
    )


def info(
    system: Annotated[str, typer.Argument(help="Id or alias; see 'voiceanon systems'.")],
) -> None:
    """Show all facts about a system: settings, published results, weights, licences, pools."""
    from voiceanon import system_info

    facts = system_info(system)
    names = [field.name for field in fields(facts) if field.name not in _TABLES]
    show_table(("fact", "value"), [(name, _show(getattr(facts, name))) for name in names])
    _show_settings(system)
    _show_rows("published results", facts.published)
    _show_weights(facts)
    _show_pools(facts)


def _show_settings(system: str) -> None:
    from voiceanon.registry import system_config

    try:
        config = system_config(system)
    except MissingDependencyError as error:
        complain(f"settings: {error}")
        return
    hints = get_type_hints(type(config))
    say("")
    show_table(
        ("setting", "type", "default"),
        [(name, type_name(hint), str(getattr(config, name))) for name, hint in hints.items()],
    )


def _show_rows(title: str, rows: tuple[Any, ...]) -> None:
    if not rows:
        return
    names = [field.name for field in fields(rows[0])]
    say("")
    say(title, "bold")
    show_table(names, [[_show(getattr(row, name)) for name in names] for row in rows])


def _show_weights(facts: SystemInfo) -> None:
    """Which files there are and which are here; then the passport of each."""
    from voiceanon.hub.cache import list_cached

    if not facts.weights:
        return
    say("")
    say("weights", "bold")
    show_table(
        ("file", "needed", "cached", "size", "published SHA-256", "SHA-256 found"),
        [
            (
                entry.file.key,
                "by some settings" if entry.file.optional else "yes",
                "no" if entry.path is None else f"yes, {entry.state}",
                _show_size(entry.file.size or entry.size),
                entry.file.sha256,
                entry.sha256,
            )
            for entry in list_cached([facts])
        ],
    )
    for file in facts.weights:
        names = [field.name for field in fields(file) if field.name not in _IN_TABLE]
        _show_passport(file.key, [(name, getattr(file, name)) for name in names])


def _show_pools(facts: SystemInfo) -> None:
    """Published pools of target speakers."""
    from voiceanon.hub.manifest import list_manifests, read_pools

    for pool in read_pools(facts.id) if facts.id in list_manifests() else ():
        names = [field.name for field in fields(pool.file) if field.name != "size"]
        rows = [
            ("content", pool.content),
            ("notes", " ".join(pool.notes)),
            *((name, getattr(pool.file, name)) for name in names),
            ("size", _show_size(pool.file.size or 0)),
        ]
        _show_passport(f"public pool {pool.id}", rows)


def _show_passport(title: str, rows: Sequence[tuple[str, object]]) -> None:
    """Facts about one file, but for those that do not apply to it."""
    say("")
    say(title, "bold")
    shown = [(name, value) for name, value in rows if value not in (None, False, "", ())]
    show_table(("fact", "value"), [(name, _show(value)) for name, value in shown])


def _show_size(size: int) -> str:
    return show_bytes(size) if size else "not stated"


def _show(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
