"""A run goes on where an earlier one stopped, and redoes what no longer fits."""

import json
import os

import pytest

from voiceanon import ConfigError, load
from voiceanon.corpus import anonymize_folder

ALL = ["ann/a1", "ann/a2", "ben/b1", "ben/deep/b2"]


@pytest.fixture
def run(anon, tmp_path, corpus):
    def start(system=anon, **options):
        result = anonymize_folder(system, corpus, tmp_path / "out", **{"seed": 7, **options})
        return [r.key for r in result.done]

    return start


@pytest.fixture
def report(tmp_path):
    return tmp_path / "out" / "report.jsonl"


def test_nothing_is_done_twice(run, report):
    assert run() == ALL
    lines = report.read_text()
    assert run() == []
    assert report.read_text() == lines


def test_skipped_results_are_what_the_earlier_run_said(anon, tmp_path, corpus):
    first = anonymize_folder(anon, corpus, tmp_path / "out", seed=7)
    second = anonymize_folder(anon, corpus, tmp_path / "out", seed=7)
    assert json.dumps([r.report for r in second.skipped]) == json.dumps(
        [r.report for r in first.done]
    )
    assert {r.status for r in second.skipped} == {"skipped"}
    assert second.seconds == 0


def test_a_new_file_is_done_alone(run, corpus, write_audio):
    run()
    write_audio(corpus / "new.wav")
    assert run() == ["new"]


def test_a_changed_source_is_redone(run, corpus, write_audio):
    run()
    write_audio(corpus / "ann" / "a1.wav", seconds=0.2)
    assert run() == ["ann/a1"]
    stat = (corpus / "ben" / "b1.wav").stat()
    os.utime(corpus / "ben" / "b1.wav", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert run() == ["ben/b1"]


def test_a_missing_or_cut_output_is_redone(run, tmp_path):
    run()
    (tmp_path / "out" / "ann" / "a1.wav").unlink()
    path = tmp_path / "out" / "ben" / "b1.wav"
    path.write_bytes(path.read_bytes()[:-10])
    assert run() == ["ann/a1", "ben/b1"]


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 8},
        {"seed": b"7"},
        {"seed": None},
        {"loudness": "keep"},
        {"mix_channels": True},
        {"level": "speaker"},
        {"file_format": "wav"},
        {"resume": False},
    ],
)
def test_other_settings_redo_everything(run, options):
    run()
    assert run(**options) == ALL


def test_another_configuration_precision_or_weight_file_redoes_everything(run):
    run()
    assert run(load("b2", device="cpu", edges="reference")) == ALL
    assert run(load("b2", device="cpu", precision="bfloat16")) == ALL
    system = load("b2", device="cpu", precision="bfloat16")
    system.weight_digests["weights.pt"] = "another digest"
    assert run(system) == ALL


def test_a_target_or_speaker_redoes_only_its_own_files(run):
    run()
    assert run(targets={"ann/a1": {"alpha": 0.75}}) == ["ann/a1"]
    speakers = dict.fromkeys(ALL, "x")
    assert run(level="speaker", speakers=speakers) == ALL
    assert run(level="speaker", speakers={**speakers, "ben/b1": "y"}) == ["ben/b1"]


def test_workers_and_devices_redo_nothing(run):
    run()
    assert run(workers=2) == run(devices=["cpu"]) == []


def test_files_with_fresh_voices_are_kept(run):
    run(seed=None)
    assert run(seed=None) == []


def test_a_failed_file_is_tried_again(run, corpus, write_audio):
    (corpus / "ann" / "a1.wav").write_bytes(b"")
    assert run() == ALL[1:]
    assert run() == []
    write_audio(corpus / "ann" / "a1.wav")
    assert run() == ["ann/a1"]


def test_a_half_written_last_line_is_tolerated(run, report):
    run()
    lines = report.read_bytes().splitlines(keepends=True)
    report.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    lost = json.loads(lines[-1])["key"]
    assert run() == [lost]
    assert len([json.loads(line) for line in report.read_text().splitlines()]) == 4
    assert run() == []


@pytest.mark.parametrize("line", ["this is no json", "[]", '{"key": "x"}', '{"other": 1}'])
def test_another_damaged_line_is_refused(run, report, line):
    run()
    report.write_text(f"{line}\n" + report.read_text())
    with pytest.raises(ConfigError, match=r"report\.jsonl, line 1: .*resume=False"):
        run()
    assert run(resume=False) == ALL


def test_a_failed_file_leaves_no_older_output(run, tmp_path, corpus):
    run()
    (corpus / "ann" / "a1.wav").write_text("no longer audio")
    run()
    assert not (tmp_path / "out" / "ann" / "a1.wav").exists()
    assert (tmp_path / "out" / "ben" / "b1.wav").exists()


def test_a_failed_file_leaves_no_older_output_of_another_name(run, tmp_path, corpus):
    run()
    (corpus / "ann" / "a1.wav").write_text("no longer audio")
    run(file_format="flac")
    assert not (tmp_path / "out" / "ann" / "a1.wav").exists()
    assert not (tmp_path / "out" / "ann" / "a1.flac").exists()


def test_another_format_leaves_no_second_output(run, tmp_path, contents):
    run()
    run(file_format="ogg")
    assert sorted(contents(tmp_path / "out")) == [f"{key}.ogg" for key in ALL]


def test_an_output_that_now_belongs_to_another_file_stays(anon, tmp_path, write_audio, contents):
    write_audio(tmp_path / "in" / "a.mp3")
    anonymize_folder(anon, tmp_path / "in", tmp_path / "out", seed=1)
    assert sorted(contents(tmp_path / "out")) == ["a.flac"]
    (tmp_path / "in" / "a.mp3").rename(tmp_path / "in" / "b.mp3")
    write_audio(tmp_path / "in" / "a.flac")
    anonymize_folder(anon, tmp_path / "in", tmp_path / "out", seed=1)
    assert sorted(contents(tmp_path / "out")) == ["a.flac", "b.flac"]


def test_a_report_cannot_name_files_outside_its_folder(run, tmp_path, corpus, report):
    run()
    victim = tmp_path / "victim.wav"
    victim.write_text("precious")
    records = [json.loads(line) for line in report.read_text().splitlines()]
    for record, output in zip(records, ["../victim.wav", str(victim)] * 2, strict=True):
        record["output"] = output
    report.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run() == ALL
    assert victim.read_text() == "precious"
