"""Steps between the networks of `GanFastSpeech2`: cutting, reading, putting together.

Source: specification sheet of B3, sections 3, 7, 8 and 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from voiceanon.batching import length_mask
from voiceanon.components.alignment.search import (
    durations_from_logits,
    insert_boundaries,
    split_repeats,
)
from voiceanon.components.text.articulatory import features_of

START, END = "~", "~#"
"""What is put around a transcript: silence, and the end of the sentence (section 1)."""

MIN_SAMPLES = 1024
"""Shorter recordings are filled up with zeros: the networks need a few frames (ours)."""


class Cut(NamedTuple):
    """Recordings without the silence at their ends.

    Attributes:
        wav: float32 ``(B, T)``, zero in the padding.
        lengths: int64 ``(B,)`` in samples.
        before: Samples that were cut off in front, int64 ``(B,)``.
        after: Samples that were cut off behind, int64 ``(B,)``.
    """

    wav: Tensor
    lengths: Tensor
    before: Tensor
    after: Tensor


class Phones(NamedTuple):
    """Transcripts of a batch.

    Attributes:
        vectors: Articulatory features, float32 ``(B, N, 62)``, zero in the padding.
        counts: Symbols of each, int64 ``(B,)``.
        ids: The aligner's identifiers, without word boundaries, int64 ``(B, M)``.
        id_counts: int64 ``(B,)``.
        is_boundary: Which symbols are word boundaries, bool ``(B, N)``.
    """

    vectors: Tensor
    counts: Tensor
    ids: Tensor
    id_counts: Tensor
    is_boundary: Tensor


def fill_up(batch: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Sets the padding to zero and makes each recording at least `MIN_SAMPLES` long.

    Args:
        batch: ``(B, T)``.
        lengths: int64 ``(B,)``.

    Returns:
        The same with their new lengths.
    """
    batch = batch.masked_fill(~length_mask(lengths, batch.shape[1]), 0.0)
    batch = F.pad(batch, (0, max(0, MIN_SAMPLES - batch.shape[1])))
    return batch, lengths.clamp_min(MIN_SAMPLES)


def cut(wav: Tensor, lengths: Tensor, start: Tensor, end: Tensor) -> Cut:
    """Cuts a piece out of each recording.

    Args:
        wav: ``(B, T)``.
        lengths: int64 ``(B,)``.
        start: First sample of each piece, int64 ``(B,)``.
        end: The one behind the last, int64 ``(B,)``, above ``start``.
    """
    samples = end - start
    # The host has to know how long the longest piece is.
    steps = torch.arange(int(samples.max()), device=wav.device)
    places = (start[:, None] + steps).clamp_max(wav.shape[1] - 1)
    pieces = wav.gather(1, places).masked_fill(steps >= samples[:, None], 0.0)
    return Cut(pieces, samples, start, lengths - end)


def read_phones(texts: Sequence[str], device: torch.device) -> Phones:
    """Reads what the recogniser wrote; an empty text still has the symbols around it."""
    strings = [features_of(START + text + END) for text in texts]
    vectors, ids, boundaries = (
        pad_sequence([getattr(string, name) for string in strings], batch_first=True).to(device)
        for name in ("vectors", "ids", "is_boundary")
    )
    counts, id_counts = (
        torch.tensor([len(getattr(string, name)) for string in strings], device=device)
        for name in ("vectors", "ids")
    )
    return Phones(vectors, counts, ids, id_counts, boundaries)


def durations_of(logits: Tensor, frames: Tensor, phones: Phones) -> Tensor:
    """Frames of each symbol, int64 ``(B, N)``, from the aligner's raw outputs ``(B, F, V)``."""
    durations = durations_from_logits(logits, frames, phones.ids, phones.id_counts)
    durations = insert_boundaries(durations, phones.is_boundary, phones.counts)
    return split_repeats(durations, phones.vectors, phones.counts)


def put_zeros_around(
    wav: Tensor, lengths: Tensor, before: Tensor, after: Tensor
) -> tuple[Tensor, Tensor]:
    """Puts silence around waveforms.

    Args:
        wav: ``(B, T)``, zero in the padding.
        lengths: int64 ``(B,)``.
        before: Zeros in front of each, int64 ``(B,)``.
        after: Zeros behind each, int64 ``(B,)``.

    Returns:
        ``(B, T')`` and lengths ``(B,)``.
    """
    totals = before + lengths + after
    places = torch.arange(int(totals.max()), device=wav.device) - before[:, None]
    inside = (places >= 0) & (places < lengths[:, None])
    return wav.gather(1, places.clamp(0, wav.shape[1] - 1)) * inside, totals
