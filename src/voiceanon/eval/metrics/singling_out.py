"""Singling out in the sense of data protection law (Vauquier et al., Interspeech 2025).

The attacker has a voice and a threshold that about one of N speakers exceeds. It succeeds if
exactly one test conversation does, whoever that is.

Source: specification sheet of the evaluation, section 7. The paper's reference is the package
voice-anonymization-legal-eval 2.1.0; its older public repository does not implement the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.embeddings import as_embeddings, unit_length
from voiceanon.eval.metrics.kinds import BoolArray, Float64Array, FloatArray, IntArray, Meaning

TRIVIAL_ATTACKER = float(np.exp(-1))
"""Success of a predicate that each of N speakers meets with probability 1 / N, for large N."""

MOST_CALIBRATION = 9
"""Calibration conversations per speaker."""

FOLDS = 10
"""Splits into test and calibration utterances. (The loader for challenge data uses 5.)"""

DRAWS = 5
"""Sets of speakers per enrolled speaker and split."""


@dataclass(frozen=True, eq=False)
class SinglingOut:
    """Probability that the attacker isolates somebody.

    Attributes:
        value: Mean over enrolled speakers, folds and draws; `TRIVIAL_ATTACKER` is 0.368.
        population: N, speakers in a set.
        conversation_length: Utterances in a conversation.
        outcomes: bool ``(folds, enrolled, draws)``.
    """

    unit: ClassVar[str] = "probability"
    higher_is: ClassVar[Meaning] = "less private"

    value: float
    population: int
    conversation_length: int
    outcomes: BoolArray


def singling_out(
    enrolment: npt.ArrayLike,
    own_speakers: npt.ArrayLike,
    utterances: Sequence[npt.ArrayLike],
    *,
    population: int,
    conversation_length: int,
    generator: np.random.Generator,
    folds: int = FOLDS,
    draws: int = DRAWS,
) -> SinglingOut:
    """Singles speakers out of random sets.

    Per fold the utterances of every speaker are shuffled: the first L are the test conversation,
    and the first 9 combinations of L of the others the calibration conversations. Per enrolled
    speaker and draw, a set of N speakers holds its own one and N - 1 others.

    Args:
        enrolment: Embedding of each enrolled speaker, ``(enrolled, D)``.
        own_speakers: Number of the enrolled speaker in ``utterances``, ``(enrolled,)``.
        utterances: Embeddings of each speaker's other utterances, ``(utterances, D)`` each, at
            least 2 L of them.
        population: N, from 2 to the number of speakers.
        conversation_length: L.
        generator: Per fold one permutation per speaker, then per enrolled speaker and draw one
            choice of the others; with N the number of speakers there is nothing to choose.
        folds: Number of splits.
        draws: Number of sets.

    Raises:
        ConfigError: Numbers out of range, too few utterances, or embeddings that do not fit.
    """
    enrolled = unit_length(as_embeddings(enrolment).astype(np.float64))
    voices = [unit_length(as_embeddings(item).astype(np.float64)) for item in utterances]
    own = np.asarray(own_speakers)
    _check(enrolled, own, voices, population, conversation_length)
    if folds < 1 or draws < 1:
        raise ConfigError(f"folds: {folds}, draws: {draws}; at least 1 of each is due.")
    outcomes = np.zeros((folds, len(own), draws), np.bool_)
    for fold in range(folds):
        test, calibration = _conversations(voices, conversation_length, generator)
        for index, (voice, number) in enumerate(zip(enrolled, own, strict=True)):
            sets = _draw_sets(int(number), len(voices), population, draws, generator)
            outcomes[fold, index] = isolates((test @ voice)[sets], (calibration @ voice)[sets])
    return SinglingOut(float(outcomes.mean()), population, conversation_length, outcomes)


def isolates(test_scores: npt.ArrayLike, calibration_scores: npt.ArrayLike) -> BoolArray:
    """Whether exactly one test conversation scores strictly above the calibrated threshold.

    Args:
        test_scores: One per speaker, ``(..., N)``, the enrolled speaker's own one first.
        calibration_scores: ``(..., N, C)``, NaN where a speaker has fewer than C conversations.

    Returns:
        bool ``(...)``.
    """
    above = np.asarray(test_scores) > isolation_threshold(calibration_scores)[..., None]
    return np.asarray(np.count_nonzero(above, axis=-1) == 1, np.bool_)


def isolation_threshold(calibration_scores: npt.ArrayLike) -> Float64Array:
    """Midpoint of the c-th and (c + 1)-th highest score, c the own speaker's conversations.

    So about one of N speakers is expected above it.

    Args:
        calibration_scores: As in `isolates`, ``(..., N, C)``.

    Returns:
        float64 ``(...)``.
    """
    scores = np.asarray(calibration_scores, np.float64)
    own_counts = np.count_nonzero(~np.isnan(scores[..., 0, :]), axis=-1)
    flat = np.where(np.isnan(scores), -np.inf, scores).reshape(*scores.shape[:-2], -1)
    most = scores.shape[-1] + 1
    highest = -np.sort(-np.partition(flat, -most, axis=-1)[..., -most:], axis=-1)
    places = np.stack([own_counts - 1, own_counts], axis=-1)
    return np.asarray(np.take_along_axis(highest, places, axis=-1).mean(axis=-1), np.float64)


def _check(
    enrolled: FloatArray,
    own: npt.NDArray[np.generic],
    voices: list[FloatArray],
    population: int,
    conversation_length: int,
) -> None:
    count = len(voices)
    if own.shape != (len(enrolled),) or own.dtype.kind not in "iu":
        raise ConfigError(
            f"own speakers: shape {own.shape}; one whole number for each of {len(enrolled)} "
            "enrolled speakers is due."
        )
    if own.min() < 0 or own.max() >= count:
        raise ConfigError(
            f"own speakers: from {own.min()} to {own.max()}; allowed is 0 to {count - 1}."
        )
    if not 2 <= population <= count:
        raise ConfigError(f"population: {population}; allowed is 2 to {count} speakers.")
    fewest = min(len(voice) for voice in voices)
    if conversation_length < 1 or fewest < 2 * conversation_length:
        raise ConfigError(
            f"conversation_length: {conversation_length}; allowed is 1 to {fewest // 2}, half of "
            "the utterances of the speaker with the fewest."
        )
    sizes = {voice.shape[1] for voice in [enrolled, *voices]}
    if len(sizes) != 1:
        raise ConfigError(f"embeddings: {sorted(sizes)} features; all need the same extractor.")


def _conversations(
    voices: list[FloatArray], length: int, generator: np.random.Generator
) -> tuple[Float64Array, Float64Array]:
    """Test ``(speakers, D)`` and calibration ``(speakers, 9, D)`` embeddings; NaN for missing."""
    features = voices[0].shape[1]
    test = np.empty((len(voices), features))
    calibration = np.full((len(voices), MOST_CALIBRATION, features), np.nan)
    for number, voice in enumerate(voices):
        order = generator.permutation(len(voice))
        test[number] = voice[order[:length]].mean(axis=0)
        chosen = list(islice(combinations(order[length:], length), MOST_CALIBRATION))
        calibration[number, : len(chosen)] = voice[np.array(chosen)].mean(axis=1)
    test /= np.linalg.norm(test, axis=-1, keepdims=True)
    calibration /= np.linalg.norm(calibration, axis=-1, keepdims=True)
    return test, calibration


def _draw_sets(
    own: int, count: int, population: int, draws: int, generator: np.random.Generator
) -> IntArray:
    """Numbers of speakers, own first, int64 ``(draws, population)``."""
    sets = np.empty((draws, population), np.int64)
    sets[:, 0] = own
    for row in sets:
        others = generator.choice(count - 1, population - 1, replace=False)
        row[1:] = others + (others >= own)
    return sets
