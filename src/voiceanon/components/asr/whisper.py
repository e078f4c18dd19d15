"""Whisper's networks: an encoder of log-mel windows, and a decoder that writes token by token.

Entries have the names of the Hub's files without ``model.``; the output layer shares the weights of
``decoder.embed_tokens``. What the decoder has computed for earlier tokens is kept in memory that is
made once per window. Held to transformers' `WhisperModel` by tests.

Source: Radford et al. 2022, arXiv:2212.04356; `config.json` of the repositories openai/whisper-*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.asr.whisper_config import FRAMES_PER_POSITION, WhisperConfig

CONV_KERNEL = 3
"""Taps of both convolutions."""


@dataclass
class Memory:
    """What the decoder keeps while it writes one batch of windows.

    Attributes:
        sources: Keys and values of the encoded windows per layer, ``(B, H, S, d)`` each.
        keys: Of the tokens so far per layer, ``(B, H, M, d)``, of which the first `length` count.
        values: As ``keys``.
        length: Tokens so far.
    """

    sources: list[tuple[Tensor, Tensor]]
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    length: int = 0


class Whisper(nn.Module):
    """Encoder and decoder. Runs in float32 or under autocast."""

    def __init__(self, config: WhisperConfig) -> None:
        """Builds the networks with untrained weights.

        Args:
            config: Sizes.
        """
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores all tokens: ``(B, n, D)`` to float32 ``(B, n, V)``."""
        return F.linear(hidden, self.decoder.embed_tokens.weight).float()


class Encoder(nn.Module):
    """Windows of log-mel frames to hidden states."""

    def __init__(self, config: WhisperConfig) -> None:
        """Builds convolutions and layers."""
        super().__init__()
        side = CONV_KERNEL // 2
        self.conv1 = nn.Conv1d(config.mel_bins, config.width, CONV_KERNEL, padding=side)
        self.conv2 = nn.Conv1d(
            config.width, config.width, CONV_KERNEL, FRAMES_PER_POSITION, padding=side
        )
        self.embed_positions = nn.Embedding(config.source_positions, config.width)
        self.layers = nn.ModuleList(
            EncoderLayer(config.width, config.encoder_heads, config.encoder_ffn)
            for _ in range(config.encoder_layers)
        )
        self.layer_norm = nn.LayerNorm(config.width)

    def forward(self, features: Tensor) -> Tensor:
        """Encodes windows.

        Args:
            features: float32 ``(B, mel_bins, window_frames)``.

        Returns:
            ``(B, source_positions, D)``.
        """
        x = F.gelu(self.conv1(features))
        x = F.gelu(self.conv2(x)).transpose(1, 2) + self.embed_positions.weight
        for layer in self.layers:
            x = layer(x)
        return cast(Tensor, self.layer_norm(x))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each with the norm in front."""

    def __init__(self, width: int, heads: int, ffn: int) -> None:
        """Builds one layer."""
        super().__init__()
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, ffn)
        self.fc2 = nn.Linear(ffn, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, S, D)`` to the same."""
        normal = self.self_attn_layer_norm(x)
        x = x + self.self_attn(normal, *self.self_attn.memories(normal))
        return x + cast(Tensor, self.fc2(F.gelu(self.fc1(self.final_layer_norm(x)))))


class Decoder(nn.Module):
    """Tokens to hidden states that predict the next one."""

    def __init__(self, config: WhisperConfig) -> None:
        """Builds embeddings and layers."""
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.embed_positions = nn.Embedding(config.target_positions, config.width)
        self.layers = nn.ModuleList(
            DecoderLayer(config.width, config.decoder_heads, config.decoder_ffn)
            for _ in range(config.decoder_layers)
        )
        self.layer_norm = nn.LayerNorm(config.width)

    def start(self, encoded: Tensor) -> Memory:
        """Prepares what all tokens of a window share.

        Args:
            encoded: Of the encoder, ``(B, S, D)``.
        """
        layers = [cast(DecoderLayer, layer) for layer in self.layers]
        return Memory([layer.encoder_attn.memories(encoded) for layer in layers])

    def forward(self, tokens: Tensor, memory: Memory, room: int) -> Tensor:
        """Reads the next tokens.

        Args:
            tokens: int64 ``(B, n)``.
            memory: Of the tokens before; gets those of these.
            room: Most tokens that there will be; the same at each call.

        Returns:
            ``(B, n, D)``.
        """
        start, count = memory.length, tokens.shape[1]
        positions = self.embed_positions.weight[start : start + count]
        x = self.embed_tokens(tokens) + positions
        for index, layer in enumerate(self.layers):
            x = layer(x, memory, index, room)
        memory.length += count
        return cast(Tensor, self.layer_norm(x))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the window, feed-forward."""

    def __init__(self, width: int, heads: int, ffn: int) -> None:
        """Builds one layer."""
        super().__init__()
        self.self_attn = Attention(width, heads)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        self.encoder_attn = Attention(width, heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, ffn)
        self.fc2 = nn.Linear(ffn, width)
        self.final_layer_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, memory: Memory, index: int, room: int) -> Tensor:
        """``(B, n, D)`` to the same.

        Args:
            x: The tokens' states.
            memory: See `Decoder.forward`; this layer writes its own part.
            index: Number of this layer.
            room: See `Decoder.forward`.
        """
        normal = self.self_attn_layer_norm(x)
        key, value = self.self_attn.memories(normal)
        start, end = memory.length, memory.length + x.shape[1]
        if index == len(memory.keys):
            size = (*key.shape[:2], room, key.shape[3])
            memory.keys.append(key.new_empty(size))
            memory.values.append(value.new_empty(size))
        memory.keys[index][:, :, start:end] = key
        memory.values[index][:, :, start:end] = value
        x = x + self.self_attn(
            normal, memory.keys[index][:, :, :end], memory.values[index][:, :, :end], causal=True
        )
        normal = self.encoder_attn_layer_norm(x)
        x = x + self.encoder_attn(normal, *memory.sources[index])
        return x + cast(Tensor, self.fc2(F.gelu(self.fc1(self.final_layer_norm(x)))))


class Attention(nn.Module):
    """Multi-head attention; keys have no bias."""

    def __init__(self, width: int, heads: int) -> None:
        """Builds the linear maps."""
        super().__init__()
        self.heads = heads
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width)
        self.q_proj = nn.Linear(width, width)
        self.out_proj = nn.Linear(width, width)

    def memories(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of ``(B, S, D)``, ``(B, H, S, d)`` each."""
        return self._split(self.k_proj(x)), self._split(self.v_proj(x))

    def forward(self, x: Tensor, key: Tensor, value: Tensor, *, causal: bool = False) -> Tensor:
        """Attends.

        Args:
            x: Queries' input, ``(B, n, D)``.
            key: ``(B, H, S, d)``.
            value: As ``key``.
            causal: Whether the queries are the last n of the S, and see none behind themselves.

        Returns:
            ``(B, n, D)``.
        """
        query = self._split(self.q_proj(x))
        mask = None
        if causal and query.shape[2] > 1:
            mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=x.device).tril(
                key.shape[2] - query.shape[2]
            )
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return cast(Tensor, self.out_proj(attended.transpose(1, 2).flatten(2)))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
