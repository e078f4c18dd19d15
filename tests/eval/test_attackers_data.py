"""Training speech of attackers: what is listed, chosen, cut, held out and drawn."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch
from training_voices import SPEAKERS, TINY, tiny, utterances, voice

from voiceanon import AudioError, ConfigError, load
from voiceanon.corpus import anonymize_folder
from voiceanon.eval.attackers import (
    ORIGINAL,
    TrainingData,
    TrainingUtterance,
    read_training_data,
)
from voiceanon.eval.attackers.data import reduce_utterances
from voiceanon.eval.attackers.segments import find_segments, read_batches

LENGTH = TINY.segment_samples


# Lists.


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder of two speakers with LibriSpeech's names, anonymized."""
    place = tmp_path_factory.mktemp("corpus")
    for number, speaker in enumerate(SPEAKERS[:2], start=1):
        for take in range(4):
            path = place / "original" / str(number) / f"{number}-{take // 2}-000{take}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, voice(speaker, take, 0.6), 16_000)
    anonymize_folder(load("b2", device="cpu"), place / "original", place / "anonymized", seed=1)
    return place


def test_an_anonymized_folder_tells_its_system(corpus):
    data = read_training_data(corpus / "anonymized")
    assert (data.system, data.level) == ("vpc2024-b2", "utterance")
    assert [u.name for u in data.utterances[:3]] == ["1/1-0-0000", "1/1-0-0001", "1/1-1-0002"]
    assert [u.speaker for u in data.utterances] == ["1"] * 4 + ["2"] * 4
    assert [u.chapter for u in data.utterances] == ["0", "0", "1", "1"] * 2


def test_a_kaldi_folder(corpus, tmp_path):
    files = sorted((corpus / "original").rglob("*.wav"))
    (tmp_path / "wav.scp").write_text("".join(f"{f.stem} {f}\n" for f in files))
    (tmp_path / "utt2spk").write_text("".join(f"{f.stem} spk{f.stem[0]}\n" for f in files))
    data = read_training_data(tmp_path, system=ORIGINAL)
    assert [u.speaker for u in data.utterances] == ["spk1"] * 4 + ["spk2"] * 4
    assert data.utterances[2].chapter == "1"


def test_other_names_take_their_folder_for_the_chapter(tmp_path):
    for name in ("a/x/one.wav", "a/y/two.wav", "b/three.wav"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, voice("ann", 0, 0.1), 16_000)
    data = read_training_data(tmp_path, system=ORIGINAL)
    assert [u.chapter for u in data.utterances] == ["a/x", "a/y", "b"]


def test_speech_of_unknown_origin_is_refused(corpus):
    with pytest.raises(ConfigError, match=r"says nothing about how .* pass system="):
        read_training_data(corpus / "original")


def test_speech_of_several_origins_is_refused(corpus, tmp_path):
    place = tmp_path / "mixed"
    shutil.copytree(corpus / "anonymized", place)
    report = place / "report.jsonl"
    report.write_text(report.read_text().replace('"level": "utterance"', '"level": "speaker"', 3))
    with pytest.raises(ConfigError, match="says several things"):
        read_training_data(place)


def test_every_utterance_needs_a_speaker(tmp_path):
    soundfile.write(tmp_path / "a.wav", voice("ann", 0, 0.1), 16_000)
    with pytest.raises(ConfigError, match=r"1 utterances have no speaker, such as a"):
        read_training_data(tmp_path, system=ORIGINAL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"utterances": utterances(1)[:1]}, "at least 2 speakers"),
        ({"utterances": utterances(1) * 2}, "stand for several utterances"),
        ({"level": None}, "anonymized speech has the level"),
        ({"system": ORIGINAL}, "'original' speech has none"),
    ],
)
def test_training_data_that_cannot_be_used(changes, message):
    sound = {"utterances": utterances(1), "system": "vpc2024-b2", "level": "utterance"}
    with pytest.raises(ConfigError, match=message):
        TrainingData(**{**sound, **changes})


# Reduced data.


def library(sizes):
    """Utterances without speech: ``sizes`` holds those of each chapter, by speaker."""
    return tuple(
        TrainingUtterance(name=f"{s}-{c}-{i}", speaker=s, source=np.empty(0), chapter=str(c))
        for s, chapters in sizes.items()
        for c, count in enumerate(chapters)
        for i in range(count)
    )


