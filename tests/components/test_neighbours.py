"""Cosine neighbours: golden values of kNN-VC, against brute force, in bounded memory."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from voiceanon.components.selection import neighbours
from voiceanon.components.selection.neighbours import PreparedPool, average, match, nearest
from voiceanon.errors import ConfigError

GOLDEN = Path(__file__).parents[1] / "golden" / "knn_vc"
K = 4

# Float32 error of a distance is 5e-7; the smallest gap behind the 4th neighbour is 5e-5.
DISTANCE_TOLERANCE = 2e-6
AVERAGE_TOLERANCE = 1e-5
# A set may differ for frames whose 5th neighbour is as near as this to the 4th.
CHAIN_GAP = 2e-5


@pytest.fixture(scope="module")
def golden():
    return np.load(GOLDEN / "matching.npz")


@pytest.fixture(scope="module")
def frames():
    """The recipe of the golden values: query, pool, synth, float32."""
    rng = np.random.RandomState(11)
    mean = 0.3 * rng.standard_normal(1024)
    mean[7] += 12
    mean[300] -= 8
    mean[901] += 5
    centres = rng.standard_normal((40, 1024))
    query_labels, pool_labels = rng.randint(0, 40, 60), rng.randint(0, 40, 700)
    query = mean + centres[query_labels] + 0.7 * rng.standard_normal((60, 1024))
    pool = mean + centres[pool_labels] + 0.7 * rng.standard_normal((700, 1024))
    synth = rng.standard_normal((700, 1024))
    return [torch.from_numpy(value.astype(np.float32)) for value in (query, pool, synth)]


def structured(count, seed, width=64, centres=30):
    """Frames in clusters around a mean that dominates the cosine, as those of WavLM."""
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(centres, width, generator=torch.Generator().manual_seed(99))
    mean = 3 * torch.randn(width, generator=torch.Generator().manual_seed(98))
    labels = torch.randint(0, centres, (count,), generator=generator)
    return mean + common[labels] + 0.5 * torch.randn(count, width, generator=generator)


def brute(query, pool, k):
    """All distances in float64: indices and distances of the k smallest."""
    query, pool = query.double(), pool.double()
    cosines = query @ pool.T / query.norm(dim=1)[:, None] / pool.norm(dim=1)
    distances, indices = (1 - cosines).sort(dim=1, stable=True)
    return indices[:, :k], distances[:, :k]


def same_sets(found, expected):
    return torch.equal(found.sort(dim=1).values, expected.sort(dim=1).values)


def close(found, expected, tolerance):
    np.testing.assert_allclose(found.numpy(), np.asarray(expected), rtol=0, atol=tolerance)


def test_recipe(golden, frames):
    close(frames[0][:, :8], golden["query_first8dims"], 0)
    close(frames[1][:, :8], golden["matching_first8dims"], 0)


def test_golden(golden, frames):
    query, reference, synth = frames
    pool = PreparedPool.prepare(reference)
    indices, distances = nearest(query, pool, K)
    assert indices.dtype == torch.int64
    assert same_sets(indices, torch.from_numpy(golden["indices"].astype(np.int64)))
    close(distances, golden["distances"], DISTANCE_TOLERANCE)
    assert (distances.diff(dim=1) >= 0).all()
    close(average(pool, indices), golden["average"], AVERAGE_TOLERANCE)
    with_synth = average(PreparedPool.prepare(reference, values=synth), indices)
    close(with_synth[:, :64], golden["average_with_synth_set_first64dims"], AVERAGE_TOLERANCE)


def test_all_distances(golden, frames):
    query, reference, _ = frames
    indices, distances = nearest(query[:1], PreparedPool.prepare(reference), 700)
    row = torch.empty(700).scatter(0, indices[0], distances[0])
    close(row, golden["distance_row0"], DISTANCE_TOLERANCE)


def test_golden_chain():
    golden = np.load(GOLDEN / "chain_small.npz")
    query = torch.from_numpy(golden["query"])
    pool = PreparedPool.prepare(torch.from_numpy(golden["matching_set"]))
    indices, distances = nearest(query, pool, K + 1)
    clear = distances[:, K] - distances[:, K - 1] > CHAIN_GAP
    assert clear.float().mean() > 0.95
    expected = torch.from_numpy(golden["indices"].astype(np.int64))
    assert same_sets(indices[clear, :K], expected[clear])
    close(distances[:, :K], golden["distances"], DISTANCE_TOLERANCE)
    matched = match(query[None], torch.tensor([len(query)]), [pool], K)[0]
    close(matched[clear], golden["average"][clear], AVERAGE_TOLERANCE)


@pytest.mark.parametrize("size", [1, 3, 31, 33, 4000])
def test_against_brute_force_across_blocks(size, monkeypatch):
    monkeypatch.setattr(neighbours, "POOL_BLOCK", 257)
    monkeypatch.setattr(neighbours, "QUERY_BLOCK", 50)
    monkeypatch.setattr(neighbours, "EXACT_BLOCK", 7)
    query, reference = structured(120, 1), structured(size, 2)
    indices, distances = nearest(query, PreparedPool.prepare(reference), K)
    expected, expected_distances = brute(query, reference, K)
    assert indices.shape == (120, min(K, size))
    assert same_sets(indices, expected)
    close(distances, expected_distances, DISTANCE_TOLERANCE)


@pytest.mark.parametrize("k", [1, 2, 50])
def test_other_k(k):
    query, reference = structured(20, 3), structured(300, 4)
    indices, distances = nearest(query, PreparedPool.prepare(reference), k)
    expected, expected_distances = brute(query, reference, k)
    assert same_sets(indices, expected)
    close(distances, expected_distances, DISTANCE_TOLERANCE)


@pytest.mark.parametrize("coarse", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_half_precision_with_exact_pass_finds_the_exact_sets(coarse, dtype):
    query, pool = (
        structured(300, 5, 256),
        PreparedPool.prepare(structured(5000, 6, 256), dtype=dtype),
    )
    expected, expected_distances = brute(query, pool.frames, K)
    # So the exact pass has something to do.
    rounded, _ = nearest(query, pool, K, coarse=coarse, candidates=K)
    assert coarse == torch.float16 or not same_sets(rounded, expected)
    indices, distances = nearest(query, pool, K, coarse=coarse)
    assert same_sets(indices, expected)
    close(distances, expected_distances, DISTANCE_TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_query_in_half_precision(dtype):
    query = structured(100, 7).to(dtype)
    pool = PreparedPool.prepare(structured(1000, 8), dtype=torch.float16)
    indices, distances = nearest(query, pool, K)
    expected, expected_distances = brute(query, pool.frames, K)
    assert same_sets(indices, expected)
    assert distances.dtype == torch.float32
    close(distances, expected_distances, DISTANCE_TOLERANCE)


def test_autocast_changes_nothing():
    query, pool = structured(50, 9), PreparedPool.prepare(structured(500, 10))
    exact = nearest(query, pool, K)
    with torch.autocast("cpu", torch.bfloat16):
        cast = nearest(query, pool, K)
    assert torch.equal(exact[0], cast[0])
    assert torch.equal(exact[1], cast[1])


def test_ties_go_to_the_earlier_frame():
    reference = structured(3, 11)[[0, 1, 2, 1, 0, 2, 1]]
    indices, _ = nearest(reference[1:2], PreparedPool.prepare(reference), 3)
    assert indices.tolist() == [[1, 3, 6]]


def test_raw_frames_are_averaged_whatever_their_length():
    reference = structured(40, 12) * torch.linspace(0.1, 10, 40)[:, None]
    pool = PreparedPool.prepare(reference)
    indices, _ = nearest(structured(5, 13), pool, K)
    close(average(pool, indices), reference[indices].mean(1), AVERAGE_TOLERANCE)


def test_frames_of_zeros_are_far_from_everything():
    reference = structured(3, 14)
    reference[1] = 0
    indices, distances = nearest(structured(2, 15), PreparedPool.prepare(reference), 3)
    assert indices[:, -1].tolist() == [1, 1]
    assert distances[:, -1].tolist() == [1, 1]
    _, distances = nearest(torch.zeros(1, 64), PreparedPool.prepare(reference), 3)
    assert distances.tolist() == [[1, 1, 1]]


def test_match_groups_items_by_pool():
    first = PreparedPool.prepare(structured(400, 16), dtype=torch.float16)
    second = PreparedPool.prepare(structured(2, 17))
    lengths = [30, 1, 17, 25]
    queries = torch.full((4, 30, 64), torch.nan)
    for item, length in enumerate(lengths):
        queries[item, :length] = structured(length, 20 + item)
    pools = [first, second, first, second]
    result = match(queries, torch.tensor(lengths), pools, K)
    assert result.shape == (4, 30, 64)
    assert result.dtype == torch.float32
    for item, length in enumerate(lengths):
        alone = match(queries[item : item + 1], torch.tensor([length]), [pools[item]], K)[0]
        assert torch.equal(result[item, :length], alone[:length])
        indices, _ = nearest(queries[item, :length], pools[item], K)
        assert torch.equal(alone[:length], average(pools[item], indices))
        assert not result[item, length:].any()


def test_match_searches_a_shared_pool_once(monkeypatch):
    sizes = []

    def counting(query, *args, **kwargs):
        sizes.append(len(query))
        return nearest(query, *args, **kwargs)

    monkeypatch.setattr(neighbours, "nearest", counting)
    pool, other = (PreparedPool.prepare(structured(50, seed)) for seed in (1, 2))
    match(structured(30, 3).view(3, 10, 64), torch.tensor([10, 4, 7]), [pool, other, pool], K)
    assert sizes == [17, 4]


def test_frames_that_are_not_finite_stay_so():
    queries = structured(6, 18)[None].clone()
    queries[0, 2, 5] = torch.nan
    queries[0, 4, 5] = torch.inf
    result = match(queries, torch.tensor([6]), [PreparedPool.prepare(structured(50, 19))], K)[0]
    assert result.isnan().all(dim=1).tolist() == [False, False, True, False, True, False]


class _Largest(TorchDispatchMode):
    """Notes the largest storage that any operation gives, in bytes."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else [result]:
            if torch.is_tensor(value):
                self.size = max(self.size, value.numel() * value.element_size())
        return result


