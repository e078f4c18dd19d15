"""Parts that encoder and decoder share."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from voiceanon.components.asr.branchformer.config import NORM_EPS


class LayerNorm(nn.LayerNorm):
    """LayerNorm over the last dimension that computes, and returns, float32 under autocast too."""

    def __init__(self, width: int) -> None:
        """Normalises frames of ``width`` values."""
        super().__init__(width, eps=NORM_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(..., width)`` of any floating type into float32 of the same shape."""
        return super().forward(x.float())


class FeedForward(nn.Module):
    """Two linear maps with an activation between them."""

    def __init__(self, width: int, units: int, activation: Callable[[Tensor], Tensor]) -> None:
        """Builds the maps.

        Args:
            width: Features outside.
            units: Features inside.
            activation: What is applied inside.
        """
        super().__init__()
        self.w_1 = nn.Linear(width, units)
        self.w_2 = nn.Linear(units, width)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(..., width)`` into the same."""
        return cast(Tensor, self.w_2(self.activation(self.w_1(x))))
