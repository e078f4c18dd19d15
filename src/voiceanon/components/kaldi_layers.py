"""Layers of networks that were trained with Kaldi's nnet3.

Source: specification sheet of the x-vector family, sections 5, 7 and 14. Entries are named as the
components are, with the endings ``.weight``, ``.bias``, ``.running_mean`` and ``.running_var``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NORM_EPS = 1e-3
"""Epsilon of the batch norm (``<Epsilon>`` of the component)."""


class ContextAffine(nn.Module):
    """Affine map of a few frames around each frame, one behind the other.

    Nothing is padded: of N frames, N minus the reach of the offsets remain.
    """

    def __init__(
        self, inputs: int, outputs: int, *, offsets: Sequence[int] = (0,), bias: bool = True
    ) -> None:
        """Makes a weight ``(outputs, len(offsets) * inputs)``, frame by frame, and a bias.

        Args:
            inputs: Features of a frame, C.
            outputs: Features behind the map, D.
            offsets: Frames that an output frame sees, relative to it, in rising order.
            bias: Whether there is one.
        """
        super().__init__()
        self.offsets = tuple(offsets)
        self.weight = nn.Parameter(torch.empty(outputs, len(self.offsets) * inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None
        nn.init.kaiming_normal_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, N, C)`` into ``(B, N - reach, D)``."""
        return F.linear(splice(x, self.offsets), self.weight, self.bias)


def splice(x: Tensor, offsets: Sequence[int]) -> Tensor:
    """Puts the frames around each frame behind one another.

    Args:
        x: ``(B, N, C)``.
        offsets: Frames to take, relative to each one, in rising order.

    Returns:
        ``(B, N - reach, len(offsets) * C)``, where the reach is the last offset less the first.
    """
    if len(offsets) == 1:
        return x
    kept = x.shape[1] - (offsets[-1] - offsets[0])
    starts = (offset - offsets[0] for offset in offsets)
    return torch.cat([x[:, start : start + kept] for start in starts], dim=2)


class RunningNorm(nn.Module):
    """Batch norm as it is after training: constant mean and variance, and no affine part."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int) -> None:
        """Normalises frames of ``width`` values."""
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(..., width)`` into the same."""
        scale = (self.running_var.clamp_min(0) + NORM_EPS).rsqrt()
        return torch.addcmul(-self.running_mean * scale, x, scale)


class AffineReluNorm(nn.Module):
    """Affine map of a few frames, ReLU and batch norm, in this order."""

    def __init__(self, inputs: int, outputs: int, *, offsets: Sequence[int] = (0,)) -> None:
        """Builds the layer; the arguments are those of `ContextAffine`."""
        super().__init__()
        self.affine = ContextAffine(inputs, outputs, offsets=offsets)
        self.batchnorm = RunningNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, N, C)`` into ``(B, N - reach, D)``."""
        normalised: Tensor = self.batchnorm(F.relu(self.affine(x)))
        return normalised
