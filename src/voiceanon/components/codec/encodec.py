"""The decoder of EnCodec at 24 kHz: codes of eight codebooks to a waveform.

Every convolution looks backwards only, so that what follows a frame does not change what is before
it. Written out here because the original package is not everywhere, and other ports decode one
recording at a time.

Sources: specification sheet of the codec language model, sections 1.2 and 2; Défossez et al., "High
Fidelity Neural Audio Compression", arXiv 2210.13438. Entries have the names of the Hub's file, with
weight norms folded (`voiceanon.components.weight_norm.fold_entries`) and without those that
`is_unused_entry` tells; `ORIGINAL_RENAMES` makes them of those in ``encodec_24khz-d7cc33bc.th``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.errors import ConfigError

SAMPLE_RATE = 24_000
"""Of the waveform, Hz."""

HOP_SAMPLES = 320
"""Samples per frame: the product of the strides."""

_NARROWING = 2
"""Each stage has half the channels of the one before, and so has the inside of its block."""


@dataclass(frozen=True, kw_only=True)
class EncodecConfig:
    """Sizes; the defaults are those of EnCodec at 24 kHz (section 2).

    Attributes:
        codebooks: That are decoded; the published network has 32, Bark uses 8.
        codebook_size: Codes of each.
        width: Values of a code's vector, D.
        channels: Behind the last stage; each stage before has twice as many.
        strides: Upsampling factor of each stage.
        kernel: Taps of the first and of the last convolution.
        residual_kernel: Taps of the first convolution of each residual block.
        lstm_layers: Of the recurrent part.

    Raises:
        ConfigError: The strides do not make 320 samples, or the first stage is too short for its
            block.
    """

    codebooks: int = 8
    codebook_size: int = 1024
    width: int = 128
    channels: int = 32
    strides: tuple[int, ...] = (8, 5, 4, 2)
    kernel: int = 7
    residual_kernel: int = 3
    lstm_layers: int = 2

    def __post_init__(self) -> None:
        """Checks what one frame has to give."""
        if math.prod(self.strides) != HOP_SAMPLES or self.strides[0] < self.residual_kernel:
            raise ConfigError(
                f"EnCodec: strides {self.strides} and a residual kernel of {self.residual_kernel}; "
                f"the product must be {HOP_SAMPLES}, and the first at least as long as the kernel."
            )

    @classmethod
    def from_published(cls, settings: Mapping[str, Any]) -> EncodecConfig:
        """Reads ``codec_config`` of Bark's ``config.json``; what it leaves out is official.

        Raises:
            ConfigError: The settings are those of another architecture.
        """
        for name, built in _FIXED.items():
            if settings.get(name, built) != built:
                raise ConfigError(
                    f"EnCodec: the setting {name!r} is {settings[name]!r}; only {built!r}, as at "
                    "24 kHz, is built here."
                )
        sizes = {field: settings[name] for field, name in _SIZES.items() if name in settings}
        if "strides" in sizes:
            sizes["strides"] = tuple(sizes["strides"])
        return cls(**sizes)


_SIZES = {
    "codebook_size": "codebook_size",
    "width": "hidden_size",
    "channels": "num_filters",
    "strides": "upsampling_ratios",
    "kernel": "kernel_size",
    "residual_kernel": "residual_kernel_size",
    "lstm_layers": "num_lstm_layers",
}
"""Our field: its name in the Hub's ``config.json``."""

_FIXED: dict[str, object] = {
    "sampling_rate": SAMPLE_RATE,
    "audio_channels": 1,
    "normalize": False,
    "chunk_length_s": None,
    "num_residual_layers": 1,
    "norm_type": "weight_norm",
    "use_causal_conv": True,
    "pad_mode": "reflect",
    "compress": _NARROWING,
    "trim_right_ratio": 1.0,
    "use_conv_shortcut": True,
}
"""Settings that choose the architecture, and the one value that is built. Dilations have no part,
since there is one residual layer."""


