"""Unweighted average recall, within a fold and over folds."""

import json

import numpy as np
import pytest
from score_sets import GOLDEN

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import mean_over_folds, unweighted_average_recall

NUMBERS = json.loads((GOLDEN / "wer_uar.json").read_text())["uar"]
LABELS = NUMBERS["labels"]


def fold(golden):
    truth, predicted = (
        [LABELS[int(index)] for index in golden[side]] for side in ("y_true", "y_pred")
    )
    return unweighted_average_recall(truth, predicted, classes=LABELS)


@pytest.mark.parametrize("name", NUMBERS["folds"])
def test_golden_fold(name):
    golden = NUMBERS["folds"][name]
    found = fold(golden)
    assert round(found.percent, 3) == golden["uar"]
    assert {key: round(100 * value, 3) for key, value in found.recalls.items()} == golden["recall"]
    hits = np.trace(found.confusion) / found.confusion.sum()
    assert round(100 * hits, 3) == golden["wa_accuracy"]


def test_golden_mean():
    found = mean_over_folds([fold(golden) for golden in NUMBERS["folds"].values()])
    assert found.percent == pytest.approx(NUMBERS["mean_uar"], abs=1e-9)
    recalls = {key: 100 * value for key, value in found.recalls.items()}
    assert recalls == pytest.approx(NUMBERS["mean_recall"], abs=1e-9)
    assert found.fold_count == 5
    plain = mean_over_folds([fold(golden) for golden in NUMBERS["folds"].values()], rounded=False)
    assert 0 < abs(plain.value - found.value) < 5e-6


@pytest.mark.parametrize(
    ("average_over", "key"),
    [
        ("truth", "macro_recall_labels_present_in_truth_only"),
        ("seen", "macro_recall_sklearn_default_labels"),
        ("classes", "macro_recall_four_fixed_labels"),
    ],
)
def test_golden_absent_class(average_over, key):
    golden = NUMBERS["edge_absent_class"]
    truth, predicted = ([int(index) for index in golden[side]] for side in ("y_true", "y_pred"))
    found = unweighted_average_recall(truth, predicted, classes=range(4), average_over=average_over)
    assert found.value == pytest.approx(golden[key], abs=1e-12)
    assert list(found.recalls) == ["0", "1", "2", "3"]
    assert np.isnan(found.recalls["2"])


def test_scikit_learn_agrees():
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.RandomState(0)
    for _ in range(20):
        truth = np.append(random.randint(0, 5, 40), range(5))
        predicted = random.randint(0, 5, 45)
        found = unweighted_average_recall(truth, predicted)
        expected = metrics.recall_score(truth, predicted, average="macro")
        assert found.value == pytest.approx(expected, abs=1e-12)
        np.testing.assert_array_equal(found.confusion, metrics.confusion_matrix(truth, predicted))


@pytest.mark.parametrize(
    ("truth", "predicted", "options", "message"),
    [
        ([], [], {}, "no recording"),
        (["a"], ["a", "b"], {}, "a list of 1"),
        (["a", "exc"], ["a", "a"], {"classes": ["a"]}, "missing: exc"),
        (["a"], ["a"], {"classes": ["a", "a"]}, "each once"),
        (["a"], ["a"], {"average_over": "all"}, "'all'; allowed are truth, seen, classes"),
    ],
)
def test_refused(truth, predicted, options, message):
    with pytest.raises(ConfigError, match=message):
        unweighted_average_recall(truth, predicted, **options)


def test_folds_that_do_not_belong_together():
    one = unweighted_average_recall(["a"], ["a"])
    other = unweighted_average_recall(["b"], ["b"])
    for folds in ([], [one, other]):
        with pytest.raises(ConfigError, match=r"folds: \d"):
            mean_over_folds(folds)
