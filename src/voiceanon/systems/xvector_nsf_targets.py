"""Voices of `XVectorNSF`: drawn without the audio, and settled with it.

A drawn voice is ``{"ranks": [...], "sex": "f"}``: which of the candidates are averaged, and the sex
of the candidates (``""`` for any). Who the candidates are depends on the source. A settled voice
is ``{"speakers": [...]}``: the names of the speakers that are averaged, in this order.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from voiceanon.components.selection.targets import OTHER_SEX
from voiceanon.errors import ConfigError
from voiceanon.hub.pool import SEXES as POOL_SEXES
from voiceanon.hub.pool import Pool
from voiceanon.systems.xvector_nsf_config import SEXES, XVectorNSFConfig
from voiceanon.types import Target


def is_settled(target: Target) -> bool:
    """Whether the speakers are known."""
    return "speakers" in target


def draw_ranks(config: XVectorNSFConfig, generator: torch.Generator) -> list[int]:
    """Draws which candidates are averaged, in rising order; all sets are as likely."""
    order = torch.randperm(config.candidates, generator=generator, device="cpu")
    return sorted(order[: config.averaged].tolist())


def published_ranks(config: XVectorNSFConfig, seed: str, count: int) -> list[list[int]]:
    """Draws which candidates are averaged as the published program does, one after the other.

    Args:
        config: Settings.
        seed: A text, also for the 0 of the published recipe: its program never turns it into a
            number, and Python's generator starts otherwise from a text than from an integer.
        count: Draws.

    Returns:
        Ranks in rising order, in which the published program adds the vectors up.

    Raises:
        ConfigError: The seed is no text.
    """
    if not isinstance(seed, str):
        raise ConfigError(
            f"seed: the published draw takes its seed as text, got {type(seed).__name__}; use '0' "
            "for the 0 of the published recipe."
        )
    draws = random.Random(seed)
    ranks = range(config.candidates)
    return [sorted(draws.sample(ranks, config.averaged)) for _ in range(count)]


def candidate_sex(
    config: XVectorNSFConfig, system: str, speaker: str | None, given: str | None = None
) -> str:
    """Sex of the candidates for a source.

    Args:
        config: Settings.
        system: Id, for messages.
        speaker: Name of the source speaker, if any.
        given: Sex of the source, if the caller says it.

    Returns:
        ``"f"``, ``"m"``, or ``""`` for any.

    Raises:
        ConfigError: It is not known, and the settings do not say what to do then.
    """
    own = None if speaker is None else config.source_sexes.get(speaker)
    sex = given or own or config.source_sex
    if sex is None:
        if config.missing_sex == "any":
            return ""
        who = "the source speaker" if speaker is None else f"the speaker {speaker!r}"
        raise ConfigError(
            f"sex: {system} averages speakers of the sex of the source, and that of {who} is not "
            "known. Load with source_sex='f' or 'm', or with source_sexes={speaker: sex} and pass "
            "speaker=...; missing_sex='any' takes speakers of any sex."
        )
    if sex not in SEXES:
        raise ConfigError(f"sex: {sex!r} is not 'f' or 'm'.")
    return OTHER_SEX[sex] if config.cross_gender else sex


def check_candidates(config: XVectorNSFConfig, pool: Pool, sex: str) -> None:
    """Raises `ConfigError` where the pool has too few speakers of a sex."""
    count = sum(not sex or pool.sex(name) == sex for name in pool.names)
    if count < config.candidates:
        kind = {"f": "female ", "m": "male ", "": ""}[sex]
        sexes = ", or tell the sexes of its speakers" if sex else ""
        fewer = f"load with candidates={count} and averaged={count} or fewer, or " if count else ""
        raise ConfigError(
            f"pool: {config.candidates} candidates are wanted, but the pool has {count} {kind}"
            f"speakers; {fewer}take a larger pool{sexes}."
        )


def parse_target(target: object, config: XVectorNSFConfig, pool: Pool, system: str) -> Target:
    """Checks a voice that the caller passed, of either form.

    Raises:
        ConfigError: It is none.
    """
    if isinstance(target, Mapping):
        if set(target) == {"speakers"}:
            return {"speakers": _names(target["speakers"], pool)}
        if set(target) == {"ranks", "sex"} and target["sex"] in POOL_SEXES:
            check_candidates(config, pool, target["sex"])
            return {"ranks": _ranks(target["ranks"], config.candidates), "sex": target["sex"]}
    raise ConfigError(
        f"target: {system} takes {{'speakers': [names of the pool]}}, or {{'ranks': [of the "
        f"candidates], 'sex': 'f', 'm' or ''}}, got {target!r:.200}."
    )


def _names(given: Any, pool: Pool) -> list[str]:
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ConfigError(f"target: expected a list of speakers, got {given!r:.200}.")
    unknown = [name for name in given if not isinstance(name, str) or name not in pool.features]
    if unknown:
        raise ConfigError(
            f"target: {', '.join(map(repr, unknown[:3]))} are no speakers of the pool; it has "
            f"{len(pool.names)}, such as {', '.join(pool.names[:5])}."
        )
    return list(given)


def _ranks(given: Any, candidates: int) -> list[int]:
    whole = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    if whole and all(type(rank) is int and 0 <= rank < candidates for rank in given):
        return list(given)
    raise ConfigError(f"target: expected ranks from 0 to {candidates - 1}, got {given!r:.200}.")
