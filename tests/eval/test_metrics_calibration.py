"""Calibration, Cllr, ZEBRA and D_sys: golden values, independent references, properties."""

import warnings

import numpy as np
import pytest
from score_sets import METRIC_SETS, SCORES, score_set, small_sets

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import (
    MetricWarning,
    ScoreBlocks,
    calibrate_scores,
    ece_curve,
    hull_vertices,
    likelihood_ratio_cost,
    linkability_dsys,
    zebra,
)
from voiceanon.eval.metrics.pav import calibrate
from voiceanon.eval.metrics.roc import count_scores
from voiceanon.eval.metrics.zebra import MAXIMUM_BITS, expected_gain, zebra_category

RAMP_ON_COST = 2e-7
"""The references raise the i-th calibrated ratio by up to 1e-6, which moves costs by so much."""

RAMP_ON_WORST_CASE = 1e-6

PAV_VARIANTS = {
    "ties_pooled": {},
    "nontarget_first_in_ties": {"ties": "nontargets_first"},
    "laplace_nontarget_first": {"ties": "nontargets_first", "laplace": True},
}


def pooled(scores):
    """All scores of a set, and which are targets."""
    return np.concatenate(scores), np.repeat([True, False], [len(side) for side in scores])


@pytest.mark.parametrize("variant", PAV_VARIANTS)
def test_golden_calibration(variant):
    golden = SCORES["tiny_ties"]["pav_llr"][variant]
    expected = np.array([*golden["target"], *golden["nontarget"]], object)
    expected = np.where(expected == None, "-inf", expected).astype(float)  # noqa: E711
    found = calibrate_scores(*pooled(score_set("tiny_ties")), ramp=True, **PAV_VARIANTS[variant])
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("ties", ["pooled", "nontargets_first"])
@pytest.mark.parametrize("laplace", [False, True])
def test_calibration_of_scores_is_that_of_counts(ties, laplace):
    for scores in small_sets(40):
        calibration = calibrate(count_scores(*scores), ties=ties, laplace=laplace)
        values, labels = pooled(scores)
        found = calibrate_scores(values, labels, ties=ties, laplace=laplace)
        for side, counts in ((labels, "targets"), (~labels, "nontargets")):
            expected = np.repeat(calibration.llrs, getattr(calibration.counts, counts))
            np.testing.assert_array_equal(np.sort(found[side]), expected)


def test_scikit_learn_agrees():
    isotonic = pytest.importorskip("sklearn.isotonic")
    for scores in small_sets(60, seed=1):
        values, labels = pooled(scores)
        share = isotonic.IsotonicRegression().fit_transform(values.astype(float), labels)
        with np.errstate(divide="ignore"):
            expected = np.log(share / (1 - share)) - np.log(len(scores[0]) / len(scores[1]))
        np.testing.assert_allclose(calibrate_scores(values, labels), expected, atol=1e-9)


def test_golden_hull():
    golden = SCORES["overlap_vpc_f"]["rocch_vertices"]
    expected = np.array([golden["pmiss"], golden["pfa"]])
    # One stored point lies on the line between its neighbours: (247, 23) of (201, 46) ... (275, 9).
    on_line = np.flatnonzero(np.isclose(expected[0] * 548, 247))
    assert np.round(expected[1, on_line] * 11196) == [23]
    found = np.array(hull_vertices(*score_set("overlap_vpc_f")))
    np.testing.assert_allclose(found, np.delete(expected, on_line, axis=1), atol=1e-12)


