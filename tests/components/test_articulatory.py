"""Articulatory features against the original's stored values, and marks in odd places."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
import torch

from voiceanon.components.text.articulatory import (
    CONSONANT,
    END_OF_SENTENCE,
    EXCLAMATION_MARK,
    FEATURES,
    FULL_STOP,
    PHONEME,
    QUESTION_MARK,
    SILENCE,
    STRESS,
    UNVOICED,
    VOICED,
    VOWEL,
    WORD_BOUNDARY,
    features_of,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
CASES = json.loads((GOLDEN / "text_frontend.json").read_text(encoding="utf-8"))
ORIGINAL = json.loads((GOLDEN / "phones.json").read_text(encoding="utf-8"))
TABLE = json.loads(
    (files("voiceanon.components.text") / "articulatory.json").read_text(encoding="utf-8")
)

STRESSED, LONG = "\u02c8", "\u02d0"


def active(phones):
    return [row.nonzero().flatten().tolist() for row in phones.vectors]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["input"])
def test_stored_cases(case):
    phones = features_of(case["input"])
    assert phones.vectors.shape == (case["n"], FEATURES)
    assert phones.vectors.dtype == torch.float32
    assert set(phones.vectors.flatten().tolist()) == {0.0, 1.0}
    assert active(phones) == case["active"]
    assert phones.ids.dtype == torch.int64
    assert phones.ids.tolist() == case["aligner_ids"]
    assert phones.is_boundary.dtype == torch.bool
    assert phones.is_boundary.nonzero().flatten().tolist() == case["word_boundary_positions"]
    assert phones.dropped == "".join(case["dropped"])


def test_every_symbol_of_the_original_table():
    for symbol, features in ORIGINAL["phones"].items():
        phones = features_of(symbol)
        assert active(phones) == [features]
        identifier = ORIGINAL["aligner_ids"].get(symbol)
        assert phones.ids.tolist() == ([] if identifier is None else [identifier])
    for mark, feature in ORIGINAL["modifiers"]["previous"].items():
        assert active(features_of("a" + mark)) == [sorted([*ORIGINAL["phones"]["a"], feature])]


def test_names_of_features():
    assert TABLE["features"] == [ORIGINAL["features"][str(i)] for i in range(FEATURES)]
    names = {
        STRESS: "stressed",
        CONSONANT: "consonant",
        VOWEL: "vowel",
        PHONEME: "phoneme",
        SILENCE: "silence",
        END_OF_SENTENCE: "end of sentence",
        QUESTION_MARK: "questionmark",
        EXCLAMATION_MARK: "exclamationmark",
        FULL_STOP: "fullstop",
        WORD_BOUNDARY: "word-boundary",
        UNVOICED: "unvoiced",
        VOICED: "voiced",
    }
    assert {i: TABLE["features"][i] for i in names} == names


def test_utterance_without_words():
    phones = features_of("~" + "" + "~#")
    assert active(phones) == [[SILENCE], [SILENCE], [END_OF_SENTENCE]]
    assert phones.ids.tolist() == [0, 0, 1]


def test_nothing_at_all():
    phones = features_of("")
    assert phones.vectors.shape == (0, FEATURES)
    assert phones.ids.shape == phones.is_boundary.shape == (0,)


def test_marks_without_a_symbol():
    assert active(features_of(LONG + STRESSED + "ga")) == active(features_of("a"))
    assert active(features_of("a" + STRESSED)) == active(features_of("a"))


def test_length_marks_leave_stress_to_the_next_symbol():
    assert active(features_of("a" + STRESSED + LONG + "i")) == active(
        features_of("a" + LONG + STRESSED + "i")
    )


def test_odd_default_device_and_type():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            phones = features_of("a i")
    finally:
        torch.set_default_dtype(before)
    assert phones.vectors.dtype == torch.float32
    assert phones.ids.device.type == phones.vectors.device.type == "cpu"
