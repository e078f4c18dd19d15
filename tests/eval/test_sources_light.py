"""Sources that need no download: GE2E, pocketsphinx, and the classifier trained on the spot."""

import importlib.util

import numpy as np
import pytest
import signals
import torch
from source_files import GOLDEN, SYN, UTT

from voiceanon.errors import AudioError, ConfigError, MissingDependencyError, WeightsError
from voiceanon.eval.sources import emotion, resemblyzer
from voiceanon.eval.sources.base import NOT_CHALLENGE
from voiceanon.eval.sources.emotion import LeaveOneSpeakerOut, emotion_features
from voiceanon.eval.sources.pocketsphinx import PocketsphinxRecognizer
from voiceanon.eval.sources.resemblyzer import Ge2eEmbedder, Ge2eNetwork, piece_counts

GE2E = np.load(GOLDEN / "ge2e.npz")
"""Made with Resemblyzer 0.1.4: `normalize_volume` (to -30 dBFS, upwards only), then
`VoiceEncoder.embed_utterance`; powers by `wav_to_mel_spectrogram`, every 20th frame; numbers of
pieces by `compute_partial_slices` for some numbers of samples."""

GE2E_INPUTS = {
    "utt": UTT,
    "utt_8000": UTT[:8000],
    "utt_twice": UTT.repeat(2),
    "utt_quiet": 0.001 * UTT[:20_000],
    "syn": SYN,
}

GE2E_TOLERANCE = 2e-6
"""Of values up to 0.3; the package computes mel filters in another order."""


# GE2E.


@pytest.fixture(scope="module")
def ge2e():
    if importlib.util.find_spec("resemblyzer") is None:
        pytest.skip("resemblyzer is not installed")
    return Ge2eEmbedder(device="cpu")


def test_embeddings_are_those_of_the_package(ge2e):
    found = ge2e.embed(list(GE2E_INPUTS.values()))
    assert found.dtype == np.float32
    for row, name in zip(found, GE2E_INPUTS, strict=True):
        assert np.abs(row - GE2E[name]).max() < GE2E_TOLERANCE
        assert np.linalg.norm(row) == pytest.approx(1.0, abs=1e-6)
    assert ge2e.label.endswith(NOT_CHALLENGE)
    assert "resemblyzer" in ge2e.identity


def test_batches_of_ge2e_equal_single_recordings(ge2e):
    waves = list(GE2E_INPUTS.values())
    alone = np.concatenate([ge2e.embed([wave]) for wave in waves])
    assert np.abs(ge2e.embed(waves[::-1])[::-1] - alone).max() < GE2E_TOLERANCE
    assert ge2e.embed([]).shape == (0, 256)


@pytest.mark.parametrize("padding", [0.0, 5.0, torch.nan])
def test_padding_does_not_matter_to_ge2e(padding):
    torch.manual_seed(0)
    network = Ge2eNetwork().eval()
    clips = [UTT[:30_000], UTT[:3000], UTT[2000:26_000]]
    batch = torch.full((3, 30_000), padding)
    for row, clip in zip(batch, clips, strict=True):
        row[: len(clip)] = clip
    with torch.inference_mode():
        found = network(batch, torch.tensor([len(clip) for clip in clips]))
        for row, clip in zip(found, clips, strict=True):
            (expected,) = network(clip[None], torch.tensor([len(clip)]))
            assert (row - expected).abs().max() < GE2E_TOLERANCE


def test_mel_powers_are_those_of_librosa():
    powers = Ge2eNetwork().powers(UTT[None], torch.tensor([len(UTT)]), 237)[0, ::20]
    expected = torch.from_numpy(GE2E["utt_powers_every20"])
    assert (powers - expected).abs().max() < 1e-5 * expected.max()


def test_pieces_are_as_many_as_in_the_package():
    samples, counts = torch.from_numpy(GE2E["piece_counts"]).T
    assert piece_counts(samples).tolist() == counts.tolist()


def test_what_ge2e_cannot_embed(ge2e):
    with pytest.raises(AudioError, match="recording 1: audio: the recording is silent"):
        ge2e.embed([UTT, torch.zeros(16_000)])
    with pytest.raises(AudioError, match="recording 0: audio: 399 samples"):
        ge2e.embed([UTT[:399]])


