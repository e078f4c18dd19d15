"""Runs what the documentation shows: examples, README, and the tables of the systems' pages."""

import ast
import io
import re
import shlex
import subprocess
import sys
import tokenize
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.main import get_command

from voiceanon import list_systems, system_info
from voiceanon.cli.app import app
from voiceanon.hub.manifest import list_manifests
from voiceanon.registry import system_config

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ROOT / "docs" / "systems"

COLUMNS = [
    ("b1.md", "b1", 0),
    ("b2.md", "b2", 0),
    ("b3.md", "b3", 0),
    ("b3.md", "t12-4", 1),
    ("b3.md", "t30-1", 2),
    ("b4.md", "b4", 0),
    ("b5.md", "b5", 0),
    ("b5.md", "b6", 1),
    ("b5.md", "t12-5", 2),
    ("b5.md", "t12-6", 3),
    ("t8-1.md", "t8-1", 0),
    ("t8-2.md", "t8-2", 0),
    ("t8-2.md", "t19-1", 1),
    ("t8-3.md", "t8-3", 0),
    ("t8-3.md", "t8-4", 1),
    ("t8-3.md", "t8-5", 2),
]
"""Page, system that it is about, and its place among those that share the tables of the page."""

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
    "knn_vc_random.py": [
        r"target high: \d+ frames of 32 features",
        r"target low: \d+ frames of 32 features",
        r"drawn: (low|high); pool [0-9a-f]{16}",
        r"in \(16000,\), out \(16000,\), named target \(16000,\)",
        r"the last 320 samples are zeros",
        r"this is noise: RANDOM WEIGHTS: .*",
    ],
    "content_and_f0.py": [
        r"vectors \(2, 75, 256\), frames \[50, 75\]",
        r"codes of the first: \d+ different ones",
        r"F0: \d+ of 50 frames voiced, median 1[12]\d Hz",
        r"F0: \d+ of 75 frames voiced, median (19|20)\d Hz",
        r"vocoder: \[16001, 24001\] samples, for \[16000, 24000\]",
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


def table_rows(page: str, section: str) -> list[list[str]]:
    """Cells of the tables in a section of a page, heads left out."""
    text = (PAGES / page).read_text(encoding="utf-8")
    (body,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for line in body.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads = {index - 1 for index, row in enumerate(rows) if set(row[0]) == {"-"}}
    return [row for index, row in enumerate(rows) if index not in heads and set(row[0]) != {"-"}]


@pytest.mark.parametrize(("page", "system", "place"), COLUMNS)
def test_page_lists_all_settings(page, system, place):
    rows = table_rows(page, "Parameters")
    config = system_config(system)
    assert [row[0].strip("`") for row in rows] == [field.name for field in fields(config)]
    for row in rows:
        name, default = row[0].strip("`"), ast.literal_eval(row[1 + place].strip("`"))
        assert default == asdict(config)[name], name
        assert type(default) is type(getattr(config, name)), name


@pytest.mark.parametrize(("page", "system", "place"), COLUMNS)
def test_page_gives_published_results_of_the_manifest(page, system, place):
    rows = table_rows(page, "Published results")
    shown = sorted(
        (row[0].split(",")[0], float(row[2 + place]), row[1].split(",")[0]) for row in rows
    )
    # "semi-informed attacker, LibriSpeech dev, mean of ..." and "IEMOCAP test".
    assert shown == sorted(
        (entry.metric, entry.value, re.search(r"(LibriSpeech|IEMOCAP) \w+", entry.condition)[0])
        for entry in system_info(system).published
    )


@pytest.mark.parametrize("page", sorted({page for page, _, _ in COLUMNS}))
def test_page_names_all_ids(page):
    text = (PAGES / page).read_text(encoding="utf-8")
    (ids,) = re.findall(r"^\| ids \| (.*) \|$", text, flags=re.MULTILINE)
    systems = [system for other, system, _ in COLUMNS if other == page]
    facts = [system_info(system) for system in systems]
    names = [name for each in facts for name in (each.id, *each.aliases)]
    assert re.findall(r"`([\w-]+)`", ids) == names


@pytest.mark.parametrize(("page", "system", "place"), COLUMNS)
def test_page_names_all_weight_files(page, system, place):
    text = (PAGES / page).read_text(encoding="utf-8")
    for file in system_info(system).weights:
        assert f"`{file.name}`" in text


def test_all_siblings_of_b5_are_listed():
    rows = [row[:2] for row in table_rows("b5.md", "Siblings")]
    siblings = [name for name in list_manifests() if name.startswith("sa-toolkit-")]
    facts = [system_info(name) for name in siblings]
    expected = [[f"`{each.id}`", f"`{each.weights[0].revision}`"] for each in facts]
    assert sorted(rows) == sorted(expected)


def test_all_commands_and_options_are_documented():
    """Every command, and every option of `anonymize`, is named in the guide."""
    guide = "".join(path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
    for command in ("download", "cache list", "cache verify", "cache remove", "pool build"):
        assert f"voiceanon {command}" in guide
    for option in get_command(app).commands["anonymize"].params:
        for name in option.opts:
            assert not name.startswith("--") or f"`{name}" in guide, name


def test_every_working_system_is_listed():
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    # Not all that are registered: other tests, and other packages, add systems of their own.
    works = set(list_manifests()) & set(list_systems())
    for text in (README, index):
        linked = re.findall(r"^\| (\[.*?) \|.*\*\*works?\*\*", text, flags=re.MULTILINE)
        names = {name for cell in linked for name in re.findall(r"`([\w-]+)`", cell)}
        for system in works:
            if system.startswith("vpc2024-"):
                assert system_info(system).aliases[0] in names, system
