"""Target vectors made from the vectors of a pool that are least like the source.

No code of the systems that choose so is public: what is written below follows their descriptions
(specification sheet of B3, section 14), and numbers that those leave open are marked.
"""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.components.selection.neighbours import PreparedPool, nearest


def farthest(sources: Tensor, pool: PreparedPool, count: int) -> Tensor:
    """Finds the vectors of a pool with the largest cosine distance to each source.

    Args:
        sources: float32 ``(B, D)``, on the pool's device.
        pool: Only what may be chosen, such as the speakers of one sex; P vectors, at least one.
        count: Vectors per source; a smaller pool gives as many as it has.

    Returns:
        int64 ``(B, min(count, P))``, farthest first; of equal ones the one that comes first in the
        pool. An item's do not depend on the rest of the batch.

    Raises:
        ConfigError: ``count`` is below 1, or sources and pool do not fit together.
    """
    # What is farthest from a vector is nearest to its opposite.
    places, _ = nearest(-sources, pool, count)
    return places


def mix_dimensions(vectors: Tensor, others: Tensor, replaced: Tensor) -> Tensor:
    """Replaces some values of vectors by those of others (T30-1).

    Args:
        vectors: ``(B, D)``.
        others: ``(B, D)``, such as centroids of `voiceanon.components.selection.kmeans`.
        replaced: Where, bool ``(B, D)``.

    Returns:
        ``(B, D)``.
    """
    return torch.where(replaced, others, vectors)


def draw_dimensions(width: int, count: int, generator: torch.Generator) -> Tensor:
    """Draws which values `mix_dimensions` replaces: ``count`` of ``width``, bool ``(width,)``.

    The generator is one of the CPU and gives one permutation.
    """
    replaced = torch.zeros(width, dtype=torch.bool, device="cpu")
    replaced[torch.randperm(width, generator=generator, device="cpu")[:count]] = True
    return replaced