def test_without_the_package_the_way_out_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(resemblyzer, "PACKAGE", "no_such_package")
    with pytest.raises(MissingDependencyError, match=r"voiceanon\[eval\].*--no-deps"):
        Ge2eEmbedder()
    (tmp_path / "hollow_package").mkdir()
    (tmp_path / "hollow_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(resemblyzer, "PACKAGE", "hollow_package")
    with pytest.raises(WeightsError, match=r"pretrained\.pt: there is no such file"):
        Ge2eEmbedder()


@pytest.mark.gpu
def test_ge2e_on_a_gpu_equals_the_cpu(ge2e):
    waves = list(GE2E_INPUTS.values())
    found = Ge2eEmbedder(device="cuda").embed(waves)
    assert np.abs(found - ge2e.embed(waves)).max() < 1e-4


# pocketsphinx.


@pytest.fixture(scope="module")
def sphinx():
    pytest.importorskip("pocketsphinx")
    return PocketsphinxRecognizer()


def test_pocketsphinx_hears_words(sphinx):
    # "And lay me down in thy cold bed and leave my shining lot" is what is said.
    text = sphinx.transcribe([UTT])[0]
    words = text.split()
    assert text == text.upper() == " ".join(words)
    assert len(words) >= 4
    assert sphinx.normalise("Down, in") == "DOWN IN"
    assert sphinx.label.endswith(NOT_CHALLENGE)


def test_no_state_passes_between_recordings(sphinx):
    first = sphinx.transcribe([UTT[:24_000]])
    sphinx.transcribe([0.1 * UTT.flip(0)[:8000]])
    assert sphinx.transcribe([UTT[:24_000]]) == first


def test_silence_and_noise_do_no_harm(sphinx):
    for text in sphinx.transcribe([torch.zeros(8000), signals.noise(0.5, 16_000)]):
        assert len(text.split()) <= 2
    with pytest.raises(AudioError, match="too short"):
        sphinx.transcribe([torch.zeros(1599)])


# The classifier that is trained on the spot.


def spoken(feeling, speaker, seed):
    """A vowel-like signal whose pitch and spread depend on speaker and feeling."""
    pitch = {"calm": 1.0, "wild": 1.7}[feeling] * (100 + 25 * speaker)
    steps = np.arange(8000) / 16_000
    shake = {"calm": 0.01, "wild": 0.12}[feeling]
    rng = np.random.default_rng(seed)
    phase = np.cumsum(pitch * (1 + shake * np.sin(2 * np.pi * 6 * steps + rng.random())) / 16_000)
    tones = sum(np.sin(2 * np.pi * k * phase) / k for k in range(1, 12))
    return (0.1 * tones + 0.002 * rng.standard_normal(8000)).astype(np.float32)


@pytest.fixture(scope="module")
def corpus():
    pytest.importorskip("sklearn")
    rows = [(f, s, i) for f in ("calm", "wild") for s in range(3) for i in range(2)]
    waves = [spoken(f, s, 10 * s + i) for f, s, i in rows]
    return waves, [f for f, _, _ in rows], [f"s{s}" for _, s, _ in rows]


@pytest.fixture(scope="module")
def trained(corpus):
    return LeaveOneSpeakerOut(*corpus)


def test_feelings_of_unheard_speakers_are_told_apart(corpus, trained):
    waves, feelings, speakers = corpus
    assert trained.emotions == ("calm", "wild")
    assert trained.classify(waves, speakers) == feelings
    assert trained.classify(waves[::-1], speakers[::-1]) == feelings[::-1]
    assert trained.classify([], []) == []
    assert "12 recordings of 3 speakers" in trained.label
    assert trained.label.endswith(NOT_CHALLENGE)


def test_a_speaker_is_judged_by_a_machine_that_never_heard_it(corpus):
    """Wrong labels of one speaker are believed for all others, not for that one."""
    waves, feelings, speakers = corpus
    swapped = [
        {"calm": "wild", "wild": "calm"}[f] if s == "s1" else f
        for f, s in zip(feelings, speakers, strict=True)
    ]
    machine = LeaveOneSpeakerOut(waves, swapped, speakers)
    own = [i for i, s in enumerate(speakers) if s == "s1"]
    found = machine.classify([waves[i] for i in own], ["s1"] * len(own))
    assert found == [feelings[i] for i in own]


def test_new_speakers_are_judged_by_all(trained):
    assert trained.classify([spoken("wild", 1, 99)], ["somebody else"]) == ["wild"]


def test_training_is_repeatable_and_named_by_its_data(corpus, trained):
    waves, feelings, speakers = corpus
    assert LeaveOneSpeakerOut(*corpus).identity == trained.identity
    renamed = [s.replace("s2", "t2") for s in speakers]
    assert LeaveOneSpeakerOut(waves, feelings, renamed).identity != trained.identity


def test_level_does_not_matter_to_features():
    wave = torch.from_numpy(spoken("wild", 0, 3))
    features = emotion_features(wave)
    assert features.shape == (3 * emotion.CEPSTRA + 25,)
    assert np.isfinite(features).all()
    assert np.allclose(emotion_features(0.05 * wave), features, rtol=1e-3, atol=1e-2)
    assert np.isfinite(emotion_features(torch.zeros(8000))).all()
    assert np.isfinite(emotion_features(wave[:3200])).all()


def test_what_cannot_be_trained(corpus):
    waves, feelings, speakers = corpus
    with pytest.raises(ConfigError, match="emotions: 11 for 12 recordings"):
        LeaveOneSpeakerOut(waves, feelings[:-1], speakers)
    with pytest.raises(ConfigError, match="with nobody left out, fewer than 2 emotions"):
        LeaveOneSpeakerOut(waves[:2], ["calm", "calm"], ["a", "b"])
    with pytest.raises(ConfigError, match="with a left out, fewer than 2 emotions"):
        LeaveOneSpeakerOut(waves[:3], ["calm", "wild", "calm"], ["a", "a", "b"])
    with pytest.raises(AudioError, match="recording 1: audio: 100 samples"):
        LeaveOneSpeakerOut([waves[0], waves[1][:100]], feelings[:2], speakers[:2])
