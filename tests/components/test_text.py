"""Words that can be spoken, and their sounds."""

# ruff: noqa: RUF001
# IPA has letters that look like others.

import json
from importlib.util import find_spec

import pytest
from golden.asr_tts_files import FOLDER

from voiceanon import ConfigError
from voiceanon.components.text import numbers
from voiceanon.components.text.arpabet import CONSONANTS, VOWELS
from voiceanon.components.text.letter_rules import pronounce, spell
from voiceanon.components.text.normalisation import normalise_english, split_sentences
from voiceanon.components.text.phonemes import (
    DictionaryPhonemizer,
    is_available,
    make_phonemizer,
)
from voiceanon.errors import MissingDependencyError

GOLDEN = json.loads((FOLDER / "offline.json").read_text())["sentences"]

ENTRIES = {
    "the": "DH AH",
    "quick": "K W IH K",
    "brown": "B R AW N",
    "fox": "F AA K S",
    "jumps": "JH AH M P S",
    "over": "OW V ER",
    "lazy": "L EY Z IY",
    "dog": "D AO G",
    "box": "B AA K S",
}


def small_dictionary():
    return {word: tuple(phones.split()) for word, phones in ENTRIES.items()}


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (99, "ninety nine"),
        (100, "one hundred"),
        (115, "one hundred fifteen"),
        (1000, "one thousand"),
        (1_000_001, "one million one"),
        (12_345_678, "twelve million three hundred forty five thousand six hundred seventy eight"),
        (10**18, "one quintillion"),
    ],
)  # fmt: skip
def test_cardinals(number, words):
    assert numbers.cardinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "first"), (2, "second"), (3, "third"), (5, "fifth"), (8, "eighth"), (9, "ninth"),
     (12, "twelfth"), (20, "twentieth"), (21, "twenty first"), (100, "one hundredth")],
)  # fmt: skip
def test_ordinals(number, words):
    assert numbers.ordinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1066, "ten sixty six"), (1900, "nineteen hundred"), (1905, "nineteen oh five"),
     (1999, "nineteen ninety nine"), (2000, "two thousand"), (2007, "two thousand seven"),
     (2024, "twenty twenty four")],
)  # fmt: skip
def test_years(number, words):
    assert numbers.year(number) == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Mr. O'Brien paid $5.10 (laughs).", "mister O'Brien paid five dollars and ten cents."),
        (" It’s 7:30 p.m. — on the 21st.", "It's seven thirty p m , on the twenty first."),
        ("50% & 3 + 4 = 7", "fifty percent and three plus four equals seven"),
        ("in 1999, in 2007; the 1990s", "in nineteen ninety nine, in two thousand seven; the "
         "nineteen nineties"),
        ("Call 555-1234 now!", "Call five five five, one two three four now!"),
        ("pages 10-12", "pages ten to twelve"),
        ("3.14, .5 and -2", "three point one four, point five and minus two"),
        ("1,234,567 people", "one million two hundred thirty four thousand five hundred sixty "
         "seven people"),
        ("$1 million, £1, €0.01, $0.50", "one million dollars, one pound, one cent, fifty cents"),
        ("at 10:00, 5pm, 17:00, 8:05", "at ten o'clock, five p m , seventeen hundred, eight oh "
         "five"),
        ("the U.S. flag", "the U S flag"),
        ("No. 5 and #7", "number five and number seven"),
        ("agent 007, B2B", "agent zero zero seven, B two B"),
        ("[MUSIC] ♪ la la ♪ *coughs*", "la la"),
        ("naïve café “hello”", "naive cafe hello"),
        ("Wait... what?! No--yes", "Wait. what! No yes"),
        ("12345678901234567890123", " ".join(numbers.digits("12345678901234567890123").split())),
        ("привет 你好 �", ""),
        ("...", ""),
        ("'quoted' rock 'n' roll", "quoted rock n roll"),
    ],
)  # fmt: skip
def test_normalisation(text, expected):
    found = normalise_english(text)
    assert found == expected.replace(" ,", ",")


def test_normalised_text_is_normal():
    for entry in GOLDEN:
        assert normalise_english(entry["text"]) == entry["text"]
        assert normalise_english(normalise_english("On 3/4, Dr. X paid $2.")) == normalise_english(
            "On 3/4, Dr. X paid $2."
        )


