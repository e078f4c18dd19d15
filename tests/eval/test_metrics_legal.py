"""Legal linkability and singling out: golden stages, closed forms, the paper's own package."""

import json
from itertools import combinations

import numpy as np
import pytest
from score_sets import GOLDEN

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import (
    TRIVIAL_ATTACKER,
    better_candidates,
    cosine_scores,
    equal_error_rate,
    legal_linkability,
    normalised_mean,
    singling_out,
)
from voiceanon.eval.metrics.singling_out import (
    _conversations,
    isolates,
    isolation_threshold,
)

NUMBERS = json.loads((GOLDEN / "legal.json").read_text())
ARRAYS = np.load(GOLDEN / "legal.npz")
SETS = {
    "tiny": np.array(NUMBERS["tiny"]["scores"]),
    "medium": ARRAYS["medium_scores"],
}
OWN_FIRST = np.array([[i, *(j for j in range(8) if j != i)] for i in range(8)])


def synthetic(random, speakers=12, utterances=8, features=10, *, noise=0.8):
    """Enrolment embeddings, and utterances of the same speakers."""
    centres = random.normal(size=(speakers, 1, features))
    enrolment = centres[:, 0] + 0.3 * random.normal(size=(speakers, features))
    return enrolment, centres + noise * random.normal(size=(speakers, utterances, features))


@pytest.mark.parametrize("name", SETS)
def test_golden_linkability(name):
    scores = SETS[name]
    better = better_candidates(scores, np.arange(scores.shape[1]))
    assert better.tolist() == NUMBERS[name]["beaters"]
    golden = NUMBERS[name]["exact"]
    found = legal_linkability(better, len(scores), [int(size) for size in golden])
    np.testing.assert_allclose(found.values, list(golden.values()), atol=1e-12)
    np.testing.assert_array_equal(found.chance, 1 / found.populations)


def test_linkability_is_the_share_of_all_sets():
    scores = np.round(np.random.RandomState(0).normal(size=(7, 5)), 1)
    better = better_candidates(scores, [6, 1, 2, 3, 4])
    for size in range(1, 8):
        hits = []
        for column, true in enumerate([6, 1, 2, 3, 4]):
            others = [row for row in range(7) if row != true]
            hits += [
                all(scores[row, column] <= scores[true, column] for row in chosen)
                for chosen in combinations(others, size - 1)
            ]
        found = legal_linkability(better, 7, size)
        assert found.values[0] == pytest.approx(np.mean(hits), abs=1e-12)


def test_linkability_of_large_populations():
    better = np.array([0, 10, 22_000])
    found = legal_linkability(better, 22_024, [1, 2, 20, 10_000, 22_024])
    assert found.values[0] == 1
    assert found.values[-1] == pytest.approx(1 / 3)
    assert found.values[1] == pytest.approx(np.mean(1 - better / 22_023), abs=1e-9)
    assert (np.diff(found.values) < 0).all()


def test_sampled_linkability_is_near():
    for size, runs in NUMBERS["medium"]["sampling_seed0_5runs"].items():
        exact = NUMBERS["medium"]["exact"][size]
        assert np.mean(runs) == pytest.approx(exact, abs=0.05)


def test_golden_convex_hull_rate():
    scores = SETS["medium"].astype(np.float64)
    same = np.eye(120, 60, dtype=bool)
    found = equal_error_rate(scores[same], scores[~same], variant="rocch").value
    assert found == pytest.approx(NUMBERS["medium"]["rocch_eer_all_pairs"], abs=1e-12)


def test_blocks_of_candidates(monkeypatch):
    scores = SETS["medium"]
    expected = better_candidates(scores, np.arange(60))
    monkeypatch.setattr("voiceanon.eval.metrics.legal.BLOCK_SCORES", 130)
    np.testing.assert_array_equal(better_candidates(scores, np.arange(60)), expected)


@pytest.mark.parametrize("length", [1, 3])
def test_golden_singling_out(length):
    golden = NUMBERS["singling_out"][f"L{length}"]
    rows = np.arange(8)[:, None]
    test = ARRAYS[f"so_L{length}_test_scores"][rows, OWN_FIRST]
    calibration = ARRAYS[f"so_L{length}_calibration_scores"].reshape(8, 8, 9)[rows, OWN_FIRST]
    thresholds = isolation_threshold(calibration)
    np.testing.assert_allclose(thresholds, list(golden["threshold"].values()), atol=1e-12)
    firing = np.count_nonzero(test > thresholds[:, None], axis=1)
    assert firing.tolist() == golden["n_firing"]
    assert isolates(test, calibration).tolist() == list(map(bool, golden["outcome"].values()))


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_singling_out_of_the_golden_voices(length, size):
    """The package's own draws are others; three folds of it are this far from ten."""
    found = singling_out(
        ARRAYS["so_enroll_embeddings"],
        np.arange(8),
        ARRAYS["so_utt_embeddings"],
        population=size,
        conversation_length=length,
        generator=np.random.default_rng(0),
    )
    golden = NUMBERS["singling_out"][f"L{length}"]["sweep_3folds_mean"][str(size)]
    assert found.value == pytest.approx(golden, abs=0.11)
    assert found.outcomes.shape == (10, 8, 5)
    assert found.value == found.outcomes.mean()