@pytest.mark.parametrize("name", METRIC_SETS)
class TestGolden:
    def test_cost(self, name):
        golden = SCORES[name]["cllr"]
        found = likelihood_ratio_cost(*score_set(name))
        assert found.actual == pytest.approx(golden["cllr_act"], abs=1e-9)
        assert found.minimum == pytest.approx(golden["cllr_min_ties_pooled"], abs=RAMP_ON_COST)
        assert found.calibration_loss == found.actual - found.minimum
        published = likelihood_ratio_cost(*score_set(name), ties="nontargets_first")
        assert published.minimum == pytest.approx(golden["cllr_min"], abs=RAMP_ON_COST)

    def test_zebra(self, name):
        golden = SCORES[name]["zebra"]
        found = zebra(*score_set(name), ties="nontargets_first")
        assert found.expected == pytest.approx(golden["expected_dece_bit"], abs=1e-6)
        worst = pytest.approx(golden["worst_case_max_abs_log10_lr"], abs=RAMP_ON_WORST_CASE)
        assert found.worst_case == worst
        assert found.category == golden["category"]
        if name not in ("tiny_ties", "rounded_ties", "constant"):
            assert zebra(*score_set(name)) == found

    def test_curve(self, name):
        golden = SCORES[name]["zebra"]
        found = ece_curve(*score_set(name), prior_log_odds=golden["plo"])
        np.testing.assert_allclose(found.minimum, golden["ece_min"], atol=1e-6)
        np.testing.assert_allclose(found.actual, golden["ece_act"], atol=1e-6)

    def test_linkability(self, name):
        golden = SCORES[name]["linkability"]
        if golden["n_bins"] == 0 or golden["d_sys"] is None:
            with pytest.warns(MetricWarning, match="the value is NaN"):
                found = linkability_dsys(*score_set(name))
            assert np.isnan(found.value)
            return
        found = linkability_dsys(*score_set(name))
        assert found.value == pytest.approx(golden["d_sys"], abs=1e-9)
        assert len(found.local) == golden["n_bins"]
        assert np.count_nonzero(found.local) == golden["d_local_nonzero"]
        other = linkability_dsys(*score_set(name), prior_ratio=0.1)
        assert other.value == pytest.approx(golden["d_sys_omega_0.1"], abs=1e-9)
        if "d_local" in golden:
            np.testing.assert_allclose(found.local, golden["d_local"], atol=1e-9)
            ends = golden["bin_edges_first_last"]
            np.testing.assert_allclose(found.edges[[0, -1]], ends, atol=1e-12)


@pytest.mark.parametrize("name", ["overlap_vpc_f", "rounded_ties", "separated", "chance"])
def test_expected_disclosure_is_the_area_between_the_curves(name):
    """D_ECE is defined as what the scores save, over all priors from 0 to 1."""
    odds = np.linspace(-25, 25, 4001)
    curve = ece_curve(*score_set(name), prior_log_odds=odds)
    density = 1 / (2 + 2 * np.cosh(odds))
    saved = ((curve.without_scores - curve.minimum) * density).sum() * (odds[1] - odds[0])
    assert zebra(*score_set(name)).expected == pytest.approx(saved, abs=1e-6)


def test_costs_at_even_odds_are_points_of_the_curve():
    scores = score_set("llr_calibrated")
    cost, curve = likelihood_ratio_cost(*scores), ece_curve(*scores, prior_log_odds=[0.0])
    assert curve.actual[0] == pytest.approx(cost.actual, abs=1e-12)
    assert curve.minimum[0] == pytest.approx(cost.minimum, abs=1e-12)
    assert curve.without_scores[0] == pytest.approx(1, abs=1e-12)
    assert len(ece_curve([1.0], [0.0]).prior_log_odds) == 201


def test_gain_near_zero_and_far_out():
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 60

    def exact(a):
        a = mpmath.mpf(a)
        grown = mpmath.expm1(a)
        return float(mpmath.mpf(1) / 4 + (a - grown) / (2 * grown**2))

    for size in (1e-9, 2e-6, 9.99e-4, 1.001e-3, 0.1, 1.0, 30.0, 400.0, 800.0):
        for a in (size, -size):
            # The series leaves a^3 / 360 out, the closed form loses digits towards zero.
            expected = pytest.approx(exact(a), rel=1e-9, abs=1e-11)
            assert expected_gain(np.array([a]))[0] == expected
    ends = expected_gain(np.array([0.0, np.inf, -np.inf]))
    np.testing.assert_array_equal(ends, [0, 0.25, -np.inf])


def test_separated_scores():
    found = zebra(np.ones(20), np.zeros(30))
    assert found.expected == pytest.approx(MAXIMUM_BITS, abs=1e-12)
    # (targets + 1) non-targets / targets: it grows with the counts.
    assert found.worst_case == pytest.approx(np.log10(21 * 30 / 20), abs=1e-12)
    assert zebra(np.ones(200), np.zeros(300)).worst_case > found.worst_case + 0.9
    assert likelihood_ratio_cost(np.ones(20), np.zeros(30)).minimum == 0


