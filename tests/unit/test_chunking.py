import itertools

import pytest
import torch

from voiceanon.chunking import ChunkJoiner, plan_chunks

TOTALS = [1, 99, 100, 101, 199, 1000, 12345]
CASES = list(itertools.product(TOTALS, [100, 137], [0, 7, 50], [1, 16]))


def join(plan, wav, change=lambda chunk, index: chunk):
    joiner = ChunkJoiner(plan)
    spans = [plan.span(index) for index in range(len(plan))]
    pieces = [joiner.push(change(wav[a:b], index)) for index, (a, b) in enumerate(spans)]
    return torch.cat(pieces)


@pytest.mark.parametrize(("total", "chunk", "overlap", "hop"), CASES)
def test_untouched_chunks_join_to_the_whole(total, chunk, overlap, hop):
    wav = torch.randn(total, generator=torch.Generator().manual_seed(total))
    plan = plan_chunks(total, chunk, overlap, hop)
    joined = join(plan, wav)
    assert joined.shape == wav.shape
    torch.testing.assert_close(joined, wav, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("total", "chunk", "overlap", "hop"), CASES)
def test_plan_keeps_its_limits(total, chunk, overlap, hop):
    plan = plan_chunks(total, chunk, overlap, hop)
    assert plan.starts[0] == 0
    assert all(start % hop == 0 for start in plan.starts)
    own = [b - a for a, b in itertools.pairwise([*plan.starts, total])]
    assert sum(own) == total
    assert max(own) <= chunk + max(hop, overlap + hop)
    assert len(plan) == 1 or total > chunk
    if len(plan) > 1:
        assert min(own) >= overlap


def test_context_is_thrown_away_and_chunks_fade_into_each_other():
    plan = plan_chunks(1000, 500, 40)
    assert plan.starts == (0, 500)
    joined = join(plan, torch.zeros(1000), lambda chunk, index: chunk + index)
    assert not joined[:480].any()
    assert bool((joined[520:] == 1).all())
    steps = joined[480:520].diff()
    assert bool((steps > 0).all())
    assert steps.max() < 1.5 / 40


def test_wrong_values_in_the_context_do_not_show():
    def spoil(chunk, index):
        chunk = chunk.clone()
        if index:
            chunk[:20] = 99.0
        else:
            chunk[-20:] = 99.0
        return chunk

    joined = join(plan_chunks(1000, 500, 40), torch.ones(1000), spoil)
    torch.testing.assert_close(joined, torch.ones(1000))
