"""PLDA: golden values, and scores against the densities themselves."""

from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from voiceanon import ConfigError
from voiceanon.eval.attackers import Plda

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "eval" / "plda.npz")
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def fitted():
    return Plda.fit(GOLDEN["train"], GOLDEN["train_speaker"], rank=5)


def test_fit(fitted):
    np.testing.assert_allclose(fitted.mean, GOLDEN["mean"], rtol=0, atol=1e-12)
    between = fitted.loading @ fitted.loading.T
    np.testing.assert_allclose(between, GOLDEN["FFt"], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(fitted.noise, GOLDEN["Sigma"], rtol=0, atol=TOLERANCE)


def test_scores_from_the_stored_model():
    model = Plda(GOLDEN["mean"], GOLDEN["F"], GOLDEN["Sigma"])
    scores = model.scores(GOLDEN["enrol"], GOLDEN["test"])
    np.testing.assert_allclose(scores, GOLDEN["scores"], rtol=0, atol=TOLERANCE)


def test_the_chain(fitted):
    scores = fitted.scores(GOLDEN["enrol"], GOLDEN["test"])
    np.testing.assert_allclose(scores, GOLDEN["scores"], rtol=0, atol=TOLERANCE)


def test_scores_are_ratios_of_densities(fitted):
    between = fitted.loading @ fitted.loading.T
    total = between + fitted.noise
    joint = np.block([[total, between], [between, total]])
    density = scipy.stats.multivariate_normal.logpdf
    for e, enrolment in enumerate(GOLDEN["enrol"]):
        for t, trial in enumerate(GOLDEN["test"]):
            pair = np.concatenate([enrolment - fitted.mean, trial - fitted.mean])
            same = density(pair, cov=joint)
            different = sum(density(x, fitted.mean, total) for x in (enrolment, trial))
            score = fitted.scores([enrolment], [trial])[0, 0]
            assert score == pytest.approx(same - different, abs=1e-8), (e, t)


def test_names_of_speakers_and_the_order_do_not_matter(fitted):
    order = np.random.default_rng(0).permutation(len(GOLDEN["train"]))
    names = np.array([f"speaker {number}" for number in GOLDEN["train_speaker"]])
    again = Plda.fit(GOLDEN["train"][order], names[order], rank=5)
    np.testing.assert_allclose(again.noise, fitted.noise, rtol=0, atol=1e-9)


def test_a_model_that_made_the_data_is_found():
    draws = np.random.default_rng(3)
    loading = draws.standard_normal((4, 2))
    speakers = np.repeat(np.arange(3000), 6)
    factors = draws.standard_normal((3000, 2))[speakers]
    data = 1.5 + factors @ loading.T + 0.3 * draws.standard_normal((len(speakers), 4))
    model = Plda.fit(data, speakers, rank=2, rounds=60)
    between = loading @ loading.T
    np.testing.assert_allclose(model.loading @ model.loading.T, between, atol=0.05 * between.max())
    np.testing.assert_allclose(model.noise, 0.09 * np.eye(4), atol=0.01)


@pytest.mark.parametrize(
    ("data", "speakers", "rank", "message"),
    [
        (np.ones((9, 3)), range(8), 2, "with 8 speakers"),
        (np.ones(9), range(9), 1, r"shape \(9,\)"),
        (np.ones((9, 3)), range(9), 4, "1 to 3, the width"),
        (np.ones((9, 3)), range(9), 0, "rank 0 given"),
        (np.ones((3, 3)), range(3), 2, "more than 3 are due"),
        (np.full((9, 3), np.nan), range(9), 2, "all finite"),
        (np.ones((9, 3)), range(9), 2, "vary"),
    ],
)
def test_embeddings_that_cannot_be_modelled(data, speakers, rank, message):
    with pytest.raises(ConfigError, match=message):
        Plda.fit(data, list(speakers), rank=rank)
