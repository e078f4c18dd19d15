"""Lists of trials: the published ones of Kaldi folders, or drawn ones."""

from __future__ import annotations

from voiceanon.errors import ConfigError
from voiceanon.eval.app.data import Corpus, Folder
from voiceanon.eval.ids import listed
from voiceanon.eval.protocol.draw import draw_trials
from voiceanon.eval.protocol.kaldi import ENROLLS, TRIALS, read_trials
from voiceanon.eval.protocol.measurement import Sex
from voiceanon.eval.protocol.trials import TrialList, by_sex

DRAW_SEED = 0
"""Of the draw of enrolment utterances: every run has the same trials."""


def trial_lists(corpus: Corpus, enrolment: int) -> dict[Sex, TrialList]:
    """Makes the lists that a corpus is attacked with.

    Where folders have the tables ``enrolls`` and ``trials``, these are the lists, one for each
    folder with ``trials``; its speakers must have one sex, as in the VoicePrivacy Challenges. Else
    enrolment utterances are drawn, and there is one list of all pairs; if the sexes of all speakers
    are known, also one for each.

    Args:
        corpus: Recordings.
        enrolment: Utterances per speaker that are drawn for the enrolment.

    Raises:
        ConfigError: A speaker is not known or has too few utterances, or the tables do not fit.
    """
    tried = trial_folders(corpus)
    if tried:
        return _published(corpus, tried)
    names = list(corpus.originals)
    whole = draw_trials(
        dict(zip(names, corpus.speakers_of(names), strict=True)), enrolment, seed=DRAW_SEED
    )
    lists: dict[Sex, TrialList] = {"both": whole}
    if set(corpus.speakers.values()) <= corpus.sexes.keys():
        halves = by_sex(whole, corpus.sexes)
        if len(halves) > 1:
            for sex, trials in halves.items():
                lists[sex] = trials
    return lists


def trial_folders(corpus: Corpus) -> list[Folder]:
    """Folders with a published list of trials."""
    return [each for each in corpus.folders if each.is_kaldi and (each.path / TRIALS).is_file()]


def _published(corpus: Corpus, tried: list[Folder]) -> dict[Sex, TrialList]:
    enrolled = [each for each in corpus.folders if (each.path / ENROLLS).is_file()]
    if len(enrolled) != 1:
        raise ConfigError(
            f"ORIGINAL: {len(enrolled)} folders have the table {ENROLLS}; exactly one is due "
            f"beside the folders with {TRIALS}."
        )
    lists: dict[Sex, TrialList] = {}
    for folder in tried:
        trials = read_trials(enrolled[0].path, folder.path)
        speakers = {*trials.enrolment, *trials.trial_speakers.values()}
        unknown = sorted(speakers - corpus.sexes.keys())
        if unknown:
            raise ConfigError(
                f"sexes: those of the speakers {listed(unknown)} are not known; put the table "
                "spk2gender into the folders."
            )
        sexes = {corpus.sexes[speaker] for speaker in speakers}
        sex: Sex = "both"
        if len(sexes) == 1:
            sex = "f" if "f" in sexes else "m"
        if sex in lists:
            raise ConfigError(
                f"ORIGINAL: {folder.path} is the second list of trials for sex {sex!r}; evaluate "
                "the lists one by one."
            )
        lists[sex] = trials
    return lists
