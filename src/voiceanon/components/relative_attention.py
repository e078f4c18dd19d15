"""Self-attention whose scores depend on the distance between query and key.

The form of Transformer-XL (arXiv 1901.02860) as ESPnet and IMS Toucan have it under the name
"latest"; entry names are theirs. Source: specification sheet of the family, section 6.
"""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WAVELENGTH_BASE = 10_000.0
"""Frequencies fall from 1 nearly to the inverse of this (w_k of section 6)."""


class RelativeAttention(nn.Module):
    """Multi-head self-attention with sinusoids of the relative position.

    The score of query i and key j is
    ``((q_i + pos_bias_u) k_j + (q_i + pos_bias_v) linear_pos(position_(i-j))) / sqrt(D / H)``.
    """

    def __init__(self, width: int, heads: int) -> None:
        """Builds the linear maps.

        Args:
            width: D, a multiple of ``heads``.
            heads: H.
        """
        super().__init__()
        self.heads = heads
        self.linear_q = nn.Linear(width, width)
        self.linear_k = nn.Linear(width, width)
        self.linear_v = nn.Linear(width, width)
        self.linear_out = nn.Linear(width, width)
        self.linear_pos = nn.Linear(width, width, bias=False)
        self.pos_bias_u = nn.Parameter(torch.zeros(heads, width // heads))
        self.pos_bias_v = nn.Parameter(torch.zeros(heads, width // heads))

    def forward(self, x: Tensor, positions: Tensor, valid: Tensor) -> Tensor:
        """Attends.

        Args:
            x: Normalised input, ``(B, T, D)``. Values in the padding do not matter.
            positions: `relative_positions` of T, ``(2 T - 1, D)``.
            valid: Frames that belong to an item, bool ``(B, T)``.

        Returns:
            ``(B, T, D)``. Padded rows are finite and have no meaning.
        """
        x = x.masked_fill(~valid[..., None], 0.0)
        query, key, value = (
            linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear in (self.linear_q, self.linear_k, self.linear_v)
        )
        bias = self._position_scores(query, positions)
        # The lowest number, not minus infinity: an item without any frame stays finite.
        bias = bias.masked_fill(~valid[:, None, None], torch.finfo(bias.dtype).min)
        attended = F.scaled_dot_product_attention(
            query + self.pos_bias_u[:, None].to(query.dtype), key, value, attn_mask=bias
        )
        return cast(Tensor, self.linear_out(attended.transpose(1, 2).flatten(2)))

    def _position_scores(self, query: Tensor, positions: Tensor) -> Tensor:
        """Gives the part of the scores that depends on the distance.

        Args:
            query: ``(B, H, T, D / H)``.
            positions: ``(2 T - 1, D)``.

        Returns:
            ``(B, H, T, T)``, divided by the square root of the heads' width.
        """
        count, width = query.shape[2:]
        position = self.linear_pos(positions).unflatten(-1, (self.heads, -1)).permute(1, 2, 0)
        query = (query + self.pos_bias_v[:, None].to(query.dtype)) / math.sqrt(width)
        # One column more than there are distances, so that the next row of the flattened matrix,
        # read one entry early, is this row shifted by one position.
        scores = (query @ F.pad(position, (0, 1))).flatten(2)
        rows = scores[..., count - 1 : count - 1 + count * (2 * count - 1)]
        return rows.view(*scores.shape[:2], count, 2 * count - 1)[..., :count]


def relative_positions(count: int, width: int, like: Tensor) -> Tensor:
    """Gives sinusoids of the distances from ``count - 1`` down to ``1 - count``.

    Args:
        count: T, at least 1.
        width: D, even; sines and cosines alternate.
        like: Whose type and device the result has.

    Returns:
        ``(2 T - 1, D)``.
    """
    distance = torch.arange(count - 1, -count, -1, dtype=torch.float32, device=like.device)
    return sinusoids(distance, width).to(like.dtype)


def sinusoids(position: Tensor, width: int) -> Tensor:
    """Gives the sine and the cosine of each position at ``width / 2`` frequencies.

    Args:
        position: float32 ``(N,)``.
        width: D, even.

    Returns:
        float32 ``(N, D)``; columns ``2 k`` are sines, ``2 k + 1`` cosines.
    """
    even = torch.arange(0, width, 2, dtype=torch.float32, device=position.device)
    # In this order of operations the frequencies are those of the published code to the last bit.
    frequency = torch.exp(even * -(math.log(WAVELENGTH_BASE) / width))
    angle = position[:, None] * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)
