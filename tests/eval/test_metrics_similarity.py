"""Similarity matrices, DeID and G_VD against published code's numbers."""

import json

import numpy as np
import pytest
from score_sets import GOLDEN

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import (
    calibrate_scores,
    cosine_scores,
    similarity_matrix,
    voice_distinctiveness,
)

ARRAYS = np.load(GOLDEN / "similarity.npz")
NUMBERS = json.loads((GOLDEN / "similarity.json").read_text())
SPEAKERS, UTTERANCES = ARRAYS["spk_ids"], ARRAYS["utt_ids"]
SIDES = {"osp": ARRAYS["emb_orig"], "psp": ARRAYS["emb_anon"]}
PAIRS = ("osp_osp", "osp_psp", "psp_psp")

FLOAT32_COSINE = 5e-8
"""Uncalibrated entries move as the cosines do, which differ in the last bit of float32."""

CASES = {
    "vpc2022": ("vpc2022", slice(None), 1e-9),
    "voicepat_as_is_all": ("voicepat", slice(None), FLOAT32_COSINE),
    "voicepat_as_is_5": ("voicepat", np.isin(UTTERANCES, ARRAYS["selected5"]), FLOAT32_COSINE),
    "voicepat_calibrated_all": ("voicepat_calibrated", slice(None), 1e-9),
    "voicepat_calibrated_5": (
        "voicepat_calibrated",
        np.isin(UTTERANCES, ARRAYS["selected5"]),
        1e-9,
    ),
}


def matrices(mode, chosen=slice(None)):
    found = []
    for pair in PAIRS:
        rows, columns = (SIDES[side][chosen] for side in pair.split("_"))
        scores = cosine_scores(rows, columns)
        found.append(similarity_matrix(scores, SPEAKERS[chosen], UTTERANCES[chosen], mode=mode))
    return found


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    mode, chosen, tolerance = CASES[case]
    found = matrices(mode, chosen)
    for pair, matrix in zip(PAIRS, found, strict=True):
        np.testing.assert_allclose(matrix.values, ARRAYS[f"{case}_{pair}"], atol=tolerance)
        assert matrix.speakers == ("s00", "s01", "s02", "s03", "s04", "s05")
    result = voice_distinctiveness(*found)
    assert result.deid == pytest.approx(NUMBERS[case]["deid"], abs=10 * tolerance)
    assert result.gain_db == pytest.approx(NUMBERS[case]["gvd"], abs=10 * tolerance)


@pytest.mark.parametrize("pair", ["osp_osp", "psp_psp"])
def test_golden_from_stored_scores(pair):
    """With the reference's own float32 cosines nothing is left to differ."""
    scores = np.zeros((48, 48))
    rows, columns = ARRAYS[f"vpc2022_{pair}_pairs"].T
    scores[rows, columns] = scores[columns, rows] = ARRAYS[f"vpc2022_{pair}_raw"]
    found = similarity_matrix(scores, SPEAKERS, UTTERANCES, mode="voicepat")
    np.testing.assert_allclose(found.values, ARRAYS[f"voicepat_as_is_all_{pair}"], atol=1e-12)


def test_default_is_the_mean_over_all_pairs_of_different_utterances():
    scores = cosine_scores(SIDES["osp"], SIDES["psp"])
    found = similarity_matrix(scores, SPEAKERS, UTTERANCES)
    calibrated = np.zeros(scores.shape)
    used = UTTERANCES[:, None] != UTTERANCES
    calibrated[used] = calibrate_scores(
        scores[used], (SPEAKERS[:, None] == SPEAKERS)[used], laplace=True
    )
    for i, row in enumerate(found.speakers):
        for j, column in enumerate(found.speakers):
            block = np.outer(row == SPEAKERS, column == SPEAKERS) & used
            expected = 1 / (1 + np.exp(-calibrated[block].mean()))
            assert found.values[i, j] == pytest.approx(expected, abs=1e-12)
    assert not np.allclose(found.values, found.values.T)
    on = np.diag(found.values).mean()
    off = found.values[~np.eye(6, dtype=bool)].mean()
    assert found.diagonal_dominance == pytest.approx(abs(on - off), abs=1e-12)


