"""Derived numbers of Table 9 of the VoicePrivacy 2024 results paper, and averages of 2022."""

import csv
import json

import numpy as np
import pytest
from score_sets import GOLDEN

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import (
    SystemRates,
    combined_scores,
    gender_gap,
    pareto_front,
    privacy_categories,
    relative_change,
    vpc2022_average,
)

with (GOLDEN / "table9.csv").open() as file:
    TABLE = {row["system"]: row for row in csv.DictReader(file)}
DERIVED = json.loads((GOLDEN / "table9_derived.json").read_text())
PUBLISHED_2022 = json.loads((GOLDEN / "vpc2022_b1b.json").read_text())

KINDS = {"baselines": "baseline", "orig": "original", "post": "post_challenge"}


def rates(name):
    return SystemRates(
        *(float(TABLE[name][f"test_{kind}"]) / 100 for kind in ("eer", "wer", "uar"))
    )


def names_of(group):
    if group == "all":
        return list(TABLE)
    kinds = {"submission"} | {KINDS[kind] for kind in group.split("+")[1:]}
    return [name for name, row in TABLE.items() if row["kind"] in kinds]


def changes(group):
    return {name: relative_change(rates(name), rates("orig")) for name in names_of(group)}


def test_golden_gender_gaps():
    for name, golden in DERIVED["mfdr"].items():
        for part, expected in golden.items():
            rows = [float(TABLE[name][f"{part}_eer_{gender}"]) for gender in "fm"]
            assert gender_gap(*rows).percent == pytest.approx(expected, abs=1e-9)
            assert gender_gap(*rows[::-1]).percent == pytest.approx(expected, abs=1e-9)
    lower = [name for name, golden in DERIVED["mfdr"].items() if golden["test"] < golden["dev"]]
    assert len(lower) == 33
    assert gender_gap(0, 0).value == 0
    assert gender_gap(0, 7).value == 2


def test_golden_changes():
    found = changes("all")
    for name, golden in DERIVED["delta_percent"].items():
        for kind in ("eer", "wer", "uar"):
            expected = pytest.approx(golden[f"d_{kind}"], abs=1e-9)
            assert 100 * getattr(found[name], kind) == expected


def test_golden_categories():
    systems = {name: rates(name) for name in names_of("submissions+baselines")}
    found = privacy_categories(systems)
    assert [category.least_eer for category in found] == [0.1, 0.2, 0.3, 0.4]
    for category, golden in zip(found, DERIVED["categories"].values(), strict=True):
        assert list(category.systems) == golden["systems_in_table_order"]
        kinds = [TABLE[name]["kind"] for name in category.systems]
        assert kinds.count("submission") == golden["n_submissions"]
        assert kinds.count("baseline") == golden["n_baselines"]
        for ranks, kind in ((category.wer_ranks, "wer"), (category.uar_ranks, "uar")):
            assert sorted(ranks, key=ranks.get) == golden[f"rank_by_{kind}"]
            for tied in golden["ties"][f"test_{kind}"]:
                assert len({ranks[name] for name in tied}) == 1
            # After a shared rank as many are left out.
            assert max(ranks.values()) == len(ranks)


def test_the_border_belongs_to_the_category():
    systems = {"on": SystemRates(0.2, 0.1, 0.1), "below": SystemRates(0.1999, 0.1, 0.1)}
    [category] = privacy_categories(systems, least_eers=[0.2])
    assert category.systems == ("on",)
    [empty] = privacy_categories(systems, least_eers=[0.5])
    assert (empty.systems, empty.wer_ranks) == ((), {})


@pytest.mark.parametrize("group", DERIVED["combined"])
def test_golden_combined_scores(group):
    found = combined_scores(changes(group))
    golden = DERIVED["combined"][group]
    assert [score.system for score in found] == [row["system"] for row in golden]
    for score, row in zip(found, golden, strict=True):
        assert score.value == pytest.approx(row["combined"], abs=1e-12)
        for kind in ("eer", "wer", "uar"):
            assert getattr(score, kind) == pytest.approx(row[f"n_{kind}"], abs=1e-12)


@pytest.mark.parametrize("group", DERIVED["pareto"])
def test_golden_fronts(group):
    systems = changes(group)
    for front, golden in DERIVED["pareto"][group].items():
        kinds = front.split("_vs_") if "_vs_" in front else ["uar", "wer", "eer"]
        points = [[getattr(change, kind) for kind in kinds] for change in systems.values()]
        found = pareto_front(points, higher_is_better=[kind == "eer" for kind in kinds])
        names = {name for name, on in zip(systems, found, strict=True) if on}
        assert names == set(golden)


def test_front_properties():
    points = np.random.RandomState(0).normal(size=(60, 3))
    front = pareto_front(points, higher_is_better=[True, False, True])
    mirrored = pareto_front(points * [1, -1, 1], higher_is_better=[True] * 3)
    np.testing.assert_array_equal(front, mirrored)
    assert pareto_front([[1, 2], [1, 2], [0, 2]], higher_is_better=[True, True]).tolist() == [
        True,
        True,
        False,
    ]


def test_scaling_of_equal_systems():
    change = relative_change(SystemRates(0.2, 0.1, 0.5), SystemRates(0.1, 0.1, 0.6))
    for score in combined_scores({"a": change, "b": change}):
        assert (score.value, score.eer, score.wer, score.uar) == (0.5, 0.5, 0.5, 0.5)


@pytest.mark.parametrize("name", [n for n in PUBLISHED_2022["averages"] if "WER" not in n])
def test_golden_averages_of_2022(name):
    metric = {"EER": "eer", "pitch correlation": "pitch_corr", "gain": "g_vd"}
    [metric] = [value for key, value in metric.items() if key in name]
    part = "dev" if " dev" in name else "test"
    speech = "orig" if name.endswith("orig") else "anon"
    values = {
        f"{row[1]}_{row[3]}": row[5]
        for row in PUBLISHED_2022["rows"]
        if (row[0], row[2], row[4]) == (metric, part, speech)
    }
    expected = PUBLISHED_2022["averages"][name]
    assert round(vpc2022_average(values), 3) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SystemRates(np.nan, 0.1, 0.1), "eer: nan"),
        (lambda: SystemRates(0.1, -0.1, 0.1), "wer: -0.1"),
        (lambda: gender_gap(-1, 2), "equal error rates"),
        (lambda: gender_gap(np.nan, 2), "equal error rates"),
        (lambda: relative_change(rates("B1"), SystemRates(0, 1, 1)), "rates above 0"),
        (lambda: combined_scores({}), "0 systems"),
        (lambda: pareto_front([[1, 2]], higher_is_better=[True]), r"shape \(1, 2\) and 1"),
        (lambda: pareto_front([[np.nan]], higher_is_better=[True]), "not finite"),
        (lambda: vpc2022_average({"libri_f": 1}), "subsets: libri_f; exactly"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
