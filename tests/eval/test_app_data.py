"""Originals, tables and copies are found, and what does not match is listed."""

import shutil

import numpy as np
import pytest
import soundfile
from eval.app_speech import (
    EMOTIONS,
    LOUD,
    SPEAKERS,
    TAKES,
    TEXTS,
    LevelRecognizer,
    voice,
    write_corpus,
)

from voiceanon.errors import AudioError, ConfigError
from voiceanon.eval.app.content import measure_content
from voiceanon.eval.app.copies import check_names, find_copies, make_copies
from voiceanon.eval.app.data import Waves, read_corpus
from voiceanon.eval.app.lists import trial_lists
from voiceanon.eval.sources.waves import SAMPLE_RATE

ALL = len(SPEAKERS) * TAKES


@pytest.fixture
def folder(tmp_path):
    return write_corpus(tmp_path / "data")


def read(folder, tmp_path, **options):
    folders = folder if isinstance(folder, list) else [folder]
    return read_corpus(folders, out=tmp_path / "out", **options)


def write_kaldi(folder, speakers, *, enrolled=None, trials=None):
    folder.mkdir(parents=True)
    names = [f"{speaker}{take}" for speaker in speakers for take in range(TAKES)]
    for name in names:
        soundfile.write(folder / f"{name}.flac", voice(name[:-1], int(name[-1])), SAMPLE_RATE)
    (folder / "wav.scp").write_text("".join(f"{n} {folder}/{n}.flac\n" for n in names))
    (folder / "utt2spk").write_text("".join(f"{n} {n[:-1]}\n" for n in names))
    (folder / "spk2gender").write_text("".join(f"{s} {SPEAKERS[s]}\n" for s in speakers))
    (folder / "text").write_text("".join(f"{n} THE TEXT OF {n.upper()}\n" for n in names))
    if enrolled:
        (folder / "enrolls").write_text("".join(f"{n}\n" for n in enrolled))
    if trials:
        (folder / "trials").write_text("".join(f"{' '.join(t)}\n" for t in trials))
    return folder


def test_a_folder_with_a_table(folder, tmp_path):
    corpus = read(folder, tmp_path)
    assert corpus.name == "data"
    assert len(corpus.originals) == ALL
    assert corpus.speakers["ann/ann0"] == "ann"
    assert corpus.sexes == SPEAKERS
    assert corpus.texts["joe/joe0"] == TEXTS[LOUD]
    assert corpus.emotions["joe/joe0"] == EMOTIONS[LOUD]
    wave = Waves(corpus.originals)["bea/bea1"]
    np.testing.assert_allclose(wave, voice("bea", 1), atol=2**-15)


def test_a_folder_without_a_table_knows_its_speakers(folder, tmp_path):
    (folder / "utterances.csv").unlink()
    corpus = read(folder, tmp_path)
    assert set(corpus.speakers.values()) == set(SPEAKERS)
    assert not corpus.texts
    assert not corpus.sexes
    assert set(trial_lists(corpus, 1)) == {"both"}


def test_other_tables(folder, tmp_path):
    (folder / "utterances.csv").unlink()
    (folder / "ann" / "ann.trans.txt").write_text("ann0 FROM LIBRISPEECH\nann1 KEPT\n")
    (folder / "notes.csv").write_text("what,why\nnothing,here\n")
    table = tmp_path / "more.csv"
    table.write_text("utterance,sex,text\nann0,female,FROM THE OPTION\nbea0,F,\nnobody,m,X\n")
    (tmp_path / "utt2emo").write_text("ann0 sad\n")
    corpus = read(folder, tmp_path, tables=[table, tmp_path / "utt2emo"])
    assert corpus.texts == {"ann/ann0": "FROM THE OPTION", "ann/ann1": "KEPT"}
    assert corpus.sexes == {"ann": "f", "bea": "f"}
    assert corpus.emotions == {"ann/ann0": "sad"}


