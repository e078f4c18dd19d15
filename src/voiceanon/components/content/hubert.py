"""HuBERT base, a self-supervised speech encoder: the output of one of its Transformer layers.

Sources: specification sheet of the codec language model, sections 2, 3 and 7; entries and
``config.json`` of the Hub repository ``facebook/hubert-base-ls960``; Hsu et al., "HuBERT", arXiv
2106.07447.

The waveform goes in as it is, not normalised. The first convolution is followed by a norm over the
whole recording, so that padding has to be left out of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.errors import ConfigError

CONV_KERNELS = (10, 3, 3, 3, 3, 2, 2)
"""Taps of the extractor's convolutions (``conv_kernel``)."""

CONV_STRIDES = (5, 2, 2, 2, 2, 2, 2)
"""Their strides (``conv_stride``)."""

MIN_SAMPLES = 400
"""Samples (16 kHz) that one frame sees: the shortest input. Follows from kernels and strides."""

HOP_SAMPLES = 320
"""Samples between frames: the product of the strides."""

NORM_EPS = 1e-5
"""Epsilon of all norms (``layer_norm_eps``)."""


@dataclass(frozen=True, kw_only=True)
class HubertConfig:
    """Sizes of the network; the defaults are those of HuBERT base.

    Attributes:
        conv_channels: Of the convolutional extractor.
        width: Features of a frame in the Transformer, D.
        heads: Attention heads, H.
        feed_forward: Inner features of the feed-forward blocks.
        layers: Transformer layers of the published network.
        pos_kernel: Frames that the positional convolution sees.
        pos_groups: Its groups.

    Raises:
        ConfigError: The width is no multiple of heads or groups.
    """

    conv_channels: int = 512
    width: int = 768
    heads: int = 12
    feed_forward: int = 3072
    layers: int = 12
    pos_kernel: int = 128
    pos_groups: int = 16

    def __post_init__(self) -> None:
        """Checks what can be divided."""
        for name, parts in (("heads", self.heads), ("groups", self.pos_groups)):
            if parts < 1 or self.width % parts:
                raise ConfigError(
                    f"HuBERT: width {self.width} cannot be divided by {parts} {name}; official are "
                    "768, 12 and 16."
                )

    @classmethod
    def from_published(cls, settings: Mapping[str, Any]) -> HubertConfig:
        """Reads ``config.json`` of the Hub's repository; what it leaves out is as in HuBERT base.

        Raises:
            ConfigError: The settings are those of another architecture, such as HuBERT large, whose
                extractor and order of norms differ.
        """
        for name, built in _FIXED.items():
            found = settings.get(name, built)
            if (tuple(found) if isinstance(found, list) else found) != built:
                raise ConfigError(
                    f"HuBERT: the setting {name!r} is {found!r}; only {built!r}, as in HuBERT "
                    "base, is built here. Use HuBERT base."
                )
        sizes = {field: int(settings[name]) for field, name in _SIZES.items() if name in settings}
        channels = set(settings.get("conv_dim", (cls.conv_channels,)))
        if len(channels) > 1:
            raise ConfigError(
                f"HuBERT: the extractor has channels {settings['conv_dim']}; equal ones are built "
                "here. Use HuBERT base."
            )
        return cls(conv_channels=channels.pop(), **sizes)


_SIZES = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "layers": "num_hidden_layers",
    "pos_kernel": "num_conv_pos_embeddings",
    "pos_groups": "num_conv_pos_embedding_groups",
}
"""Our field: its name in ``config.json``."""

_FIXED: dict[str, object] = {
    "feat_extract_norm": "group",
    "do_stable_layer_norm": False,
    "feat_proj_layer_norm": True,
    "conv_bias": False,
    "conv_pos_batch_norm": False,
    "hidden_act": "gelu",
    "feat_extract_activation": "gelu",
    "conv_kernel": CONV_KERNELS,
    "conv_stride": CONV_STRIDES,
}
"""Settings that choose the architecture, and the one value that is built."""


