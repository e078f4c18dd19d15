"""HiFi-GAN generators: one class for every published size.

All convolutions carry plain weights; files with weight norm are folded before they are loaded.
Parameters stay float32: lower precision comes from autocast, and what follows the last residual
block is computed in float32 under autocast, too.

Sources: specification sheets of kNN-VC (section 4), of B5 and B6 (section 9), of B3 (section 12),
and of the other systems that share the architecture (section 6.5 of the survey). Architecture:
Kong et al., "HiFi-GAN", NeurIPS 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.errors import ConfigError

OUTER_KERNEL = 7
"""Taps of the first and of the last convolution, in every published file."""

B3_RENAMES: tuple[tuple[str, str], ...] = (
    (r"^input_conv\.", "conv_pre."),
    (r"^upsamples\.(\d+)\.1\.", r"ups.\1."),
    (r"^blocks\.(\d+)\.convs([12])\.(\d+)\.1\.", r"resblocks.\1.convs\2.\3."),
    (r"^output_conv\.1\.", "conv_post."),
)
"""Patterns and replacements that turn the names of B3's vocoder file, which number the activations
inside sequences, into those of `HiFiGan`; all other published files bear them already."""


@dataclass(frozen=True, kw_only=True)
class HiFiGanConfig:
    """Sizes of a generator.

    Attributes:
        input_width: Features per frame.
        strides: Upsampling factor of each stage; their product is the samples per frame.
        kernels: Taps of each stage's transposed convolution.
        linear_width: Width behind a linear layer in front of everything (``lin_pre``, kNN-VC), or
            ``None`` for no such layer.
        first_width: Channels behind the first convolution; each stage halves them.
        residual_kernels: Taps of the residual blocks that stand side by side in each stage.
        residual_dilations: Dilations of the rounds of each residual block.
        condition_width: Width of one vector per item that is added behind the first convolution
            through a convolution of one tap (``cond``, FreeVC), or ``None``.
        slope: Of the leaky ReLUs, but for the last.
        last_slope: Of the leaky ReLU before the last convolution; BM1 has 0.1.
        last_bias: Whether the last convolution has a bias; FreeVC's has none.
        reflect_start: Whether one reflected sample is put in front of the last convolution, so that
            the waveform is one sample longer (B5, B6).

    Raises:
        ConfigError: The sizes do not fit together.
    """

    input_width: int
    strides: tuple[int, ...]
    kernels: tuple[int, ...]
    linear_width: int | None = None
    first_width: int = 512
    residual_kernels: tuple[int, ...] = (3, 7, 11)
    residual_dilations: tuple[int, ...] = (1, 3, 5)
    condition_width: int | None = None
    slope: float = 0.1
    last_slope: float = 0.01
    last_bias: bool = True
    reflect_start: bool = False

    def __post_init__(self) -> None:
        """Checks what would otherwise give a waveform of another length."""
        if len(self.strides) != len(self.kernels):
            raise ConfigError(
                f"HiFi-GAN: {len(self.strides)} strides and {len(self.kernels)} kernels; each "
                "stage has one of both."
            )
        for stride, kernel in zip(self.strides, self.kernels, strict=True):
            if kernel < stride or (kernel - stride) % 2:
                raise ConfigError(
                    f"HiFi-GAN: kernel {kernel} over stride {stride}; their difference must be "
                    "even and not negative, so that a stage gives exactly stride samples per step."
                )
        if any(kernel % 2 == 0 for kernel in self.residual_kernels):
            raise ConfigError(f"HiFi-GAN: residual kernels {self.residual_kernels} must be odd.")
        if self.first_width % 2 ** len(self.strides):
            raise ConfigError(
                f"HiFi-GAN: first width {self.first_width} cannot be halved in each of "
                f"{len(self.strides)} stages."
            )

    @property
    def hop_samples(self) -> int:
        """Samples per frame."""
        return math.prod(self.strides)

    @property
    def context_samples(self) -> tuple[int, int]:
        """First sample that a frame reaches, and the one behind the last, from its own first.

        The first is negative; waveforms longer by a reflected sample are counted without it.
        """
        side = OUTER_KERNEL // 2
        first, last = -side, side
        block = max(
            (kernel - 1) // 2 * (sum(self.residual_dilations) + len(self.residual_dilations))
            for kernel in self.residual_kernels
        )
        for stride, kernel in zip(self.strides, self.kernels, strict=True):
            padding = (kernel - stride) // 2
            first = first * stride - padding - block
            last = last * stride - padding + kernel - 1 + block
        return first - side, last + side + 1


class HiFiGan(nn.Module):
    """Features to waveform; entries bear the published names (B3's after `B3_RENAMES`)."""

    def __init__(self, config: HiFiGanConfig) -> None:
        super().__init__()
        self.config = config
        width = config.input_width
        self.lin_pre: nn.Linear | None = None
        if config.linear_width is not None:
            self.lin_pre = nn.Linear(width, config.linear_width)
            width = config.linear_width
        channels = config.first_width
        side = OUTER_KERNEL // 2
        self.conv_pre = nn.Conv1d(width, channels, OUTER_KERNEL, padding=side)
        self.cond: nn.Conv1d | None = None
        if config.condition_width is not None:
            self.cond = nn.Conv1d(config.condition_width, channels, 1)
        self.ups = nn.ModuleList()
        self.resblocks = nn.ModuleList()
        for stride, kernel in zip(config.strides, config.kernels, strict=True):
            padding = (kernel - stride) // 2
            self.ups.append(
                nn.ConvTranspose1d(channels, channels // 2, kernel, stride, padding=padding)
            )
            channels //= 2
            for residual_kernel in config.residual_kernels:
                self.resblocks.append(_ResidualBlock(channels, residual_kernel, config))
        self.conv_post = nn.Conv1d(channels, 1, OUTER_KERNEL, padding=side, bias=config.last_bias)

    def forward(
        self, features: Tensor, lengths: Tensor, condition: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Generates waveforms; a padded batch gives what its items give one by one.

        Args:
            features: ``(B, N, D)``, time before width; what lies behind an item's length is not
                looked at.
            lengths: int64 ``(B,)`` in frames, each at least 1.
            condition: ``(B, condition_width)`` where the configuration has one.

        Returns:
            float32 ``(B, T)``, full scale 1.0, zero behind each item, and int64 lengths ``(B,)`` in
            samples. ``T`` is ``N * hop_samples``, with ``reflect_start`` one more.
        """
        config = self.config
        padding = _Padding(lengths, features.shape[1])
        x = features if self.lin_pre is None else self.lin_pre(features)
        x = self.conv_pre(padding.clear(x.transpose(1, 2)))
        if self.cond is not None:
            if condition is None:
                raise ConfigError("HiFi-GAN: this generator needs a condition for each item.")
            x = x + self.cond(condition[:, :, None])
        x = padding.clear_(x)
        blocks = len(config.residual_kernels)
        for stage, (stride, upsample) in enumerate(zip(config.strides, self.ups, strict=True)):
            x = upsample(F.leaky_relu(x, config.slope))
            padding = padding.upsampled(stride)
            x = padding.clear_(x)
            first, *others = self.resblocks[stage * blocks : (stage + 1) * blocks]
            total = first(x, padding)
            for block in others:
                total = total + block(x, padding)
            x = total / blocks
        x = F.leaky_relu(x, config.last_slope)
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            if config.reflect_start:
                x = F.pad(x, (1, 0), mode="reflect")
                padding = padding.longer(1)
            wav = torch.tanh(padding.clear_(self.conv_post(x)))
        return wav.squeeze(1), padding.lengths


class _ResidualBlock(nn.Module):
    """Rounds of a dilated and a plain convolution, each round added to its input."""

    def __init__(self, channels: int, kernel: int, config: HiFiGanConfig) -> None:
        super().__init__()
        self._slope = config.slope
        side = kernel // 2
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=side * dilation, dilation=dilation)
            for dilation in config.residual_dilations
        )
        self.convs2 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=side) for _ in config.residual_dilations
        )

    def forward(self, x: Tensor, padding: _Padding) -> Tensor:
        """``(B, C, T)`` to the same; expects and leaves zeros behind each item."""
        for dilated, plain in zip(self.convs1, self.convs2, strict=True):
            y = padding.clear_(dilated(F.leaky_relu(x, self._slope)))
            y = padding.clear_(plain(F.leaky_relu(y, self._slope, inplace=True)))
            x = x + y
        return x


class _Padding:
    """What lies behind each item of a batch at one stage.

    A single item is padded with zeros by each convolution; so an item of a batch must have zeros
    behind it in front of each convolution, not what the one before made of them. Only columns from
    the shortest item's end on are touched, which in batches of similar lengths are few.
    """

    def __init__(self, lengths: Tensor, size: int, shortest: int | None = None) -> None:
        self.lengths = lengths
        self._size = size
        # The one value that the host has to wait for.
        self._shortest = int(lengths.min()) if shortest is None else shortest
        columns = torch.arange(self._shortest, size, device=lengths.device)
        self._behind = columns >= lengths[:, None, None]

    def upsampled(self, stride: int) -> _Padding:
        """The same batch with ``stride`` columns for each of these."""
        return _Padding(self.lengths * stride, self._size * stride, self._shortest * stride)

    def longer(self, columns: int) -> _Padding:
        """The same batch with every item longer by ``columns``."""
        return _Padding(self.lengths + columns, self._size + columns, self._shortest + columns)

    def clear(self, x: Tensor) -> Tensor:
        """``(B, C, T)`` with zeros behind each item; the given tensor stays as it is."""
        return self.clear_(x.clone()) if self._shortest < self._size else x

    def clear_(self, x: Tensor) -> Tensor:
        """As `clear`, in place."""
        if self._shortest < self._size:
            x[..., self._shortest :].masked_fill_(self._behind, 0)
        return x
