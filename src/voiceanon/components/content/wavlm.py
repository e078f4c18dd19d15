"""WavLM, a self-supervised speech encoder: hidden states after chosen layers of its Transformer.

Sources: `cfg` and entry names of the checkpoint WavLM-Large.pt; paper "WavLM: Large-Scale
Self-Supervised Pre-Training for Full Stack Speech Processing" (arXiv 2110.13900).

The waveform goes in as it is. Although WavLM-Large was trained on waveforms of mean 0 and variance
1, kNN-VC does not normalise, and what it feeds its vocoder differs from normalised features.

Inside, time lies before features, so that a frame's values are neighbours in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.content.wavlm_config import (
    CONV_KERNELS,
    CONV_STRIDES,
    GATE_UNITS,
    NORM_EPS,
    WavLMConfig,
    frame_count,
)

_MASK_ALIGNMENT = 16
"""Keys per row of the attention mask are rounded up to this: kernels of some devices would copy a
mask whose rows do not start at multiples of it."""


class WavLM(nn.Module):
    """The part of WavLM that leads to a hidden state.

    Entries have the names of WavLM-Large.pt, with the weight norm of the positional convolution
    folded (`voiceanon.components.weight_norm.fold_entries`); `wavlm_config.is_unused_entry` tells
    the published entries that this part does without.

    Runs in float32 or under autocast; LayerNorms and the sums over layers stay in float32.
    """

    def __init__(self, config: WavLMConfig | None = None, *, layers: int | None = None) -> None:
        """Builds the network with untrained weights.

        Args:
            config: Sizes; WavLM-Large if left out.
            layers: Transformer layers to keep, counted from the first; all if left out.
        """
        super().__init__()
        self.config = config or WavLMConfig()
        self.layers = self.config.layers if layers is None else layers
        self.feature_extractor = ConvExtractor(self.config)
        self.layer_norm = LayerNorm(self.config.conv_channels)
        self.post_extract_proj = nn.Linear(self.config.conv_channels, self.config.width)
        self.encoder = Encoder(self.config, self.layers)

    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Gives the output of the last layer that is kept, without the encoder's final LayerNorm.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0, not normalised. The values in the
                padding do not matter.
            lengths: Samples of each recording, int64 ``(B,)``, `wavlm_config.MIN_SAMPLES` to T. The
                caller guarantees the lower bound.

        Returns:
            Features float32 ``(B, N, D)``, one frame every `wavlm_config.HOP_SAMPLES` samples, and
            the frames of each recording, int64 ``(B,)``. Rows after those are finite and have no
            meaning. A recording's own rows do not depend on the rest of the batch.
        """
        (features,), frame_lengths = self.hidden_states(wav, lengths, (self.layers,))
        return features, frame_lengths

    def hidden_states(
        self, wav: Tensor, lengths: Tensor, wanted: Sequence[int]
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """Gives the outputs of several layers from one pass.

        Args:
            wav: As in `forward`.
            lengths: As in `forward`.
            wanted: Numbers of layers that have run: 0 is the input of the first, `layers` the most.

        Returns:
            A hidden state, float32 ``(B, N, D)``, for each number of ``wanted`` in its order, and
            the frames of each recording, int64 ``(B,)``.
        """
        frame_lengths = frame_count(lengths)
        frames = self.feature_extractor(wav)
        steps = torch.arange(frames.shape[1], device=wav.device)
        valid = steps < frame_lengths[:, None]
        hidden = self.encoder(self.project(frames, valid), valid, wanted)
        return hidden, frame_lengths

    def project(self, frames: Tensor, valid: Tensor) -> Tensor:
        """Normalises the extractor's frames, projects them, and sets padded ones to 0.

        Args:
            frames: ``(B, N, C)``.
            valid: Frames that belong to a recording, bool ``(B, N)``.

        Returns:
            float32 ``(B, N, D)``.
        """
        projected: Tensor = self.post_extract_proj(self.layer_norm(frames)).float()
        # The positional convolution sees zeros behind a recording that is alone, too.
        return projected.masked_fill(~valid[..., None], 0.0)


class ConvExtractor(nn.Module):
    """Seven strided convolutions that turn samples into frames of 20 ms.

    They need no mask: the LayerNorms are those of single frames, and the frames that count see no
    sample of the padding.
    """

    def __init__(self, config: WavLMConfig) -> None:
        """Builds the convolutions, each followed by LayerNorm and GELU."""
        super().__init__()
        sizes = [1] + [config.conv_channels] * len(CONV_KERNELS)
        self.conv_layers = nn.ModuleList(
            # Placeholders keep the published indices: dropout, and transpositions around the norm.
            nn.Sequential(
                FrameConv(sizes[i], sizes[i + 1], kernel, stride),
                nn.Identity(),
                nn.Sequential(nn.Identity(), LayerNorm(sizes[i + 1])),
                nn.GELU(),
            )
            for i, (kernel, stride) in enumerate(zip(CONV_KERNELS, CONV_STRIDES, strict=True))
        )

    def forward(self, wav: Tensor) -> Tensor:
        """Turns ``(B, T)`` into ``(B, N, C)``."""
        frames = wav[..., None]
        for layer in self.conv_layers:
            frames = layer(frames)
        return frames


class FrameConv(nn.Module):
    """Convolution over time without padding and bias, on tensors with time before channels."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        """Makes ``weight``, ``(outputs, inputs, kernel)`` as in `torch.nn.Conv1d`."""
        super().__init__()
        self.stride = stride
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel))
        nn.init.kaiming_normal_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, T, inputs)`` into ``(B, N, outputs)``.

        A product of matrices: with so many channels it is faster than a convolution, and needs no
        transposition in front of the LayerNorm.
        """
        windows = x.unfold(1, self.weight.shape[2], self.stride).transpose(2, 3).flatten(2)
        # Rows without gaps make one product of the batch, rather than one for each recording;
        # autocast would copy them a second time.
        rows = windows.to(_compute_dtype(x), memory_format=torch.contiguous_format)
        return F.linear(rows, self.weight.transpose(1, 2).flatten(1))


class Encoder(nn.Module):
    """Positional convolution and Transformer layers, with the norm in front of each block."""

    def __init__(self, config: WavLMConfig, layers: int) -> None:
        """Builds the first ``layers`` layers."""
        super().__init__()
        self.pos_conv = nn.ModuleList(
            [
                nn.Conv1d(
                    config.width,
                    config.width,
                    config.pos_kernel,
                    padding=config.pos_kernel // 2,
                    groups=config.pos_groups,
                )
            ]
        )
        self.layers = nn.ModuleList(Layer(config, first=i == 0) for i in range(layers))

    def forward(self, z: Tensor, valid: Tensor, wanted: Sequence[int]) -> tuple[Tensor, ...]:
        """Runs as many layers as are wanted.

        Args:
            z: Projected frames, float32 ``(B, N, D)``, 0 where padded.
            valid: bool ``(B, N)``.
            wanted: Numbers of layers that have run.

        Returns:
            float32 ``(B, N, D)`` for each number.
        """
        z = z + self.positional(z)
        states = {0: z}
        last = max(wanted)
        if last > 0:
            bias, key_mask = self.attention_terms(valid, _compute_dtype(z))
        for i, layer in enumerate(self.layers[:last], start=1):
            z = layer(z, bias, key_mask)
            if i in wanted:
                states[i] = z
        return tuple(states[i] for i in wanted)

    def positional(self, z: Tensor) -> Tensor:
        """Gives what is added to ``z`` ``(B, N, D)`` to tell positions, of the same shape."""
        # An even kernel with half of it as padding makes one frame too many: the last.
        position = self.pos_conv[0](z.transpose(1, 2))[..., : z.shape[1]]
        return F.gelu(position).transpose(1, 2)

    def attention_terms(self, valid: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Computes what the attention of all layers shares.

        Args:
            valid: bool ``(B, N)``.
            dtype: In which attention computes.

        Returns:
            Position bias ``(H, N, M)`` and key mask ``(B, 1, 1, M)``, 0 or minus infinity; M is N
            rounded up to `_MASK_ALIGNMENT`.
        """
        batch, queries = valid.shape
        keys = -(-queries // _MASK_ALIGNMENT) * _MASK_ALIGNMENT
        first = cast(Layer, self.layers[0])
        bias = first.self_attn.position_bias(queries, keys).to(dtype)
        key_mask = bias.new_zeros(batch, 1, 1, keys)
        outside = F.pad(~valid, (0, keys - queries), value=True)
        return bias, key_mask.masked_fill_(outside[:, None, None], -math.inf)


class Layer(nn.Module):
    """One Transformer layer."""

    def __init__(self, config: WavLMConfig, *, first: bool) -> None:
        """Builds the layer; the ``first`` holds the table of position biases."""
        super().__init__()
        self.self_attn = Attention(config, first=first)
        self.self_attn_layer_norm = LayerNorm(config.width)
        self.fc1 = nn.Linear(config.width, config.ffn_width)
        self.fc2 = nn.Linear(config.ffn_width, config.width)
        self.final_layer_norm = LayerNorm(config.width)

    def forward(self, z: Tensor, bias: Tensor, key_mask: Tensor) -> Tensor:
        """Turns float32 ``(B, N, D)`` into the same; the rest as in `Attention.forward`."""
        z = z + self.self_attn(self.self_attn_layer_norm(z), bias, key_mask)
        inner = F.gelu(self.fc1(self.final_layer_norm(z)))
        return z + cast(Tensor, self.fc2(inner))


class Attention(nn.Module):
    """Self-attention whose scores get a bias by distance, gated by the query's input."""

    def __init__(self, config: WavLMConfig, *, first: bool) -> None:
        """Builds the linear maps; the ``first`` layer also holds the table of position biases."""
        super().__init__()
        self.config = config
        head_width = config.width // config.heads
        self.q_proj = nn.Linear(config.width, config.width)
        self.k_proj = nn.Linear(config.width, config.width)
        self.v_proj = nn.Linear(config.width, config.width)
        self.out_proj = nn.Linear(config.width, config.width)
        self.grep_linear = nn.Linear(head_width, GATE_UNITS)
        self.grep_a = nn.Parameter(torch.ones(1, config.heads, 1, 1))
        if first:
            self.relative_attention_bias = nn.Embedding(config.buckets, config.heads)

    def forward(self, x: Tensor, bias: Tensor, key_mask: Tensor) -> Tensor:
        """Attends.

        Args:
            x: Normalised input, float32 ``(B, N, D)``.
            bias: Position bias before gating, ``(H, N, M)`` with M at least N.
            key_mask: ``(B, 1, 1, M)``, 0 or minus infinity, of the type of ``bias``.

        Returns:
            ``(B, N, D)``.
        """
        batch, frames, _ = x.shape
        heads = (batch, frames, self.config.heads, -1)
        gate = self.gate(x.view(heads)).to(bias.dtype)
        mask = torch.addcmul(key_mask, gate, bias)[..., :frames]
        query, key, value = (
            linear(x).view(heads).transpose(1, 2)
            for linear in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return cast(Tensor, self.out_proj(attended.transpose(1, 2).flatten(2)))

    def gate(self, heads: Tensor) -> Tensor:
        """Tells how much of the position bias each query takes.

        Args:
            heads: The attention's input (not its query) split into heads, ``(B, N, H, D / H)``.

        Returns:
            float32 ``(B, H, N, 1)``.
        """
        units: Tensor = self.grep_linear(heads).float().unflatten(-1, (2, GATE_UNITS // 2))
        update, reset = units.sum(-1).sigmoid().unbind(-1)
        gate = update * (reset * self.grep_a.flatten() - 1.0) + 2.0
        return gate.transpose(1, 2)[..., None]

    def position_bias(self, queries: int, keys: int) -> Tensor:
        """Looks up the bias of every pair of frames; the first layer only.

        Args:
            queries: N.
            keys: M, at least N.

        Returns:
            float32 ``(H, N, M)``.
        """
        table = self.relative_attention_bias.weight
        # A pair's bias depends on its distance alone, so that one strip holds all rows: the last
        # query reads it from its start, and each query before that one entry further on.
        distance = torch.arange(1 - queries, keys, device=table.device)
        bucket = relative_buckets(distance, self.config.buckets, self.config.max_distance)
        return table[bucket].T.unfold(1, keys, 1).flip(1)


class LayerNorm(nn.LayerNorm):
    """LayerNorm over the last dimension that computes, and returns, float32 under autocast too."""

    def __init__(self, width: int) -> None:
        """Normalises frames of ``width`` values."""
        super().__init__(width, eps=NORM_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(..., width)`` of any floating type into float32 of the same shape."""
        return super().forward(x.float())


def relative_buckets(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """Sorts distances into buckets that are single frames when near and widen when far.

    Args:
        distance: Frames from query to key, positive where the key is later, any shape.
        buckets: Half of them are for keys that are later.
        max_distance: Frames from which on all distances share the last bucket.

    Returns:
        int64 of the same shape, 0 to ``buckets - 1``.
    """
    half = buckets // 2
    exact = half // 2
    size = distance.abs()
    spread = (half - exact) / math.log(max_distance / exact)
    # The clamp keeps the logarithm defined where its result is not used.
    wide = exact + (size.clamp_min(exact) / exact).log().mul(spread).long()
    near = torch.where(size < exact, size, wide.clamp_max(half - 1))
    return near + half * (distance > 0)


def _compute_dtype(x: Tensor) -> torch.dtype:
    """Type in which linear maps of ``x`` compute: autocast's, if it is on."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype
