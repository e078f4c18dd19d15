"""P31: every form of a recording works, and the result has the form of the input."""

import numpy as np
import pytest
import signals
import soundfile
import torch

from properties import systems
from properties.helpers import assert_close
from voiceanon import AudioError


@pytest.fixture(scope="module")
def wav():
    return signals.speech(0.5)


@pytest.fixture
def path(wav, tmp_path):
    path = tmp_path / "in.wav"
    soundfile.write(path, wav.numpy(), 16_000, "FLOAT")
    return path


def test_array_tensor_path_and_dictionary_give_the_same_samples(system, wav, path):
    expected = system.anonymize(wav, 16_000, seed=1)
    assert isinstance(expected, torch.Tensor)
    array = system.anonymize(wav.numpy(), 16_000, seed=1)
    item = system.anonymize({"array": wav.numpy(), "sampling_rate": 16_000}, seed=1)
    assert item.keys() == {"array", "sampling_rate"}
    assert item["sampling_rate"] == 16_000
    for result in (array, item["array"], system.anonymize(path, seed=1)):
        assert isinstance(result, np.ndarray)
        assert result.dtype == np.float32
        assert np.array_equal(result, expected.numpy())
    assert np.array_equal(system.anonymize(str(path), seed=1), expected.numpy())


def test_calling_a_system_anonymizes(system, wav):
    expected = system.anonymize(wav, 16_000, seed=1, loudness="keep")
    assert torch.equal(system(wav, 16_000, seed=1, loudness="keep"), expected)


def test_a_list_of_paths_works(passing, wav, path):
    results = passing.anonymize_batch([path, str(path)], seed=1, keys=["a", "b"])
    for key, result in zip("ab", results, strict=True):
        expected = passing.anonymize(wav.numpy(), 16_000, seed=1, key=key)
        assert_close(result, expected)


def test_a_list_is_for_anonymize_batch(passing, wav, path):
    for audio in ([wav, wav], [path], (wav,)):
        with pytest.raises(AudioError, match="audio: expected a NumPy array"):
            passing.anonymize(audio)


def test_files_and_dictionaries_carry_their_own_rate(passing, tmp_path):
    wav = signals.speech(0.4, 22_050)
    path = tmp_path / "in.wav"
    soundfile.write(path, wav.numpy(), 22_050, "FLOAT")
    expected = passing.anonymize(wav.numpy(), 22_050, seed=1)
    item = {"array": wav.numpy(), "sampling_rate": 22_050}
    for rate in (None, 22_050):
        assert np.array_equal(passing.anonymize(path, rate, seed=1), expected)
        assert np.array_equal(passing.anonymize(item, rate, seed=1)["array"], expected)


def test_a_contradicted_rate_raises(passing, wav, path):
    item = {"array": wav.numpy(), "sampling_rate": 16_000}
    for audio, name in ((path, str(path)), (item, "dictionary")):
        with pytest.raises(AudioError, match=f"sample_rate: 44100 .*{name}.*16000"):
            passing.anonymize(audio, 44_100)


@pytest.mark.parametrize(
    "item", [{}, {"array": np.zeros(9)}, {"sampling_rate": 16_000}, {"audio": 1, 2: 3}]
)
def test_other_dictionaries_raise(passing, item):
    with pytest.raises(AudioError, match="'array' and 'sampling_rate'"):
        passing.anonymize(item)


def test_a_dictionary_without_an_array_in_it_raises(passing):
    with pytest.raises(AudioError, match="audio: expected a NumPy array"):
        passing.anonymize({"array": "in.wav", "sampling_rate": 16_000})


def test_more_fields_in_a_dictionary_do_no_harm(passing, wav, path):
    item = {"array": wav.numpy(), "sampling_rate": 16_000, "path": str(path)}
    before = {**item, "array": wav.numpy().copy()}
    result = passing.anonymize(item, seed=1)
    assert np.array_equal(result["array"], passing.anonymize(wav.numpy(), 16_000, seed=1))
    assert item.keys() == before.keys()
    assert np.array_equal(item["array"], before["array"])


def test_the_array_of_a_dictionary_may_have_channels(passing, wav):
    both = torch.stack([wav, wav]).numpy()
    result = passing.anonymize({"array": both, "sampling_rate": 16_000}, seed=1)
    assert np.array_equal(result["array"], passing.anonymize(both, 16_000, seed=1))


def test_a_tensor_in_a_dictionary_comes_back_as_a_tensor(passing, wav):
    result = passing.anonymize({"array": wav, "sampling_rate": 16_000}, seed=1)
    assert isinstance(result["array"], torch.Tensor)
    assert torch.equal(result["array"], passing.anonymize(wav, 16_000, seed=1))


def test_other_files_beside_an_array_do_not_matter(wav, tmp_path, monkeypatch):
    """Only paths are looked up on the disk."""
    monkeypatch.chdir(tmp_path)
    systems.PassThrough().anonymize(wav)
    assert list(tmp_path.iterdir()) == []
