"""What every function of targets and non-targets refuses, and what all results have in common."""

import dataclasses
import subprocess
import sys
import typing

import numpy as np
import pytest

from voiceanon.errors import ConfigError, MissingDependencyError
from voiceanon.eval import metrics
from voiceanon.eval.dependencies import required
from voiceanon.eval.metrics.scores import ScoreBlocks, read_blocks

FUNCTIONS = (
    metrics.equal_error_rate,
    metrics.likelihood_ratio_cost,
    metrics.zebra,
    metrics.ece_curve,
    metrics.linkability_dsys,
    metrics.area_under_curve,
    metrics.hull_vertices,
)

VARIANTS = [
    *FUNCTIONS,
    *(
        lambda targets, nontargets, variant=variant: metrics.equal_error_rate(
            targets, nontargets, variant=variant
        )
        for variant in ("nearest_sb", "kaldi", "rocch", "interp")
    ),
]

BAD = {
    "empty": ([], "there are none"),
    "nan": ([0.5, np.nan], "score 1 is nan"),
    "inf": ([np.inf, 0.5], "score 0 is inf"),
    "two dimensions": ([[0.5, 0.1]], r"shape \(1, 2\)"),
    "texts": (["0.5"], "type <U3"),
    "flags": ([True, False], "type bool"),
}

RESULTS = [
    item
    for name, item in vars(metrics).items()
    if dataclasses.is_dataclass(item)
    and name not in ("ScoreBlocks", "SystemRates", "PrivacyCategory")
]


@pytest.mark.parametrize("function", VARIANTS)
@pytest.mark.parametrize("fault", BAD)
def test_scores_that_hurt_are_refused(function, fault):
    scores, message = BAD[fault]
    good = np.linspace(0, 1, 20)
    with pytest.raises(ConfigError, match=f"^target scores.*{message}"):
        function(scores, good)
    with pytest.raises(ConfigError, match=f"^non-target scores.*{message}"):
        function(good, scores)


def test_place_of_a_bad_score_counts_over_blocks():
    blocks = ScoreBlocks(lambda: iter([np.zeros(3), np.array([1.0, np.nan])]))
    with pytest.raises(ConfigError, match="score 4 is nan"):
        list(read_blocks(blocks, "target"))


@pytest.mark.parametrize(
    ("given", "read"),
    [("float16", "float32"), ("float32", "float32"), ("float64", "float64"), ("int64", "float64")],
)
def test_types(given, read):
    [block] = read_blocks(np.zeros(3, given), "target")
    assert block.dtype == read


def test_input_is_not_changed():
    scores = np.random.RandomState(0).normal(size=100).astype(np.float32)
    scores.flags.writeable = False
    for function in VARIANTS:
        function(scores, scores[::-1])


@pytest.mark.parametrize("result", RESULTS, ids=lambda item: item.__name__)
def test_results_are_frozen_and_say_unit_and_direction(result):
    assert result.__dataclass_params__.frozen
    assert result.unit
    assert result.higher_is in typing.get_args(metrics.Meaning)


def test_results_are_found():
    assert len(RESULTS) >= 20


def test_public_names():
    assert sorted(metrics.__all__) == sorted(set(metrics.__all__))
    for name in metrics.__all__:
        assert getattr(metrics, name) is not None


def test_importing_the_metrics_imports_no_optional_package():
    program = (
        "import sys, voiceanon.eval.metrics; "
        "print([m for m in ('scipy', 'sklearn', 'jiwer', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_missing_package():
    with pytest.raises(
        MissingDependencyError, match=r"aligning: the package no_such is .*\[eval\]"
    ):
        required("no_such.module", "aligning")
