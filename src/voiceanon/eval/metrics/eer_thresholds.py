"""Equal error rates that are read off at one threshold: exact, SpeechBrain's and Kaldi's.

Source: specification sheet of the evaluation, section 4.1. All three work on float32 scores, as the
implementations do that they are defined by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voiceanon.eval.metrics.kinds import FloatArray, IntArray
from voiceanon.eval.metrics.scores import Scores, read_all, read_blocks

DIGIT_BITS = (11, 11, 10)
"""Bits of a float32 pattern that are told apart in each pass over the scores."""

SIGN = np.uint32(1 << 31)
"""Sign bit of a float32 pattern."""

NEAR = 1e-6
"""Distance from the least difference of rates within which SpeechBrain's float32 rounding decides
which threshold it takes (section 4.1)."""


@dataclass(frozen=True)
class Crossing:
    """Where misses and false alarms come closest.

    Attributes:
        rate: Fraction.
        threshold: A trial is accepted above it (`kaldi_crossing`: at or above it).
        target_count: Number of target scores.
        nontarget_count: Number of non-target scores.
    """

    rate: float
    threshold: float
    target_count: int
    nontarget_count: int


def nearest_crossing(targets: Scores, nontargets: Scores) -> Crossing:
    """The first threshold with the least difference of miss and false-alarm rate, and their mean.

    Candidates are the scores. Midpoints between scores, which SpeechBrain tries as well, have the
    rates of the score below them. The difference of false alarms and misses changes strictly from
    score to score, so that only the last score on one side of zero and the first one on the other
    can be the nearest. They are found digit by digit of the float32 patterns: three passes over the
    scores that count, no sorting, and memory for one block.
    """
    prefixes = np.zeros(1, np.int64)
    low = np.zeros((2, 1), np.int64)
    sizes = np.zeros(2, np.int64)
    shift = sum(DIGIT_BITS)
    for bits in DIGIT_BITS:
        shift -= bits
        counts = np.stack(
            [
                _count_digits(scores, name, prefixes, shift, bits)
                for scores, name in ((targets, "target"), (nontargets, "non-target"))
            ]
        )
        # All scores in the first pass, fewer in the later ones.
        sizes = np.maximum(sizes, counts.sum(axis=1))
        used = np.flatnonzero(counts.any(axis=0))
        misses, rejected = low + np.cumsum(counts[:, used], axis=1)
        excess = misses * sizes[1] - (sizes[1] - rejected) * sizes[0]
        crossed = int(np.searchsorted(excess, 0))
        first = max(crossed - 1, 0)
        low = np.stack([misses, rejected])[:, [first]] - counts[:, used[[first]]]
        chosen = used[first : crossed + 1]
        prefixes = (prefixes[chosen >> bits] << bits) + chosen % (1 << bits)
    best = first + int(np.argmin(np.abs(excess[first : crossed + 1])))
    rate = (misses[best] / sizes[0] + (sizes[1] - rejected[best]) / sizes[1]) / 2
    return Crossing(
        float(rate), _score_of(int(prefixes[best - first])), int(sizes[0]), int(sizes[1])
    )


def speechbrain_crossing(targets: Scores, nontargets: Scores) -> Crossing:
    """The threshold that SpeechBrain 0.5.16 takes where several have nearly the same difference.

    It walks through all scores and midpoints and compares a float32 difference of rates with the
    float64 difference of the float32 rates of the best one so far, so that rounding decides ties.
    Needs memory for all scores at once, several times.
    """
    ordered_targets, ordered_nontargets = (
        np.sort(read_all(scores, name).astype(np.float32))
        for scores, name in ((targets, "target"), (nontargets, "non-target"))
    )
    values = np.unique(np.concatenate([ordered_targets, ordered_nontargets]))
    middles = (values[:-1] + values[1:]) / np.float32(2)
    candidates = np.sort(np.concatenate([values, middles]))
    miss = _float32_rates(np.searchsorted(ordered_targets, candidates, "right"), ordered_targets)
    accepted = len(ordered_nontargets) - np.searchsorted(ordered_nontargets, candidates, "right")
    alarm = _float32_rates(accepted, ordered_nontargets)
    rounded = np.abs(alarm - miss)
    exact = np.abs(alarm.astype(np.float64) - miss)
    near = np.flatnonzero(rounded <= rounded.min() + NEAR)
    best = near[0]
    for candidate in near[1:]:
        if rounded[candidate] < exact[best]:
            best = candidate
    return Crossing(
        (float(alarm[best]) + float(miss[best])) / 2,
        float(candidates[best]),
        len(ordered_targets),
        len(ordered_nontargets),
    )


def kaldi_crossing(targets: Scores, nontargets: Scores) -> Crossing:
    """The first target, in ascending order, above the non-target that as many errors leave out.

    For the k-th target (from 0) of T, that is non-target N - 1 - floor(N k / T). The rate is k / T,
    a multiple of 1 / T, and (T - 1) / T if all scores are equal.
    """
    ordered = np.sort(read_all(targets, "target").astype(np.float32))
    below = np.zeros(len(ordered), np.int64)
    nontarget_count = 0
    for block in read_blocks(nontargets, "non-target"):
        below += np.searchsorted(np.sort(block.astype(np.float32)), ordered, side="left")
        nontarget_count += len(block)
    left_out = nontarget_count * np.arange(len(ordered)) // len(ordered)
    separated = below >= nontarget_count - left_out
    separated[-1] = True
    first = int(np.argmax(separated))
    return Crossing(first / len(ordered), float(ordered[first]), len(ordered), nontarget_count)


def _count_digits(scores: Scores, name: str, prefixes: IntArray, shift: int, bits: int) -> IntArray:
    """Counts of the next digit of the scores with each prefix, int64 ``(prefixes << bits,)``."""
    counts = np.zeros((len(prefixes), 1 << bits), np.int64)
    for block in read_blocks(scores, name):
        digits = _sortable(block) >> np.uint32(shift)
        for row, prefix in zip(counts, prefixes, strict=True):
            inside = digits[digits >> np.uint32(bits) == prefix] & np.uint32((1 << bits) - 1)
            row += np.bincount(inside, minlength=1 << bits)
    return counts.ravel()


def _sortable(scores: FloatArray) -> npt.NDArray[np.uint32]:
    """Patterns of float32 scores, changed so that they ascend as the scores do."""
    # Adding zero turns -0.0 into 0.0, which is the same score.
    bits = (scores.astype(np.float32) + np.float32(0)).view(np.uint32)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def _score_of(key: int) -> float:
    """The score that has this sortable pattern."""
    bits = np.uint32(key)
    bits = bits & ~SIGN if bits & SIGN else ~bits
    return float(bits.view(np.float32))


def _float32_rates(counts: IntArray, scores: FloatArray) -> npt.NDArray[np.float32]:
    return counts.astype(np.float32) / np.float32(len(scores))