def test_sentences_are_cut_behind_sentences_clauses_words_or_anywhere():
    text = "One two three. Four five, six seven eight nine ten. Eleven"
    assert split_sentences(text, 250) == [text]
    assert split_sentences(text, 20) == ["One two three.", "Four five,", "six seven eight nine",
                                         "ten. Eleven"]  # fmt: skip
    assert split_sentences("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert split_sentences("Yes. . . .", 5) == ["Yes."]
    assert split_sentences("", 5) == []
    for most in range(1, 60):
        pieces = split_sentences(text, most)
        assert max(map(len, pieces)) <= most
        assert [c for c in "".join(pieces) if c.isalpha()] == [c for c in text if c.isalpha()]


def test_the_golden_sentences_by_a_dictionary():
    entry = GOLDEN[1]
    phonemizer = DictionaryPhonemizer(small_dictionary)
    assert phonemizer.phonemize(entry["text"]) == entry["cmudict"]
    assert phonemizer.phonemize("The Dog, the fox!") == "ðə dˈɔːɡ, ðə fˈɑːks!"


@pytest.mark.skipif(not is_available("dictionary"), reason="needs pocketsphinx")
@pytest.mark.parametrize("place", range(len(GOLDEN)))
def test_the_golden_sentences_by_the_dictionary_of_pocketsphinx(place):
    from voiceanon.systems.asr_tts_files import read_dictionary

    phonemizer = make_phonemizer("dictionary", read_dictionary)
    assert phonemizer.phonemize(GOLDEN[place]["text"]) == GOLDEN[place]["cmudict"]
    assert len(read_dictionary()) > 100_000


@pytest.mark.slow
@pytest.mark.skipif(not is_available("gruut"), reason="needs gruut")
def test_the_golden_sentences_by_gruut():
    phonemizer = make_phonemizer("gruut", dict)
    for entry in GOLDEN:
        assert phonemizer.phonemize(entry["text"]) == entry["gruut_espeak"]
    assert phonemizer.phonemize("Yes, no. Well?") == "jˈɛs, nˈoʊ. wˈɛl?"


@pytest.mark.skipif(not is_available("espeak"), reason="needs phonemizer and espeak-ng")
def test_the_golden_sentences_by_espeak():
    phonemizer = make_phonemizer("espeak", dict)
    for entry in GOLDEN:
        assert phonemizer.phonemize(entry["text"]) == entry["espeak"]


def test_words_that_no_dictionary_has():
    phonemizer = DictionaryPhonemizer(small_dictionary)
    assert phonemizer.phonemize("fox's boxs") == "fˈɑːksɪz bˈɑːkss"
    assert phonemizer.phonemize("dog's") == "dˈɔːɡz"
    assert phonemizer.phonemize("XKCD station") == "ˈɛkskeɪsiːdiː stˈeɪʃən"
    assert phonemizer.phonemize("FBI") == "ˈɛfbiːaɪ"


@pytest.mark.parametrize(
    ("word", "phones"),
    [("station", "S T EY SH AH N"), ("knight", "N AY T"), ("thought", "TH AO T"),
     ("phone", "F OW N"), ("queen", "K W IY N"), ("judge", "JH AH JH"), ("city", "S IH T IY"),
     ("wanted", "W AA N T IH D"), ("xyz", "Z IH Z"), ("bcd", "B IY S IY D IY")],
)  # fmt: skip
def test_spelling_to_sounds(word, phones):
    assert " ".join(pronounce(word)) == phones


def test_every_word_has_sounds_that_can_be_written():
    known = {*VOWELS, *CONSONANTS}
    for first in "abcdefghijklmnopqrstuvwxyz'":
        for second in "abcdefghijklmnopqrstuvwxyz":
            for end in ("", "e", "s", "ing", "t"):
                phones = pronounce(f"{first}{second}{end}")
                assert phones
                assert set(phones) <= known
    assert set(spell("abcdefghijklmnopqrstuvwxyz")) <= known


def test_phonemisers_by_name():
    rules = make_phonemizer("rules", small_dictionary)
    assert rules.phonemize("quick fox") == "kwˈɪk fˈɑːks"
    assert is_available("rules")
    with pytest.raises(ConfigError, match="phonemizer: 'festival'"):
        make_phonemizer("festival", dict)


@pytest.mark.skipif(find_spec("phonemizer") is not None, reason="it is installed")
def test_a_missing_phonemiser_names_what_to_install():
    with pytest.raises(MissingDependencyError, match=r"voiceanon\[text\]"):
        make_phonemizer("espeak", dict)
