"""Conditions, and the passports of numbers."""

import dataclasses

import pytest

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import MetricWarning
from voiceanon.eval.protocol.condition import Attack, Utility
from voiceanon.eval.protocol.measurement import (
    Interval,
    Measurement,
    SpeechCounts,
    TrialCounts,
    warn_of_weak_attacker,
)

ATTACKS = {
    "OO": ("original", "original", "unprotected", "original"),
    "OA": ("original", "anonymized", "ignorant", "original"),
    "AA-lazy": ("anonymized", "anonymized", "lazy-informed", "original"),
    "AA-semi": ("anonymized", "anonymized", "semi-informed", "anonymized"),
    "OR": ("original", "resynthesized", "ignorant", "original"),
    "RR-lazy": ("resynthesized", "resynthesized", "lazy-informed", "original"),
}
"""Specification sheet of the evaluation, section 3.1."""

UTILITIES = {
    "O": ("original", "original"),
    "A-lazy": ("anonymized", "original"),
    "A-semi": ("anonymized", "anonymized"),
    "R-lazy": ("resynthesized", "original"),
}

COUNTS = TrialCounts(
    targets=548,
    nontargets=11196,
    enrolment_speakers=16,
    enrolment_utterances=254,
    trial_speakers=20,
    trial_utterances=734,
)
"""LibriSpeech test female; the speakers' numbers are made up."""


def attack(name="OA", **changes):
    trained_on = ATTACKS[name][3]
    facts = {"attacker": "ASV_eval", "training_data": "LibriSpeech", "trained_on": trained_on}
    return Attack(**{"name": name, **facts, **changes})


def measurement(**changes):
    facts = {
        "metric": "EER",
        "variant": "nearest",
        "value": 0.3281,
        "unit": "fraction",
        "higher_is": "more private",
        "condition": attack(),
        "system": "vpc2024-b2",
        "level": "utterance",
        "data": "libri_test",
        "sex": "f",
        "counts": COUNTS,
    }
    return Measurement(**{**facts, **changes})


def original(value, **changes):
    facts = {"condition": attack("OO"), "system": "none", "level": "none", "value": value}
    return measurement(**{**facts, **changes})


@pytest.mark.parametrize("name", ATTACKS)
def test_sides_of_attacks(name):
    enrolment, trial, knowledge, trained_on = ATTACKS[name]
    condition = attack(name)
    assert (condition.enrolment, condition.trial) == condition.sides == (enrolment, trial)
    assert condition.knowledge == knowledge
    wrong = "original" if trained_on == "anonymized" else "anonymized"
    with pytest.raises(ConfigError, match=f"trained on {trained_on} speech is due"):
        attack(name, trained_on=wrong)


@pytest.mark.parametrize("name", UTILITIES)
def test_sides_of_utilities(name):
    speech, trained_on = UTILITIES[name]
    facts = {"name": name, "model": "ASR_eval", "training_data": "LibriSpeech"}
    condition = Utility(**facts, trained_on=trained_on)
    assert condition.sides == (condition.speech,) == (speech,)
    with pytest.raises(ConfigError, match="trained on"):
        Utility(**facts, trained_on="resynthesized")


def test_unknown_names_and_empty_texts_are_refused():
    with pytest.raises(ConfigError, match="'AO' is none of OO, OA, AA-lazy"):
        Attack(name="AO", attacker="x", training_data="y")
    with pytest.raises(ConfigError, match="'A' is none of O, A-lazy"):
        Utility(name="A", model="x", training_data="y")
    with pytest.raises(ConfigError, match="training_data: the text is empty"):
        attack(training_data=" ")


def test_no_fact_of_a_row_is_blank():
    for each in (measurement(), original(0.08)):
        row = each.to_row()
        assert all(text.strip() for text in row.values())
    row = measurement(interval=Interval(low=0.3, high=0.36, method="95 %, speakers")).to_row()
    assert row["interval"] == "0.3 to 0.36 (95 %, speakers)"
    assert row["value"] == "0.3281"
    assert (row["enrolment"], row["speech"]) == ("original", "anonymized")
    assert (row["knowledge"], row["model"]) == ("ignorant", "ASV_eval")
    assert row["counts"].startswith("548 target and 11196 non-target trials")
    assert measurement().to_row()["interval"] == "not computed"


def test_rows_tell_everything_that_tells_numbers_apart():
    """Whatever changes a number must change its row, too."""
    rows = {tuple(measurement().to_row().values())}
    others = [
        {"variant": "rocch"},
        {"system": "vpc2024-b5"},
        {"level": "speaker"},
        {"data": "libri_dev"},
        {"sex": "both"},
        {"counts": dataclasses.replace(COUNTS, targets=547)},
        {"condition": attack("AA-lazy")},
        {"condition": attack("AA-semi")},
        {"condition": attack(attacker="another")},
        {"condition": attack(training_data="VoxCeleb")},
    ]
    rows |= {tuple(measurement(**change).to_row().values()) for change in others}
    assert len(rows) == 1 + len(others)


def test_utility_rows():
    condition = Utility(name="A-lazy", model="ASR_eval", training_data="LibriSpeech")
    row = measurement(
        metric="WER",
        variant="-",
        higher_is="less useful",
        condition=condition,
        counts=SpeechCounts(utterances=1496, speakers=40, words=35042),
    ).to_row()
    assert row["counts"] == "1496 utterances of 40 speakers, 35042 reference words"
    assert (row["enrolment"], row["speech"]) == ("none", "anonymized")
    assert SpeechCounts(utterances=3, speakers=1).describe() == "3 utterances of 1 speakers"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system": "none"}, "system: 'none' does not fit the condition OA; one is due"),
        ({"level": "none"}, "level: 'none' does not fit"),
        ({"condition": attack("OO")}, "'none' is due"),
        ({"sex": "male"}, "sex: 'male' is none of f, m, both"),
        ({"level": "word"}, "level: 'word' is none of"),
        ({"data": ""}, "data: the text is empty"),
        ({"counts": SpeechCounts(utterances=1, speakers=1)}, "SpeechCounts do not fit"),
    ],
)
def test_facts_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        measurement(**changes)


def test_weak_attackers_are_warned_of(recwarn):
    warn_of_weak_attacker(original(0.15))
    assert not recwarn.list
    with pytest.warns(MetricWarning, match=r"38\.0 %, above 15 %"):
        warn_of_weak_attacker(original(0.38))
    for wrong in (measurement(), original(38.0, unit="percent"), original(0.1, metric="AUC")):
        with pytest.raises(ConfigError, match="expected the EER, a fraction, under OO"):
            warn_of_weak_attacker(wrong)
