"""Ids that must be known: one error that lists those that are not."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from voiceanon.errors import ConfigError

SHOWN_IDS = 50
"""Ids that one message lists; the number of all of them always stands there."""


def check_known(wanted: Iterable[str], known: Collection[str], what: str, way_out: str) -> None:
    """Raises an error that lists unknown ids.

    Args:
        wanted: Ids that are needed.
        known: Ids that there are.
        what: What the ids are and where they were looked for, for the message.
        way_out: What to do about it, a clause without a full stop.

    Raises:
        ConfigError: An id is not known.
    """
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise ConfigError(f"{what}: {listed(unknown)} not among the {len(known)} known; {way_out}.")


def listed(ids: Collection[str]) -> str:
    """Writes ids for a message: how many, and the first `SHOWN_IDS` by name."""
    shown = ", ".join(list(ids)[:SHOWN_IDS])
    more = ", ..." if len(ids) > SHOWN_IDS else ""
    return f"{len(ids)} ({shown}{more})"
