"""P15, P16: sample types, memory layouts, values that are no audio."""

import numpy as np
import pytest
import signals
import torch

from properties import systems
from properties.helpers import assert_close
from voiceanon import AudioError

PCM = {
    np.int16: (0, 2.0**15),
    np.int32: (0, 2.0**31),
    np.uint8: (128, 2.0**7),
}
TOLERANCES = {np.float64: 1e-6, np.float16: 1e-3}


@pytest.fixture(scope="module")
def wav():
    return signals.speech(0.5).numpy()


@pytest.mark.parametrize("dtype", PCM)
def test_integers_equal_the_float_path(system, wav, dtype):
    offset, scale = PCM[dtype]
    pcm = np.rint(wav.astype(np.float64) * (scale - 1) + offset).astype(dtype)
    floats = ((pcm.astype(np.float64) - offset) / scale).astype(np.float32)
    expected = system.anonymize(floats, 16_000, seed=1)
    assert np.abs(expected).max() > 0
    for audio in (pcm, torch.from_numpy(pcm), pcm.astype(pcm.dtype.newbyteorder(">"))):
        result = system.anonymize(audio, 16_000, seed=1)
        assert torch.is_tensor(result) == torch.is_tensor(audio)
        assert_close(result, expected, 1e-6)


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (np.int16, [-32_768, -1, 0, 1, 32_767], [-1.0, -(2**-15), 0, 2**-15, 1 - 2**-15]),
        (np.int32, [-(2**31), 0, 2**30], [-1.0, 0, 0.5]),
        (np.uint8, [0, 64, 128, 192, 255], [-1.0, -0.5, 0, 0.5, 127 / 128]),
    ],
)
def test_full_scale_of_integers(dtype, values, expected):
    result = systems.PassThrough().anonymize(np.array(values, dtype))
    assert result.tolist() == expected


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_other_floats_equal_float32(system, wav, dtype):
    audio = wav.astype(dtype)
    expected = system.anonymize(audio.astype(np.float32), 16_000, seed=1)
    result = system.anonymize(audio, 16_000, seed=1)
    assert result.dtype == np.float32
    assert_close(result, expected, TOLERANCES[dtype])
    swapped = audio.astype(audio.dtype.newbyteorder(">"))
    assert_close(system.anonymize(swapped, 16_000, seed=1), result, 1e-6)


def test_bfloat16_tensors_work(passing, wav):
    audio = torch.from_numpy(wav).to(torch.bfloat16)
    result = passing.anonymize(audio, 16_000, seed=1)
    assert result.dtype == torch.float32
    assert_close(result, passing.anonymize(audio.float(), 16_000, seed=1), 1e-6)


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.uint16, np.uint32, np.int64, np.uint64, np.complex64, object, "U4"]
)
def test_other_types_raise(passing, dtype):
    with pytest.raises(AudioError, match=r"samples of type .* are not audio.*int16"):
        passing.anonymize(np.ones(16_000).astype(dtype))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int64, torch.complex64])
def test_other_tensor_types_raise(passing, dtype):
    with pytest.raises(AudioError, match=r"samples of type .* are not audio.*int16"):
        passing.anonymize(torch.ones(16_000).to(dtype))


@pytest.mark.parametrize("audio", [None, 3.0, [0.1] * 1_000, b"RIFF", object()])
def test_what_is_no_array_raises(passing, audio):
    with pytest.raises(AudioError, match="audio: expected a NumPy array"):
        passing.anonymize(audio)


@pytest.mark.parametrize("peak", [8.001, -9.0, 20_000.0])
def test_floats_that_look_like_integers_raise(passing, wav, peak):
    audio = wav.copy()
    audio[700] = peak
    for form in (audio, np.stack([wav, audio])):
        with pytest.raises(AudioError, match=rf"peak is {abs(peak):g}.*32768"):
            passing.anonymize(form, 16_000)


def test_mixing_hides_no_peak(wav):
    opposite = np.stack([np.full_like(wav, 9.0), -np.full_like(wav, 9.0)])
    diluted = np.stack([np.full_like(wav, 9.0), np.zeros_like(wav)])
    for audio in (opposite, diluted):
        with pytest.raises(AudioError, match="peak is 9"):
            systems.PassThrough().anonymize(audio, mix_channels=True)


