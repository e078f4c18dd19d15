import importlib
import subprocess
import sys
import textwrap

import pytest
import torch

from voiceanon import (
    Anonymizer,
    ConfigError,
    MissingDependencyError,
    SystemInfo,
    UnknownSystemError,
    list_systems,
    load,
    register,
    registry,
    system_info,
)
from voiceanon.systems.mcadams import McAdams


@pytest.fixture
def clean_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def test_aliases_lead_to_one_system():
    assert "vpc2024-b2" in list_systems()
    assert load("b2").info.id == load("VPC2024-B2").info.id == "vpc2024-b2"
    assert system_info("b2") is system_info("mcadams")


@pytest.mark.parametrize(
    ("name", "hint"), [("b22", "'b2'"), ("mcadam", "'mcadams'"), ("zzzz", "Known are"), ("", "b2")]
)
def test_unknown_names_get_the_list_and_the_nearest(name, hint):
    with pytest.raises(UnknownSystemError, match=hint):
        load(name)


def test_unknown_options_are_refused_with_the_list():
    with pytest.raises(ConfigError, match=r"'alpha'.*alpha_min"):
        load("b2", alpha=0.7)


def test_listing_imports_no_system():
    code = (
        "import sys, voiceanon; voiceanon.list_systems(); voiceanon.system_info('b2');"
        "assert not [m for m in sys.modules if m.startswith('voiceanon.systems.')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_variant_is_a_configuration(clean_registry):
    register(McAdams, SystemInfo(id="narrow", summary="", sample_rate=16000), alpha_max=0.6)
    assert load("narrow").config.alpha_max == 0.6
    assert load("narrow", alpha_max=0.8).config.alpha_max == 0.8
    assert registry.system_config("narrow").alpha_max == 0.6
    assert "narrow" in list_systems()


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (SystemInfo(id="b2", summary="", sample_rate=16000), "taken"),
        (SystemInfo(id="new", aliases=("mcadams",), summary="", sample_rate=16000), "taken"),
        (SystemInfo(id="New", summary="", sample_rate=16000), "lower case"),
    ],
)
def test_names_are_unique_and_lower_case(clean_registry, info, message):
    with pytest.raises(ConfigError, match=message):
        register(McAdams, info)


def test_unknown_settings_of_a_variant_are_refused(clean_registry):
    with pytest.raises(ConfigError, match="alpha_mix"):
        register(McAdams, SystemInfo(id="new", summary="", sample_rate=16000), alpha_mix=1)


def test_entry_points_of_other_packages(tmp_path, monkeypatch, clean_registry):
    (tmp_path / "otherpkg.py").write_text(
        textwrap.dedent(
            """
            from dataclasses import dataclass
            from voiceanon import Anonymizer, SystemInfo

            @dataclass(frozen=True)
            class Config:
                gain: float = 0.5

            class Half(Anonymizer):
                Config = Config
                info = SystemInfo(id="half", summary="halves", sample_rate=16000)

                def draw_target(self, generator, speaker):
                    return {}

                def convert(self, batch, lengths, targets, generators):
                    return batch * self.config.gain, lengths
            """
        )
    )
    folder = tmp_path / "otherpkg-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: otherpkg\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[voiceanon.systems]\nhalf = otherpkg:Half\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    registry._offered.cache_clear()
    try:
        assert "half" in list_systems()
        assert "otherpkg" not in sys.modules
        wav = torch.rand(100)
        result = load("half", gain=0.25).anonymize(wav)
        assert torch.equal(result, wav / 4)
    finally:
        registry._offered.cache_clear()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(registry._BUILT_IN, "vpc2024-b2", ("voiceanon.systems.absent:X", {}))
    registry._built_in.cache_clear()
    try:
        with pytest.raises(MissingDependencyError, match="absent"):
            load("b2")
    finally:
        monkeypatch.undo()
        registry._built_in.cache_clear()


def test_the_interface_is_abstract():
    with pytest.raises(TypeError, match="convert"):
        Anonymizer()
