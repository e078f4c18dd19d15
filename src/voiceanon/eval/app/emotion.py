"""Emotion: recall of a classifier on originals and on copies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voiceanon.errors import ConfigError
from voiceanon.eval.app.copies import Subject
from voiceanon.eval.app.data import Waves
from voiceanon.eval.app.numbers import (
    INTERVAL_SEED,
    OVER_SPEAKERS,
    UTILITIES,
    Passport,
    passport_of,
)
from voiceanon.eval.app.progress import OnStep
from voiceanon.eval.app.texts import TextCache
from voiceanon.eval.metrics import (
    UnweightedAverageRecall,
    mean_over_folds,
    unweighted_average_recall,
)
from voiceanon.eval.metrics.uar_intervals import UarInterval, uar_interval
from voiceanon.eval.protocol.condition import Utility
from voiceanon.eval.protocol.measurement import Interval, Measurement, SpeechCounts
from voiceanon.eval.sources.base import EmotionClassifier

FEWEST_SPEAKERS = 2
"""With one speaker there is nothing to draw."""

BLOCK_RECORDINGS = 32
"""Recordings that a classifier gets at once: progress is told, and kept, as often."""

POOLED = "recordings of all speakers together"
CHALLENGE_MEAN = "mean over folds, each rounded (VoicePrivacy 2024)"


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """How often an emotion was taken for another one.

    Attributes:
        condition: Name.
        emotions: Names.
        counts: Truth by prediction.
    """

    condition: str
    emotions: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class EmotionResult:
    """Average recall and the recall of each emotion, for each condition, and what was confused."""

    measurements: tuple[Measurement, ...]
    confusions: tuple[Confusion, ...]


def train_classifier(subject: Subject, on_step: OnStep) -> EmotionClassifier:
    """Trains the light classifier on the originals, leave one speaker out.

    Raises:
        AudioError: A recording cannot be used.
        ConfigError: No emotions or speakers are known, or there is too little to train on.
        MissingDependencyError: scikit-learn is not installed.
    """
    from voiceanon.eval.sources.emotion import LeaveOneSpeakerOut

    names = _labelled(subject)
    on_step("training of the emotion classifier", 0, 1)
    classifier = LeaveOneSpeakerOut(
        list(subject.waves("original", names).values()),
        [subject.corpus.emotions[name] for name in names],
        subject.corpus.speakers_of(names),
    )
    on_step("training of the emotion classifier", 1, 1)
    return classifier


def measure_emotion(
    subject: Subject, classifier: EmotionClassifier, *, cache: Path, on_step: OnStep
) -> EmotionResult:
    """Classifies all utterances whose emotion is known.

    Args:
        subject: Originals and copies.
        classifier: Model.
        cache: Folder of predictions.
        on_step: See `OnStep`.

    Raises:
        AudioError: A recording cannot be used.
        ConfigError: No emotion is known, or one that the classifier has no name for.
    """
    names = _labelled(subject)
    truth = [subject.corpus.emotions[name] for name in names]
    foreign = sorted(set(truth) - set(classifier.emotions))
    if foreign:
        raise ConfigError(
            f"emotions: {', '.join(foreign)} are none of the classifier's, which are "
            f"{', '.join(classifier.emotions)}; rename them in the table, or leave them out."
        )
    speakers = subject.corpus.speakers_of(names)
    measurements: list[Measurement] = []
    confusions: list[Confusion] = []
    for name, side in UTILITIES.items():
        waves = subject.waves(side, names)
        step = f"emotions of {side} speech"
        predicted = _classify(
            classifier, waves, speakers, TextCache(cache), step=step, on_step=on_step
        )
        condition = Utility(
            name=name, model=classifier.label, training_data=classifier.training_data
        )
        found = unweighted_average_recall(truth, predicted, classes=classifier.emotions)
        interval = None
        if len(set(speakers)) >= FEWEST_SPEAKERS:
            generator = np.random.default_rng(INTERVAL_SEED)
            interval = uar_interval(truth, predicted, speakers, generator=generator)
        counts = SpeechCounts(utterances=len(names), speakers=len(set(speakers)))
        passport = passport_of(subject, condition, "both", counts)
        measurements += _numbers(found, passport, interval)
        measurements += _mean(subject, truth, predicted, speakers, passport)
        confusions.append(
            Confusion(
                condition=name,
                emotions=tuple(found.recalls),
                counts=tuple(tuple(row) for row in found.confusion.tolist()),
            )
        )
    return EmotionResult(measurements=tuple(measurements), confusions=tuple(confusions))


def _labelled(subject: Subject) -> list[str]:
    names = list(subject.corpus.emotions)
    if not names:
        raise ConfigError(
            f"emotions: none of the {len(subject.corpus.originals)} utterances has one; give a "
            "table with --table (a CSV file with the columns utterance and emotion, or a Kaldi "
            "table utt2emo)."
        )
    return names


def _classify(
    classifier: EmotionClassifier,
    waves: Waves,
    speakers: Sequence[str],
    cache: TextCache,
    *,
    step: str,
    on_step: OnStep,
) -> list[str]:
    """Emotion of each recording; kept by content, classifier and speaker."""
    names = list(waves)
    found: list[str] = []
    on_step(step, 0, len(names))
    for first in range(0, len(names), BLOCK_RECORDINGS):
        block = [waves[name] for name in names[first : first + BLOCK_RECORDINGS]]
        owners = speakers[first : first + BLOCK_RECORDINGS]
        # Another speaker's recording is judged by another model.
        keys = [json.dumps([classifier.identity, owner]) for owner in owners]
        kept = [cache.get(wave, key) for wave, key in zip(block, keys, strict=True)]
        new = [place for place, emotion in enumerate(kept) if emotion is None]
        named = (
            classifier.classify([block[i] for i in new], [owners[i] for i in new]) if new else []
        )
        for place, emotion in zip(new, named, strict=True):
            cache.put(block[place], keys[place], emotion)
            kept[place] = emotion
        found += [emotion for emotion in kept if emotion is not None]
        on_step(step, len(found), len(names))
    return found


def _numbers(
    found: UnweightedAverageRecall, passport: Passport, interval: UarInterval | None
) -> list[Measurement]:
    """The average, and the recall of each emotion that occurs."""
    kind = UnweightedAverageRecall
    ends = None if interval is None else _ends(interval.average)
    numbers = [passport.stamp(kind, "UAR", POOLED, found.value, interval=ends)]
    for emotion, recall in found.recalls.items():
        if np.isfinite(recall):
            own = None if interval is None else _ends(interval.recalls[emotion])
            numbers.append(
                passport.stamp(kind, f"recall of {emotion}", POOLED, recall, interval=own)
            )
    return numbers


def _mean(
    subject: Subject,
    truth: Sequence[str],
    predicted: Sequence[str],
    speakers: Sequence[str],
    passport: Passport,
) -> list[Measurement]:
    """The challenge's mean over folds, where the fold of every speaker is known."""
    folds: Mapping[str, str] = subject.corpus.folds
    if not set(speakers) <= folds.keys():
        return []
    classes = sorted({*truth, *predicted})
    own = np.array([folds[name] for name in speakers])
    parts = [
        unweighted_average_recall(
            np.array(truth)[own == fold], np.array(predicted)[own == fold], classes=classes
        )
        for fold in sorted(set(own.tolist()))
    ]
    value = mean_over_folds(parts).value
    return [passport.stamp(UnweightedAverageRecall, "UAR", CHALLENGE_MEAN, value)]


def _ends(interval: tuple[float, float]) -> Interval:
    return Interval(low=interval[0], high=interval[1], method=OVER_SPEAKERS)
