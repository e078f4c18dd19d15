"""From normalised mel frames to a quarter as many encoder frames."""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.asr.branchformer.blocks import BranchformerBlock, EBranchformerBlock
from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
from voiceanon.components.asr.branchformer.layers import LayerNorm
from voiceanon.components.relative_attention import relative_positions


class Encoder(nn.Module):
    """Subsampling, blocks and a last LayerNorm."""

    def __init__(self, config: PhoneRecognizerConfig) -> None:
        """Builds the encoder."""
        super().__init__()
        block = BranchformerBlock if config.encoder == "branchformer" else EBranchformerBlock
        self.embed = Subsampling(config.mel_bins, config.width)
        self.encoders = nn.ModuleList(block(config) for _ in range(config.blocks))
        self.after_norm = LayerNorm(config.width)

    def forward(self, frames: Tensor, frame_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes.

        Args:
            frames: Normalised, float32 ``(B, N, mel_bins)``, finite.
            frame_lengths: Frames of each item, int64 ``(B,)``, at least `config.FEWEST_FRAMES`.

        Returns:
            float32 ``(B, T, D)``, one frame for four, and the frames of each item, int64 ``(B,)``.
            Rows after those have no meaning.
        """
        x = self.embed(frames)
        counts = subsampled_count(frame_lengths)
        valid = torch.arange(x.shape[1], device=x.device) < counts[:, None]
        positions = relative_positions(x.shape[1], x.shape[2], x)
        for block in self.encoders:
            x = block(x, positions, valid)
        return self.after_norm(x), counts


class Subsampling(nn.Module):
    """Two strided convolutions over time and bands, and a linear map.

    They need no mask: frames that count see no frame of the padding.
    """

    def __init__(self, mel_bins: int, width: int) -> None:
        """Builds the layers for ``mel_bins`` bands and D of ``width``."""
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2)
        )
        bands = ((mel_bins - 1) // 2 - 1) // 2
        # Dropout and positions follow the linear map in the published network, without entries.
        self.out = nn.Sequential(nn.Linear(width * bands, width))

    def forward(self, frames: Tensor) -> Tensor:
        """Turns ``(B, N, mel_bins)`` into float32 ``(B, T, D)``, scaled for the attention."""
        x = F.relu(self.conv(frames[:, None]))
        x = self.out(x.transpose(1, 2).flatten(2))
        return cast(Tensor, x.float() * math.sqrt(x.shape[-1]))


def subsampled_count(frames: Tensor) -> Tensor:
    """Encoder frames for ``frames`` mel frames, integers of any shape to the same."""
    return ((frames - 1) // 2 - 1) // 2
