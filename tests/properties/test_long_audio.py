"""P19: long audio is cut, joined without a trace, and needs bounded memory."""

import dataclasses
import math
from pathlib import Path

import pytest
import signals
import torch

from properties import systems
from properties.helpers import assert_close, chunk_limit, run_python
from voiceanon import ConfigError

CHUNK = 1.5
LONGER_MAY_TAKE = 1.5
"""Most peak memory of 60 min, as a multiple of that of 5 min."""

MEASURE = """
import json, pathlib, sys
import numpy as np, psutil, signals
from properties import systems

name, seconds, rate = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
systems.register_own()
system = systems.build(name)
short = signals.speech(10, rate).numpy()
system.anonymize(short, rate, seed=1)
wav = np.tile(short, round(seconds / 10))
process = psutil.Process()
before = process.memory_info().rss
peak_file = pathlib.Path("/proc/self/status")

def high_water():
    for line in peak_file.read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])

# Not getrusage: what it tells after an exec starts with the peak of the parent.
result = system.anonymize(wav, rate, seed=1)
print(json.dumps(high_water() - before - result.nbytes))
"""

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")


def is_local(system):
    """Whether a result may be compared with that of a longer piece around it."""
    return not system.info.discrete and system.info.id not in systems.NOT_LOCAL


@pytest.fixture(scope="module")
def wav():
    return torch.cat([signals.speech(4.0, 16_000), signals.vowel(1.3, 16_000)])


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_chunks_join_without_a_trace(system, wav, rate):
    if not is_local(system):
        pytest.skip("the output depends on the whole recording, or on draws per chunk")
    whole, one = system.anonymize(wav, rate, seed=1, chunk_seconds=None, return_report=True)
    limit = chunk_limit(system, len(wav) / rate / 4)
    cut, many = system.anonymize(wav, rate, seed=1, chunk_seconds=limit, return_report=True)
    assert (one.chunks, one.target) == (1, many.target)
    assert many.chunks >= 2
    assert_close(cut, whole)


def test_cut_audio_has_the_length_of_whole_audio(system, wav):
    if system.info.id in systems.LENGTH_BY_WORDS:
        pytest.skip("the length follows from the words, and those from the pieces")
    whole = system.anonymize(wav, 16_000, seed=1, chunk_seconds=None)
    limit = chunk_limit(system, CHUNK)
    cut = system.anonymize(wav, 16_000, seed=1, chunk_seconds=limit)
    assert bool(torch.isfinite(cut).all())
    if system.info.keeps_length:
        assert cut.shape == whole.shape == wav.shape
    else:
        assert abs(len(cut) - len(whole)) <= 0.02 * len(whole)


def test_chunks_that_differ_fade_into_each_other():
    class Steps(systems.PassThrough):
        """Adds to each chunk its number."""

        def convert(self, batch, lengths, targets, generators):
            result, lengths = super().convert(batch, lengths, targets, generators)
            return result + len(self.batches), lengths

    steps = Steps(overlap_seconds=0.1, batch_seconds=0.1)
    result = steps.anonymize(signals.constant(0.1, 5.0), chunk_seconds=1.0)
    assert len(steps.batches) == 5
    change = result.diff()
    fade = 0.1 * 16_000
    assert float(change.min()) >= 0
    assert float(change.max()) <= 1.1 / fade
    assert math.isclose(float(result[0]), 1.1, rel_tol=1e-5)
    assert math.isclose(float(result[-1]), 5.1, rel_tol=1e-5)
    for cut in range(1, 5):  # in the middle of its fade
        assert math.isclose(float(result[cut * 16_000]), cut + 0.6, abs_tol=1e-2)


def test_chunks_stay_below_their_limit():
    passing = systems.PassThrough(overlap_seconds=0.2, batch_seconds=4.0)
    wav = signals.noise(60.3)
    assert torch.equal(passing.anonymize(wav, chunk_seconds=2.0), wav)
    assert max(map(max, passing.lengths)) <= (2.0 + 2 * 0.2) * 16_000
    assert max(batch.numel() for batch in passing.batches) <= 4.0 * 16_000
    assert sum(map(len, passing.lengths)) >= 30


def test_all_chunks_and_channels_get_one_voice():
    passing = systems.PassThrough(overlap_seconds=0.1)
    wav = torch.stack([signals.noise(10), signals.speech(10)])
    _, report = passing.anonymize(wav, chunk_seconds=1.0, return_report=True)
    used = [target for batch in passing.targets for target in batch]
    assert len(used) == 20
    assert all(target == report.target for target in used)


def test_noise_is_drawn_anew_for_every_chunk_and_alike_for_every_channel():
    passing = systems.PassThrough(overlap_seconds=0.1, batch_seconds=3.0)
    wav = torch.stack([signals.noise(10), signals.noise(10)])
    passing.anonymize(wav, seed=1, chunk_seconds=1.0)
    draws = [draw for batch in passing.draws for draw in batch]
    assert draws[:10] == draws[10:]
    assert len(set(draws)) == 10


def test_short_audio_is_not_cut(system):
    limit = system.info.chunk_seconds
    if limit is None:
        pytest.skip("never cuts")
    wav = signals.speech(0.5)
    assert system.anonymize(wav, 16_000, return_report=True)[1].chunks == 1


def test_the_limit_of_the_system_holds_by_default(system, monkeypatch, wav):
    limit = chunk_limit(system, CHUNK)
    monkeypatch.setattr(system, "info", dataclasses.replace(system.info, chunk_seconds=limit))
    cut, report = system.anonymize(wav, 16_000, seed=1, return_report=True)
    assert report.chunks >= math.ceil(5.3 / limit) > 1
    assert torch.equal(cut, system.anonymize(wav, 16_000, seed=1, chunk_seconds=limit))
    _, report = system.anonymize(wav, 16_000, seed=1, chunk_seconds=None, return_report=True)
    assert report.chunks == 1


@pytest.mark.parametrize("wanted", [0, -1.0, 0.0, math.nan, "long", "30", True, [30]])
def test_impossible_limits_raise(passing, wanted):
    with pytest.raises(ConfigError, match="chunk_seconds: "):
        passing.anonymize(signals.speech(0.5), 16_000, chunk_seconds=wanted)


@pytest.mark.parametrize("wanted", [0, 1e-9])
def test_impossible_limits_raise_where_chunks_do_not_overlap(wanted):
    passing = systems.PassThrough(overlap_seconds=0.0)
    with pytest.raises(ConfigError, match="chunk_seconds: "):
        passing.anonymize(signals.speech(0.5), chunk_seconds=wanted)


def measure(name, minutes, rate):
    """Bytes at the peak beyond what was there before and what the result takes."""
    # Freed memory goes back at once, so that what is measured is what is in use.
    (extra,) = run_python(MEASURE, name, 60 * minutes, rate, MALLOC_MMAP_THRESHOLD_="65536")
    return extra


@needs_proc
@pytest.mark.parametrize(("name", "rate"), [("test-filter", 48_000), ("test-stretch", 16_000)])
def test_twenty_minutes_need_little_more_memory_than_five(name, rate):
    """The quick form of the next, for the shared steps."""
    five, twenty = (measure(name, minutes, rate) for minutes in (5, 20))
    assert twenty <= LONGER_MAY_TAKE * five


@pytest.mark.slow
@needs_proc
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_an_hour_needs_little_more_memory_than_five_minutes(system_id, rate):
    five, sixty = (measure(system_id, minutes, rate) for minutes in (5, 60))
    assert sixty <= LONGER_MAY_TAKE * five