class Hubert(nn.Module):
    """The part of HuBERT that leads to the output of a Transformer layer.

    Entries have the names of the Hub's file, with the weight norm of the positional convolution
    folded (`voiceanon.components.weight_norm.fold_entries`); `is_unused_entry` tells the published
    ones that this part does without. Computes in the type of its weights, under autocast too.
    """

    def __init__(self, config: HubertConfig | None = None, *, layers: int | None = None) -> None:
        """Builds the network with untrained weights.

        Args:
            config: Sizes; HuBERT base if left out.
            layers: Transformer layers to keep, counted from the first; all if left out.
        """
        super().__init__()
        self.config = config = config or HubertConfig()
        self.feature_extractor = ConvExtractor(config.conv_channels)
        self.feature_projection = nn.ModuleDict({
            "layer_norm": nn.LayerNorm(config.conv_channels, eps=NORM_EPS),
            "projection": nn.Linear(config.conv_channels, config.width),
        })  # fmt: skip
        kept = config.layers if layers is None else layers
        self.encoder = Encoder(config, kept)

    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Gives the output of the last layer that is kept.

        Args:
            wav: Floating point ``(B, T)``, 16 kHz, full scale 1.0, not normalised. The values in
                the padding do not matter.
            lengths: Samples of each recording, int64 ``(B,)``, `MIN_SAMPLES` to T. The caller
                guarantees the lower bound.

        Returns:
            Features ``(B, N, D)``, one frame every 320 samples, and the frames of each recording,
            int64 ``(B,)``. Rows after those are finite and have no meaning. A recording's own rows
            do not depend on the rest of the batch.
        """
        frame_lengths = frame_count(lengths)
        with torch.autocast(wav.device.type, enabled=False):
            frames = self.feature_extractor(wav, lengths)
            steps = torch.arange(frames.shape[1], device=wav.device)
            valid = steps < frame_lengths[:, None]
            return self.encoder(self.project(frames, valid), valid), frame_lengths

    def project(self, frames: Tensor, valid: Tensor) -> Tensor:
        """Normalises the extractor's frames, projects them, and sets padded ones to 0.

        Args:
            frames: ``(B, N, C)``.
            valid: Frames that belong to a recording, bool ``(B, N)``.

        Returns:
            ``(B, N, D)``.
        """
        normed = self.feature_projection["layer_norm"](frames)
        # The positional convolution sees zeros behind a recording that is alone, too.
        projected: Tensor = self.feature_projection["projection"](normed)
        return projected.masked_fill(~valid[..., None], 0.0)


class ConvExtractor(nn.Module):
    """Seven strided convolutions that turn samples into frames of 20 ms."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv_layers = nn.ModuleList()
        for i, (kernel, stride) in enumerate(zip(CONV_KERNELS, CONV_STRIDES, strict=True)):
            inputs = channels if i else 1
            conv = nn.Conv1d(inputs, channels, kernel, stride, bias=False)
            parts: dict[str, nn.Module] = {"conv": conv}
            if not i:
                parts["layer_norm"] = RecordingNorm(channels)
            self.conv_layers.append(nn.ModuleDict(parts))

    def forward(self, wav: Tensor, lengths: Tensor) -> Tensor:
        """Turns ``(B, T)`` into ``(B, N, C)``; frames that count see no sample of the padding."""
        inside = torch.arange(wav.shape[1], device=wav.device) < lengths[:, None]
        x = wav.masked_fill(~inside, 0.0)[:, None]
        for layer in self.conv_layers:
            parts = cast(nn.ModuleDict, layer)
            x = parts["conv"](x)
            if "layer_norm" in parts:
                steps = (lengths - CONV_KERNELS[0]).div(CONV_STRIDES[0], rounding_mode="floor") + 1
                x = parts["layer_norm"](x, steps)
            x = F.gelu(x)
        return x.transpose(1, 2)


