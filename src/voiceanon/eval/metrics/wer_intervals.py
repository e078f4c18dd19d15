"""Intervals of word error rates, by four methods.

The VoicePrivacy 2024 paper shows 95 % intervals without saying how they are made.
Source: specification sheet of the evaluation, section 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import (
    Float64Array,
    Generator,
    IntArray,
    Meaning,
    draw_indices,
)
from voiceanon.eval.metrics.names import first_seen

WerIntervalMethod = Literal["speakers", "utterances", "utterances_normal", "binomial"]

NORMAL_95 = NormalDist().inv_cdf(0.975)
"""Standard deviations on either side of the mean that hold 95 % of a normal distribution."""

KALDI_NORMAL_95 = 1.96
"""What Kaldi's compute-wer-bootci takes for it."""

PERCENTILES = (2.5, 97.5)

REPLICATES = 10_000
"""As in Kaldi's compute-wer-bootci."""

DRAWS_AT_ONCE = 2_000_000
"""Drawn numbers that are held at once, 16 MB; the stream of draws does not depend on it."""


@dataclass(frozen=True)
class WerInterval:
    """A 95 % interval of a word error rate, in fractions.

    Attributes:
        value: Word error rate of the set.
        low: Lower end.
        high: Upper end.
        method: How it was made.
        standard_error: Standard deviation of the replicates, or of the binomial distribution.
        replicate_mean: Mean of the replicates; the value itself for ``binomial``.
    """

    unit: ClassVar[str] = "fraction"
    higher_is: ClassVar[Meaning] = "less useful"

    value: float
    low: float
    high: float
    method: WerIntervalMethod
    standard_error: float
    replicate_mean: float


def wer_interval(
    errors: npt.ArrayLike,
    words: npt.ArrayLike,
    *,
    method: WerIntervalMethod = "speakers",
    speakers: npt.ArrayLike | None = None,
    generator: Generator | None = None,
    replicates: int = REPLICATES,
) -> WerInterval:
    """95 % interval of sum of errors / sum of words.

    - ``speakers`` (default): speakers are drawn with replacement, each with all its utterances;
      2.5 and 97.5 percentiles. Words of an utterance and utterances of a speaker depend on each
      other, and only this method allows for both.
    - ``utterances``: the same with utterances.
    - ``utterances_normal``: the value and 1.96 standard deviations of utterance replicates on
      either side (Bisani and Ney, 2004; Kaldi's compute-wer-bootci).
    - ``binomial``: 1.95996 sqrt(w (1 - w) / words) on either side, as if words were independent;
      nearly half as wide as the others on synthetic data, and none where w > 1.

    Args:
        errors: Of each utterance, ``(utterances,)``.
        words: Of each reference, ``(utterances,)``.
        method: See above.
        speakers: Of each utterance; needed by ``speakers``. Drawn by number in sorted order.
        generator: One draw of as many utterances or speakers as there are per replicate; not needed
            by ``binomial``. A replicate without a word counts no error.
        replicates: Number of draws.

    Raises:
        ConfigError: Lists that do not fit, no word, negative counts, or a missing argument.
    """
    error_counts, word_counts = _checked(errors, words)
    value = float(error_counts.sum() / word_counts.sum())
    if method not in get_args(WerIntervalMethod):
        raise ConfigError(
            f"method: {method!r}; allowed are {', '.join(get_args(WerIntervalMethod))}."
        )
    if method == "binomial":
        return _binomial(value, int(word_counts.sum()))
    if generator is None or replicates < 1:
        raise ConfigError(
            f"{method}: a generator and at least one replicate are due; numpy.random.default_rng() "
            "makes one, with a seed if the interval shall be repeatable."
        )
    if method == "speakers":
        if speakers is None:
            raise ConfigError(
                "speakers: none given; the speaker of each utterance is due, or another method."
            )
        rows = _speaker_numbers(speakers, len(word_counts))
        error_counts = np.bincount(rows, error_counts).astype(np.int64)
        word_counts = np.bincount(rows, word_counts).astype(np.int64)
    rates = _replicate(error_counts, word_counts, generator, replicates)
    deviation = float(rates.std())
    low, high = np.percentile(rates, PERCENTILES)
    if method == "utterances_normal":
        low, high = value - KALDI_NORMAL_95 * deviation, value + KALDI_NORMAL_95 * deviation
    return WerInterval(value, float(low), float(high), method, deviation, float(rates.mean()))


def _checked(errors: npt.ArrayLike, words: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    arrays = [np.asarray(errors), np.asarray(words)]
    if arrays[0].shape != arrays[1].shape or arrays[0].ndim != 1:
        raise ConfigError(
            f"word errors: {arrays[0].shape} errors and {arrays[1].shape} words; one of each per "
            "utterance is due."
        )
    if any(array.dtype.kind not in "iu" or (array < 0).any() for array in arrays):
        raise ConfigError("word errors: counts are due, whole numbers of 0 or more.")
    if not arrays[1].sum():
        raise ConfigError("word errors: no reference word; at least one is due.")
    return arrays[0].astype(np.int64), arrays[1].astype(np.int64)


def _binomial(value: float, word_count: int) -> WerInterval:
    if value > 1:
        raise ConfigError(
            f"binomial: the word error rate is {value:.3f}, and no share above 1 has such an "
            "interval. Use another method."
        )
    deviation = float(np.sqrt(value * (1 - value) / word_count))
    half = NORMAL_95 * deviation
    return WerInterval(value, value - half, value + half, "binomial", deviation, value)


def _speaker_numbers(speakers: npt.ArrayLike, expected: int) -> IntArray:
    first_seen(speakers, expected)
    return np.unique(np.asarray(speakers), return_inverse=True)[1]


def _replicate(
    errors: IntArray, words: IntArray, generator: Generator, replicates: int
) -> Float64Array:
    """Rate of each replicate, float64 ``(replicates,)``."""
    count = len(words)
    at_once = max(1, DRAWS_AT_ONCE // count)
    rates = np.empty(replicates)
    for begin in range(0, replicates, at_once):
        size = min(at_once, replicates - begin)
        drawn = draw_indices(generator, count, (size, count))
        rates[begin : begin + size] = errors[drawn].sum(1) / np.maximum(words[drawn].sum(1), 1)
    return rates
