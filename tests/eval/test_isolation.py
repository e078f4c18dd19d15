"""Nothing outside `voiceanon.eval` imports it, and the library works without it."""

import ast
from pathlib import Path

import signals
import soundfile
from properties.helpers import run_python

import voiceanon

PACKAGE = Path(voiceanon.__file__).parent
OUTSIDE = [path for path in PACKAGE.rglob("*.py") if "eval" not in path.relative_to(PACKAGE).parts]

FORBID = """
import importlib, json, pkgutil, sys
from importlib.abc import MetaPathFinder

class Forbidding(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if (name + ".").startswith("voiceanon.eval."):
            raise ImportError("forbidden: " + name)

sys.meta_path.insert(0, Forbidding())
"""


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_module_outside_names_it():
    assert len(OUTSIDE) > 50
    named = [
        f"{path}: {name}"
        for path in OUTSIDE
        for name in imported(path)
        if (name + ".").startswith("voiceanon.eval.")
    ]
    assert named == []


def test_no_module_outside_names_it_in_a_text():
    # As importlib and entry points take it.
    for path in OUTSIDE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.startswith("voiceanon.eval"), path


def test_the_library_and_its_command_run_without_it(tmp_path):
    (tmp_path / "in").mkdir()
    soundfile.write(tmp_path / "in" / "a.wav", signals.speech(0.3).numpy(), signals.RATE)
    code = """
import contextlib, io
import voiceanon
for module in pkgutil.walk_packages(voiceanon.__path__, "voiceanon.", onerror=lambda name: None):
    if not module.name.startswith("voiceanon.eval") and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
folder = sys.argv[1]
voiceanon.load("b2", device="cpu").anonymize_file(folder + "/in/a.wav", folder + "/a.wav", seed=7)
sys.argv = ["voiceanon", "anonymize", folder + "/in", folder + "/out", "--seed", "7"]
try:
    with contextlib.redirect_stdout(io.StringIO()):
        voiceanon.cli.main()
except SystemExit as stop:
    status = stop.code or 0
try:
    import voiceanon.eval.metrics
except ImportError as error:
    forbidden = str(error)
names = [name for name in sys.modules if name.startswith("voiceanon.")]
print(json.dumps([status, forbidden, len(names), [n for n in names if n[10:14] == "eval"]]))
"""
    ((status, forbidden, count, found),) = run_python(FORBID + code, tmp_path)
    assert status == 0
    assert (tmp_path / "out" / "a.wav").is_file()
    # The guard works, and nearly all modules were imported under it.
    assert forbidden == "forbidden: voiceanon.eval"
    assert count > 50
    assert found == []
