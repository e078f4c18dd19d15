"""Changes of an F0 contour, as parts that are applied one after the other.

A modifier takes F0 ``(B, N)``, in Hz or normalised, 0 where a frame is unvoiced; frames ``(B,)`` of
each item; and one CPU generator per item. It returns changed F0 of the same shape, with zeros
behind each item.

Sources: SA-toolkit, `satools/hifigan/nn.py`, commit 22c298e (specification sheet of B5 and B6,
section 12), and Nijta/acoustic-token-admixture for mean reversion over voiced frames.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args

import torch
from torch import Tensor

from voiceanon.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """Rounds to steps, halves to the even one.

    A voiced value that rounds to 0 counts as unvoiced from there on.

    Attributes:
        levels: Steps per unit: per standard deviation where F0 is normalised.
    """

    levels: int
    kind: str = field(default="quantization", init=False)

    def __post_init__(self) -> None:
        """Checks the settings."""
        _at_least_one("levels", self.levels)

    def __call__(self, f0: Tensor, frames: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """Draws nothing; see the module for the arguments."""
        return torch.round(f0 * self.levels) / self.levels


@dataclass(frozen=True, kw_only=True)
class WhiteNoise:
    """Adds Gaussian noise to the frames that are not 0.

    Attributes:
        power_db: Noise power, 10 log10 of its variance. At 2 dB the standard deviation is 1.26,
            more than that of normalised F0 itself.
    """

    power_db: float
    kind: str = field(default="white-noise", init=False)

    def __post_init__(self) -> None:
        """Checks the settings."""
        if not math.isfinite(self.power_db):
            raise ConfigError(f"power_db: {self.power_db}; a finite number of dB is due.")

    def __call__(self, f0: Tensor, frames: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """Draws one number for each frame; see the module for the arguments."""
        noise = torch.zeros_like(f0, device="cpu")
        # Each item has a stream of its own, so that its noise does not depend on the batch.
        for row, count, generator in zip(noise, frames.tolist(), generators, strict=True):
            row[:count] = torch.randn(count, generator=generator, dtype=torch.float32, device="cpu")
        scaled = noise.to(f0.device) * math.sqrt(10 ** (self.power_db / 10))
        return torch.where(f0 == 0, f0, f0 + scaled)


@dataclass(frozen=True, kw_only=True)
class MeanReversion:
    """Pulls each frame towards the mean of its neighbourhood.

    The window of frame t begins at t - floor(window / 2); what lies outside the item counts as 0.

    Attributes:
        weight: Share of the mean, 0 to 1.
        window: Frames in the mean.
        over: ``"all"`` frames, where unvoiced ones count as 0 and become voiced (SA-toolkit), or
            the ``"voiced"`` ones, joined over the gaps, which leaves the unvoiced ones alone
            (acoustic-token-admixture). There, an item with fewer voiced frames than ``window``
            has the window of all of them.
    """

    weight: float = 0.5
    window: int = 32
    over: Literal["all", "voiced"] = "all"
    kind: str = field(default="mean-reversion", init=False)

    def __post_init__(self) -> None:
        """Checks the settings."""
        _at_least_one("window", self.window)
        if not 0 <= self.weight <= 1:
            raise ConfigError(f"weight: {self.weight}; a share from 0 to 1 is due.")
        if self.over not in ("all", "voiced"):
            raise ConfigError(f"over: {self.over!r} is neither 'all' nor 'voiced'.")

    def __call__(self, f0: Tensor, frames: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """Draws nothing; see the module for the arguments."""
        if self.over == "all":
            mean = _moving_mean(f0, torch.full_like(frames, self.window))
            inside = torch.arange(f0.shape[1], device=f0.device) < frames[:, None]
            return torch.where(inside, (1 - self.weight) * f0 + self.weight * mean, 0)
        voiced = f0 != 0
        counts = voiced.sum(1)
        # Voiced frames first, in their order; `places` says where each one came from.
        places = torch.argsort(voiced.to(torch.int8), dim=1, descending=True, stable=True)
        joined = f0.gather(1, places)
        mean = _moving_mean(joined, counts.clamp(1, self.window))
        changed = (1 - self.weight) * joined + self.weight * mean
        changed = torch.where(joined == 0, joined, changed)
        return torch.zeros_like(f0).scatter(1, places, changed)


@dataclass(frozen=True, kw_only=True)
class GlobalScale:
    """Multiplies all frames of an item by one factor, drawn evenly between two limits.

    Scaling is of use on F0 in Hz. On normalised F0 it widens or narrows the contour.

    Attributes:
        low: Smallest factor.
        high: Largest factor.
    """

    low: float = 0.8
    high: float = 1.2
    kind: str = field(default="global-scale", init=False)

    def __post_init__(self) -> None:
        """Checks the settings."""
        if not 0 < self.low <= self.high < math.inf:
            raise ConfigError(f"low, high: {self.low}, {self.high}; 0 < low <= high is due.")

    def __call__(self, f0: Tensor, frames: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """Draws one number; see the module for the arguments."""
        draws = torch.stack(
            [
                torch.rand((), generator=each, dtype=torch.float32, device="cpu")
                for each in generators
            ]
        )
        factors = self.low + (self.high - self.low) * draws
        return f0 * factors.to(f0.device)[:, None]


F0Modifier: TypeAlias = Quantization | WhiteNoise | MeanReversion | GlobalScale

_KINDS: dict[str, type[Any]] = {cls.kind: cls for cls in get_args(F0Modifier)}

_TOOLKIT_PARTS = {
    "quant": re.compile(r"quant_(\d+)"),
    "awgn": re.compile(r"awgn_(\d+)"),
    "mean-reverv": re.compile(r"mean-reverv_(\d*\.?\d+):(\d+)"),
}
"""In the order in which the toolkit applies them, whatever their order in the text."""


def modify(
    f0: Tensor,
    frames: Tensor,
    modifiers: Sequence[F0Modifier],
    generators: Sequence[torch.Generator],
) -> Tensor:
    """Applies modifiers in their order.

    Args:
        f0: float32 ``(B, N)``, 0 = unvoiced, zeros behind each item.
        frames: int64 ``(B,)``.
        modifiers: None or more.
        generators: One per item, on the CPU.
    """
    for modifier in modifiers:
        f0 = modifier(f0, frames, generators)
    return f0


def parse_modifiers(value: object) -> tuple[F0Modifier, ...]:
    """Makes modifiers from what stands in settings.

    Args:
        value: Modifiers; dictionaries such as ``{"kind": "white-noise", "power_db": 2.0}``; or a
            text in the form of SA-toolkit's ``f0-transformation``, such as ``"quant_16_awgn_2"``.
            Its parts are ``quant_<levels>``, ``awgn_<dB>`` and ``mean-reverv_<weight>:<window>``;
            they are applied in this order, wherever they stand. ``"none"`` is no modifier.

    Raises:
        ConfigError: Something else, or a number that the toolkit would read as another one.
    """
    if isinstance(value, str):
        return _parse_toolkit(value)
    if not isinstance(value, Sequence):
        raise ConfigError(f"f0_modifiers: {value!r}; a list of modifiers or a text is due.")
    return tuple(_parse_modifier(each) for each in value)


def _parse_modifier(value: object) -> F0Modifier:
    if isinstance(value, F0Modifier):
        return value
    settings = dict(value) if isinstance(value, Mapping) else {}
    kind = settings.pop("kind", None)
    if kind not in _KINDS:
        raise ConfigError(
            f"f0_modifiers: {value!r} is no modifier; pass one, or a dictionary with 'kind', one "
            f"of {', '.join(_KINDS)}."
        )
    try:
        return cast(F0Modifier, _KINDS[kind](**settings))
    except TypeError as error:
        raise ConfigError(f"f0_modifiers: {value!r} does not fit ({error}).") from error


def _parse_toolkit(text: str) -> tuple[F0Modifier, ...]:
    if text in ("", "none"):
        return ()
    found = {name: pattern.search(text) for name, pattern in _TOOLKIT_PARTS.items()}
    parts = [match[0] for match in sorted(filter(None, found.values()), key=re.Match.start)]
    if text != "_".join(parts):
        raise ConfigError(
            f"f0_modifiers: {text!r}; join quant_<levels>, awgn_<dB> and mean-reverv_<weight>:"
            "<window> by '_', each at most once, with whole numbers of levels, dB and frames. For "
            "other numbers or orders pass a list of modifiers."
        )
    modifiers: list[F0Modifier] = []
    if quantization := found["quant"]:
        modifiers.append(Quantization(levels=int(quantization[1])))
    if noise := found["awgn"]:
        modifiers.append(WhiteNoise(power_db=float(noise[1])))
    if reversion := found["mean-reverv"]:
        modifiers.append(MeanReversion(weight=float(reversion[1]), window=int(reversion[2])))
    return tuple(modifiers)


def _moving_mean(values: Tensor, window: Tensor) -> Tensor:
    """Mean over ``window`` ``(B,)`` values that begin floor(window / 2) before each, ``(B, N)``."""
    size = values.shape[1]
    # In float64 the differences of sums are exact to far below float32.
    sums = torch.nn.functional.pad(values.double().cumsum(1), (1, 0))
    first = torch.arange(size, device=values.device) - window[:, None] // 2
    last = (first + window[:, None]).clamp(0, size)
    total = sums.gather(1, last) - sums.gather(1, first.clamp(0, size))
    return (total / window[:, None]).to(values.dtype)


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ConfigError(f"{name}: {value} is too small; at least 1 is due.")
