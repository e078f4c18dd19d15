"""`gpu.py` runs where nothing but torch and numpy is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("gpu.py")

MISSING = {
    "click", "encodec", "huggingface_hub", "hypothesis", "librosa", "llvmlite", "matplotlib",
    "numba", "psutil", "pytest", "pyworld", "rich", "scipy", "sklearn", "soundfile", "soxr",
    "typer", "yaml",
}  # fmt: skip
"""Packages that a bare GPU machine lacks."""

WITHOUT_THEM = f"""
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {MISSING}:
            raise ModuleNotFoundError(f"{{name}} is not here", name=name)

sys.meta_path.insert(0, Missing())
script, *arguments = sys.argv[1:]
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
"""

pytestmark = pytest.mark.benchmark


def test_quick_on_the_cpu_with_few_packages(tmp_path):
    out = tmp_path / "report.json"
    arguments = ["--device", "cpu", "--quick", "--out", str(out)]
    # -I: neither the folder of the tests nor PYTHONPATH, so that the script finds src by itself.
    done = subprocess.run(
        [sys.executable, "-I", "-c", WITHOUT_THEM, str(SCRIPT), *arguments],
        check=False,
        capture_output=True,
        text=True,
        # Threads that wait for each other on a busy machine would take minutes.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text("utf-8"))
    assert not report["errors"]
    verdicts = {(row["system"], row["precision"]): row["passed"] for row in report["checks"]}
    assert verdicts["b2", "float64"]
    assert verdicts["t8-2 reduced", "float32"]
    assert verdicts["t8-2 official", "float32"]
    assert verdicts["b6 reduced", "float32"]
    assert verdicts["b3 reduced", "float32"]
    assert verdicts["b4 reduced", "float32"]
    assert verdicts["t8-1 reduced", "float32"]
    assert verdicts["b1 reduced", "float32"]
    measured = {(row["system"], row["precision"]) for row in report["speed"]}
    assert measured >= {
        ("b2", "float64"),
        ("t8-2 reduced", "bfloat16"),
        ("b6 reduced", "bfloat16"),
        ("b3 reduced", "bfloat16"),
        ("b4 reduced", "bfloat16"),
        ("t8-1 reduced", "bfloat16"),
        ("b1 reduced", "bfloat16"),
    }
    for row in report["speed"]:
        assert row["times_real_time"] > 0
        assert sum(row.get("shares", {"all": 1.0}).values()) == pytest.approx(1.0)


def test_without_a_gpu_it_says_so():
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 2
    assert "no CUDA device" in done.stderr
