import pytest
import torch

from voiceanon.batching import length_mask, pad, plan_batches, unpad

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("lengths", "capacity", "expected"),
    [
        ([], 10, []),
        ([5], 3, [[0]]),  # longer than the cap: alone
        ([3, 1, 2], 9, [[1, 2, 0]]),
        ([3, 1, 2], 6, [[1, 2], [0]]),
        ([4, 4, 4], 8, [[0, 1], [2]]),
        ([1, 100], 100, [[0], [1]]),
    ],
)
def test_plan(lengths, capacity, expected):
    assert plan_batches(lengths, capacity) == expected


def test_plan_covers_all_items_once_and_keeps_the_cap():
    lengths = torch.randint(1, 1000, (200,), generator=torch.Generator().manual_seed(0)).tolist()
    batches = plan_batches(lengths, 4000)
    assert sorted(index for batch in batches for index in batch) == list(range(200))
    assert all(max(lengths[i] for i in batch) * len(batch) <= 4000 for batch in batches)
    assert len(batches) < 60


def test_pad_and_unpad():
    waves = [torch.arange(1.0, n + 1) for n in (3, 1, 5)]
    batch, lengths = pad(waves, CPU)
    assert batch.shape == (3, 5)
    assert lengths.tolist() == [3, 1, 5]
    assert batch[1].tolist() == [1, 0, 0, 0, 0]
    assert all(torch.equal(a, b) for a, b in zip(unpad(batch, lengths), waves, strict=True))


def test_length_mask():
    mask = length_mask(torch.tensor([0, 2, 3]), 3)
    assert mask.tolist() == [[False] * 3, [True, True, False], [True] * 3]
