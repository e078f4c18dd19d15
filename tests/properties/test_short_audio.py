"""P18: very short audio comes back, or one error says how long it must be."""

import pytest
import signals
import torch

from properties.helpers import assert_sound, narrow_band_allowed
from voiceanon import AudioError

LENGTHS = (1, 2, 100, 319, 400, 401, 1_600)
LARGEST_MINIMUM = 0.1


def test_the_shortest_input_is_at_most_a_tenth_of_a_second(system):
    assert 0 <= system.info.min_seconds <= LARGEST_MINIMUM


@narrow_band_allowed
@pytest.mark.parametrize("rate", [8_000, 16_000, 48_000])
@pytest.mark.parametrize("samples", LENGTHS)
def test_any_length_works_or_the_error_says_what_to_do(system, samples, rate):
    wav = signals.vowel(0.3, rate)[:samples]
    if samples / rate < system.info.min_seconds:
        pattern = rf"{samples} samples \(0\.\d+ s\).*{system.info.min_seconds:g} s.*join"
        with pytest.raises(AudioError, match=pattern):
            system.anonymize(wav, rate, seed=1)
    else:
        assert_sound(system, system.anonymize(wav, rate, seed=1), wav)


@narrow_band_allowed
@pytest.mark.parametrize("rate", [11_127, 16_000, 44_100])
def test_the_minimum_itself_is_enough(system, rate):
    least = max(1, -int(-system.info.min_seconds * rate // 1))
    result = system.anonymize(signals.vowel(0.2, rate)[:least], rate, seed=1)
    assert result.numel() > 0
    if system.info.min_seconds * rate > 1:
        with pytest.raises(AudioError, match="too short"):
            system.anonymize(signals.vowel(0.2, rate)[: least - 1], rate, seed=1)


def test_short_recordings_beside_long_ones(system):
    least = max(2, int(system.info.min_seconds * 16_000) + 1)
    wavs = [signals.speech(seconds)[:most] for seconds, most in ((1.5, None), (0.2, least))]
    results = system.anonymize_batch(wavs, 16_000, seed=1, keys=["long", "short"])
    for wav, result in zip(wavs, results, strict=True):
        assert_sound(system, result, wav)


def test_a_short_recording_in_a_batch_is_named(system):
    if not system.info.min_seconds:
        pytest.skip("takes any length")
    with pytest.raises(AudioError, match=r"item 1: .*too short"):
        system.anonymize_batch([signals.speech(0.5), torch.ones(3)], 16_000)
