"""Target pools as data: features of speakers by name, with sexes and source, in one file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from voiceanon.errors import ConfigError, WeightsError
from voiceanon.files import replacing
from voiceanon.hub import read as reading

SEXES = ("f", "m", "")
"""Female, male, not known."""

SUFFIX = ".safetensors"
_HEADER = "voiceanon_pool"
_DIGEST_DIGITS = 16


@dataclass(frozen=True, eq=False)
class Pool:
    """Target speakers.

    Attributes:
        features: float16 or float32 ``(M, D)`` of each speaker, on the CPU; M frames in any order.
        sexes: ``"f"``, ``"m"`` or ``""`` (not known) of each speaker.
        facts: What the features were made from and with, for people.

    Raises:
        ConfigError: No speakers, names or sexes that do not fit, or features of different widths.
    """

    features: Mapping[str, Tensor]
    sexes: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the parts against each other."""
        if not self.features:
            raise ConfigError("pool: there is no speaker in it; add reference speech.")
        for name, frames in self.features.items():
            if frames.ndim != 2 or 0 in frames.shape or frames.shape[1] != self.width:
                raise ConfigError(
                    f"pool: speaker {name!r} has features of shape {tuple(frames.shape)}; at least "
                    f"one frame and, as for all, {self.width} features are due."
                )
        unknown = sorted(self.sexes.keys() - self.features.keys())
        wrong = sorted({sex for sex in self.sexes.values() if sex not in SEXES})
        if unknown or wrong:
            raise ConfigError(
                f"pool: sexes name speakers that are not there ({unknown}) or are not 'f', 'm' or "
                f"'' ({wrong})."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the speakers, sorted."""
        return tuple(sorted(self.features))

    @property
    def width(self) -> int:
        """Features per frame, D."""
        return next(iter(self.features.values())).shape[1]

    def sex(self, name: str) -> str:
        """``"f"``, ``"m"`` or ``""``."""
        return self.sexes.get(name, "")

    def digest(self) -> str:
        """Short SHA-256 of names, sexes and features: equal pools give equal draws and results."""
        total = hashlib.sha256()
        for name in self.names:
            frames = self.features[name].contiguous()
            total.update(f"{name}\0{self.sex(name)}\0{frames.dtype}\0{len(frames)}\0".encode())
            total.update(frames.view(torch.uint8).numpy().data)
        return total.hexdigest()[:_DIGEST_DIGITS]


def write_pool(path: str | os.PathLike[str], pool: Pool) -> None:
    """Writes a pool as safetensors, atomically."""
    from safetensors.torch import save_file

    header = {"sexes": dict(pool.sexes), "facts": dict(pool.facts)}
    tensors = {name: frames.contiguous() for name, frames in pool.features.items()}
    with replacing(Path(path)) as temporary:
        save_file(tensors, temporary, metadata={_HEADER: json.dumps(header, sort_keys=True)})


def read_pool(path: str | os.PathLike[str]) -> Pool:
    """Reads what `write_pool` wrote.

    Raises:
        ConfigError: There is no such file.
        WeightsError: The file is damaged or no pool.
    """
    from safetensors import safe_open

    path = Path(path)
    if path.suffix != SUFFIX:
        raise ConfigError(f"pool: {path} is no pool; the file of one ends in {SUFFIX}.")
    if not path.is_file():
        raise ConfigError(
            f"pool: there is no file {path}; make one with 'voiceanon pool build SRC {path}'."
        )
    features = reading.read_state(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
    try:
        header = json.loads(metadata[_HEADER])
        return Pool(features, header["sexes"], header["facts"])
    except (KeyError, ValueError) as error:
        raise WeightsError(
            f"{path}: safetensors, but not a pool ({error}); make one with 'voiceanon pool build'."
        ) from error
