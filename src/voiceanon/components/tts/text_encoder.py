"""VITS's text encoder: symbols to hidden states, and to mean and spread of the acoustic frames.

A Transformer whose attention tells positions apart by their distance, up to a window. Convolutions
of the feed-forward blocks see zeros behind a text, so that a padded batch gives what its texts give
alone. Entries have the names of transformers' `VitsModel`.

Source: Kim et al. 2021, arXiv:2106.06103; held to transformers' `VitsTextEncoder`.
"""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.tts.vits_config import VitsConfig


class TextEncoder(nn.Module):
    """Symbols to hidden states and the prior's statistics."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds embedding, layers and projection."""
        super().__init__()
        self.width = config.width
        self.embed_tokens = nn.Embedding(config.embedded, config.width)
        self.encoder = Layers(config)
        self.project = nn.Conv1d(config.width, 2 * config.flow_width, 1)

    def forward(self, symbols: Tensor, inside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Encodes texts.

        Args:
            symbols: int64 ``(B, L)``; any valid numbers behind a text.
            inside: Symbols that belong to a text, bool ``(B, L)``.

        Returns:
            Hidden states float32 ``(B, width, L)``, means and logarithms of the standard deviation
            ``(B, flow_width, L)`` each; all 0 behind a text.
        """
        mask = inside[..., None].to(self.embed_tokens.weight.dtype)
        x = self.embed_tokens(symbols) * math.sqrt(self.width)
        x = self.encoder(x * mask, inside, mask)
        hidden = x.transpose(1, 2)
        mean, log_spread = (self.project(hidden) * mask.transpose(1, 2)).chunk(2, 1)
        return hidden, mean, log_spread


class Layers(nn.Module):
    """The Transformer's layers."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds the layers."""
        super().__init__()
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))

    def forward(self, x: Tensor, inside: Tensor, mask: Tensor) -> Tensor:
        """``(B, L, D)`` to the same."""
        for layer in self.layers:
            x = layer(x, inside, mask)
        return x * mask


class Layer(nn.Module):
    """Attention and feed-forward, each with the norm behind."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds one layer."""
        super().__init__()
        self.attention = RelativeAttention(config.width, config.heads, config.window)
        self.layer_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.feed_forward = ConvFeedForward(config.width, config.ffn, config.ffn_kernel)
        self.final_layer_norm = nn.LayerNorm(config.width, eps=config.norm_eps)

    def forward(self, x: Tensor, inside: Tensor, mask: Tensor) -> Tensor:
        """``(B, L, D)`` to the same; see `TextEncoder.forward`."""
        x = self.layer_norm(x + self.attention(x, inside))
        return cast(Tensor, self.final_layer_norm(x + self.feed_forward(x, mask)))


class ConvFeedForward(nn.Module):
    """Two convolutions with a ReLU between them."""

    def __init__(self, width: int, inner: int, kernel: int) -> None:
        """Builds the convolutions, which see as far back as forward if ``kernel`` is odd."""
        super().__init__()
        self.conv_1 = nn.Conv1d(width, inner, kernel)
        self.conv_2 = nn.Conv1d(inner, width, kernel)
        self.sides = ((kernel - 1) // 2, kernel // 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """``(B, L, D)`` to the same, zeros behind a text."""
        mask = mask.transpose(1, 2)
        x = F.relu(self.conv_1(F.pad(x.transpose(1, 2) * mask, self.sides)))
        x = self.conv_2(F.pad(x * mask, self.sides)) * mask
        return x.transpose(1, 2)


class RelativeAttention(nn.Module):
    """Self-attention with vectors for the distance between query and key, on both sides."""

    def __init__(self, width: int, heads: int, window: int) -> None:
        """Builds linear maps and the vectors of distances up to ``window``."""
        super().__init__()
        self.heads = heads
        self.window = window
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)
        size = (1, 2 * window + 1, width // heads)
        self.emb_rel_k = nn.Parameter(torch.randn(size))
        self.emb_rel_v = nn.Parameter(torch.randn(size))

    def forward(self, x: Tensor, inside: Tensor) -> Tensor:
        """Attends.

        Args:
            x: ``(B, L, D)``.
            inside: bool ``(B, L)``.

        Returns:
            ``(B, L, D)``.
        """
        query, key, value = (
            linear(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for linear in (self.q_proj, self.k_proj, self.v_proj)
        )
        query = query / math.sqrt(query.shape[-1])
        places = torch.arange(x.shape[1], device=x.device)
        distance = places - places[:, None] + self.window
        near = (distance >= 0) & (distance <= 2 * self.window)
        # One score per query and distance, brought to the keys at these distances.
        by_distance = query @ self.emb_rel_k.transpose(1, 2)
        slots = distance.clamp(0, 2 * self.window).expand(*by_distance.shape[:3], -1)
        bias = by_distance.gather(3, slots).masked_fill(~near, 0.0)
        scores = query @ key.transpose(2, 3) + bias
        weights = scores.masked_fill(~inside[:, None, None], -math.inf).softmax(-1)
        attended = weights @ value + self._by_distance(weights) @ self.emb_rel_v
        return cast(Tensor, self.out_proj(attended.transpose(1, 2).flatten(2)))

    def _by_distance(self, weights: Tensor) -> Tensor:
        """Weights of the keys at each distance, ``(B, H, L, 2 * window + 1)``."""
        length = weights.shape[-1]
        queries = torch.arange(length, device=weights.device)[:, None]
        keys = queries + torch.arange(-self.window, self.window + 1, device=weights.device)
        there = (keys >= 0) & (keys < length)
        slots = keys.clamp(0, length - 1).expand(*weights.shape[:3], -1)
        return weights.gather(3, slots).masked_fill(~there, 0.0)
