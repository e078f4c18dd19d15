"""Rows of items, and what is put around items."""

import math

import pytest
import torch

from voiceanon.components.edges import reflect_edges, repeat_edges
from voiceanon.components.rows import take_rows


@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 5), (3, 0)])
def test_rows_are_each_items_own(shape):
    x = torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(0))
    places = torch.randint(6, shape, generator=torch.Generator().manual_seed(1))
    result = take_rows(x, places)
    assert result.shape == (*shape, 2)
    for rows, own, taken in zip(x, places, result, strict=True):
        assert torch.equal(taken, rows[own])
    # Rows of what is not laid out row by row.
    assert torch.equal(take_rows(x.mT.contiguous().mT, places), result)


def test_repeated_edges_are_each_items_own():
    x = torch.arange(8.0).view(2, 4, 1).repeat(1, 1, 2)
    x[1, 2:] = torch.nan
    result = repeat_edges(x, torch.tensor([4, 2]), 2, 3)
    assert result.shape == (2, 9, 2)
    assert torch.equal(result[..., 0], result[..., 1])
    assert result[0, :, 0].tolist() == [0, 0, 0, 1, 2, 3, 3, 3, 3]
    assert result[1, :, 0].tolist() == [4, 4, 4, 5, 5, 5, 5, 5, 5]


def test_mirrored_edges_are_each_items_own():
    nothing = [math.nan] * 4
    wav = torch.tensor([[1.0, 2, *nothing], [1, 2, 3, 4, *nothing[:2]], [1, 2, 3, 4, 5, 6]])
    result = reflect_edges(wav, torch.tensor([2, 4, 6]), 2)
    assert result.tolist() == [
        [1, 2, 1, 2, 1, 2, 1, 2, 1, 2],
        [3, 2, 1, 2, 3, 4, 3, 2, 1, 2],
        [3, 2, 1, 2, 3, 4, 5, 6, 5, 4],
    ]


def test_a_single_sample_is_repeated():
    wav = torch.tensor([[7.0, math.nan]])
    assert reflect_edges(wav, torch.tensor([1]), 3).tolist() == [[7.0] * 8]
