"""Factorised time-delay network (TDNN-F) that ends in a bottleneck.

Sources: specification sheet of B5 and B6, sections 2.2 and 5; `satools/chain/nn.py` of SA-toolkit;
Povey et al., "Semi-Orthogonal Low-Rank Matrix Factorization for Deep Neural Networks", Interspeech
2018. Entries have the published names, so that some modules only hold others.

Nothing is padded: a layer whose context is c frames gives c - 1 frames less than it gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.content.quantiser import VectorQuantiser

BYPASS = 0.66
"""Share of the input that is added to a layer's output where both have the same width
(`TDNNF.bypass_scale`)."""

NORM_EPS = 1e-5
"""Epsilon of the batch norm (default of `torch.nn.BatchNorm1d`, which the original keeps)."""


class TdnnfLayer(nn.Module):
    """Two affine maps, the first over neighbouring frames; bypass, batch norm, ReLU."""

    def __init__(
        self, inputs: int, inner: int, outputs: int, *, context: int, stride: int = 1
    ) -> None:
        """Builds the layer.

        Args:
            inputs: Features of a frame, C.
            inner: Features between the two maps.
            outputs: Features behind the layer, D.
            context: Frames that an output frame sees.
            stride: Input frames per output frame.
        """
        super().__init__()
        self.context, self.stride = context, stride
        self.bypass = inputs == outputs
        self.tdnn = nn.ModuleDict(
            {
                "linearB": ContextAffine(inputs, inner, context=context, stride=stride),
                "linearA": nn.Linear(inner, outputs),
            }
        )
        self.bn = RunningNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, N, C)`` into ``(B, (N - context) // stride + 1, D)``."""
        y = cast(Tensor, self.tdnn["linearA"](self.tdnn["linearB"](x)))
        if self.bypass:
            middle = self.context // 2
            y = y + BYPASS * x[:, middle : middle + self.stride * y.shape[1] : self.stride]
        return F.relu(self.bn(y))


class TdnnfBottleneck(nn.Module):
    """The first map of a layer whose rest only training needs, and a quantiser if there is one."""

    def __init__(self, inputs: int, width: int, codes: int | None, *, context: int) -> None:
        """Builds the layer.

        Args:
            inputs: Features of a frame, C.
            width: Features of the bottleneck, D.
            codes: Rows of the codebook; ``None`` for none.
            context: Frames that an output frame sees.
        """
        super().__init__()
        self.tdnn = nn.ModuleDict({"linearB": ContextAffine(inputs, width, context=context)})
        self.quantises = codes is not None
        if codes is not None:
            quantiser = VectorQuantiser(codes, width)
            self.tdnn["bottleneck_func"] = nn.ModuleDict({"quant": quantiser})

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Turns ``(B, N, C)`` into the bottleneck.

        Returns:
            ``(B, N - context + 1, D)``, and the codes, int64 of the first two dimensions, where
            there is a quantiser.
        """
        z = cast(Tensor, self.tdnn["linearB"](x))
        if not self.quantises:
            return z, None
        quantiser = cast(nn.ModuleDict, self.tdnn["bottleneck_func"])["quant"]
        return cast(tuple[Tensor, Tensor], quantiser(z))


class ContextAffine(nn.Module):
    """Affine map of a few neighbouring frames, one behind the other."""

    def __init__(self, inputs: int, outputs: int, *, context: int, stride: int = 1) -> None:
        """Makes a weight ``(outputs, context * inputs)``, frame by frame, and a bias."""
        super().__init__()
        self.context, self.stride = context, stride
        weight = nn.Parameter(torch.empty(outputs, context * inputs))
        bias = nn.Parameter(torch.zeros(1, outputs))
        nn.init.kaiming_normal_(weight)
        self.inner_nat = nn.ParameterDict({"weight": weight, "bias": bias})

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, N, C)`` into ``(B, (N - context) // stride + 1, D)``."""
        reach = (x.shape[1] - self.context) // self.stride * self.stride + 1
        y: Tensor = self.inner_nat["bias"]
        # One product for each frame of the context: as fast as one for all of them, and the
        # frames need not be copied side by side.
        for place, weight in enumerate(self.inner_nat["weight"].split(x.shape[2], dim=1)):
            y = y + F.linear(x[:, place : place + reach : self.stride], weight)
        return y


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
        return (x - self.running_mean) * (self.running_var + NORM_EPS).rsqrt()


def edge_frames(layers: Sequence[tuple[int, int]]) -> int:
    """Frames to repeat at each end, so that a stack of layers gives a frame per stride.

    Args:
        layers: Context and stride of each layer.
    """
    reach, step = 0, 1
    for context, stride in layers:
        reach += (context - 1) * step
        step *= stride
    return reach // 2
