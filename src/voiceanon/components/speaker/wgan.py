"""WGAN-QC: generator of artificial style vectors, trained as a Wasserstein GAN.

Sources: specification sheet of B3, section 5; ``model_parameters`` and entry names of
``style-embed_wgan.pt``. Training: Liu, Gu, Samaras, "Wasserstein GAN with Quadratic Transport
Cost", ICCV 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.errors import WeightsError

_FIRST_SIZE = 4
"""Side of the first map (``s0``)."""

_MAPS = 3
"""Channels of the last map: the network was made for colour images."""

_SLOPE = 0.2
"""Of the leaky ReLUs."""

_RESIDUAL_WEIGHT = 0.1
"""Of what a block adds to its input."""


@dataclass(frozen=True, kw_only=True)
class WganConfig:
    """Sizes of the generator, and the scale of what it gives.

    The defaults are those of the only published settings, which were written for other vectors;
    ``model_parameters`` in the checkpoint decides.

    Attributes:
        width: Values of a vector, D (last of ``data_dim``).
        noise_width: Values of the noise, Z (``z_dim``).
        size: Side of the last map, a power of two, 4 or more (``size``).
        filters: Channels of the last blocks (``nfilter``).
        max_filters: Most channels of any block (``nfilter_max``).
        mean: Of all values of the training vectors (``mean``).
        std: Their standard deviation (``std``).

    Raises:
        WeightsError: The size is no power of two, or below 4.
    """

    width: int = 128
    noise_width: int = 16
    size: int = 8
    filters: int = 8
    max_filters: int = 16
    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        """Checks what the doubling of the maps needs."""
        if self.size < _FIRST_SIZE or self.size & (self.size - 1):
            raise WeightsError(
                f"WGAN: size {self.size}; a power of two from {_FIRST_SIZE} on is due. Take the "
                "published checkpoint."
            )

    @classmethod
    def from_published(
        cls, parameters: Mapping[str, Any], *, mean: float | Tensor, std: float | Tensor
    ) -> WganConfig:
        """Reads the settings of a checkpoint.

        Args:
            parameters: Its ``model_parameters``.
            mean: Its ``mean``, one number.
            std: Its ``std``, one number.

        Raises:
            WeightsError: A setting is missing, or no whole number.
        """
        try:
            return cls(
                width=int(parameters["data_dim"][-1]),
                noise_width=int(parameters["z_dim"]),
                size=int(parameters["size"]),
                filters=int(parameters["nfilter"]),
                max_filters=int(parameters["nfilter_max"]),
                mean=float(mean),
                std=float(std),
            )
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            raise WeightsError(
                f"WGAN: 'model_parameters', 'mean' or 'std' cannot be used ({error!r}); "
                "'data_dim', 'z_dim', 'size', 'nfilter' and 'nfilter_max' as whole numbers, and "
                "one number each for mean and std, are due. Take the published checkpoint."
            ) from error

    @property
    def doublings(self) -> int:
        """How often the maps are doubled."""
        return (self.size // _FIRST_SIZE).bit_length() - 1

    def channels(self, level: int) -> int:
        """Channels of the maps that are to be doubled ``level`` times yet, and one of 0 or 1."""
        return min(self.filters << level, self.max_filters)


class WganGenerator(nn.Module):
    """Normal noise to style vectors.

    Entries have the names of ``generator_state_dict`` without ``module.`` in front. Meant for
    evaluation mode: batch norms use their running statistics. Computes in float32 under autocast,
    too.
    """

    def __init__(self, config: WganConfig | None = None) -> None:
        """Builds the network with untrained weights; see `WganConfig` for the sizes."""
        super().__init__()
        self.config = config = config or WganConfig()
        levels = config.doublings
        first = config.channels(levels + 1)
        self.fc = nn.Linear(config.noise_width, first * _FIRST_SIZE**2)
        self.bn1d = nn.BatchNorm1d(first * _FIRST_SIZE**2)
        blocks: list[nn.Module] = []
        for level in range(levels, 0, -1):
            blocks += [
                ResidualBlock(config.channels(level + 1), config.channels(level)),
                nn.Upsample(scale_factor=2, mode="nearest"),
            ]
        last = config.channels(0)
        blocks += [ResidualBlock(config.channels(1), last), ResidualBlock(last, last)]
        self.resnet = nn.Sequential(*blocks)
        self.conv_img = nn.Conv2d(last, _MAPS, 3, padding=1)
        self.fc_out = nn.Linear(_MAPS * config.size**2, config.width)

    def forward(self, noise: Tensor) -> Tensor:
        """Turns standard normal noise ``(N, Z)`` into float32 ``(N, D)``, in the training's scale.

        See `vectors` for style vectors.
        """
        with torch.autocast(noise.device.type, enabled=False):
            hidden = F.leaky_relu(self.bn1d(self.fc(noise)), _SLOPE)
            maps = self.resnet(hidden.view(len(noise), -1, _FIRST_SIZE, _FIRST_SIZE))
            values: Tensor = self.fc_out(F.leaky_relu(self.conv_img(maps), _SLOPE).flatten(1))
            return values

    def vectors(self, noise: Tensor) -> Tensor:
        """Turns standard normal noise ``(N, Z)`` into style vectors, float32 ``(N, D)``."""
        values: Tensor = self(noise)
        return values * self.config.std + self.config.mean


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        """Builds the layers; the shortcut has entries only where the channels change."""
        super().__init__()
        hidden = min(inputs, outputs)
        self.conv_0 = nn.Conv2d(inputs, hidden, 3, padding=1, bias=False)
        self.bn2d_0 = nn.BatchNorm2d(hidden)
        self.conv_1 = nn.Conv2d(hidden, outputs, 3, padding=1, bias=False)
        self.bn2d_1 = nn.BatchNorm2d(outputs)
        self.conv_s: nn.Conv2d | None = None
        if inputs != outputs:
            self.conv_s = nn.Conv2d(inputs, outputs, 1, bias=False)
            self.bn2d_s = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(N, inputs, S, S)`` into ``(N, outputs, S, S)``."""
        added = self.bn2d_1(self.conv_1(F.leaky_relu(self.bn2d_0(self.conv_0(x)), _SLOPE)))
        shortcut = x if self.conv_s is None else self.bn2d_s(self.conv_s(x))
        return F.leaky_relu(shortcut + _RESIDUAL_WEIGHT * added, _SLOPE)