SIZES = {"a": (9, 1, 4), "b": (2,), "c": (30, 30), "d": (1,) * 12}


@pytest.mark.parametrize("count", [1, 2, 5, 13, 14, 50, 100])
def test_reduction_keeps_exactly_as_many_as_there_are(count):
    kept = reduce_utterances(library(SIZES), count, 3)
    for speaker, chapters in SIZES.items():
        own = [u for u in kept if u.speaker == speaker]
        assert len(own) == min(count, sum(chapters))
        # Chapters take turns: none gives two more than another that still has some.
        given = [sum(u.chapter == str(c) for u in own) for c in range(len(chapters))]
        assert all(n >= max(given) - 1 for n, size in zip(given, chapters, strict=True) if n < size)


def test_reduction_depends_on_seed_and_speaker_alone():
    every = library(SIZES)
    kept = {u.name for u in reduce_utterances(every, 5, 3)}
    assert kept == {u.name for u in reduce_utterances(every[::-1], 5, 3)}
    alone = reduce_utterances([u for u in every if u.speaker == "c"], 5, 3)
    assert {u.name for u in alone} == {name for name in kept if name.startswith("c")}
    assert kept != {u.name for u in reduce_utterances(every, 5, 4)}
    assert kept < {u.name for u in reduce_utterances(every, 6, 3)}


def test_reduction_favours_no_place_in_the_list():
    for sizes in ((6,), (1,) * 6):
        kept = [reduce_utterances(library({"c": sizes}), 1, seed)[0] for seed in range(60)]
        assert len({utterance.name for utterance in kept}) == 6


def test_speakers_draw_apart():
    kept = reduce_utterances(library({"a": (20,), "b": (20,)}), 5, 3)
    chosen = {s: {u.name[2:] for u in kept if u.speaker == s} for s in "ab"}
    assert chosen["a"] != chosen["b"]


# Segments.


def wave_of(*levels, tail=0):
    """Segments of constant levels, and samples behind them."""
    return np.concatenate([np.repeat(np.float32(levels), LENGTH), np.zeros(tail, np.float32)])


def corpus_of(**waves):
    """One utterance for each name, whose first letter is the speaker."""
    return [TrainingUtterance(name=n, speaker=n[0], source=w) for n, w in waves.items()]


def test_segments_are_whole_and_loud_enough():
    found = find_segments(
        corpus_of(
            a1=wave_of(0.1, 4.9e-4, 5e-4, tail=LENGTH - 1),
            a2=wave_of(0.2),
            b1=wave_of(-0.1, 0.1),
            b2=wave_of(0.1)[:-1],
            c1=wave_of(0.0, 0.0),
        ),
        TINY,
    )
    assert [u.name for u in found.utterances] == ["a1", "a2", "b1"]
    assert found.speakers == ("a", "b")
    assert found.classes == (0, 0, 1)
    assert found.samples == (4 * LENGTH - 1, LENGTH, 2 * LENGTH)
    assert found.utterance.tolist() == [0, 0, 1, 2, 2]
    assert found.start.tolist() == [0, 2 * LENGTH, 0, 0, LENGTH]


def test_files_and_arrays_give_the_same(tmp_path):
    arrays = utterances(2)
    files = []
    for utterance in arrays:
        path = tmp_path / f"{utterance.name}.wav"
        soundfile.write(path, utterance.source, 16_000, subtype="FLOAT")
        files.append(replace(utterance, source=path))
    by_array, by_file = find_segments(arrays, TINY), find_segments(files, TINY)
    assert by_array.digest == by_file.digest
    windows = by_array.training_epoch(1, TINY)
    pairs = zip(
        read_batches(arrays, windows, LENGTH), read_batches(files, windows, LENGTH), strict=True
    )
    assert all(torch.equal(*pair) for pair in pairs)


def test_the_digest_follows_names_speakers_and_samples():
    base = utterances(2)
    other = [
        (replace(base[0], name="x"), *base[1:]),
        (replace(base[0], speaker="bob"), *base[1:]),
        (replace(base[0], source=base[0].source * np.float32(0.999)), *base[1:]),
        base[1:],
    ]
    digests = {find_segments(u, TINY).digest for u in (base, *other)}
    assert len(digests) == 5
    assert find_segments(base, TINY).digest in digests


