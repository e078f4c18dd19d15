"""How long each symbol lasts: VITS's stochastic and plain duration predictors, for inference.

The stochastic one turns noise into logarithms of durations by running a flow backwards. The noise
is an argument. Entries have the names of transformers' `VitsModel`; those that only training needs
are left out (`is_training_entry`).

Source: Kim et al. 2021, arXiv:2106.06103, appendix; held to transformers'
`VitsStochasticDurationPredictor` and `VitsDurationPredictor`.
"""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.tts.spline import inverse_spline
from voiceanon.components.tts.vits_config import VitsConfig

NOISE_CHANNELS = 2
"""Values per symbol that the flow works on; the first ends as the logarithm of the duration."""


_TRAINING = ("posterior_encoder.", "duration_predictor.post_", "duration_predictor.flows.1.")


class StochasticDurations(nn.Module):
    """Draws durations."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds the part that inference needs."""
        super().__init__()
        width = config.width
        self.conv_pre = nn.Conv1d(width, width, 1)
        self.conv_proj = nn.Conv1d(width, width, 1)
        self.conv_dds = SeparableStack(config)
        self.cond: nn.Conv1d | None = None
        if config.speaker_width:
            self.cond = nn.Conv1d(config.speaker_width, width, 1)
        # By published number. The first spline flow is for training only: backwards it comes last
        # but one, and changes the half that is thrown away.
        numbers = range(2, config.duration_flows + 1)
        splines = {str(number): SplineFlow(config) for number in numbers}
        self.flows = nn.ModuleDict({"0": Affine(), **splines})

    def forward(
        self, hidden: Tensor, mask: Tensor, speaker: Tensor | None, noise: Tensor
    ) -> Tensor:
        """Gives logarithms of durations in frames.

        Args:
            hidden: Of the text encoder, ``(B, width, L)``.
            mask: 1 within a text, 0 behind it, ``(B, 1, L)``.
            speaker: Vectors of the voices ``(B, speaker_width, 1)``, or ``None``.
            noise: Normal, of the wanted standard deviation, ``(B, NOISE_CHANNELS, L)``.

        Returns:
            float32 ``(B, L)``.
        """
        x = self.conv_pre(hidden)
        if self.cond is not None and speaker is not None:
            x = x + self.cond(speaker)
        condition = self.conv_proj(self.conv_dds(x, mask)) * mask
        z = noise
        for flow in reversed(list(self.flows.values())):
            z = flow(z.flip(1), mask, condition)
        return z[:, 0]


class Affine(nn.Module):
    """Shift and scale, undone."""

    def __init__(self) -> None:
        """Makes shift and logarithm of the scale, one for each channel."""
        super().__init__()
        self.translate = nn.Parameter(torch.zeros(NOISE_CHANNELS, 1))
        self.log_scale = nn.Parameter(torch.zeros(NOISE_CHANNELS, 1))

    def forward(self, z: Tensor, mask: Tensor, condition: Tensor) -> Tensor:
        """``(B, 2, L)`` to the same; the condition does not matter."""
        return (z - self.translate) * torch.exp(-self.log_scale) * mask


class SplineFlow(nn.Module):
    """The second channel goes backwards through a spline whose shape follows from the first."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds the network that gives the spline's shape."""
        super().__init__()
        self.bins = config.duration_bins
        self.bound = config.duration_bound
        self.scale = math.sqrt(config.width)
        self.conv_pre = nn.Conv1d(1, config.width, 1)
        self.conv_dds = SeparableStack(config)
        self.conv_proj = nn.Conv1d(config.width, 3 * self.bins - 1, 1)

    def forward(self, z: Tensor, mask: Tensor, condition: Tensor) -> Tensor:
        """``(B, 2, L)`` to the same.

        Args:
            z: Channels.
            mask: As in `StochasticDurations.forward`.
            condition: ``(B, width, L)``.
        """
        first, second = z.chunk(2, 1)
        x = self.conv_dds(self.conv_pre(first) + condition, mask)
        shape = (self.conv_proj(x) * mask).transpose(1, 2)
        widths, heights, slopes = shape.split([self.bins, self.bins, self.bins - 1], 2)
        moved = inverse_spline(
            second[:, 0], widths / self.scale, heights / self.scale, slopes, self.bound
        )
        return torch.cat([first, moved[:, None]], 1) * mask


class SeparableStack(nn.Module):
    """Convolutions that are separable in depth, dilated more and more, each added to its input."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds the convolutions and their norms."""
        super().__init__()
        width, kernel = config.width, config.duration_kernel
        dilations = [kernel**i for i in range(config.duration_layers)]
        self.convs_dilated = nn.ModuleList(
            nn.Conv1d(width, width, kernel, padding=(kernel - 1) * d // 2, dilation=d, groups=width)
            for d in dilations
        )
        self.convs_pointwise = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in dilations)
        self.norms_1 = nn.ModuleList(ChannelNorm(width) for _ in dilations)
        self.norms_2 = nn.ModuleList(ChannelNorm(width) for _ in dilations)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """``(B, width, L)`` to the same, zeros behind a text."""
        for dilated, first, pointwise, second in zip(
            self.convs_dilated, self.norms_1, self.convs_pointwise, self.norms_2, strict=True
        ):
            y = F.gelu(first(dilated(x * mask)))
            x = x + F.gelu(second(pointwise(y)))
        return x * mask


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of ``(B, C, L)``."""

    def forward(self, x: Tensor) -> Tensor:
        """``(B, C, L)`` to the same."""
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class PlainDurations(nn.Module):
    """Predicts durations without noise."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds two convolutions and a projection."""
        super().__init__()
        kernel, inner = config.duration_kernel, config.duration_width
        self.conv_1 = nn.Conv1d(config.width, inner, kernel, padding=kernel // 2)
        self.norm_1 = ChannelNorm(inner, eps=config.norm_eps)
        self.conv_2 = nn.Conv1d(inner, inner, kernel, padding=kernel // 2)
        self.norm_2 = ChannelNorm(inner, eps=config.norm_eps)
        self.proj = nn.Conv1d(inner, 1, 1)
        self.cond: nn.Conv1d | None = None
        if config.speaker_width:
            self.cond = nn.Conv1d(config.speaker_width, config.width, 1)

    def forward(
        self, hidden: Tensor, mask: Tensor, speaker: Tensor | None, noise: Tensor
    ) -> Tensor:
        """Gives logarithms of durations; see `StochasticDurations.forward`. Uses no noise."""
        if self.cond is not None and speaker is not None:
            hidden = hidden + self.cond(speaker)
        x = self.norm_1(F.relu(self.conv_1(hidden * mask)))
        x = self.norm_2(F.relu(self.conv_2(x * mask)))
        return cast(Tensor, self.proj(x * mask)[:, 0])


def is_training_entry(name: str) -> bool:
    """Whether an entry of transformers' `VitsModel` has no part in inference.

    Args:
        name: Such as ``"posterior_encoder.conv_pre.weight"``.
    """
    return name.startswith(_TRAINING)
