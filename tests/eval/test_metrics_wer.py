"""Word error rates and their intervals."""

import json

import numpy as np
import pytest
from score_sets import GOLDEN

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import normalise_reference, wer_interval, word_error_rate

pytest.importorskip("jiwer")

NUMBERS = json.loads((GOLDEN / "wer_uar.json").read_text())["wer"]
REFERENCES = {pair["id"]: pair["ref"] for pair in NUMBERS["pairs"]}
HYPOTHESES = {pair["id"]: pair["hyp"] for pair in NUMBERS["pairs"]}


def counts_of(name):
    """Errors, words and speakers of a golden set."""
    if name == "ci_small":
        found = word_error_rate(REFERENCES, HYPOTHESES)
        return found.errors, found.words, None
    random = np.random.RandomState(301)
    words = random.poisson(22, 1496) + 1
    errors = random.binomial(words, np.clip(random.beta(0.3, 9, 1496), 0, 1))
    return errors, words, random.randint(0, 40, 1496)


def plain_distance(reference, hypothesis):
    """Least number of edits, by the table of Wagner and Fischer."""
    row = np.arange(len(hypothesis) + 1)
    for i, word in enumerate(reference, 1):
        before, row = row, np.full(len(hypothesis) + 1, i)
        for j, other in enumerate(hypothesis, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (word != other))
    return row[-1]


def test_golden():
    found = word_error_rate(REFERENCES, HYPOTHESES)
    golden = NUMBERS["summary"]
    assert found.percent == pytest.approx(golden["WER"], abs=1e-12)
    assert found.words.sum() == golden["num_scored_tokens"]
    assert found.errors.sum() == golden["num_edits"]
    assert np.count_nonzero(found.errors) == golden["num_erraneous_sents"]
    assert found.missing_count == 0
    for index, row in enumerate(NUMBERS["per_utterance"]):
        assert found.utterances[index] == row["id"]
        kinds = (found.substitutions, found.deletions, found.insertions)
        expected = [row["sub"], row["del"], row["ins"]]
        if not HYPOTHESES[row["id"]]:
            # The reference takes an empty text for one empty word.
            expected = [0, row["ref_words"], 0]
        assert [kind[index] for kind in kinds] == expected
        rate = 100 * found.errors[index] / found.words[index]
        assert rate == pytest.approx(row["wer"], abs=1e-12)


def test_plain_algorithm_agrees():
    random = np.random.RandomState(0)
    texts = [
        {str(i): " ".join(random.choice(list("ABC"), random.randint(0, 9))) for i in range(200)}
        for _ in "rh"
    ]
    found = word_error_rate(*texts)
    for index, name in enumerate(found.utterances):
        reference, hypothesis = (side[name].split() for side in texts)
        assert found.errors[index] == plain_distance(reference, hypothesis)
        surplus = found.insertions[index] - found.deletions[index]
        assert surplus == len(hypothesis) - len(reference)


def test_empty_texts():
    found = word_error_rate({"a": "", "b": "TWO WORDS", "c": ""}, {"a": "ONE", "b": "", "c": ""})
    np.testing.assert_array_equal(found.insertions, [1, 0, 0])
    np.testing.assert_array_equal(found.deletions, [0, 2, 0])
    assert found.value == 1.5


def test_references_are_normalised():
    assert normalise_reference(" Don't  stop, please!Now?  ") == "DON'T STOP PLEASE NOW"
    assert word_error_rate({"a": "Yes, sir."}, {"a": "YES SIR"}).value == 0
    assert word_error_rate({"a": "Yes, sir."}, {"a": "yes sir"}).value == 1


def test_names_that_do_not_match():
    with pytest.raises(ConfigError, match="2 utterances have none, such as b, c"):
        word_error_rate({"a": "A", "b": "B", "c": "C"}, {"a": "A"})
    found = word_error_rate({"a": "A", "b": "B B B"}, {"a": "A"}, missing="empty")
    assert (found.value, found.missing_count) == (0.75, 1)
    with pytest.raises(ConfigError, match="1 without a reference, such as x"):
        word_error_rate({"a": "A"}, {"a": "A", "x": "B"}, missing="empty")
    with pytest.raises(ConfigError, match="'skip'; allowed are"):
        word_error_rate({"a": "A"}, {"a": "A"}, missing="skip")
    for nothing in ({}, {"a": " ?! "}):
        with pytest.raises(ConfigError, match="without a word"):
            word_error_rate(nothing, nothing)


@pytest.mark.parametrize("name", ["ci_small", "ci_large"])
def test_golden_intervals(name):
    errors, words, speakers = counts_of(name)
    golden = NUMBERS[name]
    found = wer_interval(errors, words, method="binomial")
    assert 100 * found.value == pytest.approx(golden["wer"], abs=1e-10)
    half = pytest.approx(golden["binomial_normal_halfwidth"], abs=1e-10)
    assert 50 * (found.high - found.low) == half

    def interval(method):
        return wer_interval(errors, words, method=method, generator=np.random.RandomState(0))

    found = interval("utterances")
    assert 100 * found.replicate_mean == pytest.approx(golden["bootstrap_mean"], abs=1e-10)
    ends = golden["bootstrap_percentile_2.5_97.5"]
    assert [100 * found.low, 100 * found.high] == pytest.approx(ends, abs=1e-10)
    found = interval("utterances_normal")
    half = golden["bootstrap_normal_halfwidth_1.96std"]
    assert 50 * (found.high - found.low) == pytest.approx(half, abs=1e-10)
    if speakers is None:
        return
    found = wer_interval(errors, words, speakers=speakers, generator=np.random.RandomState(0))
    half = golden["speaker_block_bootstrap_normal_halfwidth"]
    assert 196 * found.standard_error == pytest.approx(half, abs=1e-10)
    ends = golden["speaker_block_percentile"]
    assert [100 * found.low, 100 * found.high] == pytest.approx(ends, abs=1e-10)


def test_published_half_widths():
    words = 35042
    for name, half in NUMBERS["published_binomial_halfwidths_n35042"].items():
        rate = float(name.split()[1].rstrip("%")) / 100
        errors = round(rate * words)
        found = wer_interval([errors], [words], method="binomial")
        assert 50 * (found.high - found.low) == pytest.approx(half, abs=2e-4)


def test_draws_do_not_depend_on_how_many_are_held(monkeypatch):
    errors, words, speakers = counts_of("ci_large")
    for make in (np.random.RandomState, np.random.default_rng):
        found = []
        for at_once in (1, 3000, 10**9):
            monkeypatch.setattr("voiceanon.eval.metrics.wer_intervals.DRAWS_AT_ONCE", at_once)
            found.append(
                wer_interval(errors, words, speakers=speakers, generator=make(1), replicates=100)
            )
        assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "bayes"}, "'bayes'; allowed are speakers"),
        ({}, "a generator and at least one replicate"),
        ({"generator": np.random.default_rng(0)}, "speakers: none given"),
        ({"generator": np.random.default_rng(0), "speakers": ["a"]}, "a list of 2"),
        ({"method": "utterances"}, "a generator"),
        ({"errors": [1]}, r"\(1,\) errors and \(2,\) words"),
        ({"errors": [0.5, 1.0]}, "whole numbers"),
        ({"errors": [-1, 1]}, "whole numbers"),
        ({"words": [0, 0]}, "no reference word"),
        ({"errors": [9, 9], "method": "binomial"}, "no share above 1"),
    ],
)
def test_refused(options, message):
    arguments = {"errors": [1, 0], "words": [3, 4], **options}
    with pytest.raises(ConfigError, match=message):
        wer_interval(**arguments)
