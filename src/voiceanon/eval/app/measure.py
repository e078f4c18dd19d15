"""``voiceanon-eval privacy``, ``content``, ``emotion`` and ``all``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from voiceanon.cli.console import complain, say, show_table
from voiceanon.errors import ConfigError
from voiceanon.eval.app import models, options
from voiceanon.eval.app.clips import write_clips
from voiceanon.eval.app.content import measure_content
from voiceanon.eval.app.copies import Subject, check_names
from voiceanon.eval.app.emotion import measure_emotion, train_classifier
from voiceanon.eval.app.lists import trial_lists
from voiceanon.eval.app.numbers import EER, NEAREST
from voiceanon.eval.app.privacy import measure_privacy
from voiceanon.eval.app.progress import EvaluationProgress, OnStep
from voiceanon.eval.app.report.page import REPORT_NAME, write_report
from voiceanon.eval.app.report.sections import HEADLINES
from voiceanon.eval.app.report.words import SEX_WORDS, UPPER_BOUND, show_interval, show_value
from voiceanon.eval.app.request import Request, with_request
from voiceanon.eval.app.results import (
    RESULTS_NAME,
    TABLE_NAME,
    Part,
    PartName,
    open_results,
    read_results,
    write_results,
)
from voiceanon.eval.protocol.measurement import Sex, warn_of_weak_attacker
from voiceanon.eval.protocol.trials import TrialList

Work = Callable[[OnStep], Part]
"""Measures one part."""


@with_request
def privacy(
    originals: options.Originals,
    request: Request,
    anonymized: options.Anonymized = None,
    enrolment: options.Enrolment = 4,
    attacker: options.AttackerName = models.GE2E,
    semi_informed: options.SemiInformed = None,
) -> None:
    """Measure how well an attacker finds speakers: EER and more, under OO, OA and AA-lazy."""
    models.check_choices(attacker=attacker)
    corpus = request.corpus(originals)
    lists = trial_lists(corpus, enrolment)
    subject = request.subject(corpus, anonymized)
    work = _privacy(request, subject, lists, attacker, semi_informed)
    _measure(request, subject, "privacy", work)
    _finish(request)


@with_request
def content(
    originals: options.Originals,
    request: Request,
    anonymized: options.Anonymized = None,
    recognizer: options.RecognizerName = models.POCKETSPHINX,
) -> None:
    """Measure how many of the words are left: WER of originals and copies."""
    models.check_choices(recognizer=recognizer)
    subject = request.subject(request.corpus(originals), anonymized)
    _measure(request, subject, "content", _content(request, subject, recognizer))
    _finish(request)


@with_request
def emotion(
    originals: options.Originals,
    request: Request,
    anonymized: options.Anonymized = None,
    classifier: options.ClassifierName = models.TRAINED_HERE,
) -> None:
    """Measure how much of the emotion is left: UAR of originals and copies."""
    models.check_choices(classifier=classifier)
    subject = request.subject(request.corpus(originals), anonymized)
    _measure(request, subject, "emotion", _emotion(request, subject, classifier))
    _finish(request)


@with_request
def everything(
    originals: options.Originals,
    request: Request,
    anonymized: options.Anonymized = None,
    emotion_data: options.EmotionData = None,
    emotion_anonymized: options.EmotionAnonymized = None,
    enrolment: options.Enrolment = 4,
    attacker: options.AttackerName = models.GE2E,
    semi_informed: options.SemiInformed = None,
    recognizer: options.RecognizerName = models.POCKETSPHINX,
    classifier: options.ClassifierName = models.TRAINED_HERE,
) -> None:
    """Measure privacy, content and emotion, as far as texts and emotions are known."""
    if emotion_data and bool(anonymized) != bool(emotion_anonymized):
        raise ConfigError(
            "--emotion-anonymized: copies of only one of ORIGINAL and --emotion-data are given; "
            "give both or none."
        )
    models.check_choices(attacker=attacker, recognizer=recognizer, classifier=classifier)
    check_names([*originals, *(emotion_data or ())])
    corpus = request.corpus(originals)
    lists = trial_lists(corpus, enrolment)
    subject = emotional = request.subject(corpus, anonymized)
    if emotion_data:
        # Patterns are about the recordings of ORIGINAL.
        whole = replace(request, leave_out=None)
        emotional = whole.subject(whole.corpus(emotion_data), emotion_anonymized)
    work = _privacy(request, subject, lists, attacker, semi_informed)
    _measure(request, subject, "privacy", work)
    if subject.corpus.texts:
        _measure(request, subject, "content", _content(request, subject, recognizer))
    else:
        complain("content is left out: no utterance has a text", "yellow")
    if emotional.corpus.emotions:
        _measure(request, emotional, "emotion", _emotion(request, emotional, classifier))
    else:
        complain("emotion is left out: no utterance has one", "yellow")
    _finish(request)


def _privacy(
    request: Request,
    subject: Subject,
    lists: Mapping[Sex, TrialList],
    attacker: str,
    semi_informed: Path | None,
) -> Work:
    def work(on_step: OnStep) -> Part:
        attackers = {"original": models.load_attacker(attacker, request.models)}
        if semi_informed is not None:
            attackers["anonymized"] = models.load_semi_informed(
                semi_informed, request.models, system=subject.system, level=subject.level
            )
        found = [
            measure_privacy(
                subject,
                lists,
                embedder,
                trained_on="anonymized" if kind == "anonymized" else "original",
                cache=request.cache / "embeddings",
                on_step=on_step,
            )
            for kind, embedder in attackers.items()
        ]
        measurements = tuple(each for result in found for each in result.measurements)
        for each in measurements:
            if (each.metric, each.variant, each.condition.name) == (EER, NEAREST, "OO"):
                warn_of_weak_attacker(each)
        curves = [each.to_json() for result in found for each in result.curves]
        return Part(measurements=measurements, extras={"curves": curves})

    return work


def _content(request: Request, subject: Subject, recognizer: str) -> Work:
    def work(on_step: OnStep) -> Part:
        recognizers = models.load_recognizers(recognizer, request.models)
        found = measure_content(
            subject, recognizers, cache=request.cache / "texts", on_step=on_step
        )
        transcripts = [
            {
                "utterance": name,
                "reference": reference,
                **{condition: texts[name] for condition, texts in found.hypotheses.items()},
            }
            for name, reference in found.references.items()
        ]
        return Part(measurements=found.measurements, extras={"transcripts": transcripts})

    return work


def _emotion(request: Request, subject: Subject, classifier: str) -> Work:
    def work(on_step: OnStep) -> Part:
        if classifier == models.TRAINED_HERE:
            model = train_classifier(subject, on_step)
        else:
            model = models.load_classifier(subject.corpus.folds, request.models)
        found = measure_emotion(subject, model, cache=request.cache / "emotions", on_step=on_step)
        confusions = [asdict(each) for each in found.confusions]
        return Part(measurements=found.measurements, extras={"confusions": confusions})

    return work


def _measure(request: Request, subject: Subject, name: PartName, work: Work) -> None:
    """Does one part and writes it, with what it warned of and some recordings."""
    with warnings.catch_warnings(record=True) as caught, EvaluationProgress() as progress:
        warnings.simplefilter("always", UserWarning)
        part = work(progress.on_step)
    notes = tuple(dict.fromkeys(str(each.message) for each in caught))
    for note in notes:
        complain(f"warning: {note}", "yellow")
    pairs = write_clips(subject, _audible(subject, name), request.clips, request.out, name)
    results = open_results(request.out, subject.system, subject.level)
    part = replace(part, notes=notes, extras={**part.extras, "pairs": pairs})
    write_results(request.out, results.with_part(name, part))


def _audible(subject: Subject, name: PartName) -> Sequence[str]:
    """Utterances that a part is about."""
    corpus = subject.corpus
    wanted: dict[PartName, Any] = {"content": corpus.texts, "emotion": corpus.emotions}
    return list(wanted.get(name, corpus.originals))


def _finish(request: Request) -> None:
    """Writes the report, and prints the numbers that the challenge ranks by."""
    results = read_results(request.out)
    complain("report", "")
    write_report(request.out / REPORT_NAME, [(request.out, results)])
    show_table(
        ("condition", "metric", "speakers", "value", "95 % interval", "rests on"),
        [
            (
                each.condition.name,
                f"{each.metric} ({each.variant})",
                SEX_WORDS[each.sex],
                show_value(each),
                show_interval(each),
                each.counts.describe(),
            )
            for each in results.measurements
            if each.metric in HEADLINES
        ],
    )
    say("")
    if "privacy" in results.parts:
        say(UPPER_BOUND)
    for file in (REPORT_NAME, RESULTS_NAME, TABLE_NAME):
        say(str(request.out / file))
