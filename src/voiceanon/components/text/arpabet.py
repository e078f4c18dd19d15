"""ARPAbet, the spelling of the CMU dictionary, as IPA in the manner of eSpeak's American English.

The dictionary of pocketsphinx marks no stress. It is put on the first vowel of content words, which
is right for most English words; recognising the result again gave as many errors as eSpeak's own
phonemes (specification sheet of the family, section 6).
"""

# ruff: noqa: RUF001
# IPA has letters that look like others.

from __future__ import annotations

from collections.abc import Sequence

VOWELS = {
    "AA": "ɑː",
    "AE": "æ",
    "AH": "ʌ",
    "AO": "ɔː",
    "AW": "aʊ",
    "AY": "aɪ",
    "EH": "ɛ",
    "ER": "ɜː",
    "EY": "eɪ",
    "IH": "ɪ",
    "IY": "iː",
    "OW": "oʊ",
    "OY": "ɔɪ",
    "UH": "ʊ",
    "UW": "uː",
}
"""Vowels as they sound under stress."""

WEAK_VOWELS = {"AH": "ə", "ER": "ɚ"}
"""Vowels that sound otherwise without stress."""

CONSONANTS = {
    "B": "b",
    "CH": "tʃ",
    "D": "d",
    "DH": "ð",
    "F": "f",
    "G": "ɡ",
    "HH": "h",
    "JH": "dʒ",
    "K": "k",
    "L": "l",
    "M": "m",
    "N": "n",
    "NG": "ŋ",
    "P": "p",
    "R": "ɹ",
    "S": "s",
    "SH": "ʃ",
    "T": "t",
    "TH": "θ",
    "V": "v",
    "W": "w",
    "Y": "j",
    "Z": "z",
    "ZH": "ʒ",
}

STRESS = "ˈ"

_FUNCTION_WORDS = """
    a all am an and are as at be been but by can could do does for from had has have he her him his
    i if in is it its of on or shall she so than that the their them they to was we were what when
    which who will with would you
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words without stress (ours; agrees with the stored examples of the specification sheet)."""


def to_ipa(phones: Sequence[str], *, stressed: bool) -> str:
    """Writes one word in IPA.

    Args:
        phones: ARPAbet symbols without stress digits.
        stressed: Whether the first vowel gets the stress.

    Returns:
        IPA, with the stress mark in front of the vowel.
    """
    written = []
    for phone in phones:
        if phone in CONSONANTS:
            written.append(CONSONANTS[phone])
        elif stressed:
            written.append(STRESS + VOWELS[phone])
            stressed = False
        else:
            written.append(WEAK_VOWELS.get(phone, VOWELS[phone]))
    return "".join(written)
