"""Post-net: convolutions that refine a spectrogram.

Source: specification sheet of the family, section 11; entry names are those of the published file.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from voiceanon.components.acoustic.fastspeech2.config import LAST_GROUPS, FastSpeech2Config
from voiceanon.components.masked_group_norm import MaskedGroupNorm


class PostNet(nn.Module):
    """What is to be added to the spectrogram."""

    def __init__(self, config: FastSpeech2Config) -> None:
        super().__init__()
        last = config.post_layers - 1
        widths = [config.bands, *[config.post_width] * last, config.bands]
        kernel = config.post_kernel
        self.postnet = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.Conv1d(
                        widths[layer], widths[layer + 1], kernel, padding=kernel // 2, bias=False
                    ),
                    MaskedGroupNorm(
                        LAST_GROUPS if layer == last else config.groups, widths[layer + 1]
                    ),
                ]
            )
            for layer in range(config.post_layers)
        )

    def forward(self, mel: Tensor, valid: Tensor) -> Tensor:
        """Gives the refinement.

        Args:
            mel: ``(B, F, bands)`` with zeros in the padding.
            valid: Frames that belong to an item, bool ``(B, F)``.

        Returns:
            float32 ``(B, F, bands)``, zero in the padding.
        """
        x = mel.transpose(1, 2)
        for number, layer in enumerate(self.postnet):
            convolution, norm = cast(nn.ModuleList, layer)
            x = norm(convolution(x), valid)
            if number + 1 < len(self.postnet):
                x = torch.tanh(x)
        return x.transpose(1, 2)
