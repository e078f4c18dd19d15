"""The three measurements, with sources whose answers can be worked out."""

import numpy as np
import pytest
from eval.app_speech import (
    SPEAKERS,
    TAKES,
    LevelClassifier,
    LevelRecognizer,
    MeanSpectrum,
    voice,
    write_corpus,
)

from voiceanon.errors import AudioError, ConfigError
from voiceanon.eval.app.content import measure_content
from voiceanon.eval.app.copies import find_copies
from voiceanon.eval.app.curves import normal_deviate
from voiceanon.eval.app.data import read_corpus
from voiceanon.eval.app.emotion import measure_emotion
from voiceanon.eval.app.lists import trial_lists
from voiceanon.eval.app.privacy import measure_privacy
from voiceanon.eval.app.report.scatter import measured_points
from voiceanon.eval.app.results import Part, Results
from voiceanon.eval.app.texts import TextCache, transcribe_all
from voiceanon.eval.metrics import equal_error_rate
from voiceanon.eval.metrics.uar_intervals import uar_interval

QUIET = 0.4
"""Gain that makes a loud recording soft for the recognizer and the classifier."""


def no_step(step, done, total):
    assert 0 <= done <= total


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("app") / "data")


def subject_of(originals, tmp_path, change):
    copies = write_corpus(tmp_path / "copies", change=change)
    corpus = read_corpus([originals], out=tmp_path / "out")
    options = {"system": "mine", "level": "utterance"}
    return find_copies(corpus, [copies], out=tmp_path / "out", **options)


def attack(subject, tmp_path, embedder=None, trained_on="original"):
    lists = trial_lists(subject.corpus, 1)
    return lists, measure_privacy(
        subject,
        lists,
        embedder or MeanSpectrum(),
        trained_on=trained_on,
        cache=tmp_path / "cache",
        on_step=no_step,
    )


def values(measurements, metric="EER", variant="nearest"):
    return {
        (each.condition.name, each.sex): each.value
        for each in measurements
        if (each.metric, each.variant) == (metric, variant)
    }


def test_unchanged_copies_have_the_numbers_of_the_originals(originals, tmp_path):
    _, found = attack(subject_of(originals, tmp_path, lambda wave: wave), tmp_path)
    eers = values(found.measurements)
    assert set(eers) == {(c, s) for c in ("OO", "OA", "AA-lazy") for s in ("both", "f", "m")}
    assert eers["OO", "both"] < 0.15
    for sex in ("both", "f", "m"):
        assert eers["OO", sex] == eers["OA", sex] == eers["AA-lazy", sex]


def test_the_numbers_are_those_of_the_scores(originals, tmp_path):
    lists, found = attack(subject_of(originals, tmp_path, lambda wave: -wave[::-1]), tmp_path)
    vectors = {
        f"{speaker}/{speaker}{take}": MeanSpectrum().embed([voice(speaker, take)])[0]
        for speaker in SPEAKERS
        for take in range(TAKES)
    }
    trials = lists["both"]
    enrolled, names = list(trials.enrolment), list(trials.trial_speakers)
    scores = np.array([
        np.corrcoef(vectors[trials.enrolment[enrolled[row]][0]], vectors[names[column]])[0, 1]
        for row, column in zip(trials.speaker_index, trials.utterance_index, strict=True)
    ])  # fmt: skip
    expected = equal_error_rate(scores[trials.is_target], scores[~trials.is_target])
    assert values(found.measurements)["OO", "both"] == pytest.approx(expected.value, abs=0.01)


def test_one_voice_for_all_hides_the_speakers(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: voice("ann", 0) + 1e-3 * wave)
    _, found = attack(subject, tmp_path)
    eers = values(found.measurements)
    assert eers["OA", "both"] > 0.3
    assert eers["OO", "both"] < 0.15


def test_every_number_has_its_passport(originals, tmp_path):
    _, found = attack(subject_of(originals, tmp_path, lambda wave: wave / 2), tmp_path)
    for each in found.measurements:
        row = each.to_row()
        assert all(row.values())
        changed = each.condition.name != "OO"
        assert (row["system"], row["level"]) == (
            ("mine", "utterance") if changed else ("none",) * 2
        )
        assert row["model"] == MeanSpectrum.label
        assert "target and" in row["counts"]
        if each.metric == "EER":
            assert each.interval.low <= each.value <= each.interval.high
            assert "bootstrap over speakers" in each.interval.method
    metrics = {each.metric for each in found.measurements if each.sex == "both"}
    assert metrics == {"EER", "mFDR", "Cllr_min", "D_ECE", "worst case", "D_sys"}


