"""One block of a Branchformer, and one of an E-Branchformer.

Both let self-attention and a gated convolution look at the same frames side by side, and merge what
they give. Sources: arXiv 2207.02971 and 2210.00077; specification sheet of the family, section 6.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
from voiceanon.components.asr.branchformer.layers import FeedForward, LayerNorm
from voiceanon.components.relative_attention import RelativeAttention


class BranchformerBlock(nn.Module):
    """Both branches, merged by a linear map."""

    def __init__(self, config: PhoneRecognizerConfig) -> None:
        """Builds the block."""
        super().__init__()
        width = config.width
        self.attn = RelativeAttention(width, config.heads)
        self.cgmlp = GatedConvolution(width, config.gated_units, config.gated_kernel)
        self.norm_mha = LayerNorm(width)
        self.norm_mlp = LayerNorm(width)
        self.norm_final = LayerNorm(width)
        self.merge_proj = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, positions: Tensor, valid: Tensor) -> Tensor:
        """Runs the block.

        Args:
            x: float32 ``(B, T, D)``.
            positions: `relative_positions` of T, ``(2 T - 1, D)``.
            valid: Frames that belong to an item, bool ``(B, T)``.

        Returns:
            float32 ``(B, T, D)``. Padded rows have no meaning.
        """
        return cast(Tensor, self.norm_final(x + self.merge_proj(self.both(x, positions, valid))))

    def both(self, x: Tensor, positions: Tensor, valid: Tensor) -> Tensor:
        """Gives the attention's features and behind them the gated ones, ``(B, T, 2 D)``."""
        attended = self.attn(self.norm_mha(x), positions, valid)
        return torch.cat((attended, self.cgmlp(self.norm_mlp(x), valid)), dim=-1)


class EBranchformerBlock(BranchformerBlock):
    """Both branches between two halved feed-forward blocks; a convolution helps to merge them."""

    def __init__(self, config: PhoneRecognizerConfig) -> None:
        """Builds the block."""
        super().__init__(config)
        width = config.width
        self.feed_forward = FeedForward(width, config.ffn_units, F.silu)
        self.feed_forward_macaron = FeedForward(width, config.ffn_units, F.silu)
        self.norm_ff = LayerNorm(width)
        self.norm_ff_macaron = LayerNorm(width)
        self.depthwise_conv_fusion = depthwise(2 * width, config.merge_kernel)

    def forward(self, x: Tensor, positions: Tensor, valid: Tensor) -> Tensor:
        """Runs the block; see `BranchformerBlock.forward`."""
        x = x + 0.5 * self.feed_forward_macaron(self.norm_ff_macaron(x))
        both = self.both(x, positions, valid)
        x = x + self.merge_proj(both + convolve(self.depthwise_conv_fusion, both, valid))
        x = x + 0.5 * self.feed_forward(self.norm_ff(x))
        return cast(Tensor, self.norm_final(x))


class GatedConvolution(nn.Module):
    """Feed-forward block in which a convolution of one half gates the other (`cgMLP`)."""

    def __init__(self, width: int, units: int, kernel: int) -> None:
        """Builds the block.

        Args:
            width: D.
            units: Inner features, both halves.
            kernel: Frames that the convolution sees, odd.
        """
        super().__init__()
        # Only the linear map has entries; the published index tells it from its activation.
        self.channel_proj1 = nn.Sequential(nn.Linear(width, units), nn.GELU())
        self.csgu = SpatialGate(units // 2, kernel)
        self.channel_proj2 = nn.Linear(units // 2, width)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Turns ``(B, T, D)`` with ``valid`` ``(B, T)`` into the same."""
        return cast(Tensor, self.channel_proj2(self.csgu(self.channel_proj1(x), valid)))


class SpatialGate(nn.Module):
    """Multiplies one half of the features with a convolution over time of the other."""

    def __init__(self, channels: int, kernel: int) -> None:
        """Builds the gate for halves of ``channels`` features."""
        super().__init__()
        self.norm = LayerNorm(channels)
        self.conv = depthwise(channels, kernel)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Turns ``(B, T, 2 channels)`` into ``(B, T, channels)``."""
        signal, gate = x.chunk(2, dim=-1)
        return signal * convolve(self.conv, self.norm(gate), valid)


def depthwise(channels: int, kernel: int) -> nn.Conv1d:
    """Makes a convolution over time for each channel on its own; ``kernel`` is odd."""
    return nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=channels)


def convolve(conv: nn.Conv1d, x: Tensor, valid: Tensor) -> Tensor:
    """Convolves over time, with zeros around every item.

    Args:
        conv: As from `depthwise`.
        x: ``(B, T, channels)``. Padded rows do not matter.
        valid: Frames that belong to an item, bool ``(B, T)``.

    Returns:
        ``(B, T, channels)``.
    """
    x = x.masked_fill(~valid[..., None], 0.0)
    convolved: Tensor = conv(x.transpose(1, 2))
    return convolved.transpose(1, 2)
