"""Kaldi folders in and out."""

import shutil

import numpy as np
import pytest
import soundfile

from voiceanon import ConfigError
from voiceanon.corpus import anonymize_folder
from voiceanon.corpus.kaldi import parse_location

RATE = 16_000


@pytest.fixture
def kaldi(tmp_path, write_audio):
    """A folder of four utterances of two speakers."""
    folder = tmp_path / "data"
    audio = tmp_path / "audio"
    for index, name in enumerate(("u1.wav", "u2.flac", "u3.flac", "u4.wav")):
        write_audio(audio / name, seconds=0.3 + 0.1 * index, seed=index)
    folder.mkdir()
    tables = {
        "wav.scp": [
            f"ann-u1 {audio}/u1.wav",
            f"ann-u2 flac -c -d -s {audio}/u2.flac |",
            f"ben-u3\t/usr/bin/flac -cds '{audio}/u3.flac'|",
            f"ben-u4 {audio}/u4.wav",
        ],
        "utt2spk": ["ann-u1 ann", "ann-u2 ann", "ben-u3 ben", "ben-u4 ben"],
        "spk2utt": ["ann ann-u1 ann-u2", "ben ben-u3 ben-u4"],
        "spk2gender": ["ann f", "ben m"],
        "text": ["ann-u1 ONE ann-u4", "ann-u2 TWO", "ben-u3 THREE", "ben-u4 FOUR"],
        "trials": ["ann ann-u1 target", "ann ben-u3 nontarget", "eve ben-u4 nontarget"],
        "utt2dur": ["ann-u1 0.3"],
        "reco2dur": ["ann-u1 0.3"],
        "feats.scp": ["ann-u1 feats.ark:7"],
    }
    for name, lines in tables.items():
        write_table(folder / name, lines)
    return folder


def write_table(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))


def read_table(path):
    return path.read_text().splitlines()


def add_line(path, line):
    write_table(path, [*read_table(path), line])


def test_a_kaldi_folder_gives_a_kaldi_folder(anon, kaldi, tmp_path):
    out = tmp_path / "out"
    result = anonymize_folder(anon, kaldi, out, seed=7)
    assert [r.key for r in result.done] == ["ann-u1", "ann-u2", "ben-u3", "ben-u4"]
    assert read_table(out / "wav.scp") == [f"{r.key} {out}/wav/{r.key}.wav" for r in result.done]
    for name in ("utt2spk", "spk2utt", "spk2gender", "text", "trials"):
        assert read_table(out / name) == read_table(kaldi / name), name
    assert sorted(path.name for path in out.iterdir() if path.is_file()) == [
        "report.jsonl",
        "spk2gender",
        "spk2utt",
        "text",
        "trials",
        "utt2spk",
        "wav.scp",
    ]
    for result_path in (out / "wav").iterdir():
        assert soundfile.info(result_path).format == "WAV"


def test_a_written_kaldi_folder_can_be_read_again(anon, kaldi, tmp_path):
    anonymize_folder(anon, kaldi, tmp_path / "out", seed=7)
    result = anonymize_folder(anon, tmp_path / "out", tmp_path / "again", seed=7)
    assert len(result.done) == 4


def test_a_flac_command_gives_what_its_file_gives(anon, kaldi, tmp_path):
    anonymize_folder(anon, kaldi, tmp_path / "out", seed=7)
    path = tmp_path / "audio" / "u2.flac"
    wav, rate = soundfile.read(path, dtype="float32")
    expected = anon.anonymize(wav, rate, seed=7, key="ann-u2")
    result, _ = soundfile.read(tmp_path / "out" / "wav" / "ann-u2.wav", dtype="float32")
    assert np.abs(result - expected).max() <= 2.0**-15