def test_constant_scores():
    found = zebra(np.ones(20), np.ones(20))
    assert (found.expected, found.worst_case, found.category) == (0, 0, "0")
    assert likelihood_ratio_cost(np.ones(20), np.ones(50)).minimum == pytest.approx(1, abs=1e-12)


def test_large_scores_do_not_overflow():
    cost = likelihood_ratio_cost([-800.0, 5.0], [0.0, -1e5])
    expected = (800 / 2 + np.log1p(np.exp(-5)) / 2 + np.log(2) / 2) / (2 * np.log(2))
    assert cost.actual == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("worst", "category"),
    [
        (0, "0"),
        (1e-300, "0"),
        (1e-15, "A"),
        (1, "A"),
        (1.01, "B"),
        (2, "B"),
        (4, "C"),
        (5, "D"),
        (6, "E"),
        (6.1, "F"),
    ],
)
def test_categories_are_closed_above(worst, category):
    assert zebra_category(worst) == category


def test_category_of_nothing():
    with pytest.raises(ConfigError, match="worst case: nan"):
        zebra_category(float("nan"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("overlap_vpc_f", "(0.491 bit, 3.428, C; 548 target and 11196 non-target trials)"),
        ("reversed", "(2e-04 bit, 0.001, A; 548 target and 11196 non-target trials)"),
    ],
)
def test_printed_zebra(name, text):
    assert str(zebra(*score_set(name))) == text


def test_linkability_at_its_ends():
    random = np.random.RandomState(6)
    far = random.normal(4, 0.7, 100), random.normal(-4, 0.7, 1000)
    # Half of each outermost bin is lost.
    assert 0.8 < linkability_dsys(*far).value < 0.95
    same = random.normal(size=5000), random.normal(size=50_000)
    assert 0 < linkability_dsys(*same).value < 0.04


def test_linkability_by_a_plain_loop():
    targets, nontargets = (side[:400] for side in score_set("rounded_ties"))
    everything = np.concatenate([targets, nontargets])
    edges = np.linspace(everything.min(), everything.max(), 41)
    width = edges[1] - edges[0]
    y1, y2 = (np.histogram(side, edges)[0] / (len(side) * width) for side in (targets, nontargets))
    local = np.zeros(40)
    for i in range(40):
        if y2[i] == 0:
            local[i] = float(y1[i] > 0)
        elif y1[i] > y2[i]:
            local[i] = 2 * (y1[i] / y2[i]) / (1 + y1[i] / y2[i]) - 1
    value = sum((local[i] * y1[i] + local[i + 1] * y1[i + 1]) / 2 * width for i in range(39))
    found = linkability_dsys(targets, nontargets)
    # Scores on the edge of a bin, which rounding puts on either side, are what the rest is.
    assert found.value == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize("ratio", [0, -1, np.inf, np.nan])
def test_linkability_of_a_bad_ratio(ratio):
    with pytest.raises(ConfigError, match="prior_ratio"):
        linkability_dsys(np.arange(20.0), np.arange(20.0), prior_ratio=ratio)


def test_blocks_are_as_the_whole(monkeypatch):
    monkeypatch.setattr("voiceanon.eval.metrics.scores.BLOCK_SCORES", 50)
    targets, nontargets = score_set("rounded_ties")
    blocks = ScoreBlocks(lambda: (nontargets[i : i + 77] for i in range(0, len(nontargets), 77)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole, parts = (linkability_dsys(targets, side) for side in (nontargets, blocks))
        assert parts.value == whole.value
    whole, parts = (likelihood_ratio_cost(targets, side) for side in (nontargets, blocks))
    assert parts.minimum == whole.minimum
    assert parts.actual == pytest.approx(whole.actual, rel=1e-12)
    assert zebra(targets, blocks) == zebra(targets, nontargets)


def test_labels_that_do_not_fit():
    with pytest.raises(ConfigError, match=r"\(3,\) scores and \(2,\) labels"):
        calibrate_scores([0.1, 0.2, 0.3], [True, False])
    with pytest.raises(ConfigError, match=r"^non-target scores: there are none"):
        calibrate_scores([0.1, 0.2], [True, True])
