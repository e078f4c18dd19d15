"""wav2vec 2.0 large: the last hidden state in front of the encoder's final LayerNorm.

Sources: specification sheet of B5 and B6, section 4; Baevski et al., "wav2vec 2.0", NeurIPS 2020.
The layers are those of transformers. They are called one by one: what the whole model returns as
its last hidden state differs from version to version, and some versions draw random numbers.

The waveform goes in as it is. Although the network was trained on waveforms of mean 0 and variance
1, B5 does not normalise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from voiceanon.components.content.wavlm_config import (
    CONV_KERNELS,
    CONV_STRIDES,
    NORM_EPS,
    frame_count,
)
from voiceanon.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Wav2Vec2Sizes:
    """Sizes of the network; the defaults are those of wav2vec 2.0 large (section 4).

    Kernels and strides of the extractor are WavLM's, and so are the frames.

    Attributes:
        conv_channels: Of the convolutional extractor.
        width: Features of a frame in the Transformer, D.
        heads: Attention heads.
        feed_forward: Inner features of the feed-forward blocks.
        layers: Transformer layers.
        pos_kernel: Frames that the positional convolution sees.
        pos_groups: Its groups.
    """

    conv_channels: int = 512
    width: int = 1024
    heads: int = 16
    feed_forward: int = 4096
    layers: int = 24
    pos_kernel: int = 128
    pos_groups: int = 16

    def __post_init__(self) -> None:
        """Checks what can be divided.

        Raises:
            ConfigError: The width is no multiple of heads or groups.
        """
        for name, parts in (("heads", self.heads), ("groups", self.pos_groups)):
            if parts < 1 or self.width % parts:
                raise ConfigError(
                    f"wav2vec 2.0: width {self.width} cannot be divided by {parts} {name}; "
                    "official are 1024, 16 and 16."
                )


class Wav2Vec2(nn.Module):
    """The part of wav2vec 2.0 that leads to the last hidden state.

    Entries have the names of transformers' `Wav2Vec2Model`, with the weight norm of the positional
    convolution folded (`voiceanon.components.weight_norm.fold_entries`); `TORCHAUDIO_RENAMES`
    makes them of the published ones.

    Runs in float32 or under autocast; the sums over layers stay in float32. There is neither
    dropout nor masking, in training mode either.
    """

    def __init__(self, sizes: Wav2Vec2Sizes | None = None) -> None:
        """Builds the network with untrained weights.

        Args:
            sizes: wav2vec 2.0 large if left out.
        """
        super().__init__()
        # Slow to import, and of no use to those who have no wav2vec 2.0.
        from transformers import Wav2Vec2Config, Wav2Vec2Model

        self.sizes = sizes or Wav2Vec2Sizes()
        model = Wav2Vec2Model(
            Wav2Vec2Config(
                hidden_size=self.sizes.width,
                num_hidden_layers=self.sizes.layers,
                num_attention_heads=self.sizes.heads,
                intermediate_size=self.sizes.feed_forward,
                conv_dim=(self.sizes.conv_channels,) * len(CONV_KERNELS),
                conv_kernel=CONV_KERNELS,
                conv_stride=CONV_STRIDES,
                conv_bias=True,
                feat_extract_norm="layer",
                do_stable_layer_norm=True,
                layer_norm_eps=NORM_EPS,
                num_conv_pos_embeddings=self.sizes.pos_kernel,
                num_conv_pos_embedding_groups=self.sizes.pos_groups,
                **_SETTINGS,
            )
        )
        self.feature_extractor = model.feature_extractor
        self.feature_projection = model.feature_projection
        position = model.encoder.pos_conv_embed
        # The same convolution with a plain weight.
        position.conv = nn.Conv1d(
            self.sizes.width,
            self.sizes.width,
            self.sizes.pos_kernel,
            padding=self.sizes.pos_kernel // 2,
            groups=self.sizes.pos_groups,
        )
        # Without the final LayerNorm, which nothing here needs.
        self.encoder = nn.ModuleDict({"pos_conv_embed": position, "layers": model.encoder.layers})

    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Gives the output of the last layer.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0, not normalised. The values in the
                padding do not matter.
            lengths: Samples of each recording, int64 ``(B,)``, 400 to T. The caller guarantees the
                lower bound.

        Returns:
            Features float32 ``(B, N, D)``, one frame every 320 samples, and the frames of each
            recording, int64 ``(B,)``. Rows after those are finite and have no meaning. A
            recording's own rows do not depend on the rest of the batch.
        """
        frame_lengths = frame_count(lengths)
        # Frames that count see no sample of the padding, and the LayerNorms are those of frames.
        frames = self.feature_extractor(wav).transpose(1, 2)
        projected = cast(Tensor, self.feature_projection(frames)[0]).float()
        steps = torch.arange(frames.shape[1], device=wav.device)
        valid = steps < frame_lengths[:, None]
        # The positional convolution sees zeros behind a recording that is alone, too.
        z = projected.masked_fill(~valid[..., None], 0.0)
        z = z + self.encoder["pos_conv_embed"](z)
        mask = valid[:, None, None]
        for layer in cast(nn.ModuleList, self.encoder["layers"]):
            result = layer(z, attention_mask=mask)
            # Before 5.0, layers return tuples.
            z = result[0] if isinstance(result, tuple) else result
        return z, frame_lengths


_SETTINGS: dict[str, Any] = {
    "attn_implementation": "sdpa",
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "feat_proj_dropout": 0.0,
    # Without masks there is no entry `masked_spec_embed` either.
    "mask_time_prob": 0.0,
    "mask_feature_prob": 0.0,
}
"""Settings of transformers beside the sizes: how attention computes, and nothing at random."""

TORCHAUDIO_RENAMES: tuple[tuple[str, str], ...] = (
    (r"(^|\.)encoder\.feature_projection\.", r"\1feature_projection."),
    (r"(^|\.)encoder\.transformer\.", r"\1encoder."),
)
"""Patterns and replacements that turn the names of torchaudio's `Wav2Vec2Model`, which published
files bear, into those of `Wav2Vec2`, behind any prefix. At most one pattern fits a name, so that
their order does not matter; a name that none fits stays."""
