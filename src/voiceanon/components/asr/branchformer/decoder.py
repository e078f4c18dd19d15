"""Transformer decoder that writes one token after another, for many hypotheses at once.

Hypotheses of one utterance share its encoder frames, so that attention to these takes them as
queries of one item. Keys and values of what is written are kept. Source: specification sheet of the
family, section 6 ("Decoder").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
from voiceanon.components.asr.branchformer.layers import FeedForward, LayerNorm
from voiceanon.components.relative_attention import sinusoids

_CACHE_TOKENS = 32
"""Room for what is written grows by so many tokens."""


@dataclass(frozen=True)
class DecoderState:
    """What the decoder has to remember of B utterances with K hypotheses each.

    Attributes:
        memory: Keys and values of the encoder frames, ``(layers, 2, B, H, T, D / H)``.
        heard: Encoder frames that belong to an utterance, bool ``(B, 1, 1, T)``.
        written: Keys and values of the tokens, with room for more,
            ``(B K, layers, 2, H, L, D / H)``: a hypothesis is one piece of memory to copy.
        count: Tokens that have been written.
    """

    memory: Tensor
    heard: Tensor
    written: Tensor
    count: int

    def select(self, rows: Tensor, parents: Tensor, shared: int) -> DecoderState:
        """Goes on with other hypotheses. The old state must not be used any more.

        Args:
            rows: Utterances to keep, int64 ``(B',)``.
            parents: Which hypothesis of its utterance each new one continues, int64 ``(B', K)``.
            shared: First tokens that are the same for all hypotheses of an utterance.
        """
        memory, heard, written = self.memory, self.heard, self.written
        places = (rows[:, None] * parents.shape[1] + parents).flatten()
        if len(rows) < len(heard):
            memory, heard = memory[:, :, rows], heard[rows]
            written = written.index_select(0, places)
        else:
            moved = written[..., shared : self.count, :]
            moved.copy_(moved.index_select(0, places))
        return replace(self, memory=memory, heard=heard, written=written)


class Decoder(nn.Module):
    """Embedding, layers with the norm in front of each part, and the output map."""

    def __init__(self, config: PhoneRecognizerConfig) -> None:
        """Builds the decoder."""
        super().__init__()
        # Positions follow the embedding in the published network, without entries.
        self.embed = nn.Sequential(nn.Embedding(config.vocabulary, config.width))
        self.decoders = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.after_norm = LayerNorm(config.width)
        self.output_layer = nn.Linear(config.width, config.vocabulary)

    def start(self, memory: Tensor, valid: Tensor, hypotheses: int) -> DecoderState:
        """Prepares to write.

        Args:
            memory: The encoder's frames, float32 ``(B, T, D)``. Padded ones do not matter.
            valid: Frames that belong to an utterance, bool ``(B, T)``; each has one at least.
            hypotheses: K.

        Returns:
            The state before the first token.
        """
        memory = memory.masked_fill(~valid[..., None], 0.0)
        kept = torch.stack([layer.src_attn.keys_values(memory) for layer in self._layers()])
        layers, _, batch, heads, _, width = kept.shape
        written = kept.new_empty(batch * hypotheses, layers, 2, heads, 0, width)
        return DecoderState(kept, valid[:, None, None], written, 0)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Reads one more token of each hypothesis.

        Args:
            tokens: int64 ``(B, K)``.
            state: After the tokens before.

        Returns:
            Natural logarithms of the next token's probabilities, float32 ``(B, K, V)``, and the
            state after this token. The old state must not be used any more.
        """
        written, count = state.written, state.count
        if count == written.shape[-2]:
            written = F.pad(written, (0, 0, 0, _CACHE_TOKENS))
        embedded = self.embed(tokens)
        place = torch.full((1,), count, dtype=torch.float32, device=tokens.device)
        width = embedded.shape[-1]
        x = embedded * math.sqrt(width) + sinusoids(place, width)
        caches = written.unbind(1)
        for layer, memory, cache in zip(self._layers(), state.memory, caches, strict=True):
            x = layer(x, memory, state.heard, cache, count)
        scores = self.output_layer(self.after_norm(x)).float().log_softmax(-1)
        return scores, replace(state, written=written, count=count + 1)

    def _layers(self) -> list[DecoderLayer]:
        return [cast(DecoderLayer, layer) for layer in self.decoders]


class DecoderLayer(nn.Module):
    """Attention to the tokens before, attention to the encoder frames, feed-forward block."""

    def __init__(self, config: PhoneRecognizerConfig) -> None:
        """Builds the layer."""
        super().__init__()
        self.self_attn = CachedAttention(config.width, config.decoder_heads)
        self.src_attn = CachedAttention(config.width, config.decoder_heads)
        self.feed_forward = FeedForward(config.width, config.decoder_ffn_units, F.relu)
        self.norm1 = LayerNorm(config.width)
        self.norm2 = LayerNorm(config.width)
        self.norm3 = LayerNorm(config.width)

    def forward(
        self, x: Tensor, memory: Tensor, heard: Tensor, cache: Tensor, count: int
    ) -> Tensor:
        """Reads one token of each hypothesis.

        Args:
            x: ``(B, K, D)``.
            memory: Keys and values of the encoder frames, ``(2, B, H, T, D / H)``.
            heard: bool ``(B, 1, 1, T)``.
            cache: Keys and values of the tokens, ``(B K, 2, H, L, D / H)``; this token's are
                written to its place.
            count: Tokens before this one, less than L.

        Returns:
            ``(B, K, D)``.
        """
        # Each hypothesis is one item here, with a single query.
        normed = self.norm1(x).flatten(0, 1)[:, None]
        cache[..., count, :] = self.self_attn.keys_values(normed)[..., 0, :].transpose(0, 1)
        keys, values = cache[..., : count + 1, :].unbind(1)
        attended = F.scaled_dot_product_attention(self.self_attn.queries(normed), keys, values)
        x = x + self.self_attn.linear_out(attended.flatten(1)).view_as(x)
        query = self.src_attn.queries(self.norm2(x))
        attended = F.scaled_dot_product_attention(query, memory[0], memory[1], attn_mask=heard)
        x = x + self.src_attn.linear_out(attended.transpose(1, 2).flatten(2))
        return x + cast(Tensor, self.feed_forward(self.norm3(x)))


class CachedAttention(nn.Module):
    """The linear maps of multi-head attention, to be applied when their results are needed."""

    def __init__(self, width: int, heads: int) -> None:
        """Builds the maps for D of ``width``."""
        super().__init__()
        self.heads = heads
        self.linear_q = nn.Linear(width, width)
        self.linear_k = nn.Linear(width, width)
        self.linear_v = nn.Linear(width, width)
        self.linear_out = nn.Linear(width, width)

    def queries(self, x: Tensor) -> Tensor:
        """Turns ``(B, T, D)`` into ``(B, H, T, D / H)``."""
        return self._split(self.linear_q(x))

    def keys_values(self, x: Tensor) -> Tensor:
        """Turns ``(B, T, D)`` into keys and values, ``(2, B, H, T, D / H)``."""
        return torch.stack((self._split(self.linear_k(x)), self._split(self.linear_v(x))))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
