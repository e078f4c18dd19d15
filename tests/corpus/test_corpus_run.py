"""A run over a folder: outputs, failures, reports, privacy of what is written."""

import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from marked_systems import BAD, Marked, MarkedConfig

from voiceanon import ConfigError
from voiceanon.audio import io
from voiceanon.corpus import anonymize_folder

TITLE = "Interview with Ann Example"


def test_a_folder_is_mirrored_and_reported(anon, tmp_path, corpus, contents, records):
    (corpus / "notes.md").write_text("notes")
    seen = []
    result = anonymize_folder(anon, corpus, tmp_path / "out", seed=7, on_result=seen.append)
    assert sorted(contents(tmp_path / "out")) == [
        "ann/a1.wav",
        "ann/a2.flac",
        "ben/b1.wav",
        "ben/deep/b2.ogg",
    ]
    assert [r.key for r in result.done] == ["ann/a1", "ann/a2", "ben/b1", "ben/deep/b2"]
    assert (result.failed, result.skipped, result.not_audio) == ((), (), 1)
    assert result.seconds == pytest.approx(2.0, abs=1e-3)
    assert result.speed == pytest.approx(result.seconds / result.elapsed)
    assert sorted(seen, key=lambda r: r.key) == list(result.done)
    lines = {line["key"]: line for line in records(tmp_path / "out")}
    assert lines["ann/a1"]["output"] == "ann/a1.wav"
    assert lines["ann/a1"]["seconds"] == pytest.approx(0.5)
    assert lines["ann/a1"]["report"]["system"] == "vpc2024-b2"
    assert lines["ann/a1"]["report"]["seed"] == 7


def test_a_file_in_a_corpus_is_what_anonymize_gives_for_it(anon, tmp_path, corpus):
    anonymize_folder(anon, corpus, tmp_path / "out", seed=7)
    wav, rate = io.read(corpus / "ben" / "b1.wav")
    expected = anon.anonymize(wav, rate, seed=7, key="ben/b1")
    result, _ = io.read(tmp_path / "out" / "ben" / "b1.wav")
    # One step of 16 bit.
    assert np.abs(result - expected).max() <= 2.0**-15


def test_options_reach_the_system(anon, tmp_path, write_audio):
    path = write_audio(tmp_path / "a.wav", channels=2)
    result = anonymize_folder(
        anon, path, tmp_path / "out", seed=1, loudness="keep", mix_channels=True, file_format="flac"
    )
    assert soundfile.info(tmp_path / "out" / "a.flac").channels == 1
    assert result.done[0].report["loudness"] == "keep"


