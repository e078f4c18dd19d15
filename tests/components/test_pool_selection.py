"""PLDA scores of B1 against those of the original programs, and how they are ranked."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.selection.pool_average import (
    allowed_speakers,
    candidates,
    cosine_scores,
)
from voiceanon.components.speaker.plda import Plda
from voiceanon.errors import ConfigError, WeightsError

GOLDEN = Path(__file__).parents[1] / "golden" / "xvector_nsf"
STORED = {name: torch.from_numpy(x) for name, x in np.load(GOLDEN / "pool_selection.npz").items()}
FACTS = json.loads((GOLDEN / "pool_selection.json").read_text())
ORDER, SOURCES = FACTS["_pool_order"], FACTS["_source"]
POOL_SEXES = [FACTS["_pool_gender"][name] for name in ORDER]
SOURCE_SEXES = [facts["gender"] for facts in SOURCES.values()]
COUNT = 20
DEVICE = torch.device("cpu")

PLDA_TOLERANCE = 2e-6
"""Absolute, for scores up to 13 with 7 digits; the original keeps float32 between its programs."""


@pytest.fixture(scope="module")
def plda():
    names = ("mean_vec", "lda", "plda_mean", "plda_transform", "plda_psi")
    return Plda(*(STORED[name] for name in names))


def score(plda, distance):
    if distance == "cosine":
        return cosine_scores(STORED["spk_xvectors"], STORED["pool"])
    return plda.prepare(STORED["pool"]).scores(STORED["spk_xvectors"])


def stored_scores(distance):
    return torch.stack([STORED[f"{distance}_score_{source}"] for source in SOURCES])


WANTED = {
    "same": SOURCE_SEXES,
    "other": ["m" if sex == "f" else "f" for sex in SOURCE_SEXES],
    "any": [""] * len(SOURCE_SEXES),
}


def rank(scores, rule="same", **options):
    allowed = allowed_speakers(POOL_SEXES, WANTED[rule], DEVICE)
    return candidates(scores, allowed, count=COUNT, **options)


# Scores.


@pytest.mark.parametrize(("distance", "tolerance"), [("plda", PLDA_TOLERANCE), ("cosine", 1e-6)])
def test_scores(plda, distance, tolerance):
    result = score(plda, distance)
    assert result.dtype == torch.float64
    torch.testing.assert_close(result, stored_scores(distance), rtol=1e-6, atol=tolerance)


def test_stored_scores_have_seven_digits():
    digits = [
        len(re.sub(r"\D", "", repr(x)).lstrip("0")) for x in stored_scores("plda").ravel().tolist()
    ]
    assert max(digits) == 7


def test_scores_are_rounded_as_printed(plda):
    prepared = plda.prepare(STORED["pool"])
    exact = prepared.scores(STORED["spk_xvectors"], digits=None)
    for digits in (3, 7):
        rounded = prepared.scores(STORED["spk_xvectors"], digits=digits)
        printed = [[float(f"{x:.{digits}g}") for x in row] for row in exact.tolist()]
        assert rounded.tolist() == printed


def test_rounding_holds_for_any_magnitude(plda):
    from voiceanon.components.speaker.plda import _rounded

    values = [0.0, 1e-9 / 3, -2 / 3, 9.99999996, 123456789.0, -1e12 / 7]
    result = _rounded(torch.tensor(values, dtype=torch.float64), 7)
    assert result.tolist() == [float(f"{x:.7g}") for x in values]


def test_scores_of_one_source_are_those_in_a_batch(plda):
    prepared = plda.prepare(STORED["pool"])
    together = prepared.scores(STORED["utt_xvectors"])
    for row, source in zip(together, STORED["utt_xvectors"], strict=True):
        assert torch.equal(prepared.scores(source[None])[0], row)


def test_a_speaker_is_most_like_itself(plda):
    scores = plda.prepare(STORED["pool"]).scores(STORED["pool"])
    assert torch.equal(scores.argmax(1), torch.arange(len(ORDER)))
    torch.testing.assert_close(scores, scores.T, rtol=1e-6, atol=1e-5)


def test_files_that_do_not_belong_together_are_refused(plda):
    with pytest.raises(WeightsError, match=r"\(8, 18\)"):
        Plda(torch.zeros(17), plda.transform, plda.centre, plda.matrix, plda.spread)


# Selection.


def test_equal_scores_keep_the_order_of_the_pool():
    scores = torch.tensor([[1.0, 0.0, 1.0, 0.0, 1.0]])
    everyone = torch.ones(5, dtype=torch.bool)
    assert candidates(scores, everyone, count=4).tolist() == [[1, 3, 0, 2]]
    nearest = candidates(scores, everyone, count=4, proximity="nearest")
    assert nearest.tolist() == [[0, 2, 4, 1]]


def test_any_sex():
    scores = stored_scores("plda")
    ranked = rank(scores, "any")
    assert torch.equal(ranked, scores.sort(dim=1, stable=True).indices[:, :COUNT])
    assert {POOL_SEXES[i] for i in ranked[0].tolist()} == {"f", "m"}
    allowed = allowed_speakers([*POOL_SEXES, ""], ["", "f"], DEVICE)
    assert allowed.shape == (2, 49)
    assert allowed[0].all()
    assert not allowed[1, -1]


def test_too_few_speakers_are_refused():
    with pytest.raises(ConfigError, match=r"24 speakers .* 25"):
        candidates(
            stored_scores("plda"),
            allowed_speakers(POOL_SEXES, SOURCE_SEXES, DEVICE),
            count=25,
        )


def test_other_words_are_refused():
    with pytest.raises(ConfigError, match="'far'"):
        rank(stored_scores("plda"), proximity="far")
