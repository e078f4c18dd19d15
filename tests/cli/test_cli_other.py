"""The other commands, and what the command line says turned into values."""

import sys
import time
import types
from dataclasses import dataclass, fields
from typing import Literal, get_type_hints

import numpy as np
import pytest
import soundfile

from voiceanon import __version__, list_systems, system_info
from voiceanon.cli.demo import make_vowels
from voiceanon.cli.options import parse_settings, parse_value
from voiceanon.cli.progress import RunProgress
from voiceanon.corpus import ItemResult
from voiceanon.errors import ConfigError


def test_version(run):
    assert run("--version") == (0, f"voiceanon {__version__}\n", "")


def test_help_lists_the_commands(run):
    _, out, _ = run("--help")
    for name in ("anonymize", "systems", "info", "demo"):
        assert name in out


def test_systems_lists_all(run):
    code, out, _ = run("systems")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert set(lines) == set(list_systems())
    assert "b2" in lines["vpc2024-b2"]


def test_info_shows_all_facts_and_settings(run):
    code, out, _ = run("info", "b2")
    assert code == 0
    info = system_info("b2")
    for field in fields(info):
        if field.name not in ("published", "weights"):
            assert f"\n{field.name} " in "\n" + out, field.name
    assert info.paper in out
    for result in info.published:
        assert str(result.value) in out
        assert result.condition in out
    assert "alpha_max" in out
    assert "0.9" in out


def test_info_of_an_unknown_system_names_the_nearest(run):
    code, _, err = run("info", "b22")
    assert code == 2
    assert "did you mean 'b2'" in err


def test_demo_writes_both_and_a_picture(run, tmp_path):
    started = time.perf_counter()
    code, out, _ = run("demo", "--out", tmp_path / "demo", "--seed", 3)
    assert code == 0
    assert time.perf_counter() - started < 5
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [
        "anonymized.wav",
        "original.wav",
        "spectrogram.png",
    ]
    assert (tmp_path / "demo" / "spectrogram.png").read_bytes().startswith(b"\x89PNG")
    original, rate = soundfile.read(tmp_path / "demo" / "original.wav")
    anonymized, _ = soundfile.read(tmp_path / "demo" / "anonymized.wav")
    assert original.shape == anonymized.shape == (3 * rate,)
    assert np.abs(original - anonymized).max() > 0.1
    assert "alpha" in out
    first = (tmp_path / "demo" / "anonymized.wav").read_bytes()
    run("demo", "--out", tmp_path / "again", "--seed", 3)
    assert (tmp_path / "again" / "anonymized.wav").read_bytes() == first


def test_demo_without_matplotlib_names_the_extra_and_writes_nothing(run, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run("demo", "--out", tmp_path / "demo")
    assert code == 2
    assert "voiceanon[demo]" in err
    assert not (tmp_path / "demo").exists()


def test_vowels_have_the_formants_of_their_middle():
    wave = make_vowels()
    assert wave.dtype == np.float32
    assert np.abs(wave).max() == pytest.approx(0.5)
    middle = wave[len(wave) // 2 - 4000 : len(wave) // 2 + 4000]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    frequencies = np.fft.rfftfreq(len(middle), 1 / 16_000)
    between, second = (
        spectrum[(frequencies > low) & (frequencies < high)].max()
        for low, high in ((900, 1300), (2100, 2500))
    )
    # An i has a gap between its first formant and its second one at 2.3 kHz.
    assert second > 3 * between


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("3", int, 3),
        ("3", float, 3.0),
        ("3", str, "3"),
        ("True", bool, True),
        ("false", bool, False),
        ("none", float | None, None),
        ("1.5", float | None, 1.5),
        ("none", str | None, None),
        ("x", int | str, "x"),
        ("a", Literal["a", 2], "a"),
        ("2", Literal["a", 2], 2),
        ("1,2", tuple[int, int], (1, 2)),
        ("1,2,3", tuple[float, ...], (1.0, 2.0, 3.0)),
    ],
)
def test_values_are_parsed_by_their_type(text, hint, value):
    parsed = parse_value(text, hint)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("x", int),
        ("1", bool),
        ("yes", bool),
        ("c", Literal["a", "b"]),
        ("x", float | None),
        ("1,2,3", tuple[int, int]),
        ("{}", dict[str, int]),
    ],
)
def test_values_that_do_not_fit_are_refused(text, hint):
    with pytest.raises(ValueError, match=r".+"):
        parse_value(text, hint)


@dataclass(frozen=True)
class Settings:
    rate: int = 1
    table: types.MappingProxyType | None = None


def test_settings_keep_an_equals_sign_in_the_value():
    @dataclass(frozen=True)
    class Named:
        name: str = ""

    assert parse_settings(Named(), ["name=a=b"]) == {"name": "a=b"}


def test_a_setting_that_has_no_spelling_is_refused():
    assert set(get_type_hints(Settings)) == {"rate", "table"}
    with pytest.raises(ConfigError, match="no value for table"):
        parse_settings(Settings(), ["table=x"])


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("voiceanon.cli.progress.LINE_SECONDS", 0.0)
    plan = types.SimpleNamespace(files=4, seconds=10.0)
    with RunProgress() as progress:
        progress.on_plan(plan)
        progress.on_result(ItemResult(key="a", status="skipped", source="a.wav", seconds=9.0))
        progress.on_result(ItemResult(key="b", status="done", source="b.wav", seconds=5.0))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("1/4 files, 0/10 s of audio, 0.0x real time")
    assert lines[1].startswith("2/4 files, 5/10 s of audio")
    assert lines[1].endswith("s left")
