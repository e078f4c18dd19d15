"""P25: what decides the voice, and what does not."""

import dataclasses
import hashlib
import json
import os

import numpy as np
import pytest
import signals
import torch

from properties import systems
from properties.helpers import assert_close, assert_follows, run_python
from voiceanon import ConfigError, UnknownSystemError, load, system_info

KEYS = [f"utt-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def wav():
    return signals.speech(0.4)


def voice(system, wav=signals.silence(0.2), **options):  # noqa: B008
    """The target that a recording gets, as JSON; for silence no model needs to run."""
    report = system.anonymize(wav, 16_000, return_report=True, **options)[1]
    return json.dumps(report.to_dict()["target"], sort_keys=True)


def test_without_a_seed_every_call_draws_anew(system, wav):
    results = [system.anonymize(wav, 16_000, return_report=True) for _ in range(6)]
    assert len({json.dumps(report.target) for _, report in results}) > 1
    assert any(not torch.equal(result, results[0][0]) for result, _ in results)


def test_without_a_seed_every_recording_of_a_batch_draws_anew(system, wav):
    wavs = [wav, *[signals.silence(0.2)] * 5]
    for options in ({}, {"keys": ["same"] * 6}):
        _, reports = system.anonymize_batch(wavs, 16_000, return_reports=True, **options)
        assert len({json.dumps(report.target) for report in reports}) > 1
        assert {report.seed for report in reports} == {"drawn"}


@pytest.mark.parametrize("seed", [0, 7, -3, 2**80, b"secret", b"\x00", np.int64(7)])
def test_a_seed_gives_the_same_result_again(system, wav, seed):
    first = system.anonymize(wav, 16_000, seed=seed, key="a")
    assert torch.equal(system.anonymize(wav, 16_000, seed=seed, key="a"), first)
    assert voice(system, seed=seed, key="a") == voice(system, seed=seed, key="a")


def test_a_seed_gives_the_same_result_with_another_build(system, wav):
    again = systems.build(system.info.id)
    expected = system.anonymize(wav, 16_000, seed=7, key="a")
    assert torch.equal(again.anonymize(wav, 16_000, seed=7, key="a"), expected)


def test_a_seed_gives_the_same_result_in_another_process(system, wav):
    code = """
import json, sys, torch, signals
from properties import systems
torch.set_num_threads(2)
torch.manual_seed(5)
systems.register_own()
system = systems.build(sys.argv[1])
found = []
for seed in (7, b"secret"):
    result, report = system.anonymize(
        signals.speech(0.4), 16000, seed=seed, key="utt", return_report=True)
    found.append([report.target, result.tolist()])
print(json.dumps(found))
"""
    (found,) = run_python(code, system.info.id, PYTHONHASHSEED="11")
    for seed, (target, result) in zip((7, b"secret"), found, strict=True):
        expected, report = system.anonymize(wav, 16_000, seed=seed, key="utt", return_report=True)
        assert target == json.loads(json.dumps(report.target))
        assert_close(torch.tensor(result), expected, 1e-5)


def test_other_seeds_give_other_voices(system):
    assert len({voice(system, seed=seed) for seed in range(12)}) > 1
    assert len({voice(system, seed=bytes([seed])) for seed in range(12)}) > 1


def test_other_keys_give_other_voices(system):
    assert len({voice(system, seed=1, key=key) for key in KEYS}) > 1


def test_the_audio_does_not_decide_the_voice(system, wav):
    if system.info.id in systems.BY_SOURCE:
        pytest.skip(systems.BY_SOURCE[system.info.id])
    expected = voice(system, wav, seed=1, key="a")
    assert voice(system, signals.noise(0.8), seed=1, key="a") == expected
    assert voice(system, signals.silence(0.8), seed=1, key="a") == expected
    assert voice(system, torch.stack([wav, wav]), seed=1, key="a", mix_channels=True) == expected


def test_neither_order_nor_neighbours_nor_batch_size_matter(system, monkeypatch):
    wavs = {key: signals.speech(0.2 + 0.05 * number) for number, key in enumerate(KEYS[:6])}
    alone = {key: system.anonymize(wav, 16_000, seed=1, key=key) for key, wav in wavs.items()}
    voices = {key: voice(system, wav, seed=1, key=key) for key, wav in wavs.items()}
    # 0 s is one at a time.
    for keys, batch_seconds in [
        (KEYS[:6], 120.0),
        (KEYS[5::-1], 120.0),
        (KEYS[5::-1], 0.9),
        (KEYS[2:5], 0.9),
        (KEYS[:6], 0.0),
    ]:
        facts = dataclasses.replace(system.info, batch_seconds=batch_seconds)
        monkeypatch.setattr(system, "info", facts)
        results, reports = system.anonymize_batch(
            [wavs[key] for key in keys], 16_000, seed=1, keys=keys, return_reports=True
        )
        for key, result, report in zip(keys, results, reports, strict=True):
            assert report.key == key
            assert json.dumps(report.target, sort_keys=True) == voices[key]
            assert_follows(system, result, alone[key])


def test_every_name_of_a_system_gives_the_same(system, wav):
    expected = system.anonymize(wav, 16_000, seed=1, key="a")
    for name in (*system.info.aliases, system.info.id.upper()):
        other = systems.build(name)
        assert other.info.id == system.info.id
        assert torch.equal(other.anonymize(wav, 16_000, seed=1, key="a"), expected)


def test_systems_draw_apart(wav):
    """A voice that is known for one system says nothing about the draw of another."""
    draws = []
    for name in ("one", "two"):
        passing = systems.PassThrough(id=name)
        report = passing.anonymize(wav, seed=1, key="a", return_report=True)[1]
        draws += [report.target["number"], passing.draws[0][0]]
    assert len(set(draws)) == 4


def test_a_seed_without_keys_gives_one_voice_and_a_warning(passing, wav):
    with pytest.warns(UserWarning, match="same voice.*keys"):
        _, reports = passing.anonymize_batch([wav] * 3, 16_000, seed=1, return_reports=True)
    assert all(report.target == reports[0].target for report in reports)
    assert json.dumps(reports[0].target, sort_keys=True) == voice(passing, wav, seed=1)


def test_at_speaker_level_the_speaker_decides(system):
    options = {"seed": 1, "level": "speaker"}
    speakers = [f"speaker {number}" for number in range(12)]
    voices = {name: voice(system, speaker=name, key="a", **options) for name in speakers}
    assert len(set(voices.values())) > 1
    for key in KEYS[:3]:
        for name in speakers[:3]:
            assert voice(system, speaker=name, key=key, **options) == voices[name]


def test_at_speaker_level_one_call_without_a_seed_gives_each_speaker_one_voice(system):
    names = [f"speaker {number}" for number in range(8)]
    calls = []
    for _ in range(2):
        _, reports = system.anonymize_batch(
            [signals.silence(0.2)] * 16,
            16_000,
            speakers=names * 2,
            level="speaker",
            return_reports=True,
        )
        voices = [json.dumps(report.target) for report in reports]
        assert voices[:8] == voices[8:]
        assert len(set(voices)) > 1
        assert {(report.level, report.seed) for report in reports} == {("speaker", "drawn")}
        calls.append(voices)
    assert calls[0] != calls[1]


def test_at_utterance_level_the_speaker_makes_no_difference_to_the_draw(wav):
    passing = systems.PassThrough()
    numbers = [
        passing.anonymize(wav, seed=1, key="a", speaker=name, return_report=True)[1].target
        for name in (None, "x", "y")
    ]
    assert len({target["number"] for target in numbers}) == 1
    assert [target["speaker"] for target in numbers] == [None, "x", "y"]


def test_speaker_level_needs_a_speaker(passing, wav):
    with pytest.raises(ConfigError, match=r"speaker: .*name of the speaker"):
        passing.anonymize(wav, 16_000, level="speaker")
    with pytest.raises(ConfigError, match="item 1: speaker"):
        passing.anonymize_batch([wav, wav], 16_000, level="speaker", speakers=["a", None])


def test_a_target_of_a_report_gives_the_same_result(system, wav):
    result, report = system.anonymize(wav, 16_000, seed=1, key="a", return_report=True)
    target = json.loads(json.dumps(report.to_dict()))["target"]
    again = system.anonymize(wav, 16_000, seed=1, key="a", target=target)
    assert torch.equal(again, result)
    assert voice(system, wav, target=target) == json.dumps(target, sort_keys=True)


@pytest.mark.parametrize("target", [3, "voice", ["a"], {1, 2}])
def test_what_is_no_target_raises(passing, wav, target):
    with pytest.raises(ConfigError, match="target: "):
        passing.anonymize(wav, 16_000, target=target)


SECRET = hashlib.sha256(b"a secret that must not leak").digest()


def test_a_secret_is_not_in_the_report(passing, wav):
    _, report = passing.anonymize(wav, 16_000, seed=SECRET, key="a", return_report=True)
    assert report.seed == "secret"
    text = json.dumps(report.to_dict()) + repr(report)
    for spelling in (SECRET.hex(), repr(SECRET), str(list(SECRET)), str(int.from_bytes(SECRET))):
        assert spelling[2:-2] not in text


def test_an_integer_is_in_the_report(system, wav):
    report = system.anonymize(wav, 16_000, seed=123_456, key="a", return_report=True)[1]
    assert (report.seed, report.key, report.level) == (123_456, "a", "utterance")
    assert report.system == system.info.id
    json.dumps(report.to_dict())


def test_an_integer_and_its_bytes_are_different_secrets(wav):
    passing = systems.PassThrough()
    targets = [
        passing.anonymize(wav, seed=seed, return_report=True)[1].target["number"]
        for seed in (7, b"7", -7, b"int:7")
    ]
    assert len(set(targets)) == 4


@pytest.mark.parametrize("seed", [1.5, True, "secret", b"", [1], bytearray(b"a")])
def test_other_seeds_raise(passing, wav, seed):
    with pytest.raises(ConfigError, match="seed: "):
        passing.anonymize(wav, 16_000, seed=seed)


def test_keys_may_be_any_text(passing, wav):
    names = ["", "ä/ö.wav", "\u0000", "x" * 5_000, os.fsdecode(b"not-utf8-\xe9"), "\U0001f5e3"]
    voices = [voice(passing, wav, seed=1, key=name) for name in names]
    assert voices == [voice(passing, wav, seed=1, key=name) for name in names]
    assert len(set(voices)) == len(names)


@pytest.mark.parametrize("name", ["key", "speaker"])
@pytest.mark.parametrize("value", [5, b"bytes", 1.5])
def test_names_that_are_no_text_raise(passing, wav, name, value):
    with pytest.raises(ConfigError, match=f"{name}s?: "):
        passing.anonymize(wav, 16_000, seed=1, level="speaker", **{"speaker": "a", name: value})


@pytest.mark.parametrize("name", ["keys", "speakers", "targets"])
def test_one_name_per_recording(passing, wav, name):
    for values in (["a"], ["a", "b", "c"], "ab"):
        with pytest.raises(ConfigError, match=f"{name}: .*2 recordings"):
            passing.anonymize_batch([wav, wav], 16_000, **{name: values})


@pytest.mark.parametrize("level", ["Utterance", "", None, 3])
def test_other_levels_raise(passing, wav, level):
    with pytest.raises(ConfigError, match=r"level: .*utterance, speaker"):
        passing.anonymize(wav, 16_000, level=level)


def test_unknown_names_raise_with_the_nearest(system):
    wrong = system.info.id[:-1] + "x"
    with pytest.raises(UnknownSystemError, match="did you mean"):
        load(wrong)
    with pytest.raises(UnknownSystemError, match=system.info.id):
        system_info(wrong)
    with pytest.raises(ConfigError, match="unknown option 'no_such'"):
        systems.build(system.info.id, no_such=1)
