"""Similarity rank disclosure against stored statistics and the published table."""

import json

import numpy as np
import pytest
from score_sets import GOLDEN

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import better_candidates, rank_disclosure
from voiceanon.eval.metrics.rank_disclosure import (
    disclosure_of,
    disclosure_of_beta_binomial,
)

NUMBERS = json.loads((GOLDEN / "srd.json").read_text())
PUBLISHED = {
    name: row
    for name, row in NUMBERS["published_beta_binomial_semi_informed_N40"].items()
    if name != "columns"
}


def golden_ranks():
    random = np.random.RandomState(701)
    scores = random.normal(0, 1, (40, 800))
    true = random.randint(0, 40, 800)
    scores[true, np.arange(800)] += 1.2
    return 1 + better_candidates(scores, true)


@pytest.mark.parametrize(
    ("model", "key", "tolerance"),
    [
        ("empirical", "empirical", 1e-12),
        # Two searches for the maximum of one likelihood.
        ("beta_binomial", "beta_binomial_mle", 1e-6),
    ],
)
def test_golden(model, key, tolerance):
    ranks = golden_ranks()
    assert np.bincount(ranks - 1, minlength=40).tolist() == NUMBERS["histogram"]
    golden = NUMBERS[key]
    found = rank_disclosure(ranks, 40, model=model)
    assert found.mean == pytest.approx(golden["mean_disclosure_bits"], abs=tolerance)
    assert found.worst_case == pytest.approx(golden["max_disclosure_bits"], abs=tolerance)
    assert found.worst_rank == golden["argmax_rank"]
    rate = pytest.approx(golden["identification_rate"], abs=tolerance)
    assert found.identification_rate == rate
    assert 100 * found.rank_spread == pytest.approx(golden["rank_spread_percent"])
    assert np.log2(40) - found.mean == pytest.approx(golden["entropy_bits"], abs=tolerance)
    if model == "beta_binomial":
        expected = golden["alpha"], golden["beta"]
        assert found.parameters == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_worst_case_is_that_of_the_identification_rate(name):
    worst, _, rate, _ = PUBLISHED[name]
    # Published values are cut to their digits.
    low, high = np.log2(40 * np.array([rate, rate + 0.01]) / 100)
    assert low - 0.01 <= worst <= high + 1e-9


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_spread_follows_from_rate_and_mean(name):
    optimize = pytest.importorskip("scipy.optimize")
    _, mean, rate, spread = PUBLISHED[name]

    def miss(logarithms):
        found = disclosure_of_beta_binomial(*np.exp(logarithms), 40)
        return [10 * (found.identification_rate - rate / 100), found.mean - mean]

    solved = optimize.least_squares(miss, [-0.3, 0.1], xtol=1e-12, ftol=1e-14)
    found = disclosure_of_beta_binomial(*np.exp(solved.x), 40)
    # One rank of 40 is 2.5 %; small means are cut too coarsely to say which.
    one_off = name in ("T8-5", "T12-5")
    assert 100 * found.rank_spread == pytest.approx(spread, abs=2.5 if one_off else 1e-9)


def test_ends():
    everywhere = rank_disclosure(np.arange(1, 41), 40)
    assert everywhere.mean == pytest.approx(0, abs=1e-12)
    assert everywhere.rank_spread == 0
    always_first = rank_disclosure(np.ones(10, int), 40)
    assert always_first.mean == always_first.worst_case == np.log2(40)
    for ranks in (np.ones(10, int), np.full(10, 20), np.full(10, 40)):
        fitted = rank_disclosure(ranks, 40, model="beta_binomial")
        assert 0 < fitted.mean <= np.log2(40)
        assert fitted.worst_rank == ranks[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank_disclosure([], 5), r"shape \(0,\)"),
        (lambda: rank_disclosure([0, 1], 5), "from 0 to 1 among 5"),
        (lambda: rank_disclosure([6], 5), "from 6 to 6 among 5"),
        (lambda: rank_disclosure([1], 1), "at least two candidates"),
        (lambda: rank_disclosure([1.5], 5), "float64"),
        (lambda: rank_disclosure([1], 5, model="normal"), "'normal'; allowed are"),
        (lambda: disclosure_of([0.5, 0.4]), "their sum is"),
        (lambda: disclosure_of([1.5, -0.5]), "0 or more"),
        (lambda: disclosure_of_beta_binomial(0, 1, 5), "above 0"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
