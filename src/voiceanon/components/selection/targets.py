"""Which target speakers may be drawn for a source speaker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import torch

from voiceanon.errors import ConfigError

Rule = Literal["random", "same", "other"]
"""Any speaker, one of the source's sex, or one of the other sex."""

OTHER_SEX = {"f": "m", "m": "f"}


def check_rule(rule: str) -> None:
    """Raises `ConfigError` where ``rule`` is none of `Rule`."""
    if rule not in get_args(Rule):
        raise ConfigError(f"selection: {rule!r} is not one of {', '.join(get_args(Rule))}.")


def candidates(sexes: Mapping[str, str], rule: Rule, source_sex: str | None) -> list[str]:
    """Names of the speakers that a rule allows, sorted.

    Args:
        sexes: ``"f"``, ``"m"`` or ``""`` (not known) of each speaker by name.
        rule: See `Rule`.
        source_sex: ``"f"`` or ``"m"``; needed unless the rule is ``"random"``.

    Raises:
        ConfigError: The sex of the source is not known, or no speaker is allowed.
    """
    if rule == "random":
        return sorted(sexes)
    if source_sex not in OTHER_SEX:
        raise ConfigError(
            f"selection: the rule {rule!r} needs the sex of the source speaker ('f' or 'm'), got "
            f"{source_sex!r}; pass speaker=..., and source_sexes={{speaker: sex}} to load."
        )
    wanted = source_sex if rule == "same" else OTHER_SEX[source_sex]
    allowed = sorted(name for name, sex in sexes.items() if sex == wanted)
    if not allowed:
        raise ConfigError(
            f"selection: the pool has no speaker of sex {wanted!r}, which the rule {rule!r} needs "
            f"for a source of sex {source_sex!r}; add one, or use selection='random'."
        )
    return allowed


def draw_speaker(names: list[str], generator: torch.Generator) -> str:
    """Draws one of the names, each with the same chance, with one number."""
    return names[int(torch.randint(len(names), (), generator=generator))]
