"""From embeddings to scores, and the cache of embeddings."""

import json
from pathlib import Path

import numpy as np
import pytest
import signals

from voiceanon.audio import io
from voiceanon.errors import AudioError, ConfigError
from voiceanon.eval.metrics import equal_error_rate
from voiceanon.eval.protocol import embeddings as cache_module
from voiceanon.eval.protocol import scoring
from voiceanon.eval.protocol.draw import draw_trials
from voiceanon.eval.protocol.embeddings import EmbeddingCache, embed_all
from voiceanon.eval.protocol.scoring import score_trials, speaker_means
from voiceanon.eval.protocol.trials import make_trials

GOLDEN = Path(__file__).parents[1] / "golden" / "eval"
FACTS = json.loads((GOLDEN / "protocol.json").read_text())
ARRAYS = np.load(GOLDEN / "protocol.npz")

TOLERANCE = 1e-6
"""Of float32 cosines: the reference divides after the product, here it is done before."""


def golden_embeddings(side):
    return dict(zip(ARRAYS[f"{side}_ids"].tolist(), ARRAYS[side], strict=True))


def golden_trials():
    enrolment = {}
    for utterance, speaker in FACTS["enrol_utt2spk"].items():
        enrolment[speaker] = (*enrolment.get(speaker, ()), utterance)
    lines = [line.split() for line in FACTS["trials"]]
    speakers = {utterance: utterance.split("-")[0] for _, utterance, _ in lines}
    return make_trials([(s, u, w == "target") for s, u, w in lines], enrolment, speakers)


def random_case(speakers=6, utterances=5, width=16, seed=0):
    rng = np.random.default_rng(seed)
    owners = {f"{s}-{i}": f"{s}" for s in range(speakers) for i in range(utterances)}
    vectors = {name: rng.standard_normal(width).astype(np.float32) for name in owners}
    return draw_trials(owners, 2, seed=seed), vectors


# Golden values.


def test_means_of_speakers():
    trials = golden_trials()
    order = ARRAYS["speaker_order"].tolist()
    means = speaker_means(
        {name: trials.enrolment[name] for name in order}, golden_embeddings("enrol")
    )
    assert means.dtype == np.float32
    assert np.abs(means - ARRAYS["enrol_speaker_mean"]).max() < 1e-6


def test_scores_and_equal_error_rate():
    trials = golden_trials()
    scores = score_trials(trials, golden_embeddings("enrol"), golden_embeddings("trial"))
    assert scores.dtype == np.float32
    assert np.abs(scores - FACTS["scores"]).max() < TOLERANCE
    rate = equal_error_rate(scores[trials.is_target], scores[~trials.is_target])
    assert rate.value == pytest.approx(FACTS["eer"], abs=1e-12)


def test_means_are_those_of_embeddings_that_were_not_normalised():
    """A long embedding must weigh more than a short one of the same speaker."""
    trials = make_trials([("s", "u", True)], {"s": ("a", "b")}, {"u": "s"})
    enrolment = {"a": np.float32([10.0, 0.0]), "b": np.float32([0.0, 1.0])}
    (score,) = score_trials(trials, enrolment, {"u": np.float32([1.0, 0.0])})
    assert score == pytest.approx(10 / np.hypot(10, 1), abs=1e-6)
    assert abs(score - np.sqrt(0.5)) > 0.2


# Properties.


def test_scores_are_in_the_order_of_the_trials(monkeypatch):
    trials, vectors = random_case()
    expected = []
    means = dict(zip(trials.enrolment, speaker_means(trials.enrolment, vectors), strict=True))
    speakers, utterances = list(trials.enrolment), list(trials.trial_speakers)
    order = np.random.default_rng(1).permutation(len(trials.is_target))
    shuffled = make_trials(
        [
            (speakers[trials.speaker_index[i]], utterances[trials.utterance_index[i]],
             bool(trials.is_target[i]))
            for i in order
        ],
        trials.enrolment,
        trials.trial_speakers,
    )  # fmt: skip
    for i in order:
        mean, vector = (
            means[speakers[trials.speaker_index[i]]],
            vectors[utterances[trials.utterance_index[i]]],
        )
        expected.append(mean @ vector / np.linalg.norm(mean) / np.linalg.norm(vector))
    scores = score_trials(shuffled, vectors, vectors)
    assert np.abs(scores - expected).max() < TOLERANCE
    # Tables of one, two and four speakers each.
    for block in (1, 40, 80):
        monkeypatch.setattr(scoring, "BLOCK_SCORES", block)
        assert np.abs(score_trials(shuffled, vectors, vectors) - scores).max() < TOLERANCE


def test_sides_may_come_from_different_speech():
    trials, vectors = random_case()
    _, others = random_case(seed=0)
    moved = {name: -vector for name, vector in others.items()}
    same = score_trials(trials, vectors, vectors)
    assert np.array_equal(score_trials(trials, vectors, moved), -same)


@pytest.mark.parametrize("side", ["enrolment", "trial"])
def test_missing_embeddings_are_all_listed(side):
    trials, vectors = random_case()
    names = trials.enrolment_utterances if side == "enrolment" else list(trials.trial_speakers)
    lacking = {name: v for name, v in vectors.items() if name not in names[:2]}
    sides = (lacking, vectors) if side == "enrolment" else (vectors, lacking)
    with pytest.raises(ConfigError, match=rf"2 \({names[0]}, {names[1]}\) not among"):
        score_trials(trials, *sides)


