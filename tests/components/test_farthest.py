"""Vectors far from the source: against a plain ranking, mixing, k-means."""

import pytest
import torch

from voiceanon.components.selection.farthest import (
    draw_dimensions,
    farthest,
    mix_dimensions,
)
from voiceanon.components.selection.kmeans import kmeans
from voiceanon.components.selection.neighbours import PreparedPool
from voiceanon.errors import ConfigError


@pytest.fixture(scope="module")
def vectors():
    return torch.randn(700, 128, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def sources():
    return torch.randn(4, 128, generator=torch.Generator().manual_seed(1))


def ranking(sources, vectors):
    cosines = torch.cosine_similarity(sources.double()[:, None], vectors.double()[None], dim=2)
    return cosines.argsort(dim=1)


def test_farthest(sources, vectors):
    places = farthest(sources, PreparedPool.prepare(vectors), 200)
    assert torch.equal(places, ranking(sources, vectors)[:, :200])


def test_farthest_of_a_small_pool(sources, vectors):
    places = farthest(sources, PreparedPool.prepare(vectors[:3]), 200)
    assert torch.equal(places, ranking(sources, vectors[:3]))


def test_mixing(sources, vectors):
    replaced = torch.stack(
        [draw_dimensions(128, 40, torch.Generator().manual_seed(i)) for i in range(4)]
    )
    assert replaced.sum(1).tolist() == [40] * 4
    assert not torch.equal(replaced[0], replaced[1])
    mixed = mix_dimensions(sources, vectors[:4], replaced)
    assert torch.equal(mixed[replaced], vectors[:4][replaced])
    assert torch.equal(mixed[~replaced], sources[~replaced])


# k-means.


def clustered(count, spread=0.01):
    generator = torch.Generator().manual_seed(3)
    centres = torch.randn(count, 16, generator=generator)
    noise = torch.randn(count, 50, 16, generator=generator)
    return centres, (centres[:, None] + spread * noise).flatten(0, 1)


def test_clear_clusters_are_found():
    centres, points = clustered(20)
    found = kmeans(points, 20, torch.Generator().manual_seed(0))
    distances = torch.cdist(centres, found)
    assert distances.min(1).values.max() < 0.05
    assert distances.argmin(1).unique().numel() == 20


def test_result_is_where_the_rounds_end(vectors):
    generator = torch.Generator().manual_seed(0)
    found = kmeans(vectors, 30, generator)
    assert torch.equal(found, kmeans(vectors, 30, torch.Generator().manual_seed(0)))
    assert not torch.equal(found, kmeans(vectors, 30, generator))
    clusters = torch.cdist(vectors, found).argmin(1)
    for i in range(30):
        assert torch.allclose(vectors[clusters == i].mean(0), found[i], atol=1e-5)


def spread(vectors, centroids):
    return torch.cdist(vectors, centroids).min(1).values.square().mean()


def test_rounds_lower_the_spread(vectors):
    first = kmeans(vectors, 30, torch.Generator().manual_seed(0), max_rounds=0)
    assert (first[:, None] == vectors).all(2).any(1).all()
    found = kmeans(vectors, 30, torch.Generator().manual_seed(0))
    assert spread(vectors, found) < 0.7 * spread(vectors, first)


def test_small_and_equal_pools(vectors):
    few = kmeans(vectors[:5], 500, torch.Generator().manual_seed(0))
    assert sorted(few.tolist()) == sorted(vectors[:5].tolist())
    same = kmeans(torch.ones(6, 4), 3, torch.Generator().manual_seed(0))
    assert torch.equal(same, torch.ones(3, 4))


@pytest.mark.parametrize(("shape", "count"), [((0, 4), 3), ((4,), 3), ((5, 4), 0)])
def test_nothing_to_cluster(shape, count):
    with pytest.raises(ConfigError, match="k-means"):
        kmeans(torch.zeros(shape), count, torch.Generator().manual_seed(0))
