"""P14: channels."""

import pytest
import signals
import torch

from properties import systems
from properties.helpers import assert_close, assert_sound
from voiceanon import AudioError


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_the_shape_is_kept(system, channels):
    wav = torch.stack([signals.speech(0.4, seed=seed) for seed in range(channels)])
    result, report = system.anonymize(wav, 16_000, seed=1, return_report=True)
    assert_sound(system, result, wav)
    assert report.channels == channels


def test_each_channel_is_anonymized_on_its_own_with_the_same_voice(system):
    wav = torch.stack([signals.speech(0.5, seed=seed) for seed in range(2)])
    options = {"seed": 1, "loudness": "none"}
    both, report = system.anonymize(wav, 16_000, return_report=True, **options)
    for channel in range(2):
        alone = system.anonymize(wav[channel], 16_000, target=report.target, **options)
        assert_close(both[channel], alone)


def test_equal_channels_stay_equal(system):
    wav = signals.speech(0.5).expand(2, -1)
    result = system.anonymize(wav, 16_000, seed=1)
    assert_close(result[0], result[1], 1e-6)
    assert float(result.abs().max()) > 0


def test_swapped_channels_come_back_swapped(system):
    wav = torch.stack([signals.speech(0.4), 0.2 * signals.noise(0.4)])
    result, report = system.anonymize(wav, 16_000, seed=1, return_report=True)
    swapped = system.anonymize(wav.flip(0), 16_000, seed=1, target=report.target)
    assert_close(swapped.flip(0), result)


def test_mixing_averages_first_and_returns_one_channel(system):
    wav = torch.stack([signals.speech(0.4, seed=seed) for seed in range(3)])
    mixed = system.anonymize(wav, 16_000, seed=1, mix_channels=True)
    expected = system.anonymize(wav.mean(0), 16_000, seed=1)
    assert mixed.shape == (1, *expected.shape)
    assert_close(mixed[0], expected, 1e-6)


def test_mixing_leaves_one_channel_alone(passing):
    wav = signals.speech(0.4)
    expected = passing.anonymize(wav, 16_000, seed=1)
    assert torch.equal(passing.anonymize(wav, 16_000, seed=1, mix_channels=True), expected)


def test_integers_are_mixed_as_floats(system):
    pcm = torch.tensor([30_000, 30_001], dtype=torch.int16)[:, None].expand(-1, 8_000)
    result = systems.PassThrough().anonymize(pcm, mix_channels=True)
    assert torch.equal(result, torch.full((1, 8_000), 30_000.5 / 32_768))


@pytest.mark.parametrize("shape", [(16_000, 2), (16_000, 1), (80, 8), (100, 3)])
def test_transposed_audio_raises(passing, shape):
    wav = signals.noise(1.0, shape[0] * shape[1]).reshape(shape)
    for audio in (wav, wav.numpy(), {"array": wav.numpy(), "sampling_rate": 16_000}):
        with pytest.raises(AudioError, match=r"time, channel.*transpose"):
            passing.anonymize(audio)


@pytest.mark.parametrize("shape", [(9, 8_000), (72, 8), (100, 9)])
def test_many_channels_are_not_taken_for_transposed(shape):
    wav = signals.noise(1.0, shape[0] * shape[1]).reshape(shape)
    assert torch.equal(systems.PassThrough().anonymize(wav), wav)


@pytest.mark.parametrize("shape", [(), (2, 3, 4_000), (0,), (2, 0), (0, 100)])
def test_other_shapes_raise(passing, shape):
    for audio in (torch.zeros(shape), torch.zeros(shape).numpy()):
        with pytest.raises(AudioError, match=r"audio: .*\(time,\)|audio: 0 samples"):
            passing.anonymize(audio)
