"""k-means: centroids that stand for the vectors of a pool.

Sources: Lloyd, "Least squares quantization in PCM", 1982; first centroids as in Arthur,
Vassilvitskii, "k-means++", 2007.
"""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.errors import ConfigError

CENTROIDS = 500
"""Of a pool (T30-1; specification sheet of B3, section 14)."""

MAX_ROUNDS = 100
"""Rounds after which the centroids are taken as they are, if they still move (ours)."""

_BLOCK = 8192
"""Vectors whose distances to all centroids are held at once: 16 MiB for 500 centroids."""


def kmeans(
    vectors: Tensor, count: int, generator: torch.Generator, *, max_rounds: int = MAX_ROUNDS
) -> Tensor:
    """Finds the centroids of clusters.

    Args:
        vectors: float32 ``(P, D)``, on the CPU, where sums have one order and the result is always
            the same; P at least 1.
        count: Clusters, 1 or more; a pool of fewer vectors gives as many as it has.
        generator: Of the CPU; gives ``min(count, P)`` numbers.
        max_rounds: Most rounds; it ends earlier when no vector changes its cluster.

    Returns:
        float32 ``(min(count, P), D)``; a cluster that lost all its vectors keeps its centroid.

    Raises:
        ConfigError: No vector, or no cluster.
    """
    if vectors.ndim != 2 or len(vectors) == 0 or count < 1:
        raise ConfigError(
            f"k-means: vectors of shape {tuple(vectors.shape)} in {count} clusters; (vectors, "
            "values) with at least one vector, and at least one cluster, are due."
        )
    centroids = _first_centroids(vectors, min(count, len(vectors)), generator)
    clusters = _nearest_centroid(vectors, centroids)
    for _ in range(max_rounds):
        sums = torch.zeros_like(centroids).index_add_(0, clusters, vectors)
        sizes = torch.bincount(clusters, minlength=len(centroids))[:, None]
        centroids = torch.where(sizes > 0, sums / sizes.clamp_min(1), centroids)
        moved = _nearest_centroid(vectors, centroids)
        if torch.equal(moved, clusters):
            break
        clusters = moved
    return centroids


def _first_centroids(vectors: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws vectors, each with a chance that grows with its squared distance to those drawn."""
    draws = torch.rand(count, generator=generator, dtype=torch.float64, device="cpu")
    weights = vectors.new_ones(len(vectors), dtype=torch.float64)
    chosen: list[Tensor] = []
    for draw in draws:
        shares = weights.cumsum(0)
        place = torch.searchsorted(shares, draw * shares[-1], right=True).clamp_max(len(shares) - 1)
        chosen.append(vectors[place])
        distances = (vectors - chosen[-1]).square().sum(1, dtype=torch.float64)
        weights = distances if len(chosen) == 1 else torch.minimum(weights, distances)
    return torch.stack(chosen)


def _nearest_centroid(vectors: Tensor, centroids: Tensor) -> Tensor:
    """Cluster of each vector, int64 ``(P,)``; of equal distances the first."""
    norms = centroids.square().sum(1)
    return torch.cat(
        [(norms - 2 * (part @ centroids.T)).argmin(1) for part in torch.split(vectors, _BLOCK)]
    )
