"""Same seed, same key, same bytes: whatever else is there, and wherever it runs."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from marked_systems import Marked

from voiceanon import load
from voiceanon.corpus import anonymize_folder

SOURCE = Path(__file__).parents[2] / "src"


def run(anon, src, dst, **options):
    result = anonymize_folder(anon, src, dst, **{"seed": 7, **options})
    assert not result.failed
    return result


def alphas(result):
    return {r.key: r.report["target"]["alpha"] for r in result.done}


def test_two_workers_give_the_same_bytes(anon, tmp_path, corpus, contents):
    run(anon, corpus, tmp_path / "one")
    system = load("b2", device="cpu")
    system.info = replace(system.info, batch_seconds=0.6)
    plans = []
    run(system, corpus, tmp_path / "two", workers=2, on_plan=plans.append)
    assert len(plans[0].batches) > 2
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_devices_give_the_same_bytes(anon, tmp_path, corpus, contents):
    run(anon, corpus, tmp_path / "one")
    run(anon, corpus, tmp_path / "two", devices=["cpu", "cpu"])
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_another_process_gives_the_same_bytes(anon, tmp_path, corpus, contents):
    run(anon, corpus, tmp_path / "here")
    subprocess.run(
        [
            *(sys.executable, "-m", "voiceanon.cli", "anonymize", corpus, tmp_path / "there"),
            *("--seed", "7", "--device", "cpu"),
        ],
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_order_and_company_change_nothing(anon, tmp_path, corpus, contents, monkeypatch):
    monkeypatch.chdir(corpus)
    paths = ["ann/a1.wav", "ann/a2.flac", "ben/b1.wav", "ben/deep/b2.ogg"]
    run(anon, corpus, tmp_path / "folder")
    run(anon, paths, tmp_path / "list")
    run(anon, paths[::-1], tmp_path / "reversed")
    run(anon, paths[1:3], tmp_path / "some")
    whole = contents(tmp_path / "folder")
    assert contents(tmp_path / "list") == contents(tmp_path / "reversed") == whole
    assert contents(tmp_path / "some") == {path: whole[path] for path in paths[1:3]}


def test_a_resumed_run_ends_as_an_uninterrupted_one(anon, tmp_path, corpus, contents):
    run(anon, corpus, tmp_path / "whole")
    run(anon, corpus, tmp_path / "resumed")
    (tmp_path / "resumed" / "ann" / "a1.wav").unlink()
    (tmp_path / "resumed" / "ben" / "b1.wav").unlink()
    assert len(run(anon, corpus, tmp_path / "resumed").done) == 2
    assert contents(tmp_path / "whole") == contents(tmp_path / "resumed")


def test_batches_depend_on_durations_and_keys_alone(anon, tmp_path, corpus, write_audio):
    for index in range(8):
        write_audio(corpus / f"same{index}.wav", seconds=0.3, seed=index)
    paths = sorted(corpus.rglob("*.*"))
    plans = []
    for number, order in enumerate((paths, paths[::-1])):
        anonymize_folder(anon, order, tmp_path / str(number), on_plan=plans.append)
    first, second = ([[job.key for job in batch] for batch in plan.batches] for plan in plans)
    assert first == second


def test_batches_are_capped_by_padded_seconds_of_all_channels(tmp_path, write_audio):
    for index in range(6):
        write_audio(tmp_path / "in" / f"mono{index}.wav", seconds=0.9)
        write_audio(tmp_path / "in" / f"stereo{index}.wav", seconds=0.9, channels=2)
    plans = []
    system = Marked()
    anonymize_folder(system, tmp_path / "in", tmp_path / "out", seed=1, on_plan=plans.append)
    sizes = []
    for batch in plans[0].batches:
        rows = sum(job.rows for job in batch)
        sizes.append(rows)
        assert rows * max(job.seconds for job in batch) <= system.info.batch_seconds
    assert max(sizes) == 4


def test_without_a_seed_every_run_and_every_file_draws(anon, tmp_path, corpus):
    first = run(anon, corpus, tmp_path / "first", seed=None)
    second = run(anon, corpus, tmp_path / "second", seed=None)
    assert len({*alphas(first).values(), *alphas(second).values()}) == 8
    assert {r.report["seed"] for r in first.done} == {"drawn"}


def test_speaker_level_gives_each_folder_one_voice(anon, tmp_path, corpus):
    voices = alphas(run(anon, corpus, tmp_path / "out", level="speaker"))
    assert voices["ann/a1"] == voices["ann/a2"]
    assert voices["ben/b1"] == voices["ben/deep/b2"]
    assert voices["ann/a1"] != voices["ben/b1"]


def test_speakers_of_the_caller_come_first(anon, tmp_path, corpus):
    speakers = {"ann/a1": "x", "ann/a2": "y", "ben/b1": "x", "ben/deep/b2": "y", "more": "z"}
    result = run(anon, corpus, tmp_path / "out", level="speaker", speakers=speakers)
    voices = alphas(result)
    assert voices["ann/a1"] == voices["ben/b1"] != voices["ann/a2"]
    assert result.done[0].report["speaker"] == "x"


def test_an_utterance_without_a_speaker_fails(anon, tmp_path, corpus, write_audio):
    write_audio(corpus / "alone.wav")
    result = anonymize_folder(anon, corpus, tmp_path / "out", seed=1, level="speaker")
    assert [r.key for r in result.failed] == ["alone"]
    assert "needs a speaker" in result.failed[0].reason
    assert len(result.done) == 4


@pytest.mark.parametrize("workers", [1, 2])
def test_a_speaker_has_one_voice_in_a_run_without_a_seed(anon, tmp_path, corpus, workers):
    options = {"seed": None, "level": "speaker", "workers": workers}
    first = run(anon, corpus, tmp_path / "out", **options)
    again = run(anon, corpus, tmp_path / "out", **options)
    for result in (first, again):
        voices = alphas(result)
        assert voices["ann/a1"] == voices["ann/a2"] != voices["ben/b1"] == voices["ben/deep/b2"]
        assert {r.report["seed"] for r in result.done} == {"drawn"}
    # Another run draws another voice, so nothing of an earlier one may be kept.
    assert len(again.done) == 4
    assert alphas(first)["ann/a1"] != alphas(again)["ann/a1"]