@pytest.mark.parametrize(
    "text",
    [
        "flac -c -d -s a b/x.flac |".replace("a b", "a"),
        "flac -cds x.flac|",
        "flac -s -d -c x.flac |",
        "/opt/bin/flac --decode --stdout --silent x.flac |",
        "flac --totally-silent -d -c 'a b.flac' |",
        "flac -dc x.flac |",
        "x.flac",
    ],
)
def test_usual_spellings_of_flac_are_understood(text):
    assert parse_location(text).suffix == ".flac"


@pytest.mark.parametrize(
    "text",
    [
        "touch pwned |",
        "flac -c -d -s x.flac; touch pwned |",
        "flac -c -d -s x.flac | touch pwned |",
        "flac -c -d -s $(touch pwned) |",
        "flac -c -d -s x.flac > pwned |",
        "flac -c -d -s -o pwned x.flac |",
        "flac -c -d -s --delete-input-file x.flac |",
        "flac x.flac |",
        "flac -c -d -s |",
        "flac -c -d -s 'x.flac |",
        "flaccid -c -d -s x.flac |",
        "sph2pipe -f wav x.sph |",
        "|",
    ],
)
def test_other_commands_are_refused(text):
    with pytest.raises(ConfigError, match="is not run"):
        parse_location(text)


