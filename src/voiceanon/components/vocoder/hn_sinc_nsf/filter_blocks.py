"""Neural filters: dilated causal convolutions that a context steers.

Convolutions look back only, so a long signal is filtered in pieces: each takes the last inputs of
every convolution over from the piece before it, and the result is the same.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.vocoder.hn_sinc_nsf.config import CHANNELS, HnSincNsfConfig

KERNEL = 3
"""Taps of each convolution."""

BOTTLENECK = 16
"""Width of the layer in front of the output."""

HARMONIC_SCALE = 0.1
"""Factor behind the convolutions of the harmonic blocks where no file sets it."""


class FilterBlock(nn.Module):
    """One neural filter; its result is added to its input."""

    scale: Tensor

    def __init__(self, convolutions: int, scale: float) -> None:
        super().__init__()
        self.register_buffer("scale", torch.full((1,), scale))
        self.l_ff_1 = nn.Linear(1, CHANNELS, bias=False)
        self.l_convs = nn.ModuleList(
            nn.Conv1d(CHANNELS, CHANNELS, KERNEL, dilation=2**i, bias=False)
            for i in range(convolutions)
        )
        self.l_ff_2 = nn.Linear(CHANNELS, BOTTLENECK, bias=False)
        self.l_ff_3 = nn.Linear(BOTTLENECK, 1, bias=False)

    def start(self, like: Tensor) -> list[Tensor]:
        """What lies in front of the first piece: zeros for each convolution."""
        return [
            like.new_zeros(len(like), (KERNEL - 1) * 2**i, CHANNELS)
            for i in range(len(self.l_convs))
        ]

    def forward(self, signal: Tensor, context: Tensor, past: list[Tensor]) -> Tensor:
        """Filters a piece of a signal.

        Args:
            signal: float32 ``(B, T)``.
            context: float32 ``(B, T, 64)``.
            past: Last inputs of each convolution before this piece, `start` for the first; those of
                this piece take their place.

        Returns:
            float32 ``(B, T)``.
        """
        hidden = _tanh_(self.l_ff_1(signal[..., None])).float()
        for i, convolution in enumerate(self.l_convs):
            x = torch.cat([past[i], hidden], 1)
            past[i] = x[:, -past[i].shape[1] :].clone()
            # Two-dimensional, because one-dimensional convolutions copy a signal that has its
            # channels last into the other order, in which a CPU takes more than twice as long.
            weight = cast(nn.Conv1d, convolution).weight[:, :, None]
            weight = weight.contiguous(memory_format=torch.channels_last)
            y = F.conv2d(x.mT[:, :, None], weight, dilation=(1, 2**i))[:, :, 0].mT
            hidden = hidden.add_(_tanh_(y)).add_(context)
        hidden = _tanh_(self.l_ff_2(hidden * self.scale))
        return signal + torch.tanh(self.l_ff_3(hidden)[..., 0]).float()


class FilterBlocks(nn.Module):
    """The blocks of both branches."""

    def __init__(self, config: HnSincNsfConfig) -> None:
        super().__init__()
        self.l_har_blocks = nn.ModuleList(
            FilterBlock(config.harmonic_convolutions, HARMONIC_SCALE)
            for _ in range(config.harmonic_blocks)
        )
        noise = FilterBlock(config.noise_convolutions, config.noise_scale)
        self.l_noi_blocks = nn.ModuleList([noise])


def _tanh_(x: Tensor) -> Tensor:
    """Hyperbolic tangent in place."""
    if x.device.type == "cpu" and x.dtype == torch.float32:
        # The same to 2e-7; PyTorch's own takes four times as long there.
        return x.mul_(2).sigmoid_().mul_(2).sub_(1)
    return x.tanh_()
