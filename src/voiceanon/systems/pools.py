"""What systems with target speakers share: pools as callers pass them, and reference speech."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from voiceanon.anonymizer import Anonymizer
from voiceanon.batching import pad, plan_batches
from voiceanon.devices import arithmetic
from voiceanon.errors import ConfigError
from voiceanon.hub.pool import Pool, read_pool


def as_pool(pool: object, make_pool: Callable[[Mapping[str, Any]], Pool]) -> Pool:
    """Makes a pool of what the caller passed.

    Args:
        pool: A pool, the path of one, or reference speech by speaker name.
        make_pool: Of the system.

    Raises:
        ConfigError: It is none of these.
    """
    if isinstance(pool, str | os.PathLike):
        return read_pool(pool)
    if isinstance(pool, Mapping):
        return make_pool(pool)
    if isinstance(pool, Pool):
        return pool
    raise ConfigError(
        f"pool: expected a pool, its path or a dictionary of reference speech, got "
        f"{type(pool).__name__}."
    )


def check_pool(pool: Pool, *, width: int, made_with: Mapping[str, str], system: str) -> None:
    """Raises `ConfigError` where the features of a pool are not those of a system.

    Args:
        pool: What the caller passed.
        width: Values of a row that are due.
        made_with: What makes features comparable, by the name of the pool's fact.
        system: Id, for messages.
    """
    if pool.width != width:
        raise ConfigError(
            f"pool: its features have {pool.width} values, those of {system} {width}; build the "
            "pool with this system."
        )
    for name, own in made_with.items():
        if pool.facts.get(name, own) != own:
            raise ConfigError(
                f"pool: its features were made with {name} {pool.facts[name]}, this system has "
                f"{own}; build the pool with this system."
            )


def require_pool(system: Anonymizer) -> Pool:
    """The pool of a system, or `ConfigError` with the ways to get one."""
    if system.pool is None:
        name = system.info.id
        raise ConfigError(
            f"pool: {name} needs target speakers. Make a pool from one folder of recordings per "
            f"speaker with 'voiceanon pool build SRC pool.safetensors --system {name}' and load "
            "with pool='pool.safetensors', or pass reference speech: pool={'name': [wav, ...]}."
        )
    return system.pool


@torch.inference_mode()
def run_in_batches(
    system: Anonymizer,
    waves: Sequence[Tensor],
    run: Callable[[Tensor, Tensor], Sequence[Tensor]],
) -> list[Tensor]:
    """Runs reference speech through a part of a system, on its device and in its precision.

    Args:
        system: Whose batches, device and precision hold.
        waves: float32 ``(T,)`` each.
        run: From a padded batch ``(B, T)`` and lengths ``(B,)`` to a result for each item.

    Returns:
        One result for each wave, in their order.
    """
    results: list[Tensor] = [Tensor()] * len(waves)
    capacity = system.batch_seconds * system.sample_rate
    for rows in plan_batches([len(wave) for wave in waves], capacity):
        batch, lengths = pad([waves[row] for row in rows], system.device)
        with arithmetic(system.precision, system.device):
            for row, result in zip(rows, run(batch, lengths), strict=True):
                results[row] = result
    return results
