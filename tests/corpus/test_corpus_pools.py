"""Pools of target speakers out of a corpus."""

import os
import shutil

import numpy as np
import pytest
import soundfile
import torch
from properties import systems

from voiceanon import AudioError, AudioWarning, ConfigError, load
from voiceanon.corpus import build_pool
from voiceanon.corpus.pools import parse_sexes, pool_seconds
from voiceanon.hub.pool import Pool, read_pool

RATE = 16_000


@pytest.fixture(scope="module")
def knn():
    """kNN-VC in small networks, without a pool, and without the trim, which takes its time."""
    return systems.build("vpc2024-t8-2", pool=None, trim_level=0.0)


@pytest.fixture
def flat(tmp_path, write_audio):
    """A folder of files named speaker-chapter-utterance, and whose they are."""
    folder = tmp_path / "flat"
    names = ("12-7-0", "12-7-1", "9-3-0")
    for seed, name in enumerate(names):
        write_audio(folder / f"{name}.flac", seed=seed)
    return folder, {name: name.partition("-")[0] for name in names}


@pytest.fixture
def kaldi(tmp_path, write_audio):
    """Two recordings, of which three segments are used, and a table of sexes."""
    folder = tmp_path / "data"
    for seed, name in enumerate(("r1", "r2")):
        write_audio(folder / f"{name}.wav", seconds=1.0, seed=seed)
    tables = {
        "wav.scp": "r1 r1.wav\nr2 r2.wav\n",
        "segments": "ann-1 r1 0.0 0.4\nann-2 r1 0.5 -1\nben-1 r2 0.25 0.75\n",
        "utt2spk": "ann-1 ann\nann-2 ann\nben-1 ben\n",
        "spk2gender": "ann F\nben m\neve f\n",
    }
    for name, text in tables.items():
        (folder / name).write_text(text)
    return folder


def assert_same(pool, other):
    assert pool.names == other.names
    for name in pool.names:
        assert torch.equal(pool.features[name], other.features[name]), name


# --- what there is to build from ---------------------------------------------------------------


def test_a_folder_with_a_folder_per_speaker(knn, corpus):
    pool = build_pool(knn, corpus)
    paths = {
        "ben": [corpus / "ben" / "b1.wav", corpus / "ben" / "deep" / "b2.ogg"],
        "ann": [corpus / "ann" / "a1.wav", corpus / "ann" / "a2.flac"],
    }
    assert_same(pool, knn.make_pool(paths))
    assert list(pool.features) == ["ann", "ben"]
    assert [pool.sex(name) for name in pool.names] == ["", ""]


def test_a_flat_folder_needs_to_be_told_the_speakers(knn, flat):
    folder, speakers = flat
    pool = build_pool(knn, folder, speakers=speakers)
    assert_same(
        pool,
        knn.make_pool(
            {
                "12": [folder / "12-7-0.flac", folder / "12-7-1.flac"],
                "9": folder / "9-3-0.flac",
            }
        ),
    )
    with pytest.raises(ConfigError, match=r"3 of 3 recordings have no speaker \('12-7-0', '12-7"):
        build_pool(knn, folder)
    del speakers["12-7-1"]
    with pytest.raises(ConfigError, match=r"1 of 3 recordings have no speaker \('12-7-1'\)"):
        build_pool(knn, folder, speakers=speakers)


def test_only_the_first_recordings_without_speaker_are_listed(knn, tmp_path, write_audio):
    for number in range(5):
        write_audio(tmp_path / "in" / f"{number}.wav")
    with pytest.raises(ConfigError, match=r"5 of 5 .* \('0', '1', '2', \.\.\.\)\. Put .* folder"):
        build_pool(knn, tmp_path / "in")


def test_lists_and_sequences(knn, flat, tmp_path):
    folder, speakers = flat
    expected = build_pool(knn, folder, speakers=speakers)
    (folder / "all.txt").write_text("9-3-0.flac\n12-7-1.flac\n12-7-0.flac\n")
    assert_same(build_pool(knn, folder / "all.txt", speakers=speakers), expected)
    paths = [folder / f"{name}.flac" for name in reversed(speakers)]
    keys = {str(path.with_suffix("").relative_to("/")): speakers[path.stem] for path in paths}
    pool = build_pool(knn, paths, speakers=keys)
    assert_same(pool, expected)
    assert pool.facts["source"] == "a list of 3 recordings"


