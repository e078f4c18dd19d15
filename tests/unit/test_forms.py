import numpy as np
import pytest
import torch

from voiceanon import AudioError
from voiceanon.audio import io
from voiceanon.audio.forms import open_audio

WAV = np.linspace(-0.5, 0.5, 64, dtype=np.float32)


def roundtrip(audio, sample_rate=None):
    opened = open_audio(audio, sample_rate, 16000)
    return opened, opened.restore(torch.ones(opened.samples.shape))


@pytest.mark.parametrize("shape", [(64,), (1, 64), (2, 32)])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_arrays_and_tensors(kind, shape):
    audio = kind(WAV.reshape(shape))
    opened, result = roundtrip(audio)
    assert type(result) is type(audio)
    assert tuple(result.shape) == shape
    assert opened.rate == 16000
    assert opened.samples.shape == (1, 64) if len(shape) == 1 else shape
    assert open_audio(audio, 8000, 16000).rate == 8000


def test_dictionaries_of_dataset_libraries():
    opened, result = roundtrip({"array": WAV, "sampling_rate": 44100, "path": "secret name.wav"})
    assert opened.rate == 44100
    assert result.keys() == {"array", "sampling_rate"}
    assert result["sampling_rate"] == 44100
    assert result["array"].shape == (64,)


@pytest.mark.parametrize("channels", [1, 2])
def test_paths(tmp_path, channels):
    io.write(tmp_path / "a.wav", np.tile(WAV, (channels, 1)), 44100, "FLOAT")
    for path in (tmp_path / "a.wav", str(tmp_path / "a.wav")):
        opened, result = roundtrip(path)
        assert opened.rate == 44100
        assert isinstance(result, np.ndarray)
        assert result.shape == ((64,) if channels == 1 else (2, 64))
        np.testing.assert_array_equal(opened.samples[0].numpy(), WAV)


@pytest.mark.parametrize(
    ("audio", "rate", "message"),
    [
        ({"array": WAV}, None, "sampling_rate"),
        ({"array": WAV, "sampling_rate": 8000}, 16000, "leave sample_rate out"),
        ({"array": WAV, "sampling_rate": 16000.0}, None, "whole number"),
        ({"array": [0.1, 0.2], "sampling_rate": 16000}, None, "list"),
        (None, None, "NoneType"),
        (WAV, 3999, "3999"),
        (WAV, 384001, "384001"),
        (WAV, True, "whole number"),
        (WAV.astype(bool), None, "bool"),
        (WAV.astype(complex), None, "complex128"),
        (WAV.astype(object), None, "object"),
        (WAV.astype(np.int64), None, "int64"),
        (WAV.astype(np.uint16), None, "uint16"),
        (WAV.reshape(2, 2, 16), None, "anonymize_batch"),
        (np.zeros((), np.float32), None, "shape"),
        (WAV[:0], None, "0 samples"),
        (np.zeros((2, 0), np.float32), None, "0 samples"),
        (np.zeros((80, 8), np.float32), None, "transpose"),
    ],
)
def test_what_is_no_audio_is_refused(audio, rate, message):
    with pytest.raises(AudioError, match=message):
        open_audio(audio, rate, 16000)


@pytest.mark.parametrize("shape", [(79, 8), (90, 9), (8, 80)])
def test_unusual_but_possible_shapes_pass(shape):
    assert open_audio(np.zeros(shape, np.float32), None, 16000).samples.shape == shape


@pytest.mark.parametrize(
    "view",
    [WAV[::2], WAV[::-1], WAV.astype(">f4"), np.broadcast_to(WAV, (2, 64)),
     np.frombuffer(WAV.tobytes(), np.float32), np.asfortranarray(WAV.reshape(2, 32))],
)  # fmt: skip
def test_unusual_memory_is_read_right_and_silently(view):
    opened = open_audio(view, None, 16000)
    expected = np.atleast_2d(view).astype(np.float32)
    np.testing.assert_array_equal(opened.samples.numpy(), expected)


def test_contiguous_arrays_are_not_copied():
    wav = WAV.copy()
    opened = open_audio(wav, None, 16000)
    wav[0] = 0.25
    assert opened.samples[0, 0] == 0.25
