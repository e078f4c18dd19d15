"""VITS's prior flow, backwards: from what the text says about a frame to the decoder's input.

Entries have the names of transformers' `VitsModel`, with weight norm folded.

Source: Kim et al. 2021, arXiv:2106.06103; held to transformers' `VitsResidualCouplingBlock`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from voiceanon.components.tts.vits_config import VitsConfig


class Flow(nn.Module):
    """Coupling layers, with the channels turned round between them."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds the layers."""
        super().__init__()
        self.flows = nn.ModuleList(Coupling(config) for _ in range(config.flows))

    def forward(self, z: Tensor, mask: Tensor, speaker: Tensor | None) -> Tensor:
        """Runs backwards.

        Args:
            z: ``(B, flow_width, N)``.
            mask: 1 within a text, 0 behind it, ``(B, 1, N)``.
            speaker: Vectors of the voices ``(B, speaker_width, 1)``, or ``None``.

        Returns:
            ``(B, flow_width, N)``.
        """
        for layer in reversed(self.flows):
            z = layer(z.flip(1), mask, speaker)
        return z


class Coupling(nn.Module):
    """Takes from the second half of the channels what the first half predicts."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds the predictor."""
        super().__init__()
        half = config.flow_width // 2
        self.conv_pre = nn.Conv1d(half, config.width, 1)
        self.wavenet = WaveNet(config)
        self.conv_post = nn.Conv1d(config.width, half, 1)

    def forward(self, z: Tensor, mask: Tensor, speaker: Tensor | None) -> Tensor:
        """``(B, flow_width, N)`` to the same."""
        first, second = z.chunk(2, 1)
        x = self.wavenet(self.conv_pre(first) * mask, mask, speaker)
        return torch.cat([first, (second - self.conv_post(x) * mask) * mask], 1)


class WaveNet(nn.Module):
    """Gated convolutions with a residual and a skip branch each."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds the convolutions; the last has no residual branch."""
        super().__init__()
        width, kernel, count = config.width, config.wavenet_kernel, config.wavenet_layers
        dilations = [config.wavenet_dilation**i for i in range(count)]
        self.width = width
        self.in_layers = nn.ModuleList(
            nn.Conv1d(width, 2 * width, kernel, padding=(kernel - 1) * d // 2, dilation=d)
            for d in dilations
        )
        self.res_skip_layers = nn.ModuleList(
            nn.Conv1d(width, width if i + 1 == count else 2 * width, 1) for i in range(count)
        )
        self.cond_layer: nn.Conv1d | None = None
        if config.speaker_width:
            self.cond_layer = nn.Conv1d(config.speaker_width, 2 * width * count, 1)

    def forward(self, x: Tensor, mask: Tensor, speaker: Tensor | None) -> Tensor:
        """``(B, width, N)`` to the same, zeros behind a text."""
        conditions: tuple[Tensor | float, ...] = (0.0,) * len(self.in_layers)
        if self.cond_layer is not None and speaker is not None:
            conditions = self.cond_layer(speaker).split(2 * self.width, 1)
        total: Tensor | float = 0.0
        for inner, outer, condition in zip(
            self.in_layers, self.res_skip_layers, conditions, strict=True
        ):
            tanh, sigmoid = (inner(x) + condition).chunk(2, 1)
            both = outer(tanh.tanh() * sigmoid.sigmoid())
            if both.shape[1] > self.width:
                residual, both = both.chunk(2, 1)
                x = (x + residual) * mask
            total = total + both
        return total * mask
