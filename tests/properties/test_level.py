"""P22: level, and clipping."""

import math
import re

import numpy as np
import pytest
import signals
import soundfile
import torch

from properties import systems
from properties.helpers import assert_close, assert_sound, chunk_limit, rms
from voiceanon import AudioWarning, ConfigError


def test_a_square_wave_is_not_clipped(system):
    """At 16 kHz its peak is 1.17."""
    wav = signals.square(1.0, 44_100, peak=0.999)
    for loudness in ("published", "keep", "none"):
        result = system.anonymize(wav, 44_100, seed=1, loudness=loudness)
        assert_sound(system, result, wav)


def test_the_shared_steps_do_not_clip():
    wav = signals.square(1.0, 44_100, peak=0.999)
    passing = systems.PassThrough()
    result = passing.anonymize(wav, 44_100)
    assert float(passing.batches[0].max()) > 1.1
    assert float(result.max()) > 1.05
    louder = systems.PassThrough(lambda batch: 50 * batch)
    assert torch.equal(louder.anonymize(wav), 50 * wav)


def test_keep_restores_the_power_of_the_input(system):
    for wav in (signals.speech(0.7), torch.stack([signals.speech(0.7), 0.1 * signals.noise(0.7)])):
        result = system.anonymize(wav, 16_000, seed=1, loudness="keep")
        assert math.isclose(rms(result), rms(wav), rel_tol=1e-4)
    wav = signals.speech(0.7, 44_100)
    result = system.anonymize(wav, 44_100, seed=1, loudness="keep")
    assert math.isclose(rms(result), rms(wav), rel_tol=1e-4)


def test_keep_counts_the_channels_together(system):
    """One gain for all: their balance is the system's, not ours."""
    wav = torch.stack([signals.speech(0.5), 0.1 * signals.speech(0.5, seed=1)])
    kept, report = system.anonymize(wav, 16_000, seed=1, loudness="keep", return_report=True)
    plain = system.anonymize(wav, 16_000, seed=1, loudness="none")
    assert_close(kept, plain * 10 ** (report.gain_db / 20), 1e-5)


@pytest.mark.parametrize("loudness", ["published", "keep"])
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_the_level_step_is_one_gain_that_stands_in_the_report(system, loudness, rate):
    wav = signals.speech(0.7, rate)
    plain, none = system.anonymize(wav, rate, seed=1, loudness="none", return_report=True)
    result, report = system.anonymize(wav, rate, seed=1, loudness=loudness, return_report=True)
    assert (none.loudness, none.gain_db) == ("none", 0.0)
    assert report.loudness == loudness
    assert_close(result, plain * 10 ** (report.gain_db / 20), 1e-5)


def test_published_is_the_default(system):
    wav = signals.speech(0.5)
    expected = system.anonymize(wav, 16_000, seed=1, loudness="published")
    assert torch.equal(system.anonymize(wav, 16_000, seed=1), expected)


def test_the_level_step_is_named(system):
    assert system.info.level_step


def test_the_level_step_does_not_see_the_neighbours(system):
    wavs = [signals.speech(0.5), signals.speech(0.7, peak=0.01)]
    together = system.anonymize_batch(wavs, 16_000, seed=1, keys=["a", "b"])
    for key, wav, result in zip("ab", wavs, together, strict=True):
        assert math.isclose(
            rms(result), rms(system.anonymize(wav, 16_000, seed=1, key=key)), rel_tol=1e-4
        )


def test_the_level_step_does_not_depend_on_chunks(system):
    wav = torch.cat([signals.speech(3.0, peak=0.05), signals.speech(3.0, peak=0.4)])
    limit = chunk_limit(system, 1.5)
    _, whole = system.anonymize(wav, 16_000, seed=1, chunk_seconds=None, return_report=True)
    _, cut = system.anonymize(wav, 16_000, seed=1, chunk_seconds=limit, return_report=True)
    assert math.isclose(whole.gain_db, cut.gain_db, abs_tol=0.2 if system.info.discrete else 1e-3)


@pytest.mark.parametrize("loudness", ["loud", "", None, 1])
def test_other_words_raise(passing, loudness):
    with pytest.raises(ConfigError, match=r"loudness: .*published, keep, none"):
        passing.anonymize(signals.speech(0.3), 16_000, loudness=loudness)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32"])
@pytest.mark.parametrize("peak", [1.0001, 1.5, 40.0])
def test_writing_integers_scales_the_whole_file_and_says_so(tmp_path, subtype, peak):
    src, dst = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(src, signals.tone(0.5, peak=0.5).numpy(), 16_000, subtype)
    given = soundfile.read(src, dtype="float32")[0]
    loud = systems.PassThrough(lambda batch: batch * (peak / batch.abs().max()))
    with pytest.warns(AudioWarning, match=r"scaled by -\d+\.\d+ dB") as caught:
        loud.anonymize_file(src, dst)
    (said,) = caught
    gain_db = float(re.search(r"by (-\d+\.\d+) dB", str(said.message)).group(1))
    assert str(dst) in str(said.message)
    assert math.isclose(gain_db, -20 * math.log10(peak), abs_tol=0.01)
    written = soundfile.read(dst, dtype="float64")[0]
    assert soundfile.info(dst).subtype == subtype
    step = 2.0 ** (1 - int(subtype[-2:]))
    assert np.abs(written - given / np.abs(given).max()).max() <= 2 * step + 1e-6


def test_writing_integers_in_range_changes_nothing(tmp_path):
    src, dst = tmp_path / "in.wav", tmp_path / "out.wav"
    values = np.array([-32_768, -32_767, -1, 0, 1, 12_345, 32_766, 32_767] * 500, np.int16)
    soundfile.write(src, values, 16_000, "PCM_16")
    systems.PassThrough().anonymize_file(src, dst)
    assert np.array_equal(soundfile.read(dst, dtype="int16")[0], values)


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_writing_floats_scales_nothing(tmp_path, subtype):
    src, dst = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(src, signals.tone(0.5, peak=0.5).numpy(), 16_000, subtype)
    systems.PassThrough(lambda batch: 4 * batch).anonymize_file(src, dst)
    assert math.isclose(np.abs(soundfile.read(dst)[0]).max(), 2.0, rel_tol=1e-3)


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".ogg"])
def test_nothing_wraps_in_any_format(tmp_path, suffix):
    src, dst = tmp_path / "in.wav", tmp_path / f"out{suffix}"
    wav = signals.tone(0.5, frequency=200, peak=0.9).numpy()
    soundfile.write(src, wav, 16_000, "PCM_16")
    with pytest.warns(AudioWarning, match="dB"):
        systems.PassThrough(lambda batch: 3 * batch).anonymize_file(src, dst)
    written = soundfile.read(dst, dtype="float32")[0]
    assert np.corrcoef(written, wav)[0, 1] > 0.999


@pytest.mark.filterwarnings("ignore:.*scaled by:voiceanon.AudioWarning")
@pytest.mark.parametrize("loudness", ["published", "keep", "none"])
def test_a_file_holds_what_an_array_gives(system, tmp_path, loudness):
    src, dst = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(src, signals.speech(0.7, 44_100).numpy(), 44_100, "PCM_16")
    expected = system.anonymize(src, seed=1, loudness=loudness)
    system.anonymize_file(src, dst, seed=1, loudness=loudness)
    written = soundfile.read(dst, dtype="float32")[0]
    peak = np.abs(expected).max()
    # Half a step of 16 bit, which counts where the result is faint.
    assert_close(written, expected / max(1.0, peak), 1e-4 + 2**-16 / min(1.0, peak))
