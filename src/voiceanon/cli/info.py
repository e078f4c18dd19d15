"""``voiceanon systems`` and ``voiceanon info``."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, get_type_hints

import typer

from voiceanon.cli.console import complain, say, show_table
from voiceanon.cli.options import type_name
from voiceanon.errors import MissingDependencyError

_TABLES = ("published", "weights")
"""Facts that get a table of their own."""


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
    """Show all facts about a system: settings, weights, licences, published results."""
    from voiceanon import system_info

    facts = system_info(system)
    names = [field.name for field in fields(facts) if field.name not in _TABLES]
    show_table(("fact", "value"), [(name, _show(getattr(facts, name))) for name in names])
    _show_settings(system)
    _show_rows("published results", facts.published)
    _show_rows("weights", facts.weights)


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


def _show(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