def test_another_rate_is_refused(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, voice("ann", 0), 8_000)
    bad = (replace(utterances(2)[0], source=path), *utterances(2)[1:])
    with pytest.raises(AudioError, match=r"8000 Hz; .* Resample"):
        find_segments(bad, TINY)


def test_samples_that_are_not_finite_are_refused():
    base = utterances(2)
    wave = base[0].source.copy()
    wave[7] = np.nan
    with pytest.raises(AudioError, match="ann-0 has samples that are not finite"):
        find_segments((replace(base[0], source=wave), *base[1:]), TINY)


def test_too_little_speech_is_refused():
    with pytest.raises(ConfigError, match=r"1 speakers have a segment of 0.5 s"):
        find_segments(corpus_of(a1=wave_of(0.1), a2=wave_of(0.1), b1=wave_of(0.1)[:-1]), TINY)


def test_speakers_of_one_utterance_cannot_be_validated():
    with pytest.raises(ConfigError, match="Cut the recordings"):
        find_segments(corpus_of(a1=wave_of(0.1, 0.1), b1=wave_of(0.1)), TINY)


# Validation and draws.


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.99])
def test_a_share_is_held_out_and_every_speaker_stays(share):
    base = utterances(5, 0.5)
    found = find_segments(base, tiny(validation_share=share))
    most = len(base) - len(SPEAKERS)
    assert int(found.held_out.sum()) == min(max(1, round(share * len(base))), most)
    trained = {u.speaker for u, out in zip(base, found.held_out, strict=True) if not out}
    assert trained == set(SPEAKERS)


def test_validation_hears_what_is_held_out_and_training_the_rest():
    found = find_segments(utterances(), TINY)
    held_out = set(found.held_out.nonzero()[:, 0].tolist())
    heard = [window for batch in found.validation(TINY) for window in batch]
    rows = zip(found.utterance.tolist(), found.start.tolist(), strict=True)
    assert heard == [row for row in rows if row[0] in held_out]
    trained = [index for batch in found.training_epoch(1, TINY) for index, _ in batch]
    assert sorted(trained) == [i for i in found.utterance.tolist() if i not in held_out]


def test_windows_lie_anywhere_in_their_utterance():
    found = find_segments(utterances(3), TINY)
    starts = []
    for epoch in range(1, 60):
        for batch in found.training_epoch(epoch, TINY):
            for index, start in batch:
                assert 0 <= start <= found.samples[index] - LENGTH
                starts.append(start)
    room = found.samples[0] - LENGTH
    assert min(starts) < 0.02 * room
    assert max(starts) > 0.98 * room
    assert np.mean(starts) == pytest.approx(room / 2, rel=0.1)


def test_an_utterance_of_one_segment_is_read_whole():
    found = find_segments(utterances(3, 0.5), TINY)
    starts = {start for batch in found.training_epoch(1, TINY) for _, start in batch}
    assert starts == {0}


def test_epochs_differ_and_seeds_decide():
    found = find_segments(utterances(), TINY)
    first = found.training_epoch(1, TINY)
    assert first == find_segments(utterances(), TINY).training_epoch(1, TINY)
    assert first != found.training_epoch(2, TINY)
    assert first != found.training_epoch(1, tiny(seed=7))


@pytest.mark.parametrize(("size", "expected"), [(8, [8, 8, 5]), (10, [10, 11]), (99, [21])])
def test_no_batch_of_one(size, expected):
    found = find_segments(utterances(6, 0.5), tiny(validation_share=0.12))
    batches = found.training_epoch(1, tiny(batch_size=size))
    assert [len(batch) for batch in batches] == expected


def test_the_number_of_readers_changes_nothing():
    found = find_segments(utterances(), TINY)
    windows = found.training_epoch(1, TINY)
    by_one = list(read_batches(found.utterances, windows, LENGTH, readers=1))
    by_four = list(read_batches(found.utterances, windows, LENGTH, readers=4))
    assert [len(batch) for batch in by_one] == [len(batch) for batch in windows]
    assert all(map(torch.equal, by_one, by_four))
    index, start = windows[1][2]
    expected = found.utterances[index].source[start : start + LENGTH]
    assert by_one[1][2].numpy().tolist() == expected.tolist()
