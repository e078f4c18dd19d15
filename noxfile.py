"""The project's checks, one session each; `nox --list` names them.

A session makes its own environment. Since torch takes several gigabytes, the sessions can share
the environment that is already active instead, which then has to hold `.[dev]`:

    VOICEANON_NOX_INPLACE=1 nox

`nox -fb none` does the same for a single session. `tests-lowest` needs other versions than the
active environment has, so it always makes its own.
"""

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import nox

ROOT = Path(__file__).parent
IN_PLACE = os.environ.get("VOICEANON_NOX_INPLACE") == "1"
PYTHONS = None if IN_PLACE else ["3.11", "3.12", "3.13"]

WHEEL_FILE_LIMIT_BYTES = 100_000
# Weights and recordings are fetched or made by the user, never shipped.
WHEEL_FORBIDDEN_SUFFIXES = {".wav", ".flac", ".pt", ".safetensors", ".npz"}
WHEEL_SMOKE_TEST = """
import sys
import torch
import voiceanon

assert voiceanon.__file__.startswith(sys.prefix), f"not the wheel: {voiceanon.__file__}"
wav = torch.randn(16000, generator=torch.Generator().manual_seed(0)) / 10
out = voiceanon.load("b2").anonymize(wav, seed=0)
assert out.shape == wav.shape
assert out.isfinite().all()
assert not torch.equal(out, wav)
"""

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "none" if IN_PLACE else "virtualenv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "tests", "docs", "examples", "wheel"]


def runs_in_place(session: nox.Session) -> bool:
    """Whether the session shares the active environment."""
    return session.venv_backend == "none"


def install(session: nox.Session, *requirements: str) -> None:
    """Installs into the session's own environment; a shared one is left as it is."""
    if not runs_in_place(session):
        session.install(*requirements)


@nox.session
def lint(session: nox.Session) -> None:
    """Style rules and formatting."""
    install(session, "ruff")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Static types."""
    install(session, "--editable", ".[dev]")
    session.run("mypy")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests; arguments after `--` go to pytest."""
    install(session, "--editable", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session(name="tests-lowest", python="3.11", venv_backend="virtualenv")
def tests_lowest(session: nox.Session) -> None:
    """The tests with the oldest dependencies that pyproject.toml allows."""
    dependencies = nox.project.load_toml("pyproject.toml")["project"]["dependencies"]
    constraints = Path(session.create_tmp(), "constraints.txt")
    constraints.write_text("\n".join(line.replace(">=", "==") for line in dependencies))
    session.install("--editable", ".[test]", "--constraint", str(constraints))
    # Old releases warn about things that newer ones have mended.
    session.run("pytest", "-W", "default", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """The tests that need a CUDA device; then agreement with the CPU, speed and memory there."""
    install(session, "--editable", ".[test]")
    session.run("pytest", "-m", "gpu", *session.posargs)
    session.run("python", "tests/benchmarks/gpu.py")


@nox.session
def bench(session: nox.Session) -> None:
    """Speed and memory, printed."""
    install(session, "--editable", ".[test]")
    session.run("pytest", "tests/benchmarks", "-m", "benchmark", "-s", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, with warnings as errors, and the examples inside it."""
    install(session, "--editable", ".[docs]")
    for builder in ("html", "doctest"):
        session.run(
            "sphinx-build", "-W", "--keep-going", "-b", builder, "docs", f"docs/_build/{builder}"
        )


@nox.session
def examples(session: nox.Session) -> None:
    """Every script in examples/, each in an empty folder."""
    install(session, "--editable", ".[demo]")
    scripts = sorted(ROOT.glob("examples/*.py"))
    if not scripts:
        session.error("examples/ holds no script")
    for script in scripts:
        with tempfile.TemporaryDirectory() as folder, session.chdir(folder):
            session.run("python", str(script))


@nox.session
def wheel(session: nox.Session) -> None:
    """What a user gets: the wheel's contents, and the wheel alone in an empty environment."""
    install(session, "build", "hatchling")
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder)
    folder.mkdir()
    session.run(
        "python", "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist")
    )
    (built,) = (folder / "dist").glob("*.whl")
    check_wheel_contents(session, built)

    python = make_empty_environment(session, folder / "venv")
    # pip looks along the lent search path, too, and would try to replace a voiceanon found there.
    alone = ["--no-deps", "--ignore-installed"] if runs_in_place(session) else []
    session.run(python, "-m", "pip", "install", "--quiet", *alone, str(built), external=True)
    # Away from the checkout, so that nothing but the wheel can be imported.
    with session.chdir(folder):
        session.run(python, "-c", WHEEL_SMOKE_TEST, external=True)
        script = str(Path(python).with_name("voiceanon"))
        session.run(script, "demo", "--out", str(folder / "demo"), external=True)


def check_wheel_contents(session: nox.Session, built: Path) -> None:
    """Ends the session if the wheel holds large files, weights or recordings."""
    with zipfile.ZipFile(built) as archive:
        entries = archive.infolist()
    for entry in entries:
        if entry.file_size > WHEEL_FILE_LIMIT_BYTES:
            session.error(f"{entry.filename}: {entry.file_size} bytes is too large for the wheel")
        if Path(entry.filename).suffix in WHEEL_FORBIDDEN_SUFFIXES:
            session.error(f"{entry.filename}: this kind of file does not belong in the wheel")


def make_empty_environment(session: nox.Session, folder: Path) -> str:
    """Makes a virtual environment without voiceanon and gives the path of its Python."""
    session.run("python", "-m", "venv", str(folder))
    python = str(folder / "bin" / "python")
    if runs_in_place(session):
        # Lends the active environment's dependencies, so that torch is not installed twice. The
        # line is only a search path, read after the new environment's own: an editable voiceanon
        # in the active environment stays invisible, an installed one is shadowed by the wheel.
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        lent = session.run("python", "-c", ask, silent=True)
        own = session.run(python, "-c", ask, silent=True, external=True)
        Path(own.strip(), "lent.pth").write_text(lent)
    return python