def test_bad_files_are_listed_and_good_ones_done(anon, tmp_path, corpus, contents, records):
    whole = (corpus / "ben" / "b1.wav").read_bytes()
    (corpus / "truncated.wav").write_bytes(whole[: len(whole) // 2])
    (corpus / "text.wav").write_text("this is not audio")
    (corpus / "empty.wav").write_bytes(b"")
    (corpus / "phone.m4a").write_bytes(b"\0" * 100)
    result = anonymize_folder(anon, corpus, tmp_path / "out", seed=7)
    assert len(result.done) == len(contents(tmp_path / "out")) == 4
    reasons = {r.key: r.reason for r in result.failed}
    assert "truncated" in reasons["truncated"]
    assert "not readable as audio" in reasons["text"]
    assert "empty" in reasons["empty"]
    assert "convert the file" in reasons["phone"]
    lines = {line["key"]: line for line in records(tmp_path / "out")}
    assert {k: lines[k]["reason"] for k in reasons} == reasons
    assert all(lines[k]["output"] is None and lines[k]["report"] is None for k in reasons)


def test_a_file_whose_header_is_sound_and_whose_data_is_not_fails_alone(anon, tmp_path, corpus):
    path = corpus / "ann" / "a2.flac"
    path.write_bytes(path.read_bytes()[:-2000])
    result = anonymize_folder(anon, corpus, tmp_path / "out", seed=7)
    assert [r.key for r in result.failed] == ["ann/a2"]
    assert len(result.done) == 3
    assert not (tmp_path / "out" / "ann" / "a2.flac").exists()


def test_missing_files_of_a_list_fail(anon, tmp_path, corpus):
    result = anonymize_folder(
        anon, [corpus / "ann" / "a1.wav", corpus / "missing.wav"], tmp_path / "out", seed=1
    )
    assert len(result.done) == 1
    assert "there is no such file" in result.failed[0].reason


def test_one_bad_item_does_not_take_its_batch_along(tmp_path, write_audio):
    for index in range(5):
        first = BAD if index == 2 else None
        write_audio(tmp_path / "in" / f"{index}.wav", seed=index, first=first)
    result = anonymize_folder(Marked(), tmp_path / "in", tmp_path / "out", seed=1)
    assert [(r.key, r.reason) for r in result.failed] == [("2", "RuntimeError: the mark is bad")]
    assert len(result.done) == 4


def test_a_batch_that_does_not_fit_into_memory_is_done_in_parts(tmp_path, write_audio, contents):
    for index in range(6):
        write_audio(tmp_path / "in" / f"{index}.wav", seconds=0.3 + 0.01 * index, seed=index)
    for memory, name in ((float("inf"), "whole"), (0.8, "parts")):
        system = Marked(MarkedConfig(memory_seconds=memory))
        result = anonymize_folder(system, tmp_path / "in", tmp_path / name, seed=1)
        assert len(result.done) == 6
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")


def test_warnings_of_a_file_stand_in_its_record(anon, tmp_path, write_audio, records):
    write_audio(tmp_path / "in" / "loud.wav", seconds=0.3, seed=1)
    write_audio(tmp_path / "in" / "quiet.wav", seconds=0.3, seed=2)
    # Without a level step, a coefficient far from 1 raises the peak far above full scale.
    targets = {"loud": {"alpha": 0.5}, "quiet": {"alpha": 1.0}}
    result = anonymize_folder(
        anon, tmp_path / "in", tmp_path / "out", targets=targets, loudness="none"
    )
    notes = {r.key: r.warnings for r in result.done}
    assert "scaled by" in notes["loud"][0]
    assert notes["quiet"] == ()
    assert {r["key"]: tuple(r["warnings"]) for r in records(tmp_path / "out")} == notes


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg"])
def test_metadata_are_not_carried_over(anon, tmp_path, write_audio, ending):
    plain = write_audio(tmp_path / "plain.wav")
    data, rate = soundfile.read(plain)
    path = tmp_path / f"tagged.{ending}"
    with soundfile.SoundFile(path, "w", rate, 1) as file:
        file.title = TITLE
        file.artist = TITLE
        file.comment = TITLE
        file.write(data)
    assert TITLE.encode() in path.read_bytes()
    anonymize_folder(anon, path, tmp_path / "out", seed=1)
    output = tmp_path / "out" / path.name
    assert TITLE.encode() not in output.read_bytes()
    with soundfile.SoundFile(output) as file:
        assert set(file.copy_metadata()) <= {"software"}


def test_targets_are_used_and_misspelt_keys_refused(anon, tmp_path, corpus):
    targets = {"ann/a1": {"alpha": 0.75}}
    result = anonymize_folder(anon, corpus, tmp_path / "out", seed=1, targets=targets)
    assert result.done[0].report["target"] == {"alpha": 0.75}
    assert result.done[1].report["target"] != {"alpha": 0.75}
    with pytest.raises(ConfigError, match=r"'ann/a1.wav'.*first key here is 'ann/a1'"):
        anonymize_folder(anon, corpus, tmp_path / "new", targets={"ann/a1.wav": {"alpha": 0.7}})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers: got 0"),
        ({"devices": []}, r"devices: got \[\]"),
        ({"devices": "cpu"}, "devices: got 'cpu'"),
        ({"devices": ["cpu", "tpu"]}, "device: 'tpu'"),
        ({"devices": ["cpu", "cpu"], "workers": 3}, "3 with 2 devices"),
        ({"level": "session"}, "level: 'session'"),
        ({"loudness": "loud"}, "loudness: 'loud'"),
        ({"seed": "secret"}, "seed: expected"),
        ({"file_format": "mp3"}, "file_format: got 'mp3'"),
    ],
)
def test_wrong_options_raise_before_anything_is_written(anon, tmp_path, corpus, options, message):
    with pytest.raises(ConfigError, match=message):
        anonymize_folder(anon, corpus, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_the_output_folder_may_not_be_a_file(anon, tmp_path, corpus):
    (tmp_path / "out").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        anonymize_folder(anon, corpus, tmp_path / "out")


def test_the_secret_is_nowhere_in_the_output(anon, tmp_path, corpus):
    secret = b"correct horse battery staple"
    result = anonymize_folder(anon, corpus, tmp_path / "out", seed=secret)
    assert {r.report["seed"] for r in result.done} == {"secret"}
    text = (tmp_path / "out" / "report.jsonl").read_text()
    for spelling in (secret.decode(), secret.hex(), repr(list(secret))[1:20]):
        assert spelling not in text


def test_nothing_but_outputs_and_the_report_is_left(anon, tmp_path, corpus):
    anonymize_folder(anon, corpus, tmp_path / "out", seed=1)
    names = {p.name for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert names == {"a1.wav", "a2.flac", "b1.wav", "b2.ogg", "report.jsonl"}


def test_an_interrupt_is_not_taken_for_a_bad_file(anon, tmp_path, corpus):
    def interrupt(result):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        anonymize_folder(anon, corpus, tmp_path / "out", seed=1, on_result=interrupt)
    result = anonymize_folder(anon, corpus, tmp_path / "out", seed=1)
    assert not result.failed
    assert len(result.done) + len(result.skipped) == 4


def test_the_plan_tells_totals_before_the_first_result(anon, tmp_path, corpus):
    events = []
    anonymize_folder(
        anon,
        corpus,
        tmp_path / "out",
        on_plan=lambda plan: events.append((plan.files, round(plan.seconds, 3))),
        on_result=lambda result: events.append(result.key),
    )
    assert events[0] == (4, 2.0)
    assert len(events) == 5


def test_no_path_is_handed_to_a_shell():
    package = Path(io.__file__).parents[1]
    for path in [*package.glob("corpus/*.py"), *package.glob("cli/*.py")]:
        assert not re.search(r"subprocess|os\.system|popen", path.read_text()), path


class Choosy(Marked):
    """Has a voice for some speakers only."""

    known: tuple[str, ...] = ()

    def draw_target(self, generator, speaker):
        if speaker not in self.known:
            raise ConfigError(f"sex: that of {speaker!r} is not known.")
        return {}


def test_no_voice_for_anybody_is_one_error_before_anything_is_written(tmp_path, corpus):
    anon = Choosy()
    with pytest.raises(ConfigError, match="sex"):
        anonymize_folder(anon, corpus, tmp_path / "out", seed=7)
    assert not (tmp_path / "out").exists()


def test_no_voice_for_some_fails_for_these_alone(tmp_path, corpus):
    anon = Choosy()
    anon.known = ("ann",)
    result = anonymize_folder(anon, corpus, tmp_path / "out", seed=7)
    assert [r.key for r in result.done] == ["ann/a1", "ann/a2"]
    assert [r.key for r in result.failed] == ["ben/b1", "ben/deep/b2"]


def test_voices_that_are_given_need_no_draw(tmp_path, corpus):
    targets = {"ann/a1": {}, "ann/a2": {}, "ben/b1": {}, "ben/deep/b2": {}}
    result = anonymize_folder(Choosy(), corpus, tmp_path / "out", seed=7, targets=targets)
    assert len(result.done) == 4
