"""Predictors of duration, pitch and energy, one value per symbol.

Source: specification sheet of the family, section 11; entry names are those of the published file.
"""

from __future__ import annotations

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.acoustic.fastspeech2.config import NORM_EPS


class Predictor(nn.Module):
    """Convolutions over symbols, each with a ReLU and a LayerNorm, and a linear layer."""

    def __init__(self, inputs: int, width: int, *, layers: int, kernel: int) -> None:
        """Builds the layers.

        Args:
            inputs: Width of the encoder.
            width: Of the layers.
            layers: Convolutions.
            kernel: Their taps.
        """
        super().__init__()
        self.conv = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.Conv1d(width if layer else inputs, width, kernel, padding=kernel // 2),
                    nn.ReLU(),
                    nn.LayerNorm(width, eps=NORM_EPS),
                ]
            )
            for layer in range(layers)
        )
        self.linear = nn.Linear(width, 1)

    def forward(self, hidden: Tensor, valid: Tensor) -> Tensor:
        """Predicts.

        Args:
            hidden: ``(B, N, D)``. Values in the padding do not matter, but for NaN.
            valid: Symbols that belong to an item, bool ``(B, N)``.

        Returns:
            float32 ``(B, N)``, zero in the padding.
        """
        padding = ~valid[..., None]
        for layer in self.conv:
            convolution, _, norm = cast(nn.ModuleList, layer)
            hidden = convolution(hidden.masked_fill(padding, 0.0).transpose(1, 2))
            hidden = norm(F.relu(hidden).transpose(1, 2))
        return cast(Tensor, self.linear(hidden).float().masked_fill(padding, 0.0).squeeze(2))
