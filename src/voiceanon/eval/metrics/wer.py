"""Word error rate as the VoicePrivacy Challenges count it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from voiceanon.errors import ConfigError
from voiceanon.eval.dependencies import required
from voiceanon.eval.metrics.kinds import IntArray, Meaning

BLANKED = re.compile(r"[,!?.\s]+")
"""Characters of references that become blanks; apostrophes stay (section 3.4)."""

NAMED_IN_ERRORS = 3
"""Utterances that a message names."""


@dataclass(frozen=True, eq=False)
class WordErrorRate:
    """Word errors of a set, and of each of its utterances.

    Attributes:
        value: (substitutions + deletions + insertions) / reference words over the whole set,
            fraction; above 1 is possible.
        utterances: Names, in the order of the references.
        substitutions: int64 ``(utterances,)``.
        deletions: int64 ``(utterances,)``.
        insertions: int64 ``(utterances,)``.
        words: Of the references, int64 ``(utterances,)``.
        missing_count: Utterances without a hypothesis, which count as empty ones.
    """

    unit: ClassVar[str] = "fraction"
    higher_is: ClassVar[Meaning] = "less useful"

    value: float
    utterances: tuple[str, ...]
    substitutions: IntArray
    deletions: IntArray
    insertions: IntArray
    words: IntArray
    missing_count: int

    @property
    def errors(self) -> IntArray:
        """Errors of all kinds, int64 ``(utterances,)``."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def percent(self) -> float:
        """The value in percent, as in the tables of the VoicePrivacy Challenges."""
        return 100 * self.value


def word_error_rate(
    references: Mapping[str, str],
    hypotheses: Mapping[str, str],
    *,
    missing: Literal["error", "empty"] = "error",
) -> WordErrorRate:
    """Word errors over all utterances: a micro average, not the mean of utterances' rates.

    Alignments come from jiwer; totals are those of SpeechBrain. Where alignments with the same
    number of errors exist, the split between kinds may differ; an empty hypothesis counts as
    deletions alone, where SpeechBrain counts one substitution among them.

    Args:
        references: Text by utterance; normalised by `normalise_reference`.
        hypotheses: Recognized text by utterance; only split at blanks. Upper case, as the
            normalised references are: other letters are other words. No handling of numbers or
            contractions.
        missing: What an utterance without a hypothesis is: an ``error``, as in the Challenges, or
            an ``empty`` hypothesis.

    Raises:
        ConfigError: No reference word at all, a missing hypothesis, a hypothesis without a
            reference, or an unknown option.
        MissingDependencyError: jiwer is not installed.

    Source: specification sheet of the evaluation, section 3.4.
    """
    absent = _check_names(references, hypotheses, missing)
    pairs = [
        (normalise_reference(text).split(), hypotheses.get(name, "").split())
        for name, text in references.items()
    ]
    words = np.array([len(reference) for reference, _ in pairs], np.int64)
    if not words.sum():
        raise ConfigError(
            f"references: {len(pairs)} texts without a word; at least one word is due."
        )
    counts = np.zeros((len(pairs), 3), np.int64)
    # Where one side is empty, the other one is all errors.
    counts[:, 1] = words
    counts[:, 2] = [len(hypothesis) for _, hypothesis in pairs]
    aligned = np.flatnonzero((words > 0) & (counts[:, 2] > 0))
    if len(aligned):
        counts[aligned] = _aligned_counts([pairs[index] for index in aligned])
    return WordErrorRate(
        float(counts.sum() / words.sum()),
        tuple(references),
        substitutions=counts[:, 0],
        deletions=counts[:, 1],
        insertions=counts[:, 2],
        words=words,
        missing_count=len(absent),
    )


def normalise_reference(text: str) -> str:
    """Upper case, with , ! ? . as blanks and single blanks between words."""
    return BLANKED.sub(" ", text).strip().upper()


def _check_names(
    references: Mapping[str, str], hypotheses: Mapping[str, str], missing: str
) -> list[str]:
    if missing not in ("error", "empty"):
        raise ConfigError(f'missing: {missing!r}; allowed are "error" and "empty".')
    absent = [name for name in references if name not in hypotheses]
    surplus = [name for name in hypotheses if name not in references]
    if surplus:
        raise ConfigError(
            f"hypotheses: {len(surplus)} without a reference, such as "
            f"{', '.join(surplus[:NAMED_IN_ERRORS])}. Take both from the same set."
        )
    if absent and missing == "error":
        raise ConfigError(
            f"hypotheses: {len(absent)} utterances have none, such as "
            f"{', '.join(absent[:NAMED_IN_ERRORS])}. Recognize them, or count them as empty with "
            'missing="empty".'
        )
    return absent


def _aligned_counts(pairs: list[tuple[list[str], list[str]]]) -> list[tuple[int, int, int]]:
    """Substitutions, deletions and insertions of pairs of word lists, neither of them empty."""
    output = required("jiwer", "word error rate").process_words(
        [" ".join(reference) for reference, _ in pairs],
        [" ".join(hypothesis) for _, hypothesis in pairs],
    )
    counts = []
    for alignment in output.alignments:
        found = {"substitute": 0, "delete": 0, "insert": 0, "equal": 0}
        for chunk in alignment:
            length = chunk.ref_end_idx - chunk.ref_start_idx
            found[chunk.type] += length or chunk.hyp_end_idx - chunk.hyp_start_idx
        counts.append((found["substitute"], found["delete"], found["insert"]))
    return counts
