"""Equal error rates: golden values, plain algorithms, exact values and properties."""

import json
from statistics import NormalDist

import numpy as np
import pytest
from score_sets import GOLDEN, METRIC_SETS, SCORES, score_set, small_sets

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import ScoreBlocks, area_under_curve, cosine_scores, equal_error_rate
from voiceanon.eval.metrics.roc import count_scores

VARIANTS = ("nearest", "nearest_sb", "kaldi", "rocch", "interp")

FLOAT32 = 1e-6
"""The references form rates in float32."""

REFERENCE_ROOT = 1e-9
"""scikit-learn's curve was crossed by a root finder; both are otherwise the same lines."""


def plain_speechbrain(targets, nontargets):
    """The loop over all thresholds of SpeechBrain 0.5.16, in float32 as there."""
    values = np.unique(np.concatenate([targets, nontargets]))
    candidates = np.sort(np.concatenate([values, (values[:-1] + values[1:]) / np.float32(2)]))
    best = None
    for threshold in candidates:
        miss = np.float32((targets <= threshold).sum()) / np.float32(len(targets))
        alarm = np.float32((nontargets > threshold).sum()) / np.float32(len(nontargets))
        if best is None or float(np.abs(alarm - miss)) < abs(best[1] - best[0]):
            best = float(miss), float(alarm), float(threshold)
    return (best[0] + best[1]) / 2, best[2]


def plain_nearest(targets, nontargets):
    """First score with the least difference, by whole numbers."""
    best = None
    for threshold in np.unique(np.concatenate([targets, nontargets])):
        misses, alarms = int((targets <= threshold).sum()), int((nontargets > threshold).sum())
        difference = abs(misses * len(nontargets) - alarms * len(targets))
        if best is None or difference < best[0]:
            rate = (misses / len(targets) + alarms / len(nontargets)) / 2
            best = difference, rate, float(threshold)
    return best[1:]


def in_blocks(scores, size):
    return ScoreBlocks(lambda: (scores[i : i + size] for i in range(0, len(scores), size)))


@pytest.mark.parametrize("name", SCORES)
class TestGolden:
    def check(self, name, key, tolerance, **options):
        found = equal_error_rate(*score_set(name), **options)
        assert found.value == pytest.approx(SCORES[name]["eer"][key], abs=tolerance)
        return found

    def test_speechbrain(self, name):
        found = self.check(name, "speechbrain", 1e-12, variant="nearest_sb")
        assert found.threshold == SCORES[name]["eer"]["speechbrain_threshold"]

    def test_nearest(self, name):
        exact = "first_exact_minimum" in SCORES[name]["eer"]
        found = self.check(name, "first_exact_minimum" if exact else "speechbrain", FLOAT32)
        key = "first_exact_minimum_threshold" if exact else "speechbrain_threshold"
        assert found.threshold == SCORES[name]["eer"][key]

    def test_kaldi(self, name):
        found = self.check(name, "kaldi", FLOAT32, variant="kaldi")
        expected = SCORES[name]["eer"].get("kaldi_threshold", found.threshold)
        assert found.threshold == expected

    def test_convex_hull(self, name):
        self.check(name, "rocch_hull_legal_eval", 1e-12, variant="rocch")
        self.check(name, "rocch_optimal_llr", 1e-12, variant="rocch", ties="nontargets_first")

    def test_interpolated(self, name):
        self.check(name, "sklearn_interpolated", REFERENCE_ROOT, variant="interp")


@pytest.mark.parametrize("name", METRIC_SETS)
def test_golden_area(name):
    assert area_under_curve(*score_set(name)) == pytest.approx(SCORES[name]["auc"], abs=1e-12)


def test_speechbrain_rounding_is_that_of_its_loop():
    for scores in small_sets(600):
        found = equal_error_rate(*scores, variant="nearest_sb")
        assert (found.value, found.threshold) == plain_speechbrain(*scores)


def test_nearest_is_the_first_exact_minimum():
    for scores in small_sets(150, seed=1):
        found = equal_error_rate(*scores)
        assert (found.value, found.threshold) == plain_nearest(*scores)


def test_nearest_where_patterns_of_float32_turn():
    """Signs, zeros of both signs, subnormal and huge scores: bins end there."""
    edges = [
        -3e38,
        -1.0,
        -1e-45,
        -0.0,
        0.0,
        1e-45,
        1.1754944e-38,
        1.0,
        np.nextafter(np.float32(1), 2),
    ]
    random = np.random.RandomState(2)
    for _ in range(100):
        scores = [random.choice(edges, random.randint(1, 9)).astype(np.float32) for _ in "tn"]
        found = equal_error_rate(*scores)
        assert (found.value, found.threshold) == plain_nearest(*scores)


