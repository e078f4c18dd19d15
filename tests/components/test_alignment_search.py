"""Durations against the original's stored values and against loops; batches; repeated symbols."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.alignment.search import (
    durations_from_logits,
    durations_from_scores,
    insert_boundaries,
    split_repeats,
)
from voiceanon.components.text.articulatory import FEATURES, features_of

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
SEARCHES = np.load(GOLDEN / "mas.npz")
REPEATS = np.load(GOLDEN / "repeat_repair.npz")
ALIGNER = np.load(GOLDEN / "aligner.npz")
NOTHING = float("nan")


def single(scores):
    scores = torch.as_tensor(scores)
    frames, symbols = scores.shape
    result = durations_from_scores(scores[None], torch.tensor([frames]), torch.tensor([symbols]))
    assert result.dtype == torch.int64
    return result[0].tolist()


@pytest.mark.parametrize("case", ["a", "b", "c", "d", "tie"])
def test_stored_searches(case):
    assert single(SEARCHES[f"in_{case}"]) == SEARCHES[f"dur_{case}"].tolist()


@pytest.mark.parametrize("variant", ["eval", "ft_nodrop"])
def test_stored_durations_of_the_aligner(variant):
    logits, ids = (torch.from_numpy(ALIGNER[name]) for name in (f"logits_{variant}", "ids"))
    lengths = torch.tensor([len(logits)]), torch.tensor([len(ids)])
    result = durations_from_logits(logits[None], lengths[0], ids[None], lengths[1])
    assert result[0].tolist() == ALIGNER[f"durations_{variant}"].tolist()


def best_by_enumeration(scores):
    """Durations of the best of all paths that begin and end where they must."""
    frames, symbols = scores.shape
    gains = np.log(scores + np.abs(scores).max() + 1)
    best = None
    for cuts in itertools.combinations(range(1, frames), symbols - 1):
        lasting = np.diff([0, *cuts, frames])
        total = gains[np.arange(frames), np.repeat(np.arange(symbols), lasting)].sum()
        if best is None or total > best[0]:
            best = total, lasting.tolist()
    return best[1]


@pytest.mark.parametrize("seed", range(5))
def test_best_of_all_paths(seed):
    scores = np.random.default_rng(seed).normal(size=(9, 4))
    assert single(scores.astype(np.float32)) == best_by_enumeration(scores)


def test_batch_equals_items():
    draws = torch.Generator().manual_seed(0)
    sizes = [(30, 7), (12, 12), (5, 8), (1, 4), (40, 1), (50, 20)]
    scores = torch.full((len(sizes), 50, 20), NOTHING)
    for row, (frames, symbols) in zip(scores, sizes, strict=True):
        # Few values, so that there are ties.
        row[:frames, :symbols] = torch.randint(-2, 3, (frames, symbols), generator=draws)
    lengths = torch.tensor(sizes)
    result = durations_from_scores(scores, lengths[:, 0], lengths[:, 1])
    for row, spoken, (frames, symbols) in zip(scores, result, sizes, strict=True):
        assert spoken.sum() == frames
        assert spoken[0] >= 1
        assert not spoken[symbols:].any()
        assert spoken[:symbols].tolist() == single(row[:frames, :symbols])


def test_padded_symbols_of_any_value():
    logits = torch.randn(2, 20, 145, generator=torch.Generator().manual_seed(1))
    ids = torch.tensor([[0, 55, 1, 10**6, -7], [3, 3, 4, 4, 5]])
    result = durations_from_logits(logits, torch.tensor([20, 9]), ids, torch.tensor([3, 5]))
    columns = (logits[0][:, ids[0, :3]], logits[1, :9][:, ids[1]])
    assert result[0].tolist() == [*single(columns[0]), 0, 0]
    assert result[1].tolist() == single(columns[1])


def test_boundaries_last_no_frame():
    phones = [features_of(text) for text in ("~la ænd~#", "~~#", "~a  b. ~#")]
    lengths = torch.tensor([len(phone.vectors) for phone in phones])
    is_boundary = torch.ones(3, 12, dtype=torch.bool)
    durations = torch.zeros(3, 8, dtype=torch.int64)
    for i, phone in enumerate(phones):
        is_boundary[i, : lengths[i]] = phone.is_boundary
        durations[i, : len(phone.ids)] = torch.arange(1, len(phone.ids) + 1)
    result = insert_boundaries(durations, is_boundary, lengths)
    assert result.tolist() == [
        [1, 2, 3, 0, 4, 5, 6, 7, 8, 0, 0, 0],
        [1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 2, 0, 0, 3, 4, 0, 5, 6, 0, 0, 0],
    ]


def test_stored_repeats():
    durations, vectors = (torch.from_numpy(REPEATS[name])[None] for name in ("before", "text"))
    result = split_repeats(durations, vectors, torch.tensor([durations.shape[1]]))
    assert result[0].tolist() == REPEATS["after"].tolist()
    assert durations[0].tolist() == REPEATS["before"].tolist()


def test_repeats_of_a_batch():
    draws = np.random.default_rng(2)
    kinds = draws.integers(0, 2, (6, 15))
    vectors = torch.zeros(6, 15, FEATURES)
    vectors[..., 20] = torch.from_numpy(kinds)
    durations = torch.from_numpy(draws.integers(0, 10, (6, 15)))
    lengths = torch.tensor([15, 14, 7, 3, 1, 15])
    durations[torch.arange(15) >= lengths[:, None]] = 0
    result = split_repeats(durations, vectors, lengths)
    assert torch.equal(result.sum(1), durations.sum(1))
    for row, kind, before, length in zip(result, kinds, durations, lengths, strict=True):
        expected = before.tolist()
        for i in range(1, length):
            if kind[i] == kind[i - 1]:
                both = expected[i - 1] + expected[i]
                expected[i - 1] = int(both * 3 / 5)
                expected[i] = both - expected[i - 1]
        assert row.tolist() == expected