@pytest.mark.parametrize(("coarse", "count"), [(torch.float32, 3_000), (torch.bfloat16, 600)])
def test_memory_is_bounded(coarse, count):
    """Five minutes of reference, one of query: the full matrix of scores would take 180 MB."""
    generator = torch.Generator().manual_seed(0)
    reference = torch.randn(15_000, 1024, generator=generator)
    pool = PreparedPool.prepare(reference, dtype=torch.float16)
    query = torch.randn(1, count, 1024, generator=generator)
    with _Largest() as largest:
        match(query, torch.tensor([count]), [pool], K, coarse=coarse)
    # A block of scores, or a block of the pool as float32.
    bound = 4 * neighbours.POOL_BLOCK * max(neighbours.QUERY_BLOCK, 1024)
    assert largest.size <= bound
    assert bound < 0.2 * 4 * 15_000 * 3_000


def test_pool_of_another_device_or_width():
    pool = PreparedPool.prepare(structured(10, 1))
    with pytest.raises(ConfigError, match="same features"):
        nearest(torch.zeros(3, 32), pool, K)
    with pytest.raises(ConfigError, match="move the pool"):
        nearest(torch.zeros(3, 64, device="meta"), pool, K)
    with pytest.raises(ConfigError, match="k is 0"):
        nearest(torch.zeros(3, 64), pool, 0)
    with pytest.raises(ConfigError, match="each item"):
        match(torch.zeros(2, 3, 64), torch.tensor([3, 3]), [pool], K)


