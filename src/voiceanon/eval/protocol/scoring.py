"""From embeddings to scores: speaker means, then cosines in the order of the trials.

Source: specification sheet of the evaluation, section 3.3, last row; the evaluation code of the
VoicePrivacy Challenge 2024. Its means are those of embeddings that were NOT normalised to length 1;
the SA-toolkit and Vauquier et al. 2025 normalise first and get other scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.ids import check_known, listed
from voiceanon.eval.protocol.trials import TrialList

Embeddings = Mapping[str, npt.NDArray[np.float32]]
"""Embedding float32 ``(d,)`` by utterance."""

BLOCK_SCORES = 1 << 24
"""Most entries of the table of cosines that is held at once: 64 MiB."""


def score_trials(
    trials: TrialList, enrolment: Embeddings, trial: Embeddings
) -> npt.NDArray[np.float32]:
    """Scores every trial.

    Args:
        trials: The list.
        enrolment: Embeddings of the enrolment utterances; may hold others.
        trial: Embeddings of the trial utterances, of the same model; may hold others.

    Returns:
        Cosines, float32 ``(n,)`` in the order of the trials; higher is more similar. Those of
        targets are ``scores[trials.is_target]``.

    Raises:
        ConfigError: Embeddings are missing (all ids are listed), not finite, zero, or of different
            widths.
    """
    way_out = "compute their embeddings, or leave them out of the trials"
    enrolled = trials.enrolment_utterances
    check_known(enrolled, enrolment, "enrolment: utterances", way_out)
    check_known(trials.trial_speakers, trial, "trials: utterances", way_out)
    rows = _unit(list(trials.enrolment), speaker_means(trials.enrolment, enrolment))
    names = list(trials.trial_speakers)
    columns = _unit(names, _stack(names, trial))
    if rows.shape[1] != columns.shape[1]:
        raise ConfigError(
            f"embeddings: {rows.shape[1]} values on the enrolment side, {columns.shape[1]} on the "
            "trial side; embed both with one model."
        )
    return _gather(trials, rows, columns)


def speaker_means(
    enrolment: Mapping[str, Sequence[str]], embeddings: Embeddings
) -> npt.NDArray[np.float32]:
    """Means of the embeddings of each speaker, as they are.

    Args:
        enrolment: Utterances by speaker.
        embeddings: By utterance.

    Returns:
        float32 ``(speakers, d)``, in the order of ``enrolment``.

    Raises:
        ConfigError: An embedding is not finite, or widths differ.
    """
    means = [_stack(list(names), embeddings).mean(axis=0) for names in enrolment.values()]
    return np.stack(means)


def _gather(
    trials: TrialList, rows: npt.NDArray[np.float32], columns: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Cosines of the pairs, from tables of a few speakers each."""
    scores = np.empty(len(trials.is_target), np.float32)
    order = np.argsort(trials.speaker_index, kind="stable")
    ordered = trials.speaker_index[order]
    step = max(1, BLOCK_SCORES // len(columns))
    for first in range(0, len(rows), step):
        begin, end = np.searchsorted(ordered, (first, first + step))
        chosen = order[begin:end]
        table = rows[first : first + step] @ columns.T
        scores[chosen] = table[ordered[begin:end] - first, trials.utterance_index[chosen]]
    return scores


def _stack(names: Sequence[str], embeddings: Embeddings) -> npt.NDArray[np.float32]:
    widths = {embeddings[name].shape for name in names}
    if len(widths) > 1 or any(len(shape) != 1 for shape in widths):
        raise ConfigError(
            f"embeddings: shapes {', '.join(map(str, sorted(widths)))}; vectors of one width are "
            "due. Embed all utterances with one model."
        )
    stacked = np.stack([embeddings[name] for name in names]).astype(np.float32, copy=False)
    _check_rows(names, np.isfinite(stacked).all(axis=1), "not finite")
    return stacked


def _unit(names: Sequence[str], vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    _check_rows(names, (norms > 0).all(axis=1), "zero")
    return np.asarray(vectors / norms, np.float32)


def _check_rows(names: Sequence[str], good: npt.ArrayLike, fault: str) -> None:
    bad = [names[i] for i in np.flatnonzero(~np.asarray(good, np.bool_)).tolist()]
    if bad:
        raise ConfigError(
            f"embeddings: those of {listed(bad)} are {fault}; listen to the recordings, and leave "
            "the bad ones out of the trials."
        )