@pytest.mark.parametrize(("value", "fault"), [(np.nan, "not finite"), (0.0, "zero")])
def test_bad_embeddings_are_named(value, fault):
    trials, vectors = random_case()
    bad = list(trials.trial_speakers)[3]
    vectors[bad] = np.full(16, value, np.float32)
    with pytest.raises(ConfigError, match=rf"{bad}\) are {fault}"):
        score_trials(trials, vectors, vectors)


def test_different_widths_are_refused():
    trials, vectors = random_case()
    short = {name: vector[:8] for name, vector in vectors.items()}
    with pytest.raises(ConfigError, match="16 values on the enrolment side, 8 on the trial side"):
        score_trials(trials, vectors, short)
    mixed = {**vectors, next(iter(trials.trial_speakers)): np.zeros(3, np.float32)}
    with pytest.raises(ConfigError, match="vectors of one width are due"):
        score_trials(trials, vectors, mixed)


# The cache.


class Statistics:
    """An embedder that notes what it was asked for."""

    label = "statistics"

    def __init__(self, identity="statistics 1"):
        self.identity = identity
        self.asked = []

    def embed(self, waves):
        self.asked += [len(wave) for wave in waves]
        for wave in waves:
            if not np.any(wave):
                raise AudioError("audio: silent")
        return np.stack([[wave.mean(), wave.std(), len(wave)] for wave in waves]).astype("f4")


@pytest.fixture
def waves():
    return {f"u{i}": signals.speech(0.1 * (i + 1), 16000, seed=i).numpy() for i in range(4)}


def test_embeddings_are_computed_once(tmp_path, waves):
    first, second = Statistics(), Statistics()
    fresh = embed_all(first, waves, cache=EmbeddingCache(tmp_path))
    kept = embed_all(second, waves, cache=EmbeddingCache(tmp_path))
    assert len(first.asked) == 4
    assert second.asked == []
    assert list(kept) == list(fresh) == list(waves)
    assert all(np.array_equal(kept[name], fresh[name]) for name in waves)
    assert all(kept[name].dtype == np.float32 for name in waves)


def test_the_cache_knows_content_and_extractor_not_names(tmp_path, waves):
    cache = EmbeddingCache(tmp_path)
    embed_all(Statistics(), waves, cache=cache)
    renamed = Statistics()
    path = tmp_path / "copy.flac"
    whole = np.round(waves["u0"] * 32768) / np.float32(32768)
    io.write(path, whole.astype(np.float32), 16000)
    embed_all(Statistics(), {"whole": whole.astype(np.float32)}, cache=cache)
    embed_all(renamed, {"other": waves["u1"], "file": path}, cache=cache)
    assert renamed.asked == []
    changed = Statistics()
    louder = waves["u1"].copy()
    louder[5] += np.float32(1e-6)
    embed_all(changed, {"u1": louder}, cache=cache)
    assert len(changed.asked) == 1
    another = Statistics("statistics 2")
    embed_all(another, waves, cache=cache)
    assert len(another.asked) == 4


@pytest.mark.parametrize("damage", ["cut", "empty", "other type", "not finite", "objects"])
def test_damaged_files_are_computed_afresh(tmp_path, waves, damage):
    cache = EmbeddingCache(tmp_path)
    expected = embed_all(Statistics(), waves, cache=cache)
    files = sorted(tmp_path.rglob("*.npy"))
    assert len(files) == 4
    for file in files:
        if damage == "cut":
            file.write_bytes(file.read_bytes()[:-3])
        elif damage == "empty":
            file.write_bytes(b"")
        elif damage == "other type":
            np.save(file, np.zeros(3))
        elif damage == "not finite":
            np.save(file, np.full(3, np.nan, np.float32))
        else:
            np.save(file, np.array([{}], dtype=object))
    again = Statistics()
    found = embed_all(again, waves, cache=cache)
    assert len(again.asked) == 4
    assert all(np.array_equal(found[name], expected[name]) for name in waves)
    assert sorted(tmp_path.rglob("*")) == sorted({*files, *(f.parent for f in files),
                                                  *(f.parents[1] for f in files)})  # fmt: skip


def test_without_a_cache_everything_is_computed(waves):
    embedder = Statistics()
    found = embed_all(embedder, waves)
    assert len(embedder.asked) == 4
    assert list(found) == list(waves)


def test_recordings_are_opened_a_few_at_a_time(waves, monkeypatch):
    monkeypatch.setattr(cache_module, "BLOCK_SECONDS", 0.25)
    embedder, steps = Statistics(), []
    embed_all(embedder, waves, on_done=lambda done, total: steps.append((done, total)))
    assert embedder.asked == [len(wave) for wave in waves.values()]
    assert steps[:2] == [(2, 4), (3, 4)]
    assert steps[-1] == (4, 4)


def test_recordings_that_cannot_be_used_are_named(tmp_path, waves):
    with pytest.raises(AudioError, match=r"gone: .*there is no such file"):
        embed_all(Statistics(), {**waves, "gone": tmp_path / "gone.wav"})
    with pytest.raises(AudioError, match="quiet: audio: silent"):
        embed_all(Statistics(), {**waves, "quiet": signals.silence(0.1, 16000)})