def test_mean_of_both_sexes(originals, tmp_path):
    _, found = attack(subject_of(originals, tmp_path, lambda wave: np.tanh(9 * wave)), tmp_path)
    eers = values(found.measurements)
    means = values(found.measurements, variant="nearest, mean of f and m")
    for name in ("OO", "OA", "AA-lazy"):
        assert means[name, "both"] == (eers[name, "f"] + eers[name, "m"]) / 2
    (mean,) = [m for m in found.measurements if "mean" in m.variant and m.condition.name == "OA"]
    female = next(m for m in found.measurements if m.sex == "f" and m.condition.name == "OA")
    assert mean.counts.targets == 2 * female.counts.targets


def test_lists_of_both_sexes_alone(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: wave)
    halves = {sex: trial_lists(subject.corpus, 1)[sex] for sex in "fm"}
    found = measure_privacy(
        subject,
        halves,
        MeanSpectrum(),
        trained_on="original",
        cache=tmp_path / "cache",
        on_step=no_step,
    )
    both = {(each.metric, each.variant) for each in found.measurements if each.sex == "both"}
    assert {metric for metric, _ in both} == {"EER", "mFDR"}
    part = Part(measurements=found.measurements)
    points = measured_points(Results(system="b2", level="utterance").with_part("privacy", part))
    assert [point.eer.variant for point in points] == ["nearest, mean of f and m"] * 3


def test_a_semi_informed_attacker_has_one_condition(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: wave)
    _, found = attack(subject, tmp_path, trained_on="anonymized")
    assert {each.condition.name for each in found.measurements} == {"AA-semi"}
    assert {each.condition.knowledge for each in found.measurements} == {"semi-informed"}


def test_a_second_run_embeds_nothing(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: wave / 3)
    embedder = MeanSpectrum()
    _, first = attack(subject, tmp_path, embedder)
    assert embedder.calls == 2 * len(SPEAKERS) * TAKES
    _, second = attack(subject, tmp_path, embedder)
    assert embedder.calls == 2 * len(SPEAKERS) * TAKES
    assert second.measurements == first.measurements


def test_curves_agree_with_the_numbers(originals, tmp_path):
    lists, found = attack(subject_of(originals, tmp_path, lambda wave: wave), tmp_path)
    eers = values(found.measurements)
    for curves in found.curves:
        counts = lists[curves.sex].counts
        assert sum(curves.targets) == counts.targets
        assert sum(curves.nontargets) == counts.nontargets
        assert (curves.false_alarms[0], curves.misses[0]) == (1, 0)
        assert (curves.false_alarms[-1], curves.misses[-1]) == (0, 1)
        gaps = np.abs(np.array(curves.false_alarms) - np.array(curves.misses))
        place = int(np.argmin(gaps))
        nearest = (curves.false_alarms[place] + curves.misses[place]) / 2
        assert nearest == pytest.approx(eers[curves.condition, curves.sex], abs=0.02)
        assert all(
            low <= high + 1e-6
            for low, high in zip(curves.entropy, curves.prior_entropy, strict=True)
        )


def test_normal_deviates():
    np.testing.assert_allclose(normal_deviate([0.5, 0.975]), [0, 1.959964], atol=1e-6)


def test_word_errors(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: QUIET * wave)
    found = measure_content(subject, [LevelRecognizer()], cache=tmp_path / "c", on_step=no_step)
    rates = values(found.measurements, "WER", "all errors / all words")
    assert set(rates) == {(c, s) for c in ("O", "A-lazy") for s in ("both", "f", "m")}
    assert {rates["O", sex] for sex in ("both", "f", "m")} == {0.0}
    # Of takes 0, 1, 2 the texts have 2, 1, 2 words; LOUD NOISE became SOFT: 4 errors of 5 words.
    assert rates["A-lazy", "both"] == rates["A-lazy", "f"] == pytest.approx(4 / 5)
    assert found.references["ann/ann0"] == "LOUD NOISE"
    assert found.hypotheses["A-lazy"]["ann/ann0"] == "SOFT"
    both = [each for each in found.measurements if each.sex == "both"]
    assert both[0].counts.words == 5 * len(SPEAKERS)
    # Every speaker has the same errors, so that drawing speakers changes nothing.
    assert (both[1].interval.low, both[1].interval.high) == pytest.approx((0.8, 0.8))


def test_texts_are_needed(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: wave)
    bare = subject.__class__(**{**vars(subject), "corpus": without(subject.corpus, "texts")})
    with pytest.raises(ConfigError, match="texts: none of the 30 utterances has one"):
        measure_content(bare, [LevelRecognizer()], cache=tmp_path / "c", on_step=no_step)


def without(corpus, name):
    return corpus.__class__(**{**vars(corpus), name: {}})


def test_texts_are_recognized_once_and_the_longest_first(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: wave[: int(len(wave) * wave.max() * 3)])
    waves, cache = subject.waves("anonymized"), TextCache(tmp_path / "texts")
    first = LevelRecognizer()
    texts = transcribe_all([first], waves, cache)
    (lengths,) = first.blocks
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) == len(SPEAKERS) * TAKES
    second = LevelRecognizer()
    assert transcribe_all([second], waves, cache) == texts
    assert second.blocks == []
    several = [LevelRecognizer() for _ in range(3)]
    assert transcribe_all(several, waves, TextCache(tmp_path / "other")) == texts
    assert sum(len(each.blocks) for each in several) == len(texts)