def test_pools_that_cannot_be():
    frames = structured(10, 1)
    with pytest.raises(ConfigError, match="at least one"):
        PreparedPool.prepare(frames[:0])
    with pytest.raises(ConfigError, match="bfloat16"):
        PreparedPool.prepare(frames, dtype=torch.bfloat16)
    with pytest.raises(ConfigError, match="one row"):
        PreparedPool.prepare(frames, values=frames[:5])
    with pytest.raises(ConfigError, match="not finite as torch"):
        PreparedPool.prepare(frames * 1e5, dtype=torch.float16)


def test_pool_is_stored_once():
    pool = PreparedPool.prepare(structured(10, 1), dtype=torch.float16)
    assert len(pool) == 10
    assert pool.values is pool.frames
    assert pool.frames.dtype == torch.float16
    assert pool.to(torch.device("cpu")) is pool
    moved = pool.to(torch.device("meta"))
    assert moved.values is moved.frames


def test_no_queries():
    indices, distances = nearest(torch.zeros(0, 64), PreparedPool.prepare(structured(9, 1)), K)
    assert indices.shape == distances.shape == (0, K)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("coarse", [torch.float32, torch.float16, torch.bfloat16])
def test_cuda_finds_the_exact_sets(coarse, dtype):
    query = structured(700, 21, 256)
    pool = PreparedPool.prepare(structured(9000, 22, 256), dtype=dtype)
    expected, expected_distances = brute(query, pool.frames, K)
    indices, distances = nearest(query.cuda(), pool.to(torch.device("cuda")), K, coarse=coarse)
    assert same_sets(indices.cpu(), expected)
    close(distances.cpu(), expected_distances, DISTANCE_TOLERANCE)