def test_a_kaldi_folder(knn, kaldi):
    pool = build_pool(knn, kaldi)
    whole = {
        name: soundfile.read(kaldi / f"{name}.wav", dtype="float32")[0] for name in ("r1", "r2")
    }
    ann = [whole["r1"][:6400], whole["r1"][8000:]]
    assert_same(pool, knn.make_pool({"ann": ann, "ben": whole["r2"][4000:12000]}))
    assert dict(pool.sexes) == {"ann": "f", "ben": "m"}
    assert dict(build_pool(knn, kaldi, sexes={"ann": "m"}).sexes) == {"ann": "m"}
    assert dict(build_pool(knn, kaldi, sexes={}).sexes) == {}


def test_a_kaldi_folder_with_another_word_for_a_sex(knn, kaldi):
    (kaldi / "spk2gender").write_text("ann x\n")
    with pytest.raises(ConfigError, match=r"spk2gender: 'x' of speaker 'ann' is not 'f'"):
        build_pool(knn, kaldi)


# --- what comes out ----------------------------------------------------------------------------


def test_the_file_is_the_pool(knn, corpus, tmp_path):
    dst = tmp_path / "new" / "pool.safetensors"
    pool = build_pool(knn, corpus, dst, sexes={"ann": "F", "ben": "male"})
    written = read_pool(dst)
    assert_same(written, pool)
    assert written.digest() == pool.digest()
    assert (written.sexes, written.facts) == (pool.sexes, pool.facts)
    assert [path.name for path in dst.parent.iterdir()] == [dst.name]
    anon = systems.build("vpc2024-t8-2", pool=dst)
    assert anon.weight_digests["pool"] == pool.digest()


def test_facts(knn, corpus):
    facts = build_pool(knn, corpus).facts
    assert facts["source"] == "in"
    assert facts["speakers"] == "2"
    assert facts["system"] == "vpc2024-t8-2"
    assert "RANDOM WEIGHTS" in facts["encoder"]
    assert str(corpus.parent) not in str(facts)


def test_seconds_are_those_that_were_used(knn, corpus):
    pool = build_pool(knn, corpus)
    used = pool_seconds(pool)
    # Frames come every 20 ms, the first of them at 25 ms.
    for name, seconds in used.items():
        assert seconds == pytest.approx(len(pool.features[name]) * 0.02)
    assert used["ann"] == pytest.approx(0.48 + 0.28)
    short = systems.build("vpc2024-t8-2", pool=None, trim_level=0.0, pool_seconds=0.4)
    assert pool_seconds(build_pool(short, corpus))["ben"] == pytest.approx(0.38)


def test_pools_from_elsewhere_have_no_seconds(knn):
    features = {"ann": torch.ones(2, 3)}
    for text in ("none", "[1]", '{"ann": "long"}', '{"ann": null}', '{"eve": 1}'):
        assert pool_seconds(Pool(features, facts={"seconds": text})) == {}
    assert pool_seconds(Pool(features)) == {}


def test_the_order_of_files_changes_nothing(knn, flat):
    folder, _ = flat
    paths = sorted(folder.iterdir())
    speakers = {str(path.with_suffix("").relative_to("/")): "x" for path in paths}
    first = build_pool(knn, paths, speakers=speakers)
    assert build_pool(knn, paths[::-1], speakers=speakers).digest() == first.digest()


def test_one_speaker_is_in_memory_at_a_time(knn, corpus, monkeypatch):
    calls = []
    make = type(knn).make_pool

    def counted(self, references, **options):
        calls.append(list(references))
        return make(self, references, **options)

    monkeypatch.setattr(type(knn), "make_pool", counted)
    told = []
    build_pool(knn, corpus, on_speaker=lambda *each: told.append(each))
    assert calls == [["ann"], ["ben"]]
    assert told == [("ann", 1, 2), ("ben", 2, 2)]


# --- sexes -------------------------------------------------------------------------------------


def test_sexes_may_name_more_speakers_than_there_are(knn, corpus):
    pool = build_pool(knn, corpus, sexes={"ben": "m", "eve": "female"})
    assert dict(pool.sexes) == {"ben": "m"}


def test_sexes_of_other_speakers_only_are_refused(knn, corpus):
    with pytest.raises(ConfigError, match=r"none of the speakers here \('ann', 'ben', 2 in all\)"):
        build_pool(knn, corpus, sexes={"eve": "f"})


def test_words_for_sexes():
    words = {"a": "f", "b": "F", "c": "Female", "d": "m", "e": "MALE", "g": ""}
    assert "".join(parse_sexes(words).values()) == "fffmm"
    for word in ("w", "woman", None):
        with pytest.raises(ConfigError, match="of speaker 'a' is not 'f', 'm', 'female' or 'male'"):
            parse_sexes({"a": word})


