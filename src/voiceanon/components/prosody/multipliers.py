"""Random factors for the energy and the pitch of each symbol.

Source: specification sheet of B3, section 10.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from voiceanon.errors import ConfigError

PUBLISHED_RANGE = (60, 140)
"""Percentages that B3 draws from, the last one excluded."""


def multiply_prosody(
    pitch: Tensor,
    energy: Tensor,
    symbols: Tensor,
    generators: Sequence[torch.Generator],
    *,
    range: tuple[int, int] | None = PUBLISHED_RANGE,
) -> tuple[Tensor, Tensor]:
    """Multiplies each value by a whole number of percent, drawn evenly.

    Args:
        pitch: float32 ``(B, N)``.
        energy: float32 ``(B, N)``.
        symbols: Symbols of each item, int64 ``(B,)``.
        generators: One per item, on the CPU. Each gives the factors of all energies of its item,
            and then those of all pitches.
        range: Smallest percentage, and the one behind the largest. None draws nothing and leaves
            all as it is.

    Returns:
        Pitch and energy, float32 ``(B, N)``; behind the symbols of an item they are as they were.

    Raises:
        ConfigError: ``range`` is empty or goes below 0.
    """
    if range is None:
        return pitch, energy
    low, high = range
    if not 0 <= low < high:
        raise ConfigError(
            f"prosody range: {range}; two whole numbers of percent are due, 0 or more, the second "
            "above the first, or None for no change."
        )
    # The generators, and so the draws, are on the host.
    counts = symbols.tolist()
    factors = torch.ones(2, *pitch.shape, dtype=torch.float32, device="cpu")
    for item, (count, generator) in enumerate(zip(counts, generators, strict=True)):
        for kind in factors:
            percent = torch.randint(low, high, (count, 1), generator=generator, device="cpu")
            kind[item, :count] = percent[:, 0].to(torch.float32) / 100
    for_energy, for_pitch = factors.to(pitch.device)
    return pitch * for_pitch, energy * for_energy
