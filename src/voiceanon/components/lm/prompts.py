"""Prompts: the tokens of a voice that stand before those to come.

Source: specification sheet of the codec language model, sections 1.1, 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.lm.tokens import (
    COARSE_CODEBOOKS,
    COARSE_PER_SEMANTIC,
    CODEBOOK_SIZE,
    CODEBOOKS,
    DROPPED_COARSE,
    MAX_COARSE_PROMPT,
    MAX_FINE_HISTORY,
    MAX_SEMANTIC_HISTORY,
    SEMANTIC_TOKENS,
)
from voiceanon.errors import ConfigError


class Prompts(NamedTuple):
    """One prompt for each item of a batch; a length of 0 is no prompt.

    Attributes:
        semantic: Semantic tokens, int64 ``(B, 209)``.
        coarse: Coarse tokens of both codebooks in turns, int64 ``(B, 626)``.
        fine: Codes, int64 ``(B, 8, 512)``.
        lengths: How many of the three count, int64 ``(B, 3)``; they stand first.
    """

    semantic: Tensor
    coarse: Tensor
    fine: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Voice:
    """The part of a prompt that is used: int64 ``(h_s,)``, ``(h_c,)`` and ``(8, n_h)``."""

    semantic: Tensor
    coarse: Tensor
    fine: Tensor

    @property
    def lengths(self) -> tuple[int, int, int]:
        """How many tokens of the three kinds there are."""
        return len(self.semantic), len(self.coarse), self.fine.shape[1]


def trim(semantic: Tensor, coarse: Tensor, fine: Tensor) -> Voice:
    """Takes the part of a prompt that is used.

    Args:
        semantic: Integer tokens ``(N,)``, 0 to 9999.
        coarse: Integer codes ``(2, T)``, 0 to 1023.
        fine: Integer codes ``(8, T)``, 0 to 1023.

    Raises:
        ConfigError: A shape or a value is none of these.
    """
    for name, value, books, size in (
        ("semantic", semantic[None], 1, SEMANTIC_TOKENS),
        ("coarse", coarse, COARSE_CODEBOOKS, CODEBOOK_SIZE),
        ("fine", fine, CODEBOOKS, CODEBOOK_SIZE),
    ):
        if value.ndim != 2 or len(value) != books or not value.numel():
            raise ConfigError(
                f"prompt: the {name} part has shape {tuple(value.shape)}; {books} rows of tokens "
                "are due."
            )
        if int(value.min()) < 0 or int(value.max()) >= size:
            raise ConfigError(
                f"prompt: the {name} part has tokens from {int(value.min())} to "
                f"{int(value.max())}; 0 to {size - 1} are allowed."
            )
    flat = coarse.long() + SEMANTIC_TOKENS
    flat = (flat + CODEBOOK_SIZE * torch.arange(len(flat), device=flat.device)[:, None]).T.flatten()
    even = len(semantic) - len(semantic) % 2
    kept = min(MAX_SEMANTIC_HISTORY, even, int(len(flat) / COARSE_PER_SEMANTIC))
    first = max(0, len(flat) - round(kept * COARSE_PER_SEMANTIC))
    return Voice(
        semantic[len(semantic) - kept :].long(),
        flat[first:][:-DROPPED_COARSE],
        fine[:, -MAX_FINE_HISTORY:].long(),
    )


class VoicePrompts(nn.Module):
    """The prompts of all voices, on the device."""

    semantic: Tensor
    coarse: Tensor
    fine: Tensor
    lengths: Tensor

    def __init__(self, voices: int) -> None:
        """Makes room for ``voices`` prompts, all of them empty."""
        super().__init__()
        # 16 bits hold every token, and a prompt of all voices takes 1.3 MB.
        for name, shape in (
            ("semantic", (MAX_SEMANTIC_HISTORY,)),
            ("coarse", (MAX_COARSE_PROMPT,)),
            ("fine", (CODEBOOKS, MAX_FINE_HISTORY)),
        ):
            self.register_buffer(name, torch.zeros(voices, *shape, dtype=torch.int16))
        self.register_buffer("lengths", torch.zeros(voices, 3, dtype=torch.int64))

    @classmethod
    def of(cls, voices: Sequence[Voice]) -> VoicePrompts:
        """Holds the given prompts, in their order, on the CPU."""
        with torch.device("cpu"):
            prompts = cls(len(voices))
            for row, voice in enumerate(voices):
                for name in ("semantic", "coarse", "fine"):
                    tokens = getattr(voice, name).to(torch.int16)
                    place = getattr(prompts, name)[row]
                    place.copy_(F.pad(tokens, (0, place.shape[-1] - tokens.shape[-1])))
                prompts.lengths[row] = torch.tensor(voice.lengths)
        return prompts

    def forward(self, rows: Tensor) -> Prompts:
        """Looks up prompts.

        Args:
            rows: Places of the voices, int64 ``(B,)``; -1 for no prompt.
        """
        places = rows.clamp_min(0)
        lengths = self.lengths[places].masked_fill(rows[:, None] < 0, 0)
        return Prompts(
            self.semantic[places].long(),
            self.coarse[places].long(),
            self.fine[places].long(),
            lengths,
        )
