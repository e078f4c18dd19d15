"""``voiceanon pool``, and ``voiceanon anonymize`` with target speakers."""

import json
import types
import warnings

import numpy as np
import pytest
import soundfile
import torch
from properties.systems import small_knn_vc
from safetensors.torch import save_file

from voiceanon import load
from voiceanon.cli.progress import PoolProgress
from voiceanon.corpus import build_pool
from voiceanon.hub.pool import Pool, read_pool, write_pool

ALL_GOOD, WRONG = 0, 2


@pytest.fixture
def pool_file(tmp_path):
    """Two speakers of either sex, as wide as the small networks."""
    draws = torch.Generator().manual_seed(1)
    features = {name: torch.randn(40, 64, generator=draws) for name in ("eva", "fay", "max", "ned")}
    sexes = {"eva": "f", "fay": "f", "max": "m", "ned": "m"}
    write_pool(tmp_path / "targets.safetensors", Pool(features, sexes))
    return tmp_path / "targets.safetensors"


@pytest.fixture
def build(run, corpus, small_weights, tmp_path):
    """Builds a pool of the corpus with small weights; gives status, stdout, stderr and the file."""

    def start(*arguments, src=corpus):
        dst = tmp_path / "made" / "pool.safetensors"
        return *run("pool", "build", src, dst, "--weights", small_weights, *arguments), dst

    return start


def lines(path, **pairs):
    path.write_text("".join(f"{name} {value}\n" for name, value in pairs.items()))
    return path


def records(folder):
    return [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]


# --- build and info ----------------------------------------------------------------------------


def test_build_is_that_of_the_library(build, corpus, small_weights, tmp_path):
    sexes = lines(tmp_path / "sexes", ann="F", ben="male", eve="f")
    code, out, err, dst = build("--sexes", sexes, "--device", "cpu", "--set", "trim_level=0")
    assert (code, err) == (ALL_GOOD, "")
    assert out.startswith(f"{dst}: 2 speakers (sex: 1 female, 1 male), 0.8 s of speech, 42 frames")
    assert "of 64 float32 features" in out
    assert out.count("\n") == 1
    anon = load("t8-2", device="cpu", weights=small_weights, trim_level=0.0)
    expected = build_pool(anon, corpus, sexes={"ann": "f", "ben": "m"})
    assert read_pool(dst).digest() == expected.digest()
    assert read_pool(dst).facts == expected.facts


def test_info(build, run, tmp_path):
    *_, dst = build("--sexes", lines(tmp_path / "sexes", ben="m"), "--set", "pool_dtype=float16")
    code, out, err = run("pool", "info", dst)
    assert (code, err) == (ALL_GOOD, "")
    assert "2 speakers (sex: 1 male, 1 not known)" in out
    assert "of 64 float16 features" in out
    pool = read_pool(dst)
    table = {
        line.split(maxsplit=1)[0]: line.split(maxsplit=1)[1] for line in out.splitlines() if line
    }
    assert table["digest"].split() == [pool.digest()]
    assert table["source"].split() == ["in"]
    assert len(table["encoder"].strip()) == 64
    assert table["ben"].split() == ["male", str(len(pool.features["ben"])), "0.28"]
    assert table["ann"].split()[:2] == ["not", "known"]
    assert '{"ann"' not in out


def test_info_of_a_pool_from_elsewhere(run, pool_file):
    code, out, _ = run("pool", "info", pool_file)
    assert code == ALL_GOOD
    assert f"{pool_file}: 4 speakers (sex: 2 female, 2 male), 160 frames of 64" in out
    assert out.count("not stated") == 4


def test_speakers_of_a_flat_folder(build, corpus, tmp_path):
    flat = corpus.rename(tmp_path / "flat")
    (flat / "ann" / "a1.wav").rename(flat / "7-1.wav")
    (flat / "ben" / "b1.wav").rename(flat / "8-1.wav")
    (flat / "ann" / "a2.flac").unlink()
    code, _, err, dst = build(src=flat)
    assert code == WRONG
    assert "2 of 2 recordings have no speaker ('7-1', '8-1')" in err
    assert "--speakers" in err
    assert not dst.exists()
    speakers = lines(tmp_path / "speakers", **{"7-1": "seven", "8-1": "eight"})
    code, _, _, dst = build("--speakers", speakers, src=flat)
    assert code == ALL_GOOD
    assert read_pool(dst).names == ("eight", "seven")


def test_bad_recordings_are_told(build, corpus):
    (corpus / "ann" / "a1.wav").write_text("no audio")
    code, out, err, dst = build()
    assert (code, err) == (ALL_GOOD, "")
    warning, summary = out.splitlines()
    assert warning.startswith("warning: left out of speaker 'ann': ann/a1: ")
    assert summary.startswith(f"{dst}: 2 speakers")
    (corpus / "ann" / "a2.flac").write_text("no audio")
    dst.unlink()
    code, _, err, dst = build()
    assert code == WRONG
    assert "speaker 'ann' has no recording that can be used" in err
    assert not dst.exists()


