"""What WavLM's published files say: sizes, names of entries, and how samples become frames.

Sources: settings `cfg` and entries `model` of the checkpoint WavLM-Large.pt; `config.json` and
entries of the repository `microsoft/wavlm-large` on the Hugging Face Hub, which hold the same
network under other names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from voiceanon.errors import ConfigError

CONV_KERNELS = (10, 3, 3, 3, 3, 2, 2)
"""Taps of the extractor's convolutions (`cfg.conv_feature_layers`)."""

CONV_STRIDES = (5, 2, 2, 2, 2, 2, 2)
"""Their strides (`cfg.conv_feature_layers`)."""

MIN_SAMPLES = 400
"""Samples (16 kHz) that one frame sees: the shortest input. Follows from kernels and strides."""

HOP_SAMPLES = 320
"""Samples between frames: the product of the strides."""

NORM_EPS = 1e-5
"""Epsilon of all LayerNorms (the default of `torch.nn.LayerNorm`, which the original keeps)."""

GATE_UNITS = 8
"""Outputs of the gate's linear map: two gates, each the sum of four (`grep_linear`)."""


@dataclass(frozen=True, kw_only=True)
class WavLMConfig:
    """Sizes of the network; the defaults are those of WavLM-Large.

    Attributes:
        conv_channels: Of the convolutional extractor (`cfg.conv_feature_layers`).
        width: Features of a frame in the Transformer, D (`cfg.encoder_embed_dim`).
        heads: Attention heads, H (`cfg.encoder_attention_heads`).
        ffn_width: Inner features of the feed-forward blocks (`cfg.encoder_ffn_embed_dim`).
        layers: Transformer layers of the published network (`cfg.encoder_layers`).
        pos_kernel: Frames that the positional convolution sees (`cfg.conv_pos`).
        pos_groups: Its groups (`cfg.conv_pos_groups`).
        buckets: Distances that the position bias tells apart (`cfg.num_buckets`).
        max_distance: Frames from which on all distances are one bucket (`cfg.max_distance`).
    """

    conv_channels: int = 512
    width: int = 1024
    heads: int = 16
    ffn_width: int = 4096
    layers: int = 24
    pos_kernel: int = 128
    pos_groups: int = 16
    buckets: int = 320
    max_distance: int = 800

    @classmethod
    def from_published(cls, settings: Mapping[str, Any]) -> WavLMConfig:
        """Reads the settings beside published weights.

        Args:
            settings: `cfg` of a checkpoint in the original form, or the Hub's `config.json`. What
                it leaves out is as in WavLM-Large.

        Raises:
            ConfigError: The settings are those of another architecture, such as WavLM-Base, whose
                extractor and order of norms differ.
        """
        for names, built in _FIXED.items():
            for name in names:
                if settings.get(name, built) != built:
                    raise ConfigError(
                        f"WavLM: the setting {name!r} is {settings[name]!r}; only {built!r}, as in "
                        "WavLM-Large, is built here. Use WavLM-Large."
                    )
        sizes = {
            field: int(settings[name])
            for field, names in _SIZES.items()
            for name in names
            if name in settings
        }
        channels, kernels, strides = _conv_layers(settings)
        if len(set(channels)) > 1 or kernels != CONV_KERNELS or strides != CONV_STRIDES:
            raise ConfigError(
                f"WavLM: the extractor has channels {channels}, kernels {kernels} and strides "
                f"{strides}; equal channels, kernels {CONV_KERNELS} and strides {CONV_STRIDES} are "
                "built here. Use WavLM-Large."
            )
        return cls(conv_channels=channels[0], **sizes)


_SIZES = {
    "width": ("encoder_embed_dim", "hidden_size"),
    "heads": ("encoder_attention_heads", "num_attention_heads"),
    "ffn_width": ("encoder_ffn_embed_dim", "intermediate_size"),
    "layers": ("encoder_layers", "num_hidden_layers"),
    "pos_kernel": ("conv_pos", "num_conv_pos_embeddings"),
    "pos_groups": ("conv_pos_groups", "num_conv_pos_embedding_groups"),
    "buckets": ("num_buckets",),
    "max_distance": ("max_distance", "max_bucket_distance"),
}
"""Our field: its names in `cfg` and in the Hub's `config.json`."""

