"""P13, P20, P21: sample rates, lengths, telephone speech."""

import math

import numpy as np
import pytest
import signals
import soxr
import torch

from properties import systems
from properties.helpers import assert_close, assert_sound, narrow_band_allowed, run_python
from voiceanon import AudioError
from voiceanon.audio.resample import resample

RATES = (8_000, 11_025, 11_127, 16_000, 22_050, 44_100, 48_000)
ODD_LENGTHS = (24_123, 44_101)
"""With these, 24 kHz codecs and resamplers are known to return other lengths."""


@narrow_band_allowed
@pytest.mark.parametrize("rate", RATES)
def test_output_has_the_rate_and_length_of_the_input(system, rate):
    wav = signals.speech(0.7, rate)[: 2 * (rate // 3) + 1]
    result, report = system.anonymize(wav, rate, seed=1, return_report=True)
    assert_sound(system, result, wav)
    assert report.sample_rate == rate
    assert report.model_rate == system.sample_rate
    assert report.samples == result.shape[-1]


@narrow_band_allowed
@pytest.mark.parametrize("rate", [4_000, 384_000])
def test_the_outermost_rates_work(system, rate):
    wav = signals.speech(0.3, rate)
    assert_sound(system, system.anonymize(wav, rate, seed=1), wav)


@pytest.mark.parametrize("samples", ODD_LENGTHS)
def test_awkward_lengths_are_kept(system, samples):
    if not system.info.keeps_length:
        pytest.skip("does not keep the length")
    wav = signals.noise(1.0, samples)
    for rate in (16_000, 24_000, 44_100):
        assert system.anonymize(wav, rate, seed=1).shape == wav.shape


def test_without_a_rate_an_array_is_at_the_rate_of_the_system(system):
    wav = signals.speech(0.5, system.sample_rate)
    expected = system.anonymize(wav, system.sample_rate, seed=1)
    assert torch.equal(system.anonymize(wav, seed=1), expected)
    assert torch.equal(system.anonymize(wav, np.int64(system.sample_rate), seed=1), expected)


def test_another_rate_is_resampling_before_and_after(system):
    wav = signals.speech(0.6, 48_000)
    inside = system.anonymize(resample(wav, 48_000, system.sample_rate), seed=1)
    exact = len(wav) if system.info.keeps_length else None
    expected = resample(inside, system.sample_rate, 48_000, exact=exact)
    assert_close(system.anonymize(wav, 48_000, seed=1), expected, 1e-6)


def test_at_the_model_rate_no_resampler_runs(system, monkeypatch):
    class Forbidden:
        def __init__(self, *args, **kwargs):
            raise AssertionError("a resampler was made")

    for name in ("ResampleStream", "resample"):
        monkeypatch.setattr(soxr, name, Forbidden)
    system.anonymize(signals.speech(0.3, system.sample_rate), seed=1)
    with pytest.raises(AssertionError, match="a resampler was made"):
        system.anonymize(signals.speech(0.3, 48_000), 48_000, seed=1)


@pytest.mark.parametrize("keeps_length", [True, False])
def test_at_the_model_rate_samples_are_untouched(keeps_length):
    wav = signals.speech(3.3)
    passing = systems.PassThrough(keeps_length=keeps_length, overlap_seconds=0.2)
    assert torch.equal(passing.anonymize(wav, chunk_seconds=None), wav)
    assert torch.equal(passing.batches[0][0], wav)


@pytest.mark.parametrize(
    "rate", [0, -1, 3_999, 384_001, 16_000.0, True, "16000", math.nan, [16_000]]
)
def test_impossible_rates_raise(passing, rate):
    wav = signals.speech(0.3)
    with pytest.raises(AudioError, match=r"sample_rate: .*rate"):
        passing.anonymize(wav, rate)
    with pytest.raises(AudioError, match=r"sampling_rate: .*rate"):
        passing.anonymize({"array": wav.numpy(), "sampling_rate": rate})


@pytest.mark.parametrize("name", ["test-filter", "test-stretch"])
def test_match_length_gives_the_length_of_the_input(name):
    system = systems.build(name)
    for rate in (system.sample_rate, 44_100):
        wav = signals.speech(0.501, rate)
        result = system.anonymize(wav, rate, seed=1, match_length=True)
        assert result.shape == wav.shape
        free = system.anonymize(wav, rate, seed=1)
        common = min(len(free), len(wav))
        assert_close(result[:common], free[:common], 1e-6)


def test_upsampling_leaves_no_image():
    wav = signals.sweep(2.0, 8_000, low=100, high=3_600)
    passing = systems.PassThrough()
    passing.anonymize(wav, 8_000)
    wide = passing.batches[0][0]
    assert len(wide) == 2 * len(wav)
    power = torch.fft.rfft(wide).abs().square()
    frequency = torch.fft.rfftfreq(len(wide), 1 / 16_000)
    band = power[(frequency > 100) & (frequency < 3_600)].sum()
    image = power[frequency > 4_000].sum()
    assert 10 * math.log10(band / image) >= 60


def test_downsampling_leaves_no_alias():
    passing = systems.PassThrough()
    passing.anonymize(signals.sweep(1.0, 44_100, low=9_000, high=21_000, peak=0.5), 44_100)
    inner = passing.batches[0][0]
    assert 20 * math.log10(float(inner.abs().max()) / 0.5) <= -60


def test_the_way_there_and_back_keeps_the_band_of_telephone_speech():
    wav = signals.sweep(2.0, 8_000, low=100, high=3_400)
    result = systems.PassThrough().anonymize(wav, 8_000)
    assert_close(result, wav, 1e-3)


def test_one_warning_per_process_says_that_the_weights_know_wide_band_speech():
    code = """
import json, warnings
import signals
from properties import systems
from voiceanon import AudioWarning
systems.register_own()
counts = {}
for name in systems.FAMILY_IDS:
    system, again = systems.build(name), systems.build(name)
    trained = system.info.training_rate
    counts[name] = [trained]
    for rate in (trained or 16000, 8000, 8000):
        wav = signals.speech(0.3, rate)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            system.anonymize_batch([wav, wav], rate)
            again.anonymize(wav, rate)
        counts[name].append([str(w.message) for w in caught if w.category is AudioWarning])
print(json.dumps(counts))
"""
    (counts,) = run_python(code)
    assert any(trained for trained, *_ in counts.values())
    for name, (trained, *messages) in counts.items():
        assert [len(said) for said in messages] == [0, 1 if trained else 0, 0]
        if trained:
            (message,) = messages[1]
            assert name in message
            assert "8000 Hz" in message
            assert f"{trained} Hz" in message
