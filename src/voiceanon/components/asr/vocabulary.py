"""Tokens of a byte-level vocabulary as text.

Source: `vocab.json` of the Hub's Whisper repositories, which writes each byte as one printable
character (the scheme of GPT-2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
"""Bytes that stand for themselves; the others follow from 256 on."""

_VOWELS, _CONSONANTS = "aeiou", "bdfgklmnprstvz"


class Vocabulary(nn.Module):
    """The bytes of all tokens, one after the other, as part of the weights."""

    text: Tensor
    ends: Tensor

    def __init__(self, tokens: Sequence[bytes]) -> None:
        """Takes the bytes of each token.

        Args:
            tokens: By number.
        """
        super().__init__()
        ends = torch.tensor([len(token) for token in tokens], dtype=torch.int64).cumsum(0)
        text = torch.tensor(list(b"".join(tokens)), dtype=torch.uint8)
        self.register_buffer("text", text)
        self.register_buffer("ends", ends)

    def decode(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """Turns numbers into texts; numbers without a text give nothing.

        Args:
            texts: Numbers of tokens; special ones are left out.
        """
        # A few hundred kilobytes, whose use is on the host.
        text, ends = bytes(self.text.tolist()), [0, *self.ends.tolist()]
        size = len(ends) - 1
        pieces = (
            [text[ends[token] : ends[token + 1]] for token in tokens if token < size]
            for tokens in texts
        )
        return [b"".join(piece).decode("utf-8", errors="replace") for piece in pieces]


def published_tokens(vocabulary: Mapping[str, int], size: int) -> list[bytes]:
    """Reads ``vocab.json``.

    Args:
        vocabulary: Number by token.
        size: Tokens that are text; numbers from there on are special.

    Returns:
        The bytes of each token, empty for numbers that no token has.
    """
    others = [byte for byte in range(256) if byte not in _PRINTABLE]
    code = {chr(byte): byte for byte in _PRINTABLE}
    code |= {chr(256 + place): byte for place, byte in enumerate(others)}
    tokens = [b""] * size
    for token, number in vocabulary.items():
        if number < size:
            tokens[number] = bytes(code[c] for c in token if c in code)
    return tokens


def artificial_tokens(size: int, text_bytes: int) -> list[bytes]:
    """Makes up syllables where there are no files, or room for the text that will be filled in.

    Args:
        size: Number of tokens.
        text_bytes: Bytes of all together; 0 for as many as the syllables take.
    """
    if text_bytes:
        return [b"\0" * text_bytes, *[b""] * (size - 1)]
    count = len(_VOWELS) * len(_CONSONANTS)
    syllables = [
        _CONSONANTS[place // len(_VOWELS)] + _VOWELS[place % len(_VOWELS)] for place in range(count)
    ]
    return [
        f" {syllables[number // count % count]}{syllables[number % count]}".encode()
        for number in range(size)
    ]