def test_package_agrees():
    package = pytest.importorskip("legal_eval.metrics.singling_out")
    embeddings = pytest.importorskip("legal_eval.embeddings")
    enrolment, utterances = synthetic(np.random.RandomState(1))
    names = [f"s{i:02}" for i in range(12)]
    spoken = {name: [f"{name}-{k}" for k in range(8)] for name in names}
    voices = {
        f"{n}-{k}": row for n, of in zip(names, utterances, strict=True) for k, row in enumerate(of)
    }
    own = {name: normalised_mean(row[None]) for name, row in zip(names, enrolment, strict=True)}
    order = np.array([[i, *(j for j in range(12) if j != i)] for i in range(12)])
    rows = np.arange(12)[:, None]
    for fold in range(3):
        conversations = embeddings.build_conversations(spoken, voices, 2, fold=fold)
        scored = package.score_conversations(own, conversations)
        expected = package.singling_out(scored, 12, n_runs=1, fold=fold)
        test = np.asarray(scored.test_scores)[rows, order]
        calibration = np.asarray(scored.calibration_scores).reshape(12, 12, 9)[rows, order]
        found = isolates(test, calibration)
        assert found.astype(int).tolist() == [expected[name][0] for name in names]


def test_conversations_are_the_first_and_combinations_of_the_others():
    class InOrder:
        def permutation(self, count):
            return np.arange(count)

    voices = [np.eye(7)[:count] for count in (7, 5)]
    test, calibration = _conversations(voices, 2, InOrder())
    np.testing.assert_allclose(test, [[0.5**0.5] * 2 + [0] * 5] * 2)
    firsts = [tuple(np.flatnonzero(row)) for row in calibration[0]]
    assert firsts == list(combinations(range(2, 7), 2))[:9]
    assert np.isnan(calibration[1, 3:]).all()
    seconds = [tuple(np.flatnonzero(row)) for row in calibration[1, :3]]
    assert seconds == [(2, 3), (2, 4), (3, 4)]


def test_threshold_by_hand():
    calibration = np.array([[0.9, 0.7], [0.8, 0.1], [0.5, 0.2]])
    assert isolation_threshold(calibration) == pytest.approx(0.75)
    # With one conversation of its own, the highest score alone is above.
    calibration[0, 1] = np.nan
    assert isolation_threshold(calibration) == pytest.approx(0.85)


def test_separated_speakers_are_always_singled_out():
    enrolment, utterances = synthetic(np.random.RandomState(2), noise=0.01)
    found = singling_out(
        enrolment,
        np.arange(12),
        utterances,
        population=6,
        conversation_length=2,
        generator=np.random.default_rng(0),
        folds=2,
    )
    assert found.value > 0.95


def test_voices_without_information_give_the_trivial_attacker():
    random = np.random.RandomState(3)
    found = singling_out(
        random.normal(size=(40, 16)),
        np.arange(40),
        random.normal(size=(40, 20, 16)),
        population=40,
        conversation_length=1,
        generator=np.random.default_rng(0),
        draws=1,
    )
    assert found.value == pytest.approx(TRIVIAL_ATTACKER, abs=0.08)


def test_speakers_with_different_numbers_of_utterances():
    """Fewer than nine calibration conversations; enrolled speakers in another order."""
    enrolment, utterances = synthetic(np.random.RandomState(4), noise=0.01)
    ragged = [voice[: 4 + index % 5] for index, voice in enumerate(utterances)]
    found = singling_out(
        enrolment[::-2],
        np.arange(12)[::-2],
        ragged,
        population=12,
        conversation_length=2,
        generator=np.random.default_rng(0),
        folds=2,
    )
    assert found.outcomes.all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"population": 13}, "population: 13; allowed is 2 to 12"),
        ({"population": 1}, "population: 1"),
        ({"conversation_length": 5}, "conversation_length: 5; allowed is 1 to 4"),
        ({"folds": 0}, "folds: 0"),
        ({"own_speakers": np.arange(1, 13)}, "from 1 to 12; allowed is 0 to 11"),
        ({"own_speakers": np.arange(3)}, r"shape \(3,\)"),
        ({"enrolment": np.ones((12, 9))}, r"\[9, 10\] features"),
        ({"enrolment": np.zeros((12, 10))}, "all zeros"),
    ],
)
def test_singling_out_refuses(change, message):
    enrolment, utterances = synthetic(np.random.RandomState(5))
    arguments = {
        "enrolment": enrolment,
        "own_speakers": np.arange(12),
        "utterances": utterances,
        "population": 4,
        "conversation_length": 2,
        "generator": np.random.default_rng(0),
        **change,
    }
    with pytest.raises(ConfigError, match=message):
        singling_out(**arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: better_candidates(np.ones((3, 2)), [0]), r"shape \(3, 2\) for 1 queries"),
        (lambda: better_candidates(np.ones((3, 2)), [0, 3]), "true rows: from 0 to 3"),
        (lambda: better_candidates(np.ones((3, 2)), [0.0, 1.0]), "true rows: .*float64"),
        (lambda: better_candidates(np.full((3, 1), np.nan), [0]), "not finite"),
        (lambda: legal_linkability([0, 3], 3, [2]), "better speakers: from 0 to 3"),
        (lambda: legal_linkability([], 3, [2]), r"better speakers: shape \(0,\)"),
        (lambda: legal_linkability([0], 3, [0]), "populations: from 0"),
        (lambda: legal_linkability([0], 3, [4]), "populations: from 4 to 4; allowed is 1 to 3"),
    ],
)
def test_linkability_refuses(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_mean_of_a_conversation_is_normalised_twice():
    voices = np.array([[3.0, 0.0], [0.0, 0.1]])
    np.testing.assert_allclose(normalised_mean(voices), [0.5**0.5] * 2)
    assert cosine_scores(voices, voices)[0, 1] == 0
