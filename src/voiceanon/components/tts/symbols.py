"""Texts as the numbers that a VITS voice was trained on."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voiceanon.errors import WeightsError

_PIPER_START, _PIPER_END, _PIPER_BLANK = "^", "$", "_"


@dataclass(frozen=True, kw_only=True)
class SymbolTable:
    """Symbols of a voice.

    Attributes:
        symbols: By number; empty for numbers without a symbol.
        phonemes: Whether they are IPA, rather than letters.
        blank: Whether number 0 stands between all symbols and at both ends.
        start: Number in front of a text, or ``None``.
        end: Number behind a text, or ``None``.
    """

    symbols: tuple[str, ...]
    phonemes: bool = True
    blank: bool = True
    start: int | None = None
    end: int | None = None

    def encode(self, text: str) -> list[int]:
        """Gives the numbers of a text; what has no symbol is left out.

        Args:
            text: IPA, or for tables of letters normalised text.
        """
        numbers = {symbol: number for number, symbol in enumerate(self.symbols) if symbol}
        if not self.phonemes:
            text = "".join(c for c in text.lower() if c in numbers).strip()
        found = []
        for character in text:
            # A composed letter may be there as its parts only.
            parts = [character] if character in numbers else unicodedata.normalize("NFD", character)
            found += [numbers[part] for part in parts if part in numbers]
        if self.blank:
            found = [0, *(number for each in found for number in (each, 0))]
        if self.start is not None:
            found = [self.start, *found]
        if self.end is not None:
            found = [*found, self.end]
        return found


def from_transformers(vocabulary: Mapping[str, int], tokenizer: Mapping[str, Any]) -> SymbolTable:
    """Reads the table of a voice in transformers' layout.

    Args:
        vocabulary: ``vocab.json``.
        tokenizer: ``tokenizer_config.json``.

    Raises:
        WeightsError: The voice is for a script that this library does not write.
    """
    if tokenizer.get("is_uroman"):
        raise WeightsError(
            "VITS: this voice reads romanised text of another script (is_uroman); take an English "
            "one."
        )
    return SymbolTable(
        symbols=_by_number(vocabulary),
        phonemes=tokenizer.get("phonemize", True),
        blank=tokenizer.get("add_blank", True),
    )


def from_piper(phonemes: Mapping[str, list[int]]) -> SymbolTable:
    """Reads the table of a Piper voice.

    Args:
        phonemes: ``phoneme_id_map`` of its ``.onnx.json``.

    Raises:
        WeightsError: It is not of the usual form.
    """
    several = [symbol for symbol, numbers in phonemes.items() if len(numbers) != 1]
    if several or phonemes.get(_PIPER_BLANK) != [0]:
        raise WeightsError(
            f"Piper: phoneme_id_map gives {several or _PIPER_BLANK!r} other numbers than usual; "
            "one for each symbol, and 0 for the blank, are due. Take a voice of "
            "rhasspy/piper-voices."
        )
    single = {symbol: numbers[0] for symbol, numbers in phonemes.items()}
    marks = {_PIPER_START, _PIPER_END, _PIPER_BLANK}
    return SymbolTable(
        symbols=_by_number({s: n for s, n in single.items() if s not in marks}),
        start=single[_PIPER_START],
        end=single[_PIPER_END],
    )


def _by_number(vocabulary: Mapping[str, int]) -> tuple[str, ...]:
    """Symbols that are single characters, by number."""
    symbols = [""] * (1 + max(vocabulary.values()))
    for symbol, number in vocabulary.items():
        if len(symbol) == 1:
            symbols[number] = symbol
    return tuple(symbols)
