"""P17: silence, constants, near-silence, what is no speech at all; warnings are errors here."""

import math

import numpy as np
import pytest
import signals
import torch

from properties import systems
from properties.helpers import assert_sound, narrow_band_allowed, rms

CONSTANTS = (1.0, -0.5, 1e-3, 1e-9, 2.0**-23, -(2.0**-23), 1e-20, 1e-38, 1e-45)


@narrow_band_allowed
@pytest.mark.parametrize("loudness", ["published", "keep", "none"])
@pytest.mark.parametrize("rate", [8_000, 16_000])
def test_zeros_come_back_as_zeros(system, loudness, rate):
    wav = signals.silence(1.0, rate)
    result, report = system.anonymize(wav, rate, seed=1, loudness=loudness, return_report=True)
    assert torch.equal(result, wav)
    assert report.silent_channels == (0,)
    assert report.chunks == 0


def test_silence_of_any_form_comes_back_as_zeros(system):
    forms = {
        "uint8": np.full(8_000, 128, np.uint8),
        "int16": np.zeros((2, 8_000), np.int16),
        "negative zero": np.full(8_000, -0.0, np.float32),
    }
    for audio in forms.values():
        result = system.anonymize(audio, 16_000)
        assert result.shape == audio.shape
        assert not result.any()


def test_no_model_runs_for_silence():
    passing = systems.PassThrough(lambda batch: batch + 0.1)
    half_silent = torch.stack([signals.silence(), signals.speech()])
    passing.anonymize_batch([signals.silence(), half_silent])
    assert passing.lengths == [[16_000]]


def test_a_silent_channel_stays_silent_beside_another(system):
    wav = torch.stack([signals.silence(), signals.speech(), signals.silence()])
    result, report = system.anonymize(wav, 16_000, seed=1, return_report=True)
    assert_sound(system, result, wav)
    assert not result[[0, 2]].any()
    assert result[1].any()
    assert report.silent_channels == (0, 2)


def test_channels_that_cancel_out_are_silent_once_mixed(system):
    wav = torch.stack([signals.speech(), -signals.speech()])
    result = system.anonymize(wav, 16_000, mix_channels=True)
    assert torch.equal(result, torch.zeros(1, 16_000))


def test_silence_beside_speech_in_a_batch(system):
    speech, silence = signals.speech(0.5), signals.silence(0.8)
    results = system.anonymize_batch([silence, speech, silence], 16_000, seed=1, keys=list("abc"))
    assert torch.equal(results[0], silence)
    assert torch.equal(results[2], silence)
    assert results[1].any()


@pytest.mark.parametrize("value", CONSTANTS)
def test_a_constant_gives_something_finite(system, value):
    wav = signals.constant(value)
    for seed, loudness in ((1, "published"), (2, "keep")):
        result = system.anonymize(wav, 16_000, seed=seed, loudness=loudness)
        assert_sound(system, result, wav)


@narrow_band_allowed
@pytest.mark.parametrize("rate", [8_000, 44_100])
def test_a_constant_at_another_rate_gives_something_finite(system, rate):
    for value in (0.5, 1e-9):
        wav = signals.constant(value, 0.5, rate)
        assert_sound(system, system.anonymize(wav, rate, seed=1), wav)


@pytest.mark.parametrize("peak", [1e-5, 1e-7, 1e-20, 1e-40])
def test_near_silence_gives_something_finite(system, peak):
    wav = signals.noise(peak=peak)
    assert wav.any()
    assert_sound(system, system.anonymize(wav, 16_000, seed=1), wav)
    result = system.anonymize(wav, 16_000, seed=1, loudness="keep")
    assert_sound(system, result, wav)
    if peak > 1e-18:  # smaller squares are no float32
        assert math.isclose(rms(result), rms(wav), rel_tol=0.01)


PREDICTABLE = {
    "ramp": torch.linspace(-0.5, 0.5, 9_600),
    "rising": torch.linspace(0, 1, 16_000),
    "parabola": torch.linspace(0, 1, 16_000) ** 2,
    "decay": torch.exp(-5 * torch.linspace(0, 1, 16_000)),
    "hum": signals.tone(frequency=20),
    "tone": signals.tone(frequency=1_000),
    "half the rate": signals.tone(frequency=7_999.9),
    "square": signals.square(),
    "pulses": signals.pulses(),
    "alternating": torch.tensor([0.5, -0.5]).repeat(8_000),
    "one sample": torch.nn.functional.one_hot(torch.tensor(8_000), 16_000).float(),
    "step": torch.cat([signals.silence(0.5), signals.constant(0.7, 0.5)]),
    "clipped": (20 * signals.speech()).clamp(-1, 1),
}


@pytest.mark.parametrize("name", PREDICTABLE)
def test_signals_without_any_chance_give_something_finite(system, name):
    """A predictor leaves nothing of them, so that every division is one of rounding errors."""
    wav = PREDICTABLE[name]
    for seed in (1, 2):
        assert_sound(system, system.anonymize(wav, 16_000, seed=seed), wav)


def test_silence_around_speech_stays_finite(system):
    wav = torch.cat([signals.silence(0.5), signals.speech(0.5), signals.silence(0.5)])
    assert_sound(system, system.anonymize(wav, 16_000, seed=1), wav)