class RecordingNorm(nn.Module):
    """Normalises each channel over the time of a recording, without its padding.

    The published network has a group norm with one channel in each group.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Normalises.

        Args:
            x: ``(B, C, T)``, finite. Overwritten.
            lengths: Columns of each recording, int64 ``(B,)``, at least 1.

        Returns:
            ``(B, C, T)``.
        """
        outside = torch.arange(x.shape[2], device=x.device) >= lengths[:, None, None]
        counts = lengths[:, None, None]
        mean = x.masked_fill_(outside, 0.0).sum(2, keepdim=True) / counts
        x = x.sub_(mean).masked_fill_(outside, 0.0)
        variance = x.square().sum(2, keepdim=True) / counts
        scale = self.weight[:, None] * torch.rsqrt(variance + NORM_EPS)
        return torch.addcmul(self.bias[:, None], x, scale)


class Encoder(nn.Module):
    """Positional convolution and Transformer layers, with the norm behind each block."""

    def __init__(self, config: HubertConfig, layers: int) -> None:
        super().__init__()
        self.pos_conv_embed = nn.ModuleDict({
            "conv": nn.Conv1d(
                config.width,
                config.width,
                config.pos_kernel,
                padding=config.pos_kernel // 2,
                groups=config.pos_groups,
            )
        })  # fmt: skip
        self.layer_norm = nn.LayerNorm(config.width, eps=NORM_EPS)
        self.layers = nn.ModuleList(Layer(config) for _ in range(layers))

    def forward(self, z: Tensor, valid: Tensor) -> Tensor:
        """Runs all layers.

        Args:
            z: Projected frames ``(B, N, D)``, 0 where padded.
            valid: bool ``(B, N)``.

        Returns:
            ``(B, N, D)``.
        """
        z = self.begin(z)
        for layer in self.layers:
            z = layer(z, valid[:, None, None])
        return z

    def begin(self, z: Tensor) -> Tensor:
        """Gives the input of the first layer, ``(B, N, D)``."""
        # An even kernel with half of it as padding makes one frame too many: the last.
        position = self.pos_conv_embed["conv"](z.transpose(1, 2))[..., : z.shape[1]]
        return cast(Tensor, self.layer_norm(z + F.gelu(position).transpose(1, 2)))


class Layer(nn.Module):
    """One Transformer layer."""

    def __init__(self, config: HubertConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.attention = nn.ModuleDict(
            {f"{name}_proj": nn.Linear(width, width) for name in ("k", "v", "q", "out")}
        )
        self.layer_norm = nn.LayerNorm(width, eps=NORM_EPS)
        self.feed_forward = nn.ModuleDict({
            "intermediate_dense": nn.Linear(width, config.feed_forward),
            "output_dense": nn.Linear(config.feed_forward, width),
        })  # fmt: skip
        self.final_layer_norm = nn.LayerNorm(width, eps=NORM_EPS)

    def forward(self, z: Tensor, mask: Tensor) -> Tensor:
        """Turns ``(B, N, D)`` into the same; ``mask`` bool ``(B, 1, 1, N)`` tells what counts."""
        query, key, value = (
            self.attention[f"{name}_proj"](z).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name in "qkv"
        )
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        z = self.layer_norm(z + self.attention["out_proj"](attended.transpose(1, 2).flatten(2)))
        inner = F.gelu(self.feed_forward["intermediate_dense"](z))
        return cast(Tensor, self.final_layer_norm(z + self.feed_forward["output_dense"](inner)))


def frame_count(samples: Tensor) -> Tensor:
    """Frames of recordings: int64 samples of any shape, at least `MIN_SAMPLES`, to frames."""
    return (samples - MIN_SAMPLES).div(HOP_SAMPLES, rounding_mode="floor") + 1


def is_unused_entry(name: str, *, layers: int) -> bool:
    """Tells whether a published entry plays no part in the output of the first layers.

    Args:
        name: Of the Hub's file.
        layers: Transformer layers that are kept.
    """
    if name == "masked_spec_embed":
        return True
    found = re.match(r"encoder\.layers\.(\d+)\.", name)
    return found is not None and int(found[1]) >= layers
