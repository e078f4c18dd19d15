"""VITS's decoder: the shared HiFi-GAN, also with the lighter residual blocks of small Piper voices.

Source: Kong et al. 2020, "HiFi-GAN" (residual blocks of both kinds); sizes in `vits_config`.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.tts.vits_config import VitsConfig
from voiceanon.components.vocoder.hifigan import HiFiGan

RENAMES: tuple[tuple[str, str], ...] = ((r"^decoder\.upsampler\.", "decoder.ups."),)
"""Patterns and replacements from transformers' names to those of `HiFiGan`."""


class VitsDecoder(HiFiGan):
    """Acoustic frames to waveform."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds the stages."""
        sizes = config.decoder
        super().__init__(sizes.hifigan(config.flow_width, config.speaker_width))
        if not sizes.paired:
            self.resblocks = nn.ModuleList(
                _SingleBlock(sizes.first_width >> (stage + 1), kernel, dilations, sizes.slope)
                for stage in range(len(sizes.strides))
                for kernel, dilations in zip(
                    sizes.residual_kernels, sizes.residual_dilations, strict=True
                )
            )


class _SingleBlock(nn.Module):
    """Dilated convolutions, each added to its input."""

    def __init__(
        self, channels: int, kernel: int, dilations: tuple[int, ...], slope: float
    ) -> None:
        super().__init__()
        self._slope = slope
        self.convs = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=kernel // 2 * d, dilation=d)
            for d in dilations
        )

    def forward(self, x: Tensor, padding: Any) -> Tensor:
        """``(B, C, T)`` to the same; expects and leaves zeros behind each item."""
        for conv in self.convs:
            x = x + padding.clear_(conv(F.leaky_relu(x, self._slope)))
        return x
