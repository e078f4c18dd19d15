"""``voiceanon anonymize``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voiceanon import load

SOURCE = Path(__file__).parents[2] / "src"
ALL_GOOD, SOME_FAILED, WRONG = 0, 1, 2


def records(folder):
    return [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]


def test_a_folder(run, corpus, tmp_path):
    (corpus / "notes.md").write_text("notes")
    code, out, _ = run("anonymize", corpus, tmp_path / "out", "--system", "b2", "--seed", 7)
    assert code == ALL_GOOD
    assert "3 done, 0 failed, 0 done earlier, 1 other files" in out
    assert "x real time" in out
    assert soundfile.info(tmp_path / "out" / "ann" / "a2.flac").frames == 4800
    assert {record["report"]["seed"] for record in records(tmp_path / "out")} == {7}
    code, out, _ = run("anonymize", corpus, tmp_path / "out", "--seed", 7)
    assert code == ALL_GOOD
    assert "0 done, 0 failed, 3 done earlier" in out
    _, out, _ = run("anonymize", corpus, tmp_path / "out", "--seed", 7, "--no-resume")
    assert "3 done" in out


def test_a_file(run, recording, tmp_path):
    code, out, _ = run("anonymize", recording, tmp_path / "new" / "out.flac", "--seed", 7)
    assert code == ALL_GOOD
    assert "0.30 s of audio" in out
    wav, rate = soundfile.read(recording, dtype="float32")
    expected = load("b2").anonymize(wav, rate, seed=7, key="a1")
    result, _ = soundfile.read(tmp_path / "new" / "out.flac", dtype="float32")
    assert np.abs(result - expected).max() <= 2.0**-15
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.flac"]


def test_a_file_into_a_folder(run, recording, tmp_path):
    (tmp_path / "out.wav").mkdir()
    for folder in ("out", "out.wav"):
        code, *_ = run("anonymize", recording, tmp_path / folder)
        assert code == ALL_GOOD
        assert (tmp_path / folder / "a1.wav").is_file()


def test_failed_files_are_listed_with_their_reason(run, corpus, tmp_path):
    whole = (corpus / "ben" / "b1.wav").read_bytes()
    (corpus / "truncated.wav").write_bytes(whole[: len(whole) // 2])
    (corpus / "text.wav").write_text("this is [bold]not[/bold] audio")
    (corpus / "empty [1].wav").write_bytes(b"")
    code, out, _ = run("anonymize", corpus, tmp_path / "out")
    assert code == SOME_FAILED
    failed = [line for line in out.splitlines() if line.startswith("failed: ")]
    assert len(failed) == 3
    assert f"{corpus}/empty [1].wav: AudioError: " in failed[0]
    assert "truncated" in failed[2]
    assert "3 done, 3 failed" in out


def test_a_failed_file_whose_name_is_not_utf_8_is_listed(run, tmp_path):
    (tmp_path / "in").mkdir()
    open(os.path.join(os.fsencode(tmp_path / "in"), b"caf\xe9.wav"), "w").close()
    code, out, _ = run("anonymize", tmp_path / "in", tmp_path / "out")
    assert code == SOME_FAILED
    assert "caf\\udce9.wav" in out


def test_a_failed_file_alone(run, tmp_path):
    (tmp_path / "text.wav").write_text("this is not audio")
    code, out, _ = run("anonymize", tmp_path / "text.wav", tmp_path / "out.wav")
    assert code == SOME_FAILED
    assert "failed: AudioError" in out
    assert not (tmp_path / "out.wav").exists()


def test_all_options_reach_the_library(run, corpus, tmp_path):
    secret, speakers = tmp_path / "secret", tmp_path / "speakers"
    secret.write_bytes(b"open sesame\n")
    speakers.write_text("ann/a1 x\nann/a2 y\n\nben/b1 x\n")
    code, *_ = run(
        *("anonymize", corpus, tmp_path / "out", "--secret-file", secret, "--level", "speaker"),
        *("--speakers", speakers, "--loudness", "keep", "--mix-channels", "--format", "ogg"),
        *("--precision", "tf32", "--device", "cpu", "--set", "edges=reference"),
        *("--set", "alpha_max=0.7"),
    )
    assert code == ALL_GOOD
    reports = {record["key"]: record["report"] for record in records(tmp_path / "out")}
    report = reports["ann/a1"]
    assert report["seed"] == "secret"
    assert (report["level"], report["speaker"]) == ("speaker", "x")
    assert (report["loudness"], report["precision"]) == ("keep", "tf32")
    assert (report["config"]["edges"], report["config"]["alpha_max"]) == ("reference", 0.7)
    assert reports["ben/b1"]["target"] == report["target"] != reports["ann/a2"]["target"]
    assert (tmp_path / "out" / "ann" / "a1.ogg").is_file()
    with_bytes = load("b2", alpha_max=0.7)
    expected = with_bytes.anonymize(
        np.ones(4800, np.float32) / 2,
        seed=b"open sesame",
        level="speaker",
        speaker="x",
        return_report=True,
    )[1]
    assert expected.target == report["target"]


def test_several_devices_are_several_processes(run, corpus, tmp_path):
    code, out, _ = run("anonymize", corpus, tmp_path / "out", "--device", "cpu", "--device", "cpu")
    assert code == ALL_GOOD
    assert "3 done" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "b22"], "system: 'b22' is unknown"),
        (["--set", "edges"], "write name=value"),
        (["--set", "edge=padded"], "name is one of"),
        (["--set", "order=many"], "'many' is no value for order, which takes int"),
        (["--set", "edges=round"], "no value for edges"),
        (["--level", "session"], "level: 'session'"),
        (["--precision", "float8"], "precision: 'float8'"),
        (["--format", "mp3"], "file_format: got 'mp3'"),
        (["--workers", "0"], "workers: got 0"),
        (["--weights", "random"], "weights: vpc2024-b2 has none"),
        (["--pool", "pool.safetensors"], "pool: vpc2024-b2 has no target speakers"),
        (["--device", "tpu"], "device: 'tpu'"),
        (["--seed", "1", "--secret-file", "EMPTY"], "both given"),
        (["--secret-file", "EMPTY"], "is empty"),
        (["--secret-file", "MISSING"], "No such file"),
        (["--level", "speaker", "--speakers", "ONE_WORD"], "write 'key speaker'"),
    ],
)
def test_a_wrong_option_is_one_line_on_stderr(run, corpus, tmp_path, arguments, message):
    files = {"EMPTY": " \n", "ONE_WORD": "a1\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    names = [tmp_path / a if a in (*files, "MISSING") else a for a in arguments]
    code, out, err = run("anonymize", corpus, tmp_path / "out", *names)
    assert (code, out) == (WRONG, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source", "output", "status", "message"),
    [
        ("in/ann/a1.wav", "out.mp3", WRONG, "cannot write .mp3"),
        ("in/ann/a1.wav", "in/ann/a1.wav", SOME_FAILED, "one file"),
        ("in/missing.wav", "out.wav", WRONG, "there is no file"),
        ("in/missing", "out", WRONG, "no file or folder"),
        ("in", "in", WRONG, "is the input folder"),
    ],
)
def test_a_wrong_path_is_said(run, corpus, tmp_path, source, output, status, message):
    before = (corpus / "ann" / "a1.wav").read_bytes()
    code, out, err = run("anonymize", tmp_path / source, tmp_path / output)
    assert code == status
    assert message in out + err
    assert (corpus / "ann" / "a1.wav").read_bytes() == before


def test_a_format_beside_an_output_file_is_refused(run, recording, tmp_path):
    code, _, err = run("anonymize", recording, tmp_path / "out.wav", "--format", "flac")
    assert code == WRONG
    assert "--format" in err


def test_unknown_options_are_a_usage_error(run):
    code, _, err = run("anonymize", "--no-such-option")
    assert code == WRONG
    assert "no-such-option" in err


def test_output_into_a_pipe_is_plain(corpus, tmp_path):
    (corpus / "empty.wav").write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-m", "voiceanon.cli", "anonymize", corpus, tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "40"},
    )
    assert done.returncode == SOME_FAILED
    assert "\x1b" not in done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == ""
