"""The command `voiceanon-eval`, as a user runs it, with the light models that are installed."""

import csv
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import soundfile
from eval.app_speech import SPEAKERS, TAKES, write_corpus
from eval.test_app_report import Page

from voiceanon import load
from voiceanon.eval.app.main import app, main

ROOT = Path(__file__).parents[2]
GOOD, WRONG = 0, 2
B2 = ("--system", "b2", "--seed", 7)
COMMANDS = {"privacy", "content", "emotion", "all", "table", "plot"}


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command with arguments; gives exit status, stdout and stderr."""

    def start(*arguments):
        monkeypatch.setattr("sys.argv", ["voiceanon-eval", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return start


@pytest.fixture
def originals(tmp_path):
    return write_corpus(tmp_path / "data")


def need(package):
    # Not imported: resemblyzer's own import needs packages that we do without.
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")


def numbers(out):
    with (out / "measurements.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_the_entry_point_and_the_commands():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["voiceanon-eval"] == "voiceanon.eval.app.main:main"
    names = {each.name or each.callback.__name__ for each in app.registered_commands}
    assert names == COMMANDS


def test_help_names_the_shared_options_once(run):
    for command in sorted(COMMANDS - {"table", "plot"}):
        code, out, _ = run(command, "--help")
        assert code == GOOD
        assert out.count("--leave-out") == 1
        assert "--out" in out
    code, out, _ = run("--version")
    assert (code, out.split()[0]) == (GOOD, "voiceanon")


def test_privacy_in_one_command(run, originals, tmp_path):
    need("resemblyzer")
    out = tmp_path / "out"
    arguments = ("privacy", originals, *B2, "--enrolment", 1, "--out", out)
    code, printed, told = run(*arguments, "--device", "cpu")
    assert code == GOOD, told
    assert "upper bound" in printed
    assert "embeddings of anonymized speech: 30/30" in told
    rows = numbers(out)
    assert {row["condition"] for row in rows} == {"OO", "OA", "AA-lazy"}
    assert {row["sex"] for row in rows} == {"both", "f", "m"}
    assert {row["system"] for row in rows if row["condition"] != "OO"} == {"vpc2024-b2"}
    assert all(row["model"].endswith("not the challenge's") for row in rows)
    page = Page((out / "report.html").read_text())
    assert page.tags.count("audio") == 2 * 4
    assert json.loads((out / "results.json").read_text())["format"] == 1

    # Again: nothing is anonymized or embedded anew, and the numbers are the same.
    made = {path: path.stat().st_mtime_ns for path in (out / "anonymized").rglob("*.wav")}
    code, _, _ = run(*arguments, "--device", "cpu")
    assert code == GOOD
    assert numbers(out) == rows
    assert {path: path.stat().st_mtime_ns for path in made} == made


@pytest.mark.slow
def test_what_is_done_with_copies_and_results(run, originals, tmp_path):
    need("resemblyzer")
    out, other = tmp_path / "out", tmp_path / "other"
    code, _, told = run("privacy", originals, *B2, "--enrolment", 1, "--out", out)
    assert code == GOOD, told
    rows = numbers(out)

    # With the copies, in another folder, and less in the report.
    copies = out / "anonymized" / "data"
    arguments = ("privacy", originals, "--anonymized", copies, "--enrolment", 1, "--out", other)
    code, _, _ = run(*arguments, "--clips", 0, "--device", "cpu")
    assert code == GOOD
    assert numbers(other) == rows
    assert "<audio" not in (other / "report.html").read_text()
    code, _, told = run(*arguments[:-2], "--out", out, "--system", "b5")
    assert (code, "take another folder" in told) == (WRONG, True)

    code, printed, _ = run("table", out, "--out", tmp_path / "table.csv")
    assert code == GOOD
    assert "AA-lazy" in printed
    with (tmp_path / "table.csv").open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert len(table) == 44 + 3
    place = next(i for i, row in enumerate(table) if row["system"] == "B2")
    assert [row["condition"] for row in table[place : place + 4]] == [
        "AA-semi",
        "OO",
        "OA",
        "AA-lazy",
    ]
    assert all(cell for row in table for cell in row.values())
    code, _, _ = run("plot", out, other, "--out", tmp_path / "both.html")
    assert code == GOOD
    Page((tmp_path / "both.html").read_text())


def test_emotion_in_one_command_with_some_left_out(run, originals, tmp_path):
    need("sklearn")
    out = tmp_path / "out"
    left = [option for name in list(SPEAKERS)[4:] for option in ("--leave-out", f"{name}/*")]
    arguments = (originals, *left, *B2, "--level", "speaker", "--out", out)
    code, printed, told = run("emotion", *arguments)
    assert code == GOOD, told
    assert "upper bound" not in printed
    rows = numbers(out)
    assert {row["metric"] for row in rows} == {"UAR", "recall of angry", "recall of sad"}
    assert {row["utterances"] for row in rows} == {str(4 * TAKES)}
    assert all("leave one speaker out" in row["training data"] for row in rows)
    # Only what is used was anonymized, under the names of the whole folder.
    made = sorted((out / "anonymized").rglob("*.wav"))
    assert len(made) == 4 * TAKES
    copy, _ = soundfile.read(out / "anonymized" / "data" / "ann" / "ann0.wav", dtype="float32")
    wave, rate = soundfile.read(originals / "ann" / "ann0.wav", dtype="float32")
    options = {"seed": 7, "key": "ann/ann0", "speaker": "ann", "level": "speaker"}
    expected = load("b2", device="cpu").anonymize(wave, rate, **options)
    assert np.abs(copy - expected).max() <= 2.0**-15
    assert {row["level"] for row in rows if row["condition"] == "A-lazy"} == {"speaker"}


@pytest.mark.slow
def test_everything_in_one_command(run, originals, tmp_path):
    for package in ("resemblyzer", "pocketsphinx", "sklearn"):
        need(package)
    out = tmp_path / "out"
    arguments = (originals, *B2, "--enrolment", 1, "--out", out)
    code, _, told = run("all", *arguments, "--device", "cpu")
    assert code == GOOD, told
    found = {(row["metric"], row["condition"]) for row in numbers(out)}
    assert {("EER", "AA-lazy"), ("WER", "O"), ("WER", "A-lazy"), ("UAR", "A-lazy")} <= found
    parts = json.loads((out / "results.json").read_text())["parts"]
    assert list(parts) == ["privacy", "content", "emotion"]
    assert len(parts["content"]["transcripts"]) == len(SPEAKERS) * TAKES


def test_all_leaves_out_what_is_not_known(run, originals, tmp_path):
    need("resemblyzer")
    (originals / "utterances.csv").unlink()
    out = tmp_path / "out"
    arguments = (originals, *B2, "--enrolment", 1, "--out", out)
    code, _, told = run("all", *arguments, "--device", "cpu", "--clips", 0)
    assert code == GOOD, told
    assert "content is left out: no utterance has a text" in told
    assert "emotion is left out: no utterance has one" in told
    assert {row["sex"] for row in numbers(out)} == {"both"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["content"], "--anonymized: no folder with copies"),
        (["content", "--system", "b2", "--level", "word"], "'word' is none of utterance, speaker"),
        (["privacy", "--system", "b2", "--leave-out", "x*"], "'x*' fits no recording"),
        (["content", "--system", "b99"], "b99"),
        (["privacy", "--system", "b2"], "have 4 utterances or fewer"),
        (["privacy", "--system", "b2", "--attacker", "x"], "--attacker: 'x' is none of ge2e, "),
        (["content", "--system", "b2", "--recognizer", "x"], "--recognizer: 'x' is none of"),
        (["emotion", "--system", "b2", "--classifier", "x"], "--classifier: 'x' is none of"),
        (["emotion", "--system", "b2", "--classifier", "challenge"], "spk2fold"),
        (["content", "--system", "b2", "--recognizer", "whisper-giant"], "'giant' is none of"),
        (["all", "--anonymized", "DATA", "--emotion-data", "DATA"], "--emotion-anonymized: copies"),
        (["table"], "no such file"),
        (["plot"], "no such file"),
    ],
)  # fmt: skip
def test_errors_are_one_line(run, originals, tmp_path, arguments, message):
    command, *rest = [str(originals) if each == "DATA" else each for each in arguments]
    shown = [] if command in ("table", "plot") else ["--out", tmp_path / "out"]
    code, _, told = run(command, originals, *rest, *shown)
    assert code == WRONG
    (line,) = [line for line in told.splitlines() if line.startswith("error: ")]
    assert message in line
    assert "Traceback" not in told


def test_a_recording_that_cannot_be_anonymized_is_named(run, originals, tmp_path):
    (originals / "ann" / "ann0.wav").write_text("no audio")
    arguments = (originals, "--system", "b2", "--enrolment", 1, "--out", tmp_path / "out")
    code, _, told = run("privacy", *arguments)
    assert code == WRONG
    assert "--system: 1 (ann/ann0: AudioError: " in told
    assert "leave them out with --leave-out" in told


@pytest.mark.slow
def test_a_weak_attacker_is_warned_of(run, originals, tmp_path):
    need("resemblyzer")
    # All speakers' enrolment and trials are mixed up: no attacker can be good at that.
    (originals / "utterances.csv").unlink()
    table = tmp_path / "mixed.csv"
    names = [f"{speaker}/{speaker}{take}" for speaker in SPEAKERS for take in range(TAKES)]
    speakers = [list(SPEAKERS)[place % len(SPEAKERS)] for place in range(len(names))]
    rows = [f"{name},{speaker}\n" for name, speaker in zip(names, speakers, strict=True)]
    table.write_text("path,speaker\n" + "".join(rows))
    out = tmp_path / "out"
    arguments = (originals, "--system", "b2", "--seed", 7, "--enrolment", 1, "--table", table)
    code, _, told = run("privacy", *arguments, "--out", out, "--device", "cpu", "--clips", 0)
    assert code == GOOD, told
    assert "warning: the EER of original against original speech" in told
    assert "this attacker is so weak" in (out / "report.html").read_text()


def test_it_runs_as_a_program(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "from voiceanon.eval.app.main import main; main()", "table"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == GOOD, done.stderr
    assert len([line for line in done.stdout.splitlines() if " published, " in line]) == 44
    assert "Table 9" in done.stdout
