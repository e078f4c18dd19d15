"""Vector quantiser: every vector becomes the nearest row of a codebook.

Sources: specification sheet of B5 and B6, section 5; van den Oord et al., "Neural Discrete
Representation Learning", NeurIPS 2017 (arXiv 1711.00937).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class VectorQuantiser(nn.Module):
    """Nearest neighbours in a codebook, whose entry has the published name.

    Distances are computed in float32, under autocast, too: half precision would change codes.
    """

    def __init__(self, codes: int, width: int) -> None:
        """Makes a codebook of ``codes`` rows of ``width`` values."""
        super().__init__()
        self._embedding = nn.Embedding(codes, width)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Quantises.

        Args:
            z: float32 ``(B, N, D)``.

        Returns:
            Rows of the codebook, float32 ``(B, N, D)``, and their indices, int64 ``(B, N)``; of
            equally near rows the one with the smallest index. A vector that is not finite gives
            NaN, and some index.
        """
        codebook = self._embedding.weight
        with torch.autocast(z.device.type, enabled=False):
            # As published, with the square of z: it does not change the order, but the rounding.
            distances = z.square().sum(-1, keepdim=True) + codebook.square().sum(1)
            distances = distances - 2 * (z @ codebook.T)
        codes = distances.argmin(-1)
        # Any row would be "nearest" to a vector that is not finite, and hide that it went wrong.
        broken = distances.isnan().any(-1, keepdim=True)
        return F.embedding(codes, codebook).masked_fill(broken, torch.nan), codes
