"""Numbers of Bark's tokens: which they are, and how many of one kind belong to how many of another.

Source: specification sheet of the codec language model, sections 4 and 5. Semantic tokens are taken
to come at 49.9 Hz in all formulas, although HuBERT gives 50 (section 4); codec frames come at 75 Hz
with two coarse tokens each. So a semantic token has 75 / 49.9 * 2 = 1500 / 499 coarse tokens. All
is counted in integers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

from torch import Tensor

SEMANTIC_TOKENS = 10_000
"""Semantic tokens are 0 to this, not included."""

CODEBOOK_SIZE = 1024
"""Codes of each codebook."""

COARSE_CODEBOOKS = 2
"""Codebooks that the coarse model predicts. Code c of codebook k is token 10000 + 1024 k + c."""

CODEBOOKS = 8
"""Codebooks that are decoded."""

SEMANTIC_PAD = 12_048
"""Fills up the semantic tokens of a window, and is attended to."""

COARSE_INFER = 12_050
"""Stands between semantic and coarse tokens."""

CODE_PAD = 1024
"""Stands for codes that are not known, in the fine model."""

COARSE_PER_SEMANTIC = Fraction(1500, 499)

MAX_COARSE_HISTORY = 630
"""Coarse tokens before the ones to come, prompt and generated ones together."""

MAX_SEMANTIC_HISTORY = 209
"""Semantic tokens of a prompt: 630 / (1500 / 499), rounded down."""

MAX_FINE_HISTORY = 512
"""Frames of a prompt of the fine model."""

DROPPED_COARSE = 2
"""Coarse tokens that a prompt loses at its end, for the alignment in time."""

MAX_COARSE_PROMPT = 626
"""Coarse tokens of a prompt: 209 * 1500 / 499 = 628, rounded, less two."""

Count = TypeVar("Count", int, Tensor)


def codec_frames(semantic: Count) -> Count:
    """Codec frames of ``semantic`` tokens; an integer, or int64 of any shape."""
    return 750 * semantic // 499


def coarse_tokens(semantic: Count) -> Count:
    """Coarse tokens of ``semantic`` tokens; an integer, or int64 of any shape."""
    return COARSE_CODEBOOKS * codec_frames(semantic)


def fine_windows(frames: int, history: int) -> int:
    """Windows of 1024 frames in which the fine model works.

    Args:
        frames: To be predicted.
        history: Frames of the prompt.
    """
    return max(0, -(-(frames - (FINE_WINDOW - history)) // FINE_HOP)) + 1


FINE_WINDOW = 1024
"""Frames that the fine model sees at once."""

FINE_HOP = 512
"""Frames between its windows."""
