"""Group normalisation over the frames that belong to an item.

`torch.nn.GroupNorm` takes its statistics over a whole row, so that the padding of a batch changes
them. Source: specification sheet of the family, section "Speed".
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

EPS = 1e-5
"""Default of `torch.nn.GroupNorm`, which the published code uses."""


class MaskedGroupNorm(nn.Module):
    """Normalises groups of channels with the mean and the biased variance of an item's frames."""

    def __init__(self, groups: int, channels: int) -> None:
        """Builds the scale and the shift.

        Args:
            groups: Of neighbouring channels.
            channels: A multiple of ``groups``.
        """
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Normalises.

        Args:
            x: ``(B, C, T)``. Values in the padding do not matter.
            valid: Frames that belong to an item, bool ``(B, T)``.

        Returns:
            float32 ``(B, C, T)``, with zeros in the padding.
        """
        mask = valid[:, None, None]
        with torch.autocast(x.device.type, enabled=False):
            kept = x.float().masked_fill(~valid[:, None], 0.0)
            groups = kept.reshape(len(x), self.groups, -1, x.shape[2])
            values = (valid.sum(1) * groups.shape[2]).clamp_min(1)[:, None, None, None]
            mean = groups.sum((2, 3), keepdim=True) / values
            centred = (groups - mean) * mask
            variance = centred.square().sum((2, 3), keepdim=True) / values
            normal = (centred * torch.rsqrt(variance + EPS)).flatten(1, 2)
            scaled: Tensor = normal * self.weight[:, None] + self.bias[:, None] * valid[:, None]
            return scaled
