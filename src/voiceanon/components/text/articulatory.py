"""IPA to articulatory features, one vector for each symbol, and to the aligner's identifiers.

Source: specification sheet of B3, section 7, which describes the path for input that is phones
already. The table ``articulatory.json`` beside this file holds facts from
`Preprocessing/articulatory_features.py` of IMS-Toucan (Apache-2.0), in part after features that
Papercup published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import torch
from torch import Tensor

FEATURES = 62
"""Values of a vector, 0 or 1."""

STRESS = 0
"""Feature of a stressed symbol; the 12 after it are set by tone and length marks."""

CONSONANT, VOWEL, PHONEME = 13, 14, 15
"""Features of sounds; silences, punctuation and word boundaries lack all three."""

SILENCE, END_OF_SENTENCE, QUESTION_MARK, EXCLAMATION_MARK, FULL_STOP, WORD_BOUNDARY = range(16, 22)
"""Features of one symbol each."""

UNVOICED, VOICED = 60, 61
"""Features of sounds by their voicing."""

_BOUNDARY_SYMBOL = " "


@dataclass(frozen=True, kw_only=True, eq=False)
class PhoneString:
    """A transcript as the networks of B3 read it; tensors lie on the CPU.

    Attributes:
        vectors: Features, float32 ``(N, FEATURES)``, 0 or 1.
        ids: The aligner's identifiers of all symbols but word boundaries, int64 ``(M,)``.
        is_boundary: Which of the N symbols are word boundaries, bool ``(N,)``: N - M of them.
        dropped: The characters that have no place in the table, in their order.
    """

    vectors: Tensor
    ids: Tensor
    is_boundary: Tensor
    dropped: str


@dataclass(frozen=True, kw_only=True)
class _Table:
    """What the file ``articulatory.json`` says but for the names of the features."""

    phones: Mapping[str, tuple[int, ...]]
    ids: Mapping[str, int]
    mark_on_next: str
    marks_on_previous: Mapping[str, int]
    replacements: Mapping[int, str]


def features_of(text: str) -> PhoneString:
    """Reads IPA character by character.

    A stress mark belongs to the symbol behind it, length and tone marks to the one before; where
    there is none they are passed over. A dropped character uses up a stress mark, which then falls
    on the symbol before: so does the published code.

    Args:
        text: IPA with blanks between words; ``~`` is a silence, ``#`` the end of a sentence. The
            published transcripts are ``"~" + phones + "~#"``, with nothing between for an
            utterance without words.
    """
    table = _table()
    symbols: list[str] = []
    active: list[set[int]] = []
    dropped = ""
    stressed = False
    for character in text.translate(table.replacements):
        if character == table.mark_on_next:
            stressed = True
        elif character in table.marks_on_previous:
            _mark(active, table.marks_on_previous[character])
        else:
            if character in table.phones:
                symbols.append(character)
                active.append(set(table.phones[character]))
            else:
                dropped += character
            if stressed:
                _mark(active, STRESS)
            stressed = False
    vectors = torch.zeros(len(symbols), FEATURES, dtype=torch.float32, device="cpu")
    for row, features in zip(vectors, active, strict=True):
        row[list(features)] = 1
    ids = [table.ids[symbol] for symbol in symbols if symbol != _BOUNDARY_SYMBOL]
    return PhoneString(
        vectors=vectors,
        ids=torch.tensor(ids, dtype=torch.int64, device="cpu"),
        is_boundary=vectors[:, WORD_BOUNDARY] == 1,
        dropped=dropped,
    )


def _mark(active: list[set[int]], feature: int) -> None:
    if active:
        active[-1].add(feature)


@cache
def _table() -> _Table:
    file = files("voiceanon.components.text") / "articulatory.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    return _Table(
        phones={symbol: tuple(features) for symbol, features in stored["phones"].items()},
        ids={symbol: number for number, symbol in enumerate(stored["aligner_symbols"])},
        mark_on_next=stored["mark_on_next"],
        marks_on_previous=stored["marks_on_previous"],
        replacements=str.maketrans(stored["replacements"]),
    )