def test_a_command_is_never_run_and_fails_its_utterance(anon, kaldi, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = {
        "ann-m1": "touch pwned |",
        "ann-m2": "flac -c -d -s `touch${IFS}pwned` |",
        "ann-m3": f"cat {tmp_path}/audio/u1.wav |",
        "ann-m4": "flac -c -d -s x;touch${IFS}pwned |",
    }
    for key, command in commands.items():
        add_line(kaldi / "wav.scp", f"{key} {command}")
    result = anonymize_folder(anon, kaldi, tmp_path / "out", seed=7)
    assert not (tmp_path / "pwned").exists()
    assert {r.key for r in result.failed} == set(commands)
    assert "is not run" in result.failed[0].reason
    assert len(result.done) == 4


def test_tables_are_restricted_to_what_was_done(anon, kaldi, tmp_path):
    (tmp_path / "audio" / "u3.flac").write_text("no audio")
    (tmp_path / "audio" / "u4.wav").unlink()
    out = tmp_path / "out"
    result = anonymize_folder(anon, kaldi, out, seed=7)
    assert [r.key for r in result.failed] == ["ben-u3", "ben-u4"]
    assert [line.split()[0] for line in read_table(out / "wav.scp")] == ["ann-u1", "ann-u2"]
    assert read_table(out / "utt2spk") == ["ann-u1 ann", "ann-u2 ann"]
    assert read_table(out / "spk2utt") == ["ann ann-u1 ann-u2"]
    assert read_table(out / "spk2gender") == ["ann f"]
    assert read_table(out / "text") == ["ann-u1 ONE ann-u4", "ann-u2 TWO"]
    assert read_table(out / "trials") == ["ann ann-u1 target"]


def test_a_resumed_run_writes_whole_tables(anon, kaldi, tmp_path):
    anonymize_folder(anon, kaldi, tmp_path / "out", seed=7)
    before = read_table(tmp_path / "out" / "wav.scp")
    (tmp_path / "out" / "wav" / "ann-u1.wav").unlink()
    result = anonymize_folder(anon, kaldi, tmp_path / "out", seed=7)
    assert (len(result.done), len(result.skipped)) == (1, 3)
    assert read_table(tmp_path / "out" / "wav.scp") == before


def test_speaker_level_uses_utt2spk(anon, kaldi, tmp_path):
    result = anonymize_folder(anon, kaldi, tmp_path / "out", seed=7, level="speaker")
    voices = [r.report["target"]["alpha"] for r in result.done]
    assert voices[0] == voices[1] != voices[2] == voices[3]


def test_segments_are_utterances_of_their_own(anon, kaldi, tmp_path):
    shutil.move(kaldi / "wav.scp", kaldi / "old.scp")
    write_table(kaldi / "wav.scp", [f"rec flac -c -d -s {tmp_path}/audio/u3.flac |"])
    write_table(
        kaldi / "segments",
        ["ann-u1 rec 0.00 0.20", "ann-u2 rec 0.15 -1", "ben-u3 rec 0.3 0.9", "ben-u4 rec 0.3 1.9"],
    )
    out = tmp_path / "out"
    result = anonymize_folder(anon, kaldi, out, seed=7)
    lengths = {r.key: soundfile.info(out / "wav" / f"{r.key}.wav").frames for r in result.done}
    # The file lasts 0.5 s; a segment may end up to 0.5 s later, as in Kaldi.
    assert lengths == {"ann-u1": 3200, "ann-u2": 5600, "ben-u3": 3200}
    assert "does not lie in" in result.failed[0].reason
    assert not (out / "segments").exists()
    wav, _ = soundfile.read(tmp_path / "audio" / "u3.flac", dtype="float32", start=0, stop=3200)
    expected = anon.anonymize(wav, RATE, seed=7, key="ann-u1")
    written, _ = soundfile.read(out / "wav" / "ann-u1.wav", dtype="float32")
    assert np.abs(written - expected).max() <= 2.0**-15


def test_a_segment_of_an_unknown_recording_fails(anon, kaldi, tmp_path):
    write_table(kaldi / "segments", ["ann-u1 ann-u1 0 0.2", "ann-u2 nowhere 0 0.2"])
    result = anonymize_folder(anon, kaldi, tmp_path / "out", seed=7)
    assert [r.key for r in result.done] == ["ann-u1"]
    assert "does not list" in result.failed[0].reason


@pytest.mark.parametrize("line", ["ann-u1 ann-u1 0 0.2 1", "ann-u1 ann-u1 zero 0.2", "ann-u1"])
def test_a_malformed_segment_is_refused(anon, kaldi, tmp_path, line):
    write_table(kaldi / "segments", [line])
    with pytest.raises(ConfigError, match="recording start end"):
        anonymize_folder(anon, kaldi, tmp_path / "out", seed=7)


@pytest.mark.parametrize("utterance", ["../../pwned", "a/b", "/etc/x", "a\\b"])
def test_an_utterance_id_that_is_a_path_is_refused(anon, kaldi, tmp_path, utterance):
    add_line(kaldi / "wav.scp", f"{utterance} {tmp_path}/audio/u1.wav")
    with pytest.raises(ConfigError, match="path separator"):
        anonymize_folder(anon, kaldi, tmp_path / "out", seed=7)
    assert not (tmp_path / "out").exists()


def test_an_utterance_that_is_listed_twice_is_refused(anon, kaldi, tmp_path):
    add_line(kaldi / "wav.scp", f"ann-u1 {tmp_path}/audio/u1.wav")
    with pytest.raises(ConfigError, match=r"wav\.scp, line 5: ann-u1 stands there twice"):
        anonymize_folder(anon, kaldi, tmp_path / "out", seed=7)


def test_relative_paths_are_of_the_current_folder_or_of_the_tables(
    anon, kaldi, tmp_path, monkeypatch
):
    shutil.copy(tmp_path / "audio" / "u1.wav", kaldi / "beside.wav")
    write_table(kaldi / "wav.scp", ["ann-u1 audio/u1.wav", "ann-u2 beside.wav"])
    monkeypatch.chdir(tmp_path)
    result = anonymize_folder(anon, "data", "out", seed=7)
    assert len(result.done) == 2
    assert read_table(tmp_path / "out" / "wav.scp") == [
        "ann-u1 out/wav/ann-u1.wav",
        "ann-u2 out/wav/ann-u2.wav",
    ]


def test_the_format_can_be_chosen(anon, kaldi, tmp_path):
    anonymize_folder(anon, kaldi, tmp_path / "out", seed=7, file_format="flac")
    assert {p.suffix for p in (tmp_path / "out" / "wav").iterdir()} == {".flac"}