class EncodecDecoder(nn.Module):
    """Codes to waveforms. Computes in the type of its weights, under autocast too."""

    def __init__(self, config: EncodecConfig | None = None) -> None:
        """Builds the network with untrained weights.

        Args:
            config: EnCodec at 24 kHz if left out.
        """
        super().__init__()
        self.config = config = config or EncodecConfig()
        self.codebooks = nn.ModuleList(
            nn.Embedding(config.codebook_size, config.width) for _ in range(config.codebooks)
        )
        channels = config.channels * _NARROWING ** len(config.strides)
        layers: list[nn.Module] = [
            CausalConv(config.width, channels, config.kernel),
            ResidualLstm(channels, config.lstm_layers),
        ]
        for stride in config.strides:
            narrow = channels // _NARROWING
            layers += [
                nn.ELU(),
                CausalUpsampling(channels, narrow, stride),
                ResidualBlock(narrow, config.residual_kernel),
            ]
            channels = narrow
        layers += [nn.ELU(), CausalConv(channels, 1, config.kernel)]
        self.layers = nn.ModuleList(layers)

    def forward(self, codes: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Decodes a padded batch.

        Args:
            codes: int64 ``(B, K, T)``, each a valid code, in the padding too.
            lengths: Frames of each item, int64 ``(B,)``, at least 1.

        Returns:
            Waveforms ``(B, 320 T)`` at 24 kHz, full scale 1.0, zeros in the padding, and samples
            int64 ``(B,)``.
        """
        frames = torch.arange(codes.shape[2], device=codes.device)
        inside = frames < lengths[:, None]
        with torch.autocast(codes.device.type, enabled=False):
            # Where a recording is shorter than the first kernel, it is reflected with zeros behind.
            x = self.embed(codes).masked_fill(~inside[:, None], 0.0)
            for layer in self.layers:
                x = layer(x)
        samples = inside.repeat_interleave(HOP_SAMPLES, dim=1)
        return x[:, 0].masked_fill(~samples, 0.0), lengths * HOP_SAMPLES

    def embed(self, codes: Tensor) -> Tensor:
        """Sums the vectors of codes ``(B, K, T)``: ``(B, D, T)``."""
        first, *others = self.codebooks
        total = cast(Tensor, first(codes[:, 0]))
        for number, codebook in enumerate(others, start=1):
            total = total + codebook(codes[:, number])
        return total.transpose(1, 2)


class CausalConv(nn.Module):
    """Convolution that sees what is before, and the reflected beginning in front of it."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, inputs, T)`` into ``(B, outputs, T)``."""
        before = self.conv.kernel_size[0] - 1
        # A reflection needs one sample more than it makes.
        missing = max(0, before + 1 - x.shape[2]) if before else 0
        padded = F.pad(F.pad(x, (0, missing)), (before, 0), mode="reflect") if before else x
        return cast(Tensor, self.conv(padded))[..., : x.shape[2]]


class CausalUpsampling(nn.Module):
    """Transposed convolution with twice as many taps as its stride, cut at the end."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, 2 * stride, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, inputs, T)`` into ``(B, outputs, stride T)``."""
        return cast(Tensor, self.conv(x))[..., : x.shape[2] * self.conv.stride[0]]


class ResidualBlock(nn.Module):
    """Two convolutions beside one of one tap."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        inner = channels // _NARROWING
        self.block = nn.Sequential(
            nn.ELU(),
            CausalConv(channels, inner, kernel),
            nn.ELU(),
            CausalConv(inner, channels, 1),
        )
        self.shortcut = CausalConv(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, C, T)`` into the same."""
        return cast(Tensor, self.shortcut(x) + self.block(x))


class ResidualLstm(nn.Module):
    """Recurrent layers over time, added to their input."""

    def __init__(self, channels: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(channels, channels, layers, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, C, T)`` into the same."""
        steps = x.transpose(1, 2)
        return cast(Tensor, self.lstm(steps)[0] + steps).transpose(1, 2)


ORIGINAL_RENAMES: tuple[tuple[str, str], ...] = (
    (r"^decoder\.model\.", "decoder.layers."),
    (r"\.(?:conv\.conv|convtr\.convtr)\.", ".conv."),
    (r"^quantizer\.vq\.layers\.(\d+)\._codebook\.", r"quantizer.layers.\1.codebook."),
)
"""Patterns and replacements that turn the names of the original file into those of the Hub's
(section 1.2)."""

RENAMES: tuple[tuple[str, str], ...] = (
    (r"^decoder\.layers\.", "layers."),
    (r"^quantizer\.layers\.(\d+)\.codebook\.embed$", r"codebooks.\1.weight"),
)
"""From the Hub's names to those of `EncodecDecoder`."""


def is_unused_entry(name: str, codebooks: int = EncodecConfig.codebooks) -> bool:
    """Tells whether a published entry, in the Hub's form, plays no part in decoding.

    Args:
        name: Without the prefix ``codec_model.``.
        codebooks: That are decoded.
    """
    if name.startswith("encoder."):
        return True
    found = re.match(r"quantizer\.layers\.(\d+)\.codebook\.(\w+)$", name)
    return found is not None and (int(found[1]) >= codebooks or found[2] != "embed")