def test_floats_above_full_scale_pass(wav):
    loud = wav / np.abs(wav).max() * np.float32(7.9)
    assert np.array_equal(systems.PassThrough().anonymize(loud), loud)


LAYOUTS = {
    "every second": lambda a: np.repeat(a, 2)[::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "column": lambda a: np.stack([a, -a], axis=1)[:, 0],
    "field": lambda a: np.rec.fromarrays([a, np.zeros(len(a), "u1")], names="a,b")["a"],
    "read-only": lambda a: np.frombuffer(a.tobytes(), dtype=np.float32),
    "big-endian": lambda a: a.astype(">f4"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_array_layouts_have_no_effect(passing, wav, layout, rate):
    audio = LAYOUTS[layout](wav)
    assert np.array_equal(audio, wav)
    result = passing.anonymize(audio, rate, seed=1)
    assert np.array_equal(result, passing.anonymize(wav, rate, seed=1))
    assert result.flags.writeable
    assert result.flags.c_contiguous
    assert result.dtype == np.dtype(np.float32)


TENSOR_LAYOUTS = {
    "every second": lambda x: x.repeat_interleave(2)[::2],
    "column": lambda x: torch.stack([x, -x], dim=1)[:, 0],
    "negated lazily": lambda x: torch.complex(x, -x).conj().imag,
}


@pytest.mark.parametrize("layout", TENSOR_LAYOUTS)
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_tensor_layouts_have_no_effect(passing, wav, layout, rate):
    plain = torch.from_numpy(wav)
    audio = TENSOR_LAYOUTS[layout](plain)
    assert torch.equal(audio, plain)
    result = passing.anonymize(audio, rate, seed=1)
    assert torch.equal(result, passing.anonymize(plain, rate, seed=1))
    assert result.is_contiguous()


def test_channels_may_lie_side_by_side(passing, wav):
    interleaved = np.stack([wav, 0.5 * wav], axis=1)
    expected = passing.anonymize(np.ascontiguousarray(interleaved.T), 16_000, seed=1)
    assert np.array_equal(passing.anonymize(interleaved.T, 16_000, seed=1), expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_values_that_are_not_finite_raise(passing, wav, value, dtype):
    audio = wav.astype(dtype)
    audio[[300, 301, 7_000]] = value
    with pytest.raises(AudioError, match=r"3 samples are NaN or infinite.*index 300\b"):
        passing.anonymize(audio, 16_000)


def test_opposite_infinities_are_found(passing, wav):
    audio = wav.copy()
    audio[[5, 6]] = np.inf, -np.inf
    with pytest.raises(AudioError, match=r"2 samples .*index 5\b"):
        passing.anonymize(audio, 16_000)


def test_the_first_index_is_the_earliest_over_all_channels(passing, wav):
    audio = np.stack([wav, wav, wav])
    audio[0, 900] = audio[2, 20] = np.nan
    with pytest.raises(AudioError, match=r"2 samples .*channel 2 at index 20\b"):
        passing.anonymize(audio, 16_000)
    with pytest.raises(AudioError, match=r"2 samples .*index 20\b"):
        passing.anonymize(audio, 16_000, mix_channels=True)


def test_values_beyond_float32_raise(passing, wav):
    audio = wav.astype(np.float64)
    audio[10] = 1e300
    with pytest.raises(AudioError, match=r"index 10\b|peak"):
        passing.anonymize(audio, 16_000)


def test_no_model_runs_before_all_recordings_were_checked(wav):
    passing = systems.PassThrough()
    bad = wav.copy()
    bad[-1] = np.nan
    with pytest.raises(AudioError, match=r"item 1: .*1 samples .*index 7999\b"):
        passing.anonymize_batch([wav, bad, wav])
    assert passing.batches == []


def test_late_values_are_counted_and_found():
    audio = np.zeros(2_200_000, dtype=np.float32)
    audio[[1_500_000, 2_100_000]] = np.nan
    with pytest.raises(AudioError, match=r"2 samples .*index 1500000\b"):
        systems.PassThrough().anonymize(audio)