@pytest.mark.parametrize("mode", ["calibrated", "voicepat"])
def test_order_of_recordings_does_not_matter(mode):
    scores = cosine_scores(SIDES["psp"], SIDES["psp"])
    expected = similarity_matrix(scores, SPEAKERS, UTTERANCES, mode=mode)
    # The first of each speaker stays the first, so that speakers stay in order.
    order = np.lexsort((np.random.RandomState(0).permutation(48), np.arange(48) % 8 > 0))
    order = np.concatenate([np.sort(order[:6]), order[6:]])
    found = similarity_matrix(
        scores[np.ix_(order, order[::-1])],
        SPEAKERS[order],
        UTTERANCES[order],
        SPEAKERS[order[::-1]],
        UTTERANCES[order[::-1]],
        mode=mode,
    )
    assert found.speakers == expected.speakers
    np.testing.assert_allclose(found.values, expected.values, atol=1e-12)


def test_nothing_changed_and_everything_changed():
    original, _, _ = matrices("calibrated")
    same = voice_distinctiveness(original, original, original)
    assert (same.deid, same.gain_db) == (0, 0)
    one_voice = similarity_matrix(np.ones((48, 48)), SPEAKERS, UTTERANCES)
    gone = voice_distinctiveness(original, one_voice, one_voice)
    assert (gone.deid, gone.gain_db) == (1, -np.inf)
    nothing = voice_distinctiveness(one_voice, original, original)
    assert np.isnan(nothing.deid)
    assert np.isnan(nothing.gain_db)


BAD = {
    "one speaker": (np.eye(2), ["a", "a"], ["1", "2"], {}, "one speaker"),
    "one utterance": (np.eye(3), ["a", "a", "b"], ["1", "2", "3"], {}, "speakers b and b"),
    "not finite": (np.full((4, 4), np.nan), list("aabb"), list("1234"), {}, "not finite"),
    "one dimension": (np.ones(4), list("aabb"), list("1234"), {}, r"shape \(4,\)"),
    "too few names": (np.eye(4), list("aab"), list("123"), {}, "a list of 4"),
    "too few utterances": (np.eye(4), list("aabb"), list("123"), {}, "one for each row"),
    "other speakers": (
        np.eye(4),
        list("aabb"),
        list("1234"),
        {"column_speakers": list("aacc"), "column_utterances": list("1234")},
        "speakers such as b, c",
    ),
    "mode": (np.eye(4), list("aabb"), list("1234"), {"mode": "vpc2024"}, "'vpc2024'; allowed are"),
    "not grouped": (
        np.eye(4),
        list("abab"),
        list("1221"),
        {"mode": "vpc2022", "column_speakers": list("bbaa"), "column_utterances": list("1234")},
        "no pair of different",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(case):
    scores, speakers, utterances, options, message = BAD[case]
    with pytest.raises(ConfigError, match=message):
        similarity_matrix(scores, speakers, utterances, **options)


def test_matrices_that_do_not_belong_together():
    original, cross, anonymized = matrices("calibrated")
    raw = matrices("voicepat")
    with pytest.raises(ConfigError, match="different speakers or modes"):
        voice_distinctiveness(original, cross, raw[2])
    assert voice_distinctiveness(original, cross, anonymized).gain_db < 0


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), "3 and 4 features"),
        (np.array([[1.0], [0.0]]), np.ones((1, 1)), "row 1 is all zeros"),
        (np.ones((1, 2)), np.array([[1.0, np.nan]]), "row 0 is not finite"),
        (np.ones(3), np.ones((1, 3)), r"shape \(3,\)"),
        (np.ones((1, 3)), np.ones((0, 3)), r"shape \(0, 3\)"),
    ],
)
def test_embeddings_that_hurt(rows, columns, message):
    with pytest.raises(ConfigError, match=message):
        cosine_scores(rows, columns)
