"""P26: a batch is a faster loop."""

import random

import numpy as np
import pytest
import signals
import torch

from properties import systems
from properties.helpers import assert_follows, chunk_limit
from voiceanon import AudioError

SECONDS = (0.3, 12.0, 0.31, 4.7, 1.9, 0.8)
"""The shortest stands next to the longest."""


@pytest.fixture(scope="module")
def wavs():
    made = [signals.speech(seconds, seed=number) for number, seconds in enumerate(SECONDS)]
    made[2] = torch.stack([made[2], signals.noise(SECONDS[2])])
    made[4] = torch.stack([made[4], 0.01 * signals.speech(SECONDS[4], seed=9)])
    return made


@pytest.fixture(scope="module")
def keys():
    return [f"utt-{number}" for number in range(len(SECONDS))]


def test_a_batch_gives_what_single_calls_give(system, wavs, keys):
    options = {"sample_rate": 16_000, "seed": 1}
    alone = [
        system.anonymize(wav, key=key, return_report=True, **options)
        for wav, key in zip(wavs, keys, strict=True)
    ]
    order = list(range(len(wavs)))
    for shuffle in range(2):
        results, reports = system.anonymize_batch(
            [wavs[i] for i in order], keys=[keys[i] for i in order], return_reports=True, **options
        )
        for i, result, report in zip(order, results, reports, strict=True):
            expected, expected_report = alone[i]
            assert_follows(system, result, expected)
            assert report.target == expected_report.target
            assert report.chunks == expected_report.chunks
            assert abs(report.gain_db - expected_report.gain_db) < 0.01
        random.Random(shuffle).shuffle(order)


def test_equal_recordings_in_a_batch_stay_equal(system):
    wav = signals.speech(0.5)
    results = system.anonymize_batch([wav] * 3, 16_000, seed=1, keys=["same"] * 3)
    for result in results[1:]:
        assert_follows(system, result, results[0])


def test_long_recordings_in_a_batch_are_cut_as_they_are_alone(system):
    wavs = [signals.speech(seconds) for seconds in (0.4, 5.0, 0.9, 4.0)]
    keys = list("abcd")
    options = {"sample_rate": 16_000, "seed": 1, "chunk_seconds": chunk_limit(system, 1.5)}
    results = system.anonymize_batch(wavs, keys=keys, **options)
    for wav, key, result in zip(wavs, keys, results, strict=True):
        assert_follows(system, result, system.anonymize(wav, key=key, **options))


def test_forms_may_be_mixed(passing):
    wav = signals.speech(0.5)
    audios = [
        wav,
        wav.numpy(),
        {"array": signals.speech(0.5, 44_100).numpy(), "sampling_rate": 44_100},
        (wav * 32_767).to(torch.int16),
        torch.stack([wav, wav]),
    ]
    keys = list("abcde")
    results = passing.anonymize_batch(audios[:2] + audios[3:], 16_000, seed=1, keys=keys[:4])
    assert [type(result) for result in results] == [
        torch.Tensor,
        np.ndarray,
        torch.Tensor,
        torch.Tensor,
    ]
    results = passing.anonymize_batch(audios[2:3] * 2, seed=1, keys=keys[:2])
    for key, result in zip(keys, results, strict=False):
        expected = passing.anonymize(audios[2], seed=1, key=key)
        assert np.array_equal(result["array"], expected["array"])


def test_an_array_of_equal_lengths_is_a_list(passing):
    wavs = torch.stack([signals.speech(0.4, seed=seed) for seed in range(3)])
    results = passing.anonymize_batch(wavs, 16_000, seed=1, keys=list("abc"))
    assert len(results) == 3
    assert torch.equal(results[1], passing.anonymize(wavs[1], 16_000, seed=1, key="b"))


def test_an_empty_list_gives_an_empty_list(passing):
    assert passing.anonymize_batch([]) == []
    assert passing.anonymize_batch([], seed=1, keys=[], return_reports=True) == ([], [])


def test_the_bad_item_is_named(passing):
    wav = signals.speech(0.5)
    with pytest.raises(AudioError, match="item 2: audio: 0 samples"):
        passing.anonymize_batch([wav, wav, wav[:0]], 16_000)


def test_batches_hold_similar_lengths_up_to_the_capacity():
    passing = systems.PassThrough(batch_seconds=2.0)
    lengths = [16_000, 800, 15_000, 1_600, 40_000, 900]
    passing.anonymize_batch([torch.ones(length) for length in lengths])
    assert passing.lengths == [[800, 900, 1_600], [15_000, 16_000], [40_000]]
    for batch, rows in zip(passing.batches, passing.lengths, strict=True):
        assert batch.shape == (len(rows), max(rows))
        for row, length in zip(batch, rows, strict=True):
            assert row[:length].eq(1).all()
            assert not row[length:].any()


class Crowded(systems.Codes):
    """Runs out of memory where a batch has more than ``most`` items."""

    most = 2
    attempts = 0

    def convert(self, batch, *others):
        type(self).attempts += 1
        if len(batch) > self.most:
            raise torch.OutOfMemoryError("too many")
        return super().convert(batch, *others)


@pytest.mark.parametrize("chunk_seconds", [None, 0.5])
def test_out_of_memory_halves_the_batch_and_changes_no_draw(chunk_seconds):
    wavs = [signals.speech(0.3 + 0.3 * number, 24_000) for number in range(7)]
    keys = [str(number) for number in range(7)]
    options = {"seed": 1, "keys": keys, "chunk_seconds": chunk_seconds}
    expected = systems.Codes().anonymize_batch(wavs, **options)
    crowded = Crowded()
    results = crowded.anonymize_batch(wavs, **options)
    assert Crowded.attempts > 4
    for result, wanted in zip(results, expected, strict=True):
        assert torch.equal(result, wanted)


def test_out_of_memory_with_one_recording_is_not_hidden():
    crowded = Crowded()
    crowded.most = 0
    with pytest.raises(torch.OutOfMemoryError):
        crowded.anonymize(signals.speech(0.3), 24_000)
