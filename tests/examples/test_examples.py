"""Runs what the documentation shows: the examples, the README, and the tables of B2's page."""

import ast
import io
import re
import shlex
import subprocess
import sys
import tokenize
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voiceanon import system_info
from voiceanon.registry import system_config

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text(encoding="utf-8")
B2_PAGE = (ROOT / "docs" / "systems" / "b2.md").read_text(encoding="utf-8")

MOST_CODE_LINES = 30
"""Of a complete third-party system, as the design promises."""

PRINTED = {
    "quickstart.py": [
        r"system +vpc2024-b2 on \w+",
        r"in +\(88200,\) float64 at 44100 Hz",
        r"out +\(88200,\) float32 at 44100 Hz",
        r"voice +alpha = 0\.[5-8]\d+",
        r"level step +[+-]\d+\.\d dB",
        r"same seed and key, same samples: True",
    ],
    "folder.py": [
        r"done 3, failed 0, audio 3 s",
        r"anna/1\.wav: speaker anna, seed secret",
        r"anna/2\.flac: speaker anna, seed secret",
        r"bert/1\.wav: speaker bert, seed secret",
        r"one voice per speaker: True",
        r"another speaker, another voice: True",
        r"second run: done 0, skipped 3",
    ],
    "challenge_run.py": [
        r"1272-0001: alpha = 0\.687588",
        r"1272-0002: alpha = 0\.567471",
        r"1462-0001: alpha = 0\.759241",
        r"files: report\.jsonl spk2utt utt2spk wav wav\.scp",
    ],
    "third_party_system.py": [
        r"a 16000 \{'tilt': 0\.\d+\} True",
        r"b 4000 \{'tilt': 0\.\d+\} True",
    ],
}
"""Each line that an example prints, in order; of `folder.py`, the files may come in any order."""


def run(*command: str, folder: Path) -> list[str]:
    result = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_every_example_is_checked():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_example_prints_what_it_should(name, tmp_path):
    lines = run(str(EXAMPLES / name), folder=tmp_path)
    assert len(lines) == len(PRINTED[name])
    for pattern in PRINTED[name]:
        assert any(re.fullmatch(pattern, line) for line in lines), (pattern, lines)
    assert not list(tmp_path.iterdir())


def test_third_party_system_is_short():
    source = (EXAMPLES / "third_party_system.py").read_text(encoding="utf-8")
    assert len(code_lines(source)) <= MOST_CODE_LINES


def code_lines(source: str) -> set[int]:
    """Numbers of the lines that hold code: not blank, no comment, no docstring."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    empty = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    return {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in empty
        for line in range(token.start[0], token.end[0] + 1)
    } - docstrings


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    """An empty folder with the files that the README names."""
    monkeypatch.chdir(tmp_path)
    wav = np.random.default_rng(0).normal(0, 0.1, 8000).astype("float32")
    Path("recordings").mkdir()
    for path in ("interview.wav", "recordings/1.wav", "recordings/2.flac"):
        soundfile.write(path, wav, 16_000)
    return wav


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def test_readme_python_runs(recordings):
    names = {"wav": recordings}
    blocks = code_blocks("python")
    assert blocks
    for block in blocks:
        exec(block, names)
    assert names["y"].shape == recordings.shape
    assert Path("anonymized.wav").is_file()
    assert len(names["result"].done) == 2
    assert not names["result"].failed


def test_readme_commands_run(recordings, tmp_path):
    lines = "\n".join(code_blocks("shell")).replace("&&", "\n").splitlines()
    commands = [shlex.split(line) for line in lines if line.strip().startswith("voiceanon ")]
    assert {command[1] for command in commands} == {"demo", "anonymize"}
    for command in commands:
        run("-m", "voiceanon.cli", *command[1:], folder=tmp_path)
    assert Path("demo/anonymized.wav").is_file()
    assert Path("anonymized/1.wav").is_file()
    assert Path("anonymized/2.flac").is_file()


def test_b2_page_lists_all_settings():
    rows = re.findall(r"^\| `(\w+)` \| `?\"?([\w.]+)\"?`? \|", B2_PAGE, flags=re.MULTILINE)
    config = system_config("b2")
    assert [name for name, _ in rows] == [field.name for field in fields(config)]
    for name, default in rows:
        value = getattr(config, name)
        assert type(value)(default) == value, name


def test_b2_page_gives_published_results_of_the_manifest():
    rows = [row.split("|") for row in B2_PAGE.splitlines() if row.startswith(("| EER", "| WER"))]
    rows += [row.split("|") for row in B2_PAGE.splitlines() if row.startswith("| UAR")]
    shown = sorted((row[1].split(",")[0].strip(), float(row[3])) for row in rows)
    assert shown == sorted((entry.metric, entry.value) for entry in system_info("b2").published)
