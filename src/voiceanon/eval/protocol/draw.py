"""Trial lists for a plain set of speakers, where no published list exists."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from voiceanon import seeding
from voiceanon.errors import ConfigError
from voiceanon.eval.ids import listed
from voiceanon.eval.protocol.trials import TrialList

_PURPOSE = "enrolment"


def draw_trials(speakers: Mapping[str, str], n_enrolment: int, *, seed: int) -> TrialList:
    """Draws enrolment utterances; all others are tried against every speaker.

    What is drawn for a speaker depends on the seed, its name and the names of its utterances alone,
    so that other speakers may come and go.

    Args:
        speakers: Speaker of each utterance. Utterances are taken in the order of their names.
        n_enrolment: Enrolment utterances per speaker.
        seed: Of the draw.

    Returns:
        All pairs of an enrolment speaker and a trial utterance, speaker by speaker in the order of
        their names, utterances likewise. Split it with `trials.by_sex` where sexes are known.

    Raises:
        ConfigError: ``n_enrolment`` is less than 1, or a speaker has not one utterance more.
    """
    if n_enrolment < 1:
        raise ConfigError(f"n_enrolment: {n_enrolment} is too small; at least 1 is due.")
    own: dict[str, list[str]] = {speaker: [] for speaker in sorted(set(speakers.values()))}
    for utterance in sorted(speakers):
        own[speakers[utterance]].append(utterance)
    short = [name for name, utterances in own.items() if len(utterances) <= n_enrolment]
    if short:
        raise ConfigError(
            f"n_enrolment: the speakers {listed(short)} have {n_enrolment} utterances or fewer, "
            "which leaves no trial; enrol fewer, or leave the speakers out."
        )
    secret = seeding.seed_secret(seed)
    enrolment = {
        name: _draw(utterances, n_enrolment, seeding.stream(secret, _PURPOSE, name))
        for name, utterances in own.items()
    }
    enrolled = {utterance for utterances in enrolment.values() for utterance in utterances}
    tried = {
        utterance: name
        for name, utterances in own.items()
        for utterance in utterances
        if utterance not in enrolled
    }
    number = {name: i for i, name in enumerate(own)}
    owner = np.array([number[name] for name in tried.values()])
    rows, columns = len(own), len(tried)
    return TrialList(
        enrolment=enrolment,
        trial_speakers=tried,
        speaker_index=np.repeat(np.arange(rows), columns),
        utterance_index=np.tile(np.arange(columns), rows),
        is_target=(np.arange(rows)[:, None] == owner).ravel(),
    )


def _draw(utterances: list[str], count: int, source: bytes) -> tuple[str, ...]:
    order = torch.randperm(len(utterances), generator=seeding.generator(source), device="cpu")
    return tuple(utterances[i] for i in sorted(order[:count].tolist()))