def test_tables_that_say_nothing_or_too_much(folder, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("utterance,colour\nann0,red\n")
    with pytest.raises(ConfigError, match="says nothing"):
        read(folder, tmp_path, tables=[empty])
    with pytest.raises(ConfigError, match="no file"):
        read(folder, tmp_path, tables=[tmp_path / "nothing.csv"])
    torn = tmp_path / "torn.csv"
    torn.write_text("utterance,sex\nann1,m\n")
    with pytest.raises(ConfigError, match=r"two of the speakers 1 \(ann\)"):
        read(folder, tmp_path, tables=[torn])


def test_a_name_that_two_recordings_share_needs_its_path(folder, tmp_path):
    shutil.copy(folder / "ann" / "ann0.wav", folder / "bea" / "ann0.wav")
    corpus = read(folder, tmp_path)
    # The table has the path of the one and the bare name of both.
    assert "ann/ann0" in corpus.texts
    assert "bea/ann0" not in corpus.texts


def test_leaving_out(folder, tmp_path):
    corpus = read(folder, tmp_path, leave_out=["ann/*", "*2"])
    assert len(corpus.originals) == (len(SPEAKERS) - 1) * (TAKES - 1)
    assert "ann" not in corpus.sexes
    with pytest.raises(ConfigError, match=r"'pool/\*' fits no recording"):
        read(folder, tmp_path, leave_out=["pool/*"])
    with pytest.raises(ConfigError, match="no recording is left"):
        read(folder, tmp_path, leave_out=["*"])


def test_several_folders(folder, tmp_path):
    other = tmp_path / "other" / "zoe"
    other.mkdir(parents=True)
    soundfile.write(other / "zoe0.wav", voice("ann", 0), SAMPLE_RATE)
    corpus = read([folder, tmp_path / "other"], tmp_path)
    assert corpus.name == "data + other"
    assert len(corpus.originals) == ALL + 1
    with pytest.raises(ConfigError, match="in two folders"):
        read([folder, folder], tmp_path)
    with pytest.raises(ConfigError, match="no such folder"):
        read(tmp_path / "nowhere", tmp_path)


def test_two_endings_of_one_name(folder, tmp_path):
    shutil.copy(folder / "ann" / "ann0.wav", folder / "ann" / "ann0.wave.flac")
    soundfile.write(folder / "ann" / "ann0.flac", voice("ann", 0), SAMPLE_RATE)
    with pytest.raises(ConfigError, match=r"1 \(ann/ann0\)"):
        read(folder, tmp_path)


def test_unreadable_recordings_are_named(folder, tmp_path):
    (folder / "ann" / "ann0.wav").write_bytes(b"no audio")
    waves = Waves(read(folder, tmp_path).originals)
    for use in (waves.__getitem__, waves.seconds):
        with pytest.raises(AudioError, match=r"ann/ann0: .*not readable"):
            use("ann/ann0")


def test_copies_with_the_same_paths(folder, tmp_path):
    copies = write_corpus(tmp_path / "copies", change=lambda wave: wave / 2, suffix=".flac")
    corpus = read(folder, tmp_path)
    found = find_copies(corpus, [copies], out=tmp_path / "out", system="mine", level="speaker")
    assert (found.system, found.level) == ("mine", "speaker")
    one = found.waves("anonymized", ["ann/ann0"])["ann/ann0"]
    np.testing.assert_allclose(one, voice("ann", 0) / 2, atol=2**-15)


def test_all_that_does_not_match_is_in_one_error(folder, tmp_path):
    copies = write_corpus(tmp_path / "copies", change=lambda wave: wave)
    (copies / "ann" / "ann0.wav").unlink()
    (copies / "dan" / "dan2.wav").rename(copies / "dan" / "dan9.wav")
    corpus = read(folder, tmp_path)
    options = {"out": tmp_path / "out", "system": "mine", "level": "speaker"}
    with pytest.raises(ConfigError) as caught:
        find_copies(corpus, [copies], **options)
    message = str(caught.value)
    assert "the utterances 3 (" in message
    assert f"ann/ann0 (no copy in {copies})" in message
    assert f"dan/dan2 (no copy in {copies})" in message
    assert f"dan/dan9 (no original in {folder})" in message
    with pytest.raises(ConfigError, match="2 folders for 1"):
        find_copies(corpus, [copies, copies], **options)
    with pytest.raises(ConfigError, match="'word' is none of utterance, speaker"):
        find_copies(corpus, [folder], **{**options, "level": "word"})


def test_copies_tell_who_made_them(folder, tmp_path):
    from voiceanon import load
    from voiceanon.corpus import anonymize_folder

    copies = tmp_path / "copies"
    anonymize_folder(load("b2", device="cpu"), folder, copies, seed=7)
    corpus = read(folder, tmp_path)
    found = find_copies(corpus, [copies], out=tmp_path / "out")
    assert (found.system, found.level) == ("vpc2024-b2", "utterance")
    (copies / "report.jsonl").unlink()
    with pytest.raises(ConfigError, match="--system: nothing names it"):
        find_copies(corpus, [copies], out=tmp_path / "out")


def test_results_inside_the_originals_are_none_of_them(folder, tmp_path):
    from voiceanon import load
    from voiceanon.corpus import anonymize_folder

    def anonymize(anon, src, dst, speakers):
        return anonymize_folder(anon, src, dst, seed=7, speakers=speakers)

    out = folder / "results"
    out.mkdir()
    soundfile.write(out / "clip.wav", voice("ann", 0), SAMPLE_RATE)
    corpus = read_corpus([folder], out=out)
    assert len(corpus.originals) == ALL
    anon = load("b2", device="cpu")
    made = make_copies(corpus, anon, level="utterance", out=out, anonymize=anonymize)
    assert made.copies.keys() == corpus.originals.keys()
    assert len(list((out / "anonymized").rglob("*.wav"))) == ALL
    assert (made.system, made.level) == ("vpc2024-b2", "utterance")


def test_folders_of_one_name(tmp_path):
    check_names([tmp_path / "a", tmp_path / "b", tmp_path / "a"])
    with pytest.raises(ConfigError, match="have one name"):
        check_names([tmp_path / "a", tmp_path / "b" / "a"])


def test_drawn_trials_are_the_same_in_every_run(folder, tmp_path):
    corpus = read(folder, tmp_path)
    lists = trial_lists(corpus, 1)
    assert set(lists) == {"both", "f", "m"}
    assert lists["both"].counts.targets == len(SPEAKERS) * (TAKES - 1)
    assert lists["both"].counts.nontargets == len(SPEAKERS) * (len(SPEAKERS) - 1) * (TAKES - 1)
    assert lists["f"].counts.trial_speakers == lists["m"].counts.trial_speakers == 5
    again = trial_lists(read(folder, tmp_path), 1)
    assert again["both"].enrolment == lists["both"].enrolment
    with pytest.raises(ConfigError, match="3 utterances or fewer"):
        trial_lists(corpus, TAKES)


def test_speakers_that_are_not_known(tmp_path):
    (tmp_path / "flat").mkdir()
    soundfile.write(tmp_path / "flat" / "a.wav", voice("ann", 0), SAMPLE_RATE)
    with pytest.raises(ConfigError, match=r"speakers: .* 1 \(a\)"):
        trial_lists(read(tmp_path / "flat", tmp_path), 1)


def test_published_lists_of_kaldi_folders(tmp_path):
    women, men = ("ann", "bea"), ("dan", "gus")
    enrolled = write_kaldi(tmp_path / "enrolls", (*women, *men), enrolled=["ann0", "dan0", "gus0"])
    # The trial folders hold other utterances than the one with the enrolment, as published.
    for name in [f"{s}{t}" for s in (*women, *men) for t in (1, 2)]:
        for table in ("wav.scp", "utt2spk", "text"):
            lines = (enrolled / table).read_text().splitlines()
            kept = [line for line in lines if not line.startswith(f"{name} ")]
            (enrolled / table).write_text("\n".join(kept) + "\n")
    folders = [enrolled]
    for sex, names in (("f", women), ("m", men)):
        trials = [
            (names[0], f"{name}{take}", "target" if name == names[0] else "nontarget")
            for name in names
            for take in (1, 2)
        ]
        folders.append(write_kaldi(tmp_path / f"trials_{sex}", names, trials=trials))
        for table in ("wav.scp", "utt2spk", "text"):
            path = folders[-1] / table
            kept = [line for line in path.read_text().splitlines() if line.split()[0][-1] != "0"]
            path.write_text("\n".join(kept) + "\n")
    corpus = read(folders, tmp_path)
    lists = trial_lists(corpus, 1)
    assert set(lists) == {"f", "m"}
    assert lists["f"].enrolment == {"ann": ("ann0",)}
    assert lists["f"].counts.targets == lists["f"].counts.nontargets == 2
    assert corpus.texts["ann1"] == "THE TEXT OF ANN1"
    # Words are those of the trials alone, as in the challenge.
    subject = find_copies(corpus, folders, out=tmp_path / "out", system="x", level="speaker")
    found = measure_content(
        subject, [LevelRecognizer()], cache=tmp_path / "cache", on_step=lambda *_: None
    )
    assert "ann0" in corpus.texts
    assert set(found.references) == {f"{s}{t}" for s in (*women, *men) for t in (1, 2)}
    with pytest.raises(ConfigError, match="0 folders have the table enrolls"):
        trial_lists(read(folders[1:], tmp_path), 1)
    (tmp_path / "trials_f" / "spk2gender").unlink()
    (tmp_path / "enrolls" / "spk2gender").unlink()
    with pytest.raises(ConfigError, match=r"sexes: those of the speakers 2 \(ann, bea\)"):
        trial_lists(read(folders, tmp_path), 1)


def test_segments_are_cut_from_their_recording(tmp_path):
    folder = write_kaldi(tmp_path / "kaldi", ("ann",))
    (folder / "segments").write_text("one ann0 0.1 0.3\ntwo ann0 0.2 -1\n")
    (folder / "utt2spk").write_text("one ann\ntwo ann\n")
    waves = Waves(read(folder, tmp_path).originals)
    assert waves.seconds("one") == pytest.approx(0.2)
    for given in (waves, waves.recordings()):
        np.testing.assert_allclose(given["one"], voice("ann", 0)[1600:4800], atol=2**-15)
        np.testing.assert_allclose(given["two"], voice("ann", 0)[3200:], atol=2**-15)
