"""Choice of a target vector that is not too much like the source: draw until one is.

Source: specification sheet of B3, section 5.
"""

from __future__ import annotations

import torch
from torch import Tensor

SIMILARITY_THRESHOLD = 0.7
"""Cosine similarity with the source from which on a drawn vector is rejected (section 5)."""

TRIES = 20
"""Vectors that are drawn at most; the last one is then used as it is (section 5)."""


def choose_dissimilar(
    sources: Tensor, stock: Tensor, candidates: Tensor, *, threshold: float = SIMILARITY_THRESHOLD
) -> Tensor:
    """Chooses for each source the first drawn vector that is not too much like it.

    Args:
        sources: Vectors of the source speakers, float32 ``(B, D)``.
        stock: Vectors to choose from, float32 ``(S, D)``, on the same device.
        candidates: What was drawn, in its order: places in the stock, int64 ``(B, K)``, with K
            at least 1, such as `TRIES`.
        threshold: Cosine similarity below which a vector is accepted.

    Returns:
        Places in the stock, int64 ``(B,)``: the first accepted one, or the last of all if none is.
    """
    counts = count_rejected(sources, stock, candidates, threshold=threshold)
    last = candidates.shape[1] - 1
    return candidates.gather(1, counts.clamp_max(last)[:, None]).squeeze(1)


def count_rejected(
    sources: Tensor, stock: Tensor, candidates: Tensor, *, threshold: float = SIMILARITY_THRESHOLD
) -> Tensor:
    """Counts the draws before the first accepted one; arguments as in `choose_dissimilar`.

    Returns:
        int64 ``(B,)``, 0 to K; K where none is accepted, as for a source that is all zeros.
    """
    drawn = stock[candidates]
    # No product of matrices: an item's similarities must not depend on the rest of the batch.
    products = (drawn * sources[:, None]).sum(-1)
    norms = torch.linalg.vector_norm(drawn, dim=-1) * torch.linalg.vector_norm(
        sources, dim=-1, keepdim=True
    )
    accepted: Tensor = products / norms < threshold
    return accepted.logical_not().long().cumprod(1).sum(1)
