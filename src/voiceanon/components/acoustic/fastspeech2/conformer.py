"""Conformer blocks with relative attention and group norm; encoder and decoder of FastSpeech2.

Time lies before features; convolutions turn it round. Source: specification sheet of the family,
section 11; entry names are those of the published file.
"""

from __future__ import annotations

import math
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.acoustic.fastspeech2.config import NORM_EPS, FastSpeech2Config
from voiceanon.components.masked_group_norm import MaskedGroupNorm
from voiceanon.components.relative_attention import RelativeAttention, relative_positions


class Conformer(nn.Module):
    """Blocks one after the other, and a LayerNorm."""

    def __init__(self, config: FastSpeech2Config, *, layers: int, kernel: int) -> None:
        """Builds the blocks.

        Args:
            config: Sizes that encoder and decoder share.
            layers: Blocks.
            kernel: Taps of their depthwise convolutions.
        """
        super().__init__()
        self.width = config.width
        self.encoders = nn.ModuleList(ConformerBlock(config, kernel) for _ in range(layers))
        self.after_norm = nn.LayerNorm(config.width, eps=NORM_EPS)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Runs the blocks.

        Args:
            x: ``(B, T, D)``, not scaled yet. Values in the padding do not matter.
            valid: Positions that belong to an item, bool ``(B, T)``.

        Returns:
            ``(B, T, D)``. Padded rows are finite and have no meaning.
        """
        x = x.masked_fill(~valid[..., None], 0.0) * math.sqrt(self.width)
        positions = relative_positions(x.shape[1], self.width, x)
        for block in self.encoders:
            x = block(x, positions, valid)
        return cast(Tensor, self.after_norm(x))


class Encoder(Conformer):
    """Articulatory features to hidden vectors that know the speaker."""

    def __init__(self, config: FastSpeech2Config) -> None:
        super().__init__(config, layers=config.encoder_layers, kernel=config.encoder_kernel)
        self.embed = nn.Sequential(
            nn.Linear(config.symbol_width, config.hidden_width),
            nn.Tanh(),
            nn.Linear(config.hidden_width, config.width),
        )
        self.embedding_expansion = nn.Linear(config.speaker_width, config.width)

    def encode(self, vectors: Tensor, valid: Tensor, speaker: Tensor) -> Tensor:
        """Encodes symbols.

        Args:
            vectors: ``(B, N, V)``. Values in the padding do not matter.
            valid: Symbols that belong to an item, bool ``(B, N)``.
            speaker: ``(B, S)``; it is not normalised.

        Returns:
            ``(B, N, D)``. Padded rows are finite and have no meaning.
        """
        embedded = self.embed(vectors.masked_fill(~valid[..., None], 0.0))
        # Behind the last LayerNorm, so that it keeps its size.
        return cast(Tensor, self(embedded, valid) + self.embedding_expansion(speaker)[:, None])


class ConformerBlock(nn.Module):
    """Half a feed-forward part, attention, convolutions, and the other half."""

    def __init__(self, config: FastSpeech2Config, kernel: int) -> None:
        super().__init__()
        width = config.width
        self.self_attn = RelativeAttention(width, config.heads)
        self.feed_forward = FeedForward(width, config.feed_forward)
        self.feed_forward_macaron = FeedForward(width, config.feed_forward)
        self.conv_module = ConvModule(width, kernel, config.groups)
        self.norm_ff = nn.LayerNorm(width, eps=NORM_EPS)
        self.norm_mha = nn.LayerNorm(width, eps=NORM_EPS)
        self.norm_ff_macaron = nn.LayerNorm(width, eps=NORM_EPS)
        self.norm_conv = nn.LayerNorm(width, eps=NORM_EPS)
        self.norm_final = nn.LayerNorm(width, eps=NORM_EPS)

    def forward(self, x: Tensor, positions: Tensor, valid: Tensor) -> Tensor:
        """``(B, T, D)`` to the same; see `Conformer.forward`."""
        x = x + 0.5 * self.feed_forward_macaron(self.norm_ff_macaron(x))
        x = x + self.self_attn(self.norm_mha(x), positions, valid)
        x = x + self.conv_module(self.norm_conv(x), valid)
        x = x + 0.5 * self.feed_forward(self.norm_ff(x))
        return cast(Tensor, self.norm_final(x))


class Pointwise(nn.Conv1d):
    """A convolution of one tap, as a matrix product: time stays before features."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, T, inputs)`` to ``(B, T, outputs)``."""
        return F.linear(x, self.weight.squeeze(2), self.bias)


class FeedForward(nn.Module):
    """Two maps of single positions with a ReLU between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.w_1 = Pointwise(width, inner)
        self.w_2 = Pointwise(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, T, D)`` to the same."""
        return cast(Tensor, self.w_2(F.relu(self.w_1(x))))


class ConvModule(nn.Module):
    """Gated map, depthwise convolution, group norm, Swish, map."""

    def __init__(self, width: int, kernel: int, groups: int) -> None:
        super().__init__()
        self.pointwise_conv1 = Pointwise(width, 2 * width)
        self.depthwise_conv = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = MaskedGroupNorm(groups, width)
        self.pointwise_conv2 = Pointwise(width, width)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """``(B, T, D)`` to the same."""
        x = F.glu(self.pointwise_conv1(x)).masked_fill(~valid[..., None], 0.0)
        x = F.silu(self.norm(self.depthwise_conv(x.transpose(1, 2)), valid))
        return cast(Tensor, self.pointwise_conv2(x.transpose(1, 2)))