def test_an_interrupted_recognition_goes_on(originals, tmp_path):
    class Failing(LevelRecognizer):
        def transcribe(self, waves):
            if len(self.blocks) == 4:
                raise AudioError("audio: too loud.")
            return super().transcribe(waves)

    subject = subject_of(originals, tmp_path, lambda wave: wave)
    waves, cache = subject.waves("original"), TextCache(tmp_path / "texts")
    # Recognizers that work side by side keep every text as soon as it is known.
    with pytest.raises(AudioError, match=r"[a-z]+/[a-z]+[0-9]: audio: too loud"):
        transcribe_all([Failing(), Failing()], waves, cache)
    kept = len(list((tmp_path / "texts").rglob("*.txt")))
    assert kept >= 4
    rest = LevelRecognizer()
    transcribe_all([rest], waves, cache)
    assert len(rest.blocks[0]) == len(SPEAKERS) * TAKES - kept


def test_a_damaged_text_is_recognized_afresh(tmp_path):
    cache = TextCache(tmp_path)
    wave = voice("ann", 0)
    cache.put(wave, "one", "Ä TEXT")
    assert cache.get(wave, "one") == "Ä TEXT"
    assert cache.get(wave, "two") is None
    assert cache.get(wave[1:], "one") is None
    (path,) = tmp_path.rglob("*.txt")
    path.write_bytes(b"\xff\xfe\xff")
    assert cache.get(wave, "one") is None


def test_emotions(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: QUIET * wave)
    classifier = LevelClassifier()
    found = measure_emotion(subject, classifier, cache=tmp_path / "c", on_step=no_step)
    pooled = "recordings of all speakers together"
    assert values(found.measurements, "UAR", pooled) == {("O", "both"): 1, ("A-lazy", "both"): 0.5}
    angry = values(found.measurements, "recall of angry", pooled)
    sad = values(found.measurements, "recall of sad", pooled)
    assert (angry["A-lazy", "both"], sad["A-lazy", "both"]) == (0, 1)
    assert found.confusions[1].counts == ((0, 20), (0, 10))
    assert all(each.interval is not None for each in found.measurements)
    calls = classifier.calls
    again = measure_emotion(subject, classifier, cache=tmp_path / "c", on_step=no_step)
    assert classifier.calls == calls == 2 * len(SPEAKERS) * TAKES
    assert again == found


def test_emotions_over_folds(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: QUIET * wave)
    folds = {name: "1" if sex == "f" else "2" for name, sex in SPEAKERS.items()}
    corpus = subject.corpus.__class__(**{**vars(subject.corpus), "folds": folds})
    subject = subject.__class__(**{**vars(subject), "corpus": corpus})
    found = measure_emotion(subject, LevelClassifier(), cache=tmp_path / "c", on_step=no_step)
    means = [each for each in found.measurements if "folds" in each.variant]
    assert [each.value for each in means] == [1, 0.5]


def test_emotions_that_the_classifier_does_not_know(originals, tmp_path):
    subject = subject_of(originals, tmp_path, lambda wave: wave)
    classifier = LevelClassifier()
    classifier.emotions = ("angry", "happy")
    with pytest.raises(ConfigError, match="sad are none of the classifier's"):
        measure_emotion(subject, classifier, cache=tmp_path / "c", on_step=no_step)


def test_interval_of_the_average_recall():
    draws = np.random.default_rng(1)
    speakers = np.repeat(np.arange(12), 40)
    truth = np.tile(np.array(list("abcd")), 120)
    right = draws.random(480) < 0.3 + 0.04 * speakers
    predicted = np.where(right, truth, "x")
    found = uar_interval(truth, predicted, speakers, generator=np.random.default_rng(2))
    by_hand = []
    generator = np.random.default_rng(3)
    for _ in range(1000):
        chosen = generator.integers(0, 12, 12)
        rows = np.concatenate([np.flatnonzero(speakers == one) for one in chosen])
        recalls = [right[rows][truth[rows] == name].mean() for name in "abcd"]
        by_hand.append(np.mean(recalls))
    np.testing.assert_allclose(found.average, np.percentile(by_hand, (2.5, 97.5)), atol=0.015)
    assert set(found.recalls) == set("abcd")
    with pytest.raises(ConfigError, match="at least two"):
        uar_interval(["a"], ["a"], ["one"], generator=generator)


def test_interval_of_classes_that_some_speakers_lack():
    truth, speakers = ["a", "a", "b", "b"], ["one", "one", "two", "two"]
    found = uar_interval(truth, ["a", "a", "a", "a"], speakers, generator=np.random.default_rng(0))
    assert found.average == (0, 1)
    assert found.recalls == {"a": (1, 1), "b": (0, 0)}
