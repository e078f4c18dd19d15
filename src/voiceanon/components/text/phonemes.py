"""Normalised English text to IPA with stress marks and punctuation, in eSpeak's manner.

VITS voices that take phonemes were trained on the output of eSpeak NG. It is used where the package
phonemizer and its library are present (GPL-3.0, never imported unless chosen); gruut (MIT) and a
pronunciation dictionary come near it and need neither. Source: specification sheet of the family,
sections 4 and 6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, Protocol

from voiceanon.components.text.arpabet import FUNCTION_WORDS, to_ipa
from voiceanon.components.text.letter_rules import pronounce, spell
from voiceanon.errors import ConfigError, MissingDependencyError

PhonemizerName = Literal["espeak", "gruut", "dictionary", "rules"]
"""In the order of quality; ``"rules"`` needs nothing and mispronounces many words."""

NAMES: tuple[PhonemizerName, ...] = ("espeak", "gruut", "dictionary", "rules")

_TOKENS = re.compile(r"[A-Za-z']+|[,.?!;:]")
_LONGEST_ACRONYM = 4


class Phonemizer(Protocol):
    """Turns text into the symbols that a synthesiser was trained on."""

    def phonemize(self, text: str) -> str:
        """Gives IPA: words apart by spaces, with stress marks, punctuation kept.

        Args:
            text: Normalised, see `voiceanon.components.text.normalisation`.
        """
        ...


class DictionaryPhonemizer:
    """Looks words up, and reads those that are not there by rules."""

    def __init__(self, entries: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        """Takes the dictionary.

        Args:
            entries: Gives ARPAbet phones without stress digits by lower-case word; called at the
                first use. An empty dictionary leaves all words to the rules.
        """
        self._entries = entries

    def phonemize(self, text: str) -> str:
        """Gives IPA; see `Phonemizer.phonemize`."""
        written = ""
        for token in _TOKENS.findall(text):
            if token[0].isalpha() or token[0] == "'":
                written += " " + self._word(token)
            else:
                written += token
        return written.strip()

    def _word(self, word: str) -> str:
        lower = word.lower()
        phones = self._entries().get(lower) or self._parts(lower)
        if not phones:
            acronym = word.isupper() and 1 < len(word) <= _LONGEST_ACRONYM
            phones = spell(lower.replace("'", "")) if acronym else pronounce(lower)
        return to_ipa(phones, stressed=lower not in FUNCTION_WORDS)

    def _parts(self, word: str) -> Sequence[str]:
        """A possessive of a word that is there."""
        stem = word.removesuffix("'s")
        phones = self._entries().get(stem)
        if stem == word or not phones:
            return ()
        last = phones[-1]
        if last in ("S", "Z", "SH", "ZH", "CH", "JH"):
            return (*phones, "IH", "Z")
        return (*phones, "S" if last in ("P", "T", "K", "F", "TH") else "Z")


class GruutPhonemizer:
    """gruut, with phonemes in eSpeak's manner."""

    def phonemize(self, text: str) -> str:
        """Gives IPA; see `Phonemizer.phonemize`."""
        gruut = import_module("gruut")
        written = ""
        for sentence in gruut.sentences(text, lang="en-us", espeak=True):
            for word in sentence:
                if word.is_major_break or word.is_minor_break:
                    written += word.text.strip()
                elif word.phonemes:
                    written += " " + "".join(word.phonemes)
        return written.strip()


class EspeakPhonemizer:
    """eSpeak NG through the package phonemizer."""

    def phonemize(self, text: str) -> str:
        """Gives IPA; see `Phonemizer.phonemize`."""
        (written,) = _espeak().phonemize([text], strip=True)
        return re.sub(r"\s+", " ", written)


@lru_cache(maxsize=1)
def _espeak() -> Any:
    """The backend; one for the process, since it holds a loaded library."""
    from phonemizer.backend import EspeakBackend

    if not EspeakBackend.is_available() and find_spec("espeakng_loader"):
        from phonemizer.backend.espeak.wrapper import EspeakWrapper

        espeakng_loader = import_module("espeakng_loader")
        EspeakWrapper.set_library(espeakng_loader.get_library_path())
        EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
    return EspeakBackend("en-us", preserve_punctuation=True, with_stress=True)


def is_available(name: PhonemizerName) -> bool:
    """Whether what a phonemiser needs is installed."""
    if name == "rules":
        return True
    if name == "dictionary":
        return find_spec("pocketsphinx") is not None
    if name == "gruut":
        return find_spec("gruut") is not None
    if find_spec("phonemizer") is None:
        return False
    from phonemizer.backend import EspeakBackend

    return EspeakBackend.is_available() or find_spec("espeakng_loader") is not None


def make_phonemizer(
    name: PhonemizerName, dictionary: Callable[[], Mapping[str, Sequence[str]]]
) -> Phonemizer:
    """Makes a phonemiser.

    Args:
        name: Which.
        dictionary: For ``"dictionary"``, as in `DictionaryPhonemizer`.

    Raises:
        ConfigError: There is none of this name.
        MissingDependencyError: What it needs is not installed.
    """
    if name not in NAMES:
        raise ConfigError(f"phonemizer: {name!r} is not one of auto, {', '.join(NAMES)}.")
    if not is_available(name):
        raise MissingDependencyError(
            f"phonemizer: {name!r} was asked for, but what it needs is not installed; install "
            f"{_NEEDS[name]}, or use phonemizer='auto' to take what there is."
        )
    if name == "espeak":
        return EspeakPhonemizer()
    if name == "gruut":
        return GruutPhonemizer()
    return DictionaryPhonemizer(dictionary if name == "dictionary" else dict)


_NEEDS = {
    "espeak": "voiceanon[text] and the library espeak-ng (or the package espeakng-loader)",
    "gruut": "voiceanon[offline-tts]",
    "dictionary": "voiceanon[offline-tts]",
}