def test_random_weights_are_told_loudly(run, register, corpus, tmp_path):
    small = small_knn_vc()
    for name in ("weights", "pool"):
        del small[name]
    register("test-small", **small)
    dst = tmp_path / "pool.safetensors"
    code, out, err = run(
        "pool", "build", corpus, dst, "--system", "test-small", "--weights", "random"
    )
    assert code == ALL_GOOD
    assert err.startswith("warning: test-small: RANDOM WEIGHTS: ")
    assert err.count("\n") == 1
    assert "RANDOM" not in out
    assert "RANDOM WEIGHTS" in run("pool", "info", dst)[1]
    code, _, err = run(
        *("anonymize", corpus, tmp_path / "out", "--system", "test-small"),
        *("--weights", "random", "--pool", dst),
    )
    assert code == ALL_GOOD
    assert err.startswith("warning: test-small: RANDOM WEIGHTS: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "b2"], "--weights"),
        (["--system", "b22"], "system: 'b22' is unknown"),
        (["--weights", "MISSING"], "is not a folder"),
        (
            ["--sexes", "WORDS"],
            "sexes: 'woman' of speaker 'ann' is not 'f', 'm', 'female' or 'male'",
        ),
        (["--sexes", "ONE_WORD"], "write 'speaker sex', each speaker once"),
        (["--sexes", "OTHERS"], "none of the speakers here ('ann', 'ben', 2 in all)"),
        (["--speakers", "ONE_WORD"], "write 'key speaker', each key once"),
        (["--set", "trim=0"], "name is one of"),
        (["--precision", "float8"], "precision: 'float8'"),
        (["--device", "tpu"], "device: 'tpu'"),
    ],
)
def test_a_wrong_option_is_one_line_on_stderr(build, tmp_path, arguments, message):
    texts = {"WORDS": "ann woman\n", "ONE_WORD": "ann\n", "OTHERS": "eve f\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.sexes").write_text(text)
    paths = {name: tmp_path / f"{name}.sexes" for name in (*texts, "MISSING")}
    message = "weights: vpc2024-b2 has none" if message == "--weights" else message
    code, out, err, dst = build(*(paths.get(each, each) for each in arguments))
    assert (code, out) == (WRONG, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not dst.exists()


def test_systems_without_target_speakers(run, corpus, tmp_path):
    code, _, err = run("pool", "build", corpus, tmp_path / "p.safetensors", "--system", "b2")
    assert code == WRONG
    assert "vpc2024-b2 has no target speakers" in err


def test_what_is_no_pool(run, tmp_path):
    code, _, err = run("pool", "info", tmp_path / "missing.safetensors")
    assert code == WRONG
    assert "voiceanon pool build" in err
    save_file({"a": torch.ones(2, 2)}, tmp_path / "other.safetensors")
    code, _, err = run("pool", "info", tmp_path / "other.safetensors")
    assert code == WRONG
    assert "not a pool" in err


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    with PoolProgress() as progress:
        progress.on_speaker("ann", 1, 2)
        monkeypatch.setattr("voiceanon.cli.progress.LINE_SECONDS", 0.0)
        progress.on_speaker("[b]en", 2, 2)
    assert capsys.readouterr().err == "speaker 2/2: [b]en\n"


def test_progress_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("rich.console.Console.is_terminal", property(lambda console: True))
    with PoolProgress() as progress:
        progress.on_speaker("[b]en", 1, 2)
    assert "speaker 1/2: [b]en" in capsys.readouterr().err


# --- anonymize ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "allowed"), [("same", "eva fay"), ("other", "max ned")])
def test_anonymize_with_target_speakers_of_a_sex(
    run, corpus, small_weights, pool_file, tmp_path, rule, allowed
):
    sexes = lines(tmp_path / "sexes", ann="female", ben="F")
    code, out, err = run(
        *("anonymize", corpus, tmp_path / "out", "--system", "t8-2", "--seed", 7),
        *("--weights", small_weights, "--local-files-only", "--pool", pool_file),
        *("--sexes", sexes, "--set", f"selection={rule}"),
    )
    assert (code, err) == (ALL_GOOD, "")
    assert "3 done, 0 failed" in out
    reports = [record["report"] for record in records(tmp_path / "out")]
    assert {report["target"]["speaker"] for report in reports} <= set(allowed.split())
    assert {report["weights"]["pool"] for report in reports} == {read_pool(pool_file).digest()}
    assert all(report["config"]["source_sexes"] == {"ann": "f", "ben": "f"} for report in reports)
    result, rate = soundfile.read(tmp_path / "out" / "ann" / "a1.wav")
    assert (len(result), rate) == (4800, 16_000)
    assert np.abs(result).max() > 0.01


def test_sexes_are_refused_where_nobody_asks_for_them(run, corpus, tmp_path):
    sexes = lines(tmp_path / "sexes", ann="f")
    code, out, err = run("anonymize", corpus, tmp_path / "out", "--sexes", sexes)
    assert (code, out) == (WRONG, "")
    assert (
        err == "error: --sexes: b2 does not choose voices by the sex of the source; leave it out.\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_missing_pool_is_said_with_the_way_out(run, corpus, small_weights, tmp_path):
    code, _, err = run(
        *("anonymize", corpus, tmp_path / "out", "--system", "t8-2", "--weights", small_weights)
    )
    assert code == WRONG
    assert "voiceanon pool build" in err
    assert not (tmp_path / "out").exists()


def test_the_warning_of_a_file_is_told_once(run, recording, monkeypatch, tmp_path):
    report = types.SimpleNamespace(samples=1, sample_rate=1, system="x")

    def warn(self, *arguments, **options):
        warnings.warn("loud", UserWarning, stacklevel=2)
        return report

    monkeypatch.setattr("voiceanon.anonymizer.Anonymizer.anonymize_file", warn)
    code, out, err = run("anonymize", recording, tmp_path / "out.wav")
    assert (code, err) == (ALL_GOOD, "")
    assert out.splitlines()[0] == "warning: loud"
    assert len(out.splitlines()) == 2
