"""Worker processes that die or do not get ready."""

import pytest
import torch
from marked_systems import BAD, DEADLY, DEADLY_IN_COMPANY, Marked, MarkedConfig

from voiceanon import ConfigError
from voiceanon.corpus import anonymize_folder


@pytest.fixture
def marked_corpus(tmp_path, write_audio):
    """Six files; marks by number."""

    def make(marks):
        for index in range(6):
            write_audio(
                tmp_path / "in" / f"{index}.wav",
                seconds=0.3 + 0.01 * index,
                seed=index,
                first=marks.get(index),
            )
        return tmp_path / "in"

    return make


def test_a_file_that_ends_its_process_fails_alone(marked_corpus, tmp_path, contents):
    folder = marked_corpus({2: DEADLY, 4: BAD})
    seen = []
    result = anonymize_folder(
        Marked(), folder, tmp_path / "out", seed=1, workers=2, on_result=seen.append
    )
    reasons = {r.key: r.reason for r in result.failed}
    assert reasons.keys() == {"2", "4"}
    assert "process ended" in reasons["2"]
    assert reasons["4"] == "RuntimeError: the mark is bad"
    assert sorted(contents(tmp_path / "out")) == ["0.wav", "1.wav", "3.wav", "5.wav"]
    assert len(seen) == 6


def test_files_of_a_dead_process_are_done_again_one_at_a_time(marked_corpus, tmp_path, contents):
    folder = marked_corpus({3: DEADLY_IN_COMPANY})
    result = anonymize_folder(Marked(), folder, tmp_path / "out", seed=1, devices=["cpu"])
    assert not result.failed
    assert len(contents(tmp_path / "out")) == 6


def test_a_system_that_does_not_get_ready_raises_its_own_error(marked_corpus, tmp_path):
    system = Marked()
    object.__setattr__(system, "config", MarkedConfig(ready=False))
    with pytest.raises(RuntimeError, match="not ready"):
        anonymize_folder(system, marked_corpus({}), tmp_path / "out", seed=1, workers=2)


def test_this_process_keeps_its_threads_and_its_device(anon, marked_corpus, tmp_path):
    threads, device = torch.get_num_threads(), anon.device
    anonymize_folder(anon, marked_corpus({}), tmp_path / "out", seed=1, devices=["cpu", "cpu"])
    assert (torch.get_num_threads(), anon.device) == (threads, device)


def test_a_system_that_cannot_be_sent_says_so(marked_corpus, tmp_path):
    system = Marked()
    system.helper = lambda: None
    with pytest.raises(ConfigError, match="cannot be sent to a worker process"):
        anonymize_folder(system, marked_corpus({}), tmp_path / "out", seed=1, workers=2)
