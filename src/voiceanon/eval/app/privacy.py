"""Privacy: speaker verification under each condition, with all its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from voiceanon.eval.app.copies import Subject
from voiceanon.eval.app.curves import ScoreCurves, score_curves
from voiceanon.eval.app.numbers import (
    INTERVAL_SEED,
    list_measurements,
    mean_measurements,
    passport_of,
)
from voiceanon.eval.app.progress import OnStep
from voiceanon.eval.metrics import EerInterval, eer_interval
from voiceanon.eval.metrics.eer_intervals import FEWEST_SPEAKERS
from voiceanon.eval.protocol.condition import Attack, AttackName, Side
from voiceanon.eval.protocol.embeddings import EmbeddingCache, embed_all
from voiceanon.eval.protocol.measurement import Measurement, Sex
from voiceanon.eval.protocol.scoring import Embeddings, score_trials
from voiceanon.eval.protocol.trials import TrialList
from voiceanon.eval.sources.base import SpeakerEmbedder

IGNORANT_TO_LAZY: tuple[AttackName, ...] = ("OO", "OA", "AA-lazy")
"""Conditions for an attacker that was trained on original speech."""

SEMI_INFORMED: tuple[AttackName, ...] = ("AA-semi",)
"""Condition for one that was trained on anonymized speech."""


@dataclass(frozen=True, kw_only=True)
class PrivacyResult:
    """Numbers of an attacker under its conditions, and what the figures need."""

    measurements: tuple[Measurement, ...]
    curves: tuple[ScoreCurves, ...]


def measure_privacy(
    subject: Subject,
    lists: Mapping[Sex, TrialList],
    attacker: SpeakerEmbedder,
    *,
    trained_on: Side,
    cache: Path,
    on_step: OnStep,
) -> PrivacyResult:
    """Attacks the speech of a subject.

    Args:
        subject: Originals and copies.
        lists: Trials of each group of speakers.
        attacker: Model.
        trained_on: Whether it learned from original speech or from copies of this system.
        cache: Folder of embeddings.
        on_step: See `OnStep`.

    Returns:
        For each condition and list the metrics of `numbers.list_measurements`; where there are
        lists of both sexes, `numbers.mean_measurements` of them as well.

    Raises:
        AudioError: A recording cannot be used.
        ConfigError: Trials and recordings do not match.
    """
    names = SEMI_INFORMED if trained_on == "anonymized" else IGNORANT_TO_LAZY
    attacks = [
        Attack(
            name=name,
            attacker=attacker.label,
            training_data=attacker.training_data,
            trained_on=trained_on,
        )
        for name in names
    ]
    sides = sorted({side for attack in attacks for side in attack.sides}, reverse=True)
    embeddings = {
        side: _embed(subject, lists, attacker, side, EmbeddingCache(cache), on_step)
        for side in sides
    }
    measurements: list[Measurement] = []
    curves: list[ScoreCurves] = []
    for number, attack in enumerate(attacks):
        on_step("scoring", number, len(attacks))
        numbers, drawn = _attack(subject, lists, attack, embeddings)
        measurements += numbers
        curves += drawn
    on_step("scoring", len(attacks), len(attacks))
    return PrivacyResult(measurements=tuple(measurements), curves=tuple(curves))


def _embed(
    subject: Subject,
    lists: Mapping[Sex, TrialList],
    attacker: SpeakerEmbedder,
    side: Side,
    cache: EmbeddingCache,
    on_step: OnStep,
) -> Embeddings:
    wanted = dict.fromkeys(
        name
        for trials in lists.values()
        for name in (*trials.enrolment_utterances, *trials.trial_speakers)
    )
    known = subject.corpus.originals
    step = f"embeddings of {side} speech"
    on_step(step, 0, len(wanted))
    return embed_all(
        attacker,
        # Trials of unknown utterances are an error of the scoring, which lists them.
        subject.waves(side, [name for name in wanted if name in known]).recordings(),
        cache=cache,
        on_done=lambda done, total: on_step(step, done, total),
    )


def _attack(
    subject: Subject,
    lists: Mapping[Sex, TrialList],
    attack: Attack,
    embeddings: Mapping[Side, Embeddings],
) -> tuple[list[Measurement], list[ScoreCurves]]:
    """All numbers and curves under one condition."""
    generator = np.random.default_rng(INTERVAL_SEED)
    measurements: list[Measurement] = []
    curves: list[ScoreCurves] = []
    intervals: dict[Sex, EerInterval | None] = {}
    for sex, trials in lists.items():
        scores = score_trials(trials, embeddings[attack.enrolment], embeddings[attack.trial])
        intervals[sex] = _interval(scores, trials, generator)
        passport = passport_of(subject, attack, sex, trials.counts)
        targets, nontargets = scores[trials.is_target], scores[~trials.is_target]
        measurements += list_measurements(targets, nontargets, passport, intervals[sex])
        curves.append(
            score_curves(
                scores,
                trials.is_target,
                condition=attack.name,
                attacker=attack.attacker,
                sex=sex,
            )
        )
    measurements += mean_measurements(measurements, intervals)
    return measurements, curves


def _interval(
    scores: npt.NDArray[np.float32], trials: TrialList, generator: np.random.Generator
) -> EerInterval | None:
    enrolled, tried = trials.speaker_names
    both = trials.is_target.any() and not trials.is_target.all()
    if not both or len({*trials.enrolment, *trials.trial_speakers.values()}) < FEWEST_SPEAKERS:
        return None
    return eer_interval(scores, enrolled, tried, generator=generator)
