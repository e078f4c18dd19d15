"""Trial lists of the VoicePrivacy Challenge: Kaldi folders with ``enrolls`` and ``trials``.

Layout: specification sheet of the evaluation, section 3.2.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from voiceanon.corpus.kaldi import UTT2SPK, read_table
from voiceanon.corpus.pools import SPK2GENDER, parse_sexes
from voiceanon.errors import ConfigError
from voiceanon.eval.ids import check_known
from voiceanon.eval.protocol.trials import TrialList, make_trials

ENROLLS = "enrolls"
"""Table of the enrolment folder: one utterance a line."""

TRIALS = "trials"
"""Table of the trial folder: enrolment speaker, trial utterance, and one of `LABELS` a line."""

LABELS = {"target": True, "nontarget": False}
"""Third field of ``trials``, and whether it says that the speakers are the same."""

_TRIAL_FIELDS = 3


def read_trials(
    enrolment_folder: str | os.PathLike[str], trial_folder: str | os.PathLike[str]
) -> TrialList:
    """Reads a trial list; opens no audio.

    Args:
        enrolment_folder: With ``enrolls`` and ``utt2spk``, such as ``libri_test_enrolls``.
        trial_folder: With ``trials`` and ``utt2spk``, such as ``libri_test_trials_f``.

    Returns:
        The trials in the order of their file, and the enrolment of the speakers that they name.

    Raises:
        ConfigError: A table is missing or malformed, or ids do not match; all of them are listed.
    """
    trial_folder = Path(trial_folder)
    speakers = _read(trial_folder / UTT2SPK)
    return make_trials(
        _read_pairs(trial_folder / TRIALS), read_enrolment(enrolment_folder), speakers
    )


def read_enrolment(folder: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Reads the enrolment utterances of each speaker, both in the order of ``enrolls``.

    Args:
        folder: With ``enrolls`` and ``utt2spk``.

    Raises:
        ConfigError: A table is missing or malformed, or an utterance has no speaker.
    """
    folder = Path(folder)
    speakers = _read(folder / UTT2SPK)
    utterances = _read(folder / ENROLLS)
    check_known(
        utterances,
        speakers,
        f"{folder / ENROLLS}: utterances",
        f"add them to {UTT2SPK} or take them out",
    )
    enrolment: dict[str, tuple[str, ...]] = {}
    for utterance in utterances:
        enrolment[speakers[utterance]] = (*enrolment.get(speakers[utterance], ()), utterance)
    return enrolment


def read_sexes(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Reads ``spk2gender``: ``"f"`` or ``"m"`` by speaker.

    Raises:
        ConfigError: The table is missing or malformed, or holds another word.
    """
    path = Path(folder) / SPK2GENDER
    return parse_sexes(_read(path), str(path))


def _read(path: Path) -> dict[str, str]:
    _check_there(path)
    return dict(read_table(path))


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise ConfigError(
            f"{path}: there is no such table; pass folders as the VoicePrivacy Challenge has them, "
            f"or draw trials from a plain set of speakers with draw_trials."
        )


def _read_pairs(path: Path) -> Iterator[tuple[str, str, bool]]:
    _check_there(path)
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != _TRIAL_FIELDS or fields[2] not in LABELS:
            raise ConfigError(
                f"{path}, line {number}: {line!r} is not 'speaker utterance target' or 'speaker "
                "utterance nontarget'; correct the line."
            )
        yield fields[0], fields[1], LABELS[fields[2]]
