"""One token from each distribution: the most likely one, or one by given random numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.errors import ConfigError


def check_temperature(name: str, temperature: float | None) -> None:
    """Raises `ConfigError` where a temperature is neither ``None`` nor a positive number."""
    if temperature is not None and not 0 < temperature < float("inf"):
        raise ConfigError(
            f"{name}: {temperature!r} is no temperature; use a positive number, or None for the "
            "most likely token at each step."
        )


def choose(logits: Tensor, temperature: float | None, draws: Tensor | None) -> Tensor:
    """Chooses tokens.

    A draw picks the first token at which the cumulative probability exceeds it, so that the result
    is a function of logits and draws alone, and its distribution that of a multinomial draw.

    Args:
        logits: Floating point ``(..., V)``; half precision is computed in float32.
        temperature: Divides the logits; ``None`` for the most likely token.
        draws: Floating point ``(...)``, from 0 (included) to 1 (not included); no part where the
            temperature is ``None``.

    Returns:
        int64 ``(...)``, 0 to V - 1.

    Raises:
        ConfigError: There is a temperature, but there are no draws.
    """
    if temperature is None:
        return logits.argmax(dim=-1)
    if draws is None:
        raise ConfigError(
            "draws: a temperature needs random numbers; pass some, or temperature=None."
        )
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    cumulative = torch.softmax(logits / temperature, dim=-1).cumsum(dim=-1)
    total = cumulative[..., -1:]
    # Rounding may lift a draw next to 1 up to the total, which no token exceeds.
    below = torch.minimum(draws[..., None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return (cumulative <= below).sum(dim=-1)


def all_finite(logits: Tensor) -> Tensor:
    """Whether logits of any shape make distributions, as a bool without dimensions."""
    # The largest is infinite or no number where one is; minus infinity is a probability of zero.
    return torch.isfinite(logits.amax())
