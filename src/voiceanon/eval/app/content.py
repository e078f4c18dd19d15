"""Content: word errors of a recognizer on originals and on copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voiceanon.errors import ConfigError
from voiceanon.eval.app.copies import Subject
from voiceanon.eval.app.lists import trial_folders
from voiceanon.eval.app.numbers import INTERVAL_SEED, OVER_SPEAKERS, UTILITIES, passport_of
from voiceanon.eval.app.progress import OnStep
from voiceanon.eval.app.texts import TextCache, transcribe_all
from voiceanon.eval.metrics import WordErrorRate, wer_interval, word_error_rate
from voiceanon.eval.protocol.condition import Utility
from voiceanon.eval.protocol.measurement import Interval, Measurement, Sex, SpeechCounts
from voiceanon.eval.sources.base import Recognizer

FEWEST_SPEAKERS = 2
"""With one speaker there is nothing to draw."""


@dataclass(frozen=True, kw_only=True)
class ContentResult:
    """Word error rates, and what was recognized.

    Attributes:
        measurements: For each condition, and for each sex if known.
        references: Text by utterance, in the form in which words are compared.
        hypotheses: Likewise, by condition.
    """

    measurements: tuple[Measurement, ...]
    references: Mapping[str, str]
    hypotheses: Mapping[str, Mapping[str, str]]


def measure_content(
    subject: Subject, recognizers: Sequence[Recognizer], *, cache: Path, on_step: OnStep
) -> ContentResult:
    """Recognizes all utterances that have a text.

    Where folders have published lists of trials, those without are left out, so that the set is the
    one of the VoicePrivacy Challenges, which has no enrolment utterances (specification sheet of
    the evaluation, section 3.2).

    Args:
        subject: Originals and copies.
        recognizers: Equal ones, at least one; see `texts.transcribe_all`.
        cache: Folder of texts.
        on_step: See `OnStep`.

    Raises:
        AudioError: A recording cannot be used.
        ConfigError: No utterance has a text, or a speaker is not known.
    """
    recognizer = recognizers[0]
    names = _with_text(subject)
    speakers = subject.corpus.speakers_of(names)
    references = {name: recognizer.normalise(subject.corpus.texts[name]) for name in names}
    measurements: list[Measurement] = []
    hypotheses: dict[str, dict[str, str]] = {}
    for name, side in UTILITIES.items():
        step = f"texts of {side} speech"
        on_step(step, 0, len(names))

        def on_done(done: int, total: int, step: str = step) -> None:
            on_step(step, done, total)

        texts = transcribe_all(
            recognizers, subject.waves(side, names), TextCache(cache), on_done=on_done
        )
        hypotheses[name] = {key: recognizer.normalise(text) for key, text in texts.items()}
        condition = Utility(
            name=name, model=recognizer.label, training_data=recognizer.training_data
        )
        found = word_error_rate(references, hypotheses[name])
        measurements += _by_sex(subject, condition, found, np.array(speakers))
    return ContentResult(
        measurements=tuple(measurements), references=references, hypotheses=hypotheses
    )


def _with_text(subject: Subject) -> list[str]:
    corpus = subject.corpus
    folders = trial_folders(corpus) or corpus.folders
    names = [key for folder in folders for key in folder.used if key in corpus.texts]
    if not names:
        raise ConfigError(
            f"texts: none of the {len(corpus.originals)} utterances has one; give a table with "
            "--table (a CSV file with the columns utterance and text, or a Kaldi table text)."
        )
    return names


def _by_sex(
    subject: Subject, condition: Utility, found: WordErrorRate, speakers: np.ndarray
) -> list[Measurement]:
    """Word error rates of all speakers, and of each sex if all are known and both are there."""
    sexes = np.array([subject.corpus.sexes.get(name, "") for name in speakers.tolist()])
    groups: dict[Sex, np.ndarray] = {"both": np.ones(len(sexes), np.bool_)}
    if set(sexes.tolist()) == {"f", "m"}:
        groups |= {"f": sexes == "f", "m": sexes == "m"}
    measurements = []
    for sex, kept in groups.items():
        errors, words = found.errors[kept], found.words[kept]
        if not words.sum():
            continue
        own = speakers[kept]
        interval = None
        if len(set(own.tolist())) >= FEWEST_SPEAKERS:
            generator = np.random.default_rng(INTERVAL_SEED)
            drawn = wer_interval(errors, words, speakers=own, generator=generator)
            interval = Interval(low=drawn.low, high=drawn.high, method=OVER_SPEAKERS)
        counts = SpeechCounts(
            utterances=int(kept.sum()), speakers=len(set(own.tolist())), words=int(words.sum())
        )
        passport = passport_of(subject, condition, sex, counts)
        value = float(errors.sum() / words.sum())
        measurements.append(
            passport.stamp(WordErrorRate, "WER", "all errors / all words", value, interval=interval)
        )
    return measurements
