"""CTC's prefix probabilities: stored ones, and sums over all ways to say a text."""

import itertools
import math

import pytest
import torch
from reduced_recognizer import STORED

from voiceanon.components.asr.branchformer.ctc_prefix import LOG_ZERO, CtcPrefixScorer

TOLERANCE = 2e-4
"""Absolute: the stored ones are float32 sums of about -150."""


@pytest.fixture(autouse=True)
def same_everywhere():
    torch.manual_seed(0)


def follow(log_probs, counts, ids):
    """Yields the totals (B, V) after each beginning of ``ids``."""
    scorer = CtcPrefixScorer.prepare(log_probs, counts)
    state = scorer.start(1)
    yield state, scorer.totals(state)[:, 0]
    for token in ids:
        tokens = torch.full((len(log_probs), 1), token)
        ctc = scorer.totals(state)[:, :, token]
        state = scorer.extend(state, torch.zeros_like(tokens), tokens, ctc)
        yield state, scorer.totals(state)[:, 0]


def test_stored_scores():
    log_probs = STORED["ctc_logp"][None]
    ids = STORED["dec_prefix"][1:].tolist()
    steps = follow(log_probs, torch.tensor([41]), ids)
    for (state, totals), stored in zip(steps, STORED["ctc_prefix_scores"], strict=True):
        difference = (totals - state.total)[0]
        torch.testing.assert_close(difference[1:].float(), stored[1:], rtol=0, atol=TOLERANCE)
        assert difference[0] < -9e9


def said(path):
    return tuple(token for token, _ in itertools.groupby(path) if token != 0)


@pytest.mark.parametrize("ids", [(1, 2), (1, 1), (2, 2, 1), (3, 1)])
def test_sums_over_all_paths(ids):
    frames, vocabulary = 5, 4
    torch.manual_seed(sum(ids))
    log_probs = torch.randn(1, frames, vocabulary).log_softmax(-1)
    begins, whole = {}, {}
    for path in itertools.product(range(vocabulary), repeat=frames):
        chance = math.exp(sum(float(log_probs[0, t, token]) for t, token in enumerate(path)))
        text = said(path)
        whole[text] = whole.get(text, 0.0) + chance
        for size in range(len(text) + 1):
            begins[text[:size]] = begins.get(text[:size], 0.0) + chance
    steps = follow(log_probs, torch.tensor([frames]), ids)
    for size, (_, totals) in enumerate(steps):
        prefix = ids[:size]
        assert totals[0, 0] == LOG_ZERO
        assert totals[0, -1].exp() == pytest.approx(whole.get(prefix, 0.0), rel=1e-5)
        for token in (1, 2):
            expected = begins.get((*prefix, token), 0.0)
            assert totals[0, token].exp() == pytest.approx(expected, rel=1e-5)


def test_no_room_for_another_token():
    """A token twice needs a blank between: three frames."""
    log_probs = torch.randn(1, 2, 4).log_softmax(-1)
    *_, (_, totals) = follow(log_probs, torch.tensor([2]), (1,))
    assert totals[0, 1] == LOG_ZERO
    assert totals[0, 2] > -100


def test_item_in_a_batch_is_item_alone():
    log_probs = (torch.randn(2, 30, 6) * 5).log_softmax(-1)
    log_probs[0, 11:] = math.nan
    counts = torch.tensor([11, 30])
    ids = (1, 2, 2, 4)
    together = follow(log_probs, counts, ids)
    alone = [
        follow(log_probs[i : i + 1, :n], counts[i : i + 1], ids) for i, n in enumerate((11, 30))
    ]
    for (_, both), (_, short), (_, long) in zip(together, *alone, strict=True):
        torch.testing.assert_close(both, torch.cat((short, long)), rtol=1e-12, atol=1e-12)


def test_sure_probabilities_keep_their_decimals():
    """Long and nearly certain: cumulated logarithms reach -40000."""
    frames, spoken = 1000, (1, 2, 1, 2, 1)
    path = torch.zeros(frames, dtype=torch.int64)
    path[100:600:100] = torch.tensor(spoken)
    log_probs = torch.full((1, frames, 4), -40.0)
    log_probs[0, torch.arange(frames), path] = 0.0
    *_, (_, totals) = follow(log_probs, torch.tensor([frames]), spoken)
    assert totals[0, -1].item() == pytest.approx(0.0, abs=1e-9)