_FIXED: dict[tuple[str, ...], object] = {
    ("extractor_mode",): "layer_norm",
    ("feat_extract_norm",): "layer",
    ("layer_norm_first", "do_stable_layer_norm"): True,
    ("relative_position_embedding", "gru_rel_pos"): True,
    ("conv_bias",): False,
    ("activation_fn", "hidden_act", "feat_extract_activation"): "gelu",
}
"""Settings, in either form, that choose the architecture: their names and the one value built."""


def _conv_layers(settings: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Channels, kernels and strides of the extractor."""
    if "conv_feature_layers" in settings:
        # The original writes "[(512,10,5)] + [(512,3,2)] * 4 + [(512,2,2)] * 2".
        terms = re.findall(
            r"\[\((\d+), *(\d+), *(\d+)\)\](?: *\* *(\d+))?", settings["conv_feature_layers"]
        )
        rows = [tuple(map(int, term[:3])) for term in terms for _ in range(int(term[3] or 1))]
        channels, kernels, strides = zip(*rows, strict=True) if rows else ((), (), ())
        return channels, kernels, strides
    default = (WavLMConfig.conv_channels,) * len(CONV_KERNELS)
    return (
        tuple(settings.get("conv_dim", default)),
        tuple(settings.get("conv_kernel", CONV_KERNELS)),
        tuple(settings.get("conv_stride", CONV_STRIDES)),
    )


def frame_count(samples: Tensor) -> Tensor:
    """Frames of recordings: int64 samples of any shape, at least `MIN_SAMPLES`, to frames."""
    return (samples - MIN_SAMPLES).div(HOP_SAMPLES, rounding_mode="floor") + 1


def is_unused_entry(name: str, *, layers: int) -> bool:
    """Tells whether a published entry plays no part in the hidden states of the first layers.

    Args:
        name: In the original form.
        layers: Transformer layers that are kept.
    """
    if name == "mask_emb" or name.startswith("encoder.layer_norm."):
        return True
    found = re.match(r"encoder\.layers\.(\d+)\.", name)
    return found is not None and int(found[1]) >= layers


HUB_RENAMES: tuple[tuple[str, str], ...] = (
    (r"^masked_spec_embed$", r"mask_emb"),
    (r"^feature_extractor\.conv_layers\.(\d+)\.conv\.", r"feature_extractor.conv_layers.\1.0."),
    (
        r"^feature_extractor\.conv_layers\.(\d+)\.layer_norm\.",
        r"feature_extractor.conv_layers.\1.2.1.",
    ),
    (r"^feature_projection\.layer_norm\.", r"layer_norm."),
    (r"^feature_projection\.projection\.", r"post_extract_proj."),
    (r"^encoder\.pos_conv_embed\.conv\.", r"encoder.pos_conv.0."),
    (
        r"^encoder\.layers\.(\d+)\.attention\.([qkv]|out)_proj\.",
        r"encoder.layers.\1.self_attn.\2_proj.",
    ),
    (
        r"^encoder\.layers\.(\d+)\.attention\.gru_rel_pos_linear\.",
        r"encoder.layers.\1.self_attn.grep_linear.",
    ),
    (
        r"^encoder\.layers\.(\d+)\.attention\.gru_rel_pos_const$",
        r"encoder.layers.\1.self_attn.grep_a",
    ),
    (
        r"^encoder\.layers\.(\d+)\.attention\.rel_attn_embed\.",
        r"encoder.layers.\1.self_attn.relative_attention_bias.",
    ),
    (r"^encoder\.layers\.(\d+)\.layer_norm\.", r"encoder.layers.\1.self_attn_layer_norm."),
    (r"^encoder\.layers\.(\d+)\.feed_forward\.intermediate_dense\.", r"encoder.layers.\1.fc1."),
    (r"^encoder\.layers\.(\d+)\.feed_forward\.output_dense\.", r"encoder.layers.\1.fc2."),
)
"""Patterns and replacements that turn the Hub's names of entries into the original ones. At most
one pattern fits a name, so that their order does not matter; a name that none fits stays."""
