"""Whatever the recording is: same shape, finite, no warning, no error but the documented one."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from properties.helpers import assert_sound, narrow_band_allowed
from voiceanon import AudioError

MAX_SECONDS = 5.0
DTYPES = ("float32", "float64", "float16", "int16", "int32", "uint8")
SCALES = {"int16": 2**15 - 1, "int32": 2**31 - 1}
CASES = 100
MANY_CASES = 1_000


def noise(draws, t):
    return draws.uniform(-1, 1, t.shape)


def speech(draws, t):
    pitch = draws.uniform(60, 400)
    return sum(np.sin(2 * np.pi * pitch * k * t + k * k) / k for k in range(1, 12)) / 3


def tone(draws, t):
    return np.sin(2 * np.pi * draws.uniform(1, 4_000) * t + draws.uniform(0, 6))


def square(draws, t):
    return np.sign(tone(draws, t))


def constant(draws, t):
    return np.full_like(t, draws.uniform(-1, 1))


def silence(draws, t):
    return np.zeros_like(t)


def pulse(draws, t):
    wav = np.zeros_like(t)
    wav[draws.integers(len(t))] = 1
    return wav


def half_silent(draws, t):
    return noise(draws, t) * (t > t.mean())


def ramp(draws, t):
    return t / t.max() if len(t) > 1 else np.ones_like(t)


CONTENTS = (noise, speech, tone, square, constant, silence, pulse, half_silent, ramp)


@st.composite
def recordings(draw):
    """An array, its rate in Hz, and whether it is passed as a tensor."""
    rate = draw(st.integers(8_000, 48_000))
    longest = int(MAX_SECONDS * rate)
    samples = draw(st.one_of(st.integers(1, 2_000), st.integers(1, longest)))
    channels = draw(st.sampled_from([0, 1, 2, 3]))  # 0: (T,)
    content = draw(st.sampled_from(CONTENTS))
    dtype = draw(st.sampled_from(DTYPES))
    level = draw(st.sampled_from([1.0, 0.3, 0.01, 1e-4]))
    draws = np.random.default_rng(draw(st.integers(0, 2**32)))
    t = np.arange(samples) / rate
    wav = level * np.stack([content(draws, t) for _ in range(max(1, channels))])
    if dtype == "uint8":
        wav = np.rint(wav * 127 + 128)
    elif dtype in SCALES:
        wav = np.rint(wav * SCALES[dtype])
    wav = wav.astype(dtype)
    return (wav if channels else wav[0]), rate, draw(st.booleans())


def check(system, recording, seed, loudness):
    wav, rate, as_tensor = recording
    audio = torch.from_numpy(wav) if as_tensor else wav
    before = wav.copy()
    if wav.shape[-1] < system.info.min_seconds * rate:
        with pytest.raises(AudioError, match="too short"):
            system.anonymize(audio, rate)
        return
    result = system.anonymize(audio, rate, seed=seed, loudness=loudness)
    assert isinstance(result, torch.Tensor) == as_tensor
    assert_sound(system, result, wav)
    assert np.array_equal(wav, before)


def cases(count, **options):
    def decorate(test):
        test = given(
            recording=recordings(),
            seed=st.integers(0, 2**31),
            loudness=st.sampled_from(["published", "keep", "none"]),
        )(test)
        return settings(
            max_examples=count,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            **options,
        )(test)

    return decorate


@narrow_band_allowed
@cases(CASES, derandomize=True)
def test_random_recordings(system, recording, seed, loudness):
    check(system, recording, seed, loudness)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@narrow_band_allowed
@cases(MANY_CASES, print_blob=True)
def test_many_random_recordings(system, recording, seed, loudness):
    check(system, recording, seed, loudness)