def test_scikit_learn_agrees():
    metrics = pytest.importorskip("sklearn.metrics")
    for targets, nontargets in small_sets(100, seed=3):
        labels = np.repeat([1, 0], [len(targets), len(nontargets)])
        scores = np.concatenate([targets, nontargets])
        alarm, hit, _ = metrics.roc_curve(labels, scores, drop_intermediate=False)
        # Where the curve jumps past the diagonal, its point there has the rate of the jump.
        excess = (1 - hit) - alarm
        after = int(np.argmax(excess <= 0))
        share = excess[after - 1] / (excess[after - 1] - excess[after])
        expected = alarm[after - 1] + share * (alarm[after] - alarm[after - 1])
        found = equal_error_rate(targets, nontargets, variant="interp").value
        assert found == pytest.approx(expected, abs=1e-12)
        area = metrics.roc_auc_score(labels, scores)
        assert area_under_curve(targets, nontargets) == pytest.approx(area, abs=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
def test_exact_values(variant):
    low, high = np.arange(5.0), np.arange(10.0, 17.0)
    assert equal_error_rate(high, low, variant=variant).value == 0
    same = np.linspace(-1, 1, 1000)
    assert equal_error_rate(same, same, variant=variant).value == pytest.approx(0.5, abs=2e-3)
    swapped = equal_error_rate(low, high, variant=variant).value
    # Kaldi's loop ends one target early; the hull never leaves the lower left half.
    assert swapped == {"rocch": 0.5, "kaldi": 0.8}.get(variant, 1)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("distance", [0.5, 2.0])
def test_two_gaussians(variant, distance):
    random = np.random.RandomState(4)
    targets, nontargets = random.normal(distance, 1, 50_000), random.normal(0, 1, 50_000)
    found = equal_error_rate(targets, nontargets, variant=variant)
    assert found.value == pytest.approx(NormalDist().cdf(-distance / 2), abs=0.005)
    assert (found.target_count, found.nontarget_count) == (50_000, 50_000)
    assert found.percent == 100 * found.value


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_the_order_counts(variant):
    # Scores that float32 keeps apart, since float32 is where some variants compare.
    targets, nontargets = (np.round(side, 3) for side in score_set("overlap_vpc_f"))
    moved = equal_error_rate(targets**3, nontargets**3, variant=variant).value
    assert equal_error_rate(targets, nontargets, variant=variant).value == moved
    shuffled = np.random.RandomState(5).permutation(nontargets)
    assert equal_error_rate(targets[::-1], shuffled, variant=variant).value == moved


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_blocks_are_as_the_whole(variant, size, monkeypatch):
    monkeypatch.setattr("voiceanon.eval.metrics.scores.BLOCK_SCORES", 5)
    targets, nontargets = (side[:300].astype(np.float32) for side in score_set("rounded_ties"))
    whole = equal_error_rate(targets, nontargets, variant=variant)
    blocks = in_blocks(targets, size), in_blocks(nontargets, size)
    for scores in ((targets, blocks[1]), (blocks[0], nontargets), blocks):
        np.testing.assert_equal(equal_error_rate(*scores, variant=variant), whole)


def test_the_larger_class_is_the_one_that_is_streamed():
    targets, nontargets = score_set("rounded_ties")
    counts = count_scores(targets, nontargets)
    mirrored = count_scores(-nontargets, -targets)
    assert np.array_equal(counts.targets, mirrored.nontargets[::-1])
    assert np.array_equal(counts.nontargets, mirrored.targets[::-1])


def test_published_rates_are_the_counts_that_give_them():
    protocol = json.loads((GOLDEN / "protocol.json").read_text())
    for golden in protocol["published_original_eer_as_counts"].values():
        [(misses, alarms)] = golden["misses_falsealarms_candidates"]
        targets = np.repeat([0, 2], [misses, golden["n_target"] - misses])
        nontargets = np.repeat([0, 2], [golden["n_nontarget"] - alarms, alarms])
        found = equal_error_rate(targets, nontargets)
        assert round(found.percent, 3) == golden["published_percent"]


def test_golden_protocol():
    golden = json.loads((GOLDEN / "protocol.json").read_text())
    arrays = np.load(GOLDEN / "protocol.npz")
    table = cosine_scores(arrays["enrol_speaker_mean"], arrays["trial"])
    speakers, utterances = list(arrays["speaker_order"]), list(arrays["trial_ids"])
    trials = [line.split() for line in golden["trials"]]
    scores = np.array([table[speakers.index(s), utterances.index(u)] for s, u, _ in trials])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, golden["scores"], atol=5e-7)
    is_target = np.array([label == "target" for *_, label in trials])
    assert equal_error_rate(scores[is_target], scores[~is_target]).value == golden["eer"]


def test_unknown_variant():
    with pytest.raises(ConfigError, match="'eer2'; allowed are nearest, nearest_sb, kaldi"):
        equal_error_rate([1.0], [0.0], variant="eer2")
    with pytest.raises(ConfigError, match="'first'; allowed are"):
        equal_error_rate([1.0], [0.0], variant="rocch", ties="first")
