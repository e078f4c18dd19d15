"""Who may be averaged to a pseudo-speaker of B1: speakers of a pool that are far from the source.

Source: specification sheet of B1, section 9. What is compared, and how, is the caller's: scores are
higher for speakers that are more alike (`speaker.plda`, `cosine_scores`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from voiceanon.components.f0.masked import exact
from voiceanon.errors import ConfigError

CANDIDATES = 200
"""Speakers of the pool that may be averaged."""

AVERAGED = 100
"""Speakers that are averaged."""

Proximity = Literal["farthest", "nearest"]
"""Which speakers are the candidates: those of the lowest or of the highest scores."""


def cosine_scores(source: Tensor, pool: Tensor) -> Tensor:
    """Cosine of each source and each speaker of the pool, less 1 (as published).

    Args:
        source: ``(S, D)``, not normalised.
        pool: ``(P, D)``.

    Returns:
        float64 ``(S, P)``, -2 to 0.
    """
    source, pool = (torch.nn.functional.normalize(exact(x), dim=1, eps=0) for x in (source, pool))
    return source @ pool.T - 1


def candidates(
    scores: Tensor,
    allowed: Tensor,
    *,
    count: int = CANDIDATES,
    proximity: Proximity = "farthest",
) -> Tensor:
    """Ranks the speakers of the pool that each source may get.

    Of equal scores the speaker that stands first in the pool comes first, as in the published
    program, which reads its PLDA scores with the digits that were printed.

    Args:
        scores: Float ``(S, P)``, higher for speakers that are more alike.
        allowed: bool ``(S, P)`` or ``(P,)``, such as those of one sex; see `allowed_speakers`.
        count: Candidates.
        proximity: See `Proximity`.

    Returns:
        Places in the pool, int64 ``(S, count)``, from the first rank on.

    Raises:
        ConfigError: Fewer speakers than ``count`` are allowed, or another ``proximity``.
    """
    if proximity not in get_args(Proximity):
        raise ConfigError(
            f"selection: proximity {proximity!r} is not one of {', '.join(get_args(Proximity))}."
        )
    allowed = allowed.expand_as(scores)
    # The host has to know, so as not to average speakers that are not allowed.
    least = int(allowed.sum(1).min())
    if least < count:
        raise ConfigError(
            f"selection: the pool has {least} speakers that may be chosen for a source; {count} "
            "are due. Take a larger pool, fewer candidates, or speakers of either sex."
        )
    ascending = scores if proximity == "farthest" else -scores
    ranked = ascending.masked_fill(~allowed, torch.inf).sort(dim=1, stable=True)
    return ranked.indices[:, :count]


def allowed_speakers(sexes: Sequence[str], wanted: Sequence[str], device: torch.device) -> Tensor:
    """Tells which speakers of the pool each source may get.

    Args:
        sexes: ``"f"``, ``"m"`` or ``""`` (not known) for each speaker of the pool.
        wanted: ``"f"``, ``"m"`` or ``""`` (any, known or not) for each source.
        device: Where the result shall be.

    Returns:
        bool ``(S, P)``.
    """
    allowed = [[not sex or sex == own for own in sexes] for sex in wanted]
    return torch.tensor(allowed, device=device)