# --- what goes wrong ---------------------------------------------------------------------------


def spoil(path, how):
    if how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_text("no audio")
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:2000])
    elif how == "not finite":
        wav = np.full(4000, np.nan, np.float32)
        soundfile.write(path, wav, RATE, subtype="FLOAT")


@pytest.mark.parametrize("how", ["empty", "text", "truncated", "not finite"])
def test_a_bad_recording_is_left_out_with_a_warning(knn, corpus, how):
    spoil(corpus / "ann" / "a1.wav", how)
    with pytest.warns(AudioWarning, match="left out of speaker 'ann': ann/a1: ") as caught:
        pool = build_pool(knn, corpus)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    (corpus / "ann" / "a1.wav").unlink()
    assert_same(pool, build_pool(knn, corpus))


def test_a_speaker_without_a_good_recording_stops_it_before_it_begins(knn, corpus, tmp_path):
    for path in (corpus / "ben" / "b1.wav", corpus / "ben" / "deep" / "b2.ogg"):
        spoil(path, "empty")
    dst = tmp_path / "pool.safetensors"
    told = []
    with pytest.raises(
        ConfigError, match=r"'ben' has no recording .*2 cannot, such as ben/b1: .*empty"
    ):
        build_pool(knn, corpus, dst, on_speaker=lambda *each: told.append(each))
    assert told == []
    assert not dst.exists()


def test_bad_segments_and_commands_of_a_kaldi_folder_are_left_out(knn, kaldi):
    (kaldi / "segments").write_text("ann-1 r1 0 0.4\nann-2 r1 0.5 9\nben-1 r2 0 1\nben-2 r3 0 1\n")
    (kaldi / "utt2spk").write_text("ann-1 ann\nann-2 ann\nben-1 ben\nben-2 ben\n")
    (kaldi / "wav.scp").write_text("r1 r1.wav\nr2 r2.wav\nr3 sox r1.wav -t wav - |\n")
    with pytest.warns(AudioWarning) as caught:
        pool = build_pool(knn, kaldi)
    messages = [str(warning.message) for warning in caught]
    assert "ann-2: ann-2: the segment 0.5 ... 9 s does not lie in" in messages[0]
    assert "ben-2: the command 'sox r1.wav -t wav - |' is not run" in messages[1]
    assert len(messages) == 2
    assert pool.names == ("ann", "ben")


def test_too_little_speech_is_refused(knn, corpus):
    shutil.rmtree(corpus / "ann")
    soundfile.write(corpus / "ben" / "b1.wav", np.full(100, 0.1), RATE)
    (corpus / "ben" / "deep" / "b2.ogg").unlink()
    with pytest.raises(ConfigError, match=r"speaker 'ben' has no recording of 0\.025 s or longer"):
        build_pool(knn, corpus)


def test_a_system_without_target_speakers_says_so_at_once(tmp_path):
    b2 = load("b2", device="cpu")
    for make in (
        lambda: build_pool(b2, tmp_path / "missing"),
        lambda: b2.make_pool({"a": "a.wav"}),
    ):
        with pytest.raises(ConfigError, match="vpc2024-b2 has no target speakers"):
            make()


@pytest.mark.parametrize("name", ["pool", "pool.pt", "folder.safetensors"])
def test_a_destination_that_is_no_pool_file_is_refused_at_once(knn, corpus, tmp_path, name):
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(ConfigError, match=r"dst: .*; name a file that ends in \.safetensors"):
        build_pool(knn, corpus, tmp_path / name)


def test_a_source_that_is_not_there_is_refused(knn, tmp_path):
    with pytest.raises(ConfigError, match="there is no file or folder"):
        build_pool(knn, tmp_path / "missing")


def test_a_speaker_whose_name_is_not_utf_8_is_refused_at_once(knn, tmp_path, write_audio):
    (tmp_path / "in").mkdir()
    folder = os.path.join(os.fsencode(tmp_path / "in"), b"caf\xe9")
    os.mkdir(folder)
    wav = write_audio(tmp_path / "a.wav")
    shutil.copy(os.fsencode(wav), os.path.join(folder, b"a.wav"))
    with pytest.raises(ConfigError, match="is not UTF-8"):
        build_pool(knn, tmp_path / "in")


def test_errors_of_the_system_itself_are_not_swallowed(knn, corpus, monkeypatch):
    def refuse(self, references, **options):
        raise AudioError("the system refuses")

    monkeypatch.setattr(type(knn), "make_pool", refuse)
    with pytest.raises(AudioError, match="the system refuses"):
        build_pool(knn, corpus)
