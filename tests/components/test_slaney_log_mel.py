"""Log-mel spectra against the original's stored values and against librosa; batches; autocast."""

from pathlib import Path

import librosa
import numpy as np
import pytest
import torch

from voiceanon.components.features.slaney_log_mel import (
    BANDS,
    FFT_SAMPLES,
    HIGH_HZ,
    HOP_SAMPLES,
    LOW_HZ,
    SAMPLE_RATE,
    LogMel,
    frame_count,
    mirrored_frames,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
STORED = np.load(GOLDEN / "audio.npz")

TOLERANCE = 1e-5
"""Of logarithms: the quietest bands stand next to others 1e5 times as loud, at the limit of
float32; librosa's own matrix in place of ours is 6e-6 away, too."""

BATCH_TOLERANCE = 2e-6
"""Products of matrices of another height may add up in another order."""


@pytest.fixture(scope="module")
def log_mel():
    return LogMel()


@pytest.fixture(scope="module")
def wave():
    return torch.from_numpy(STORED["wave"])


def run(log_mel, wave):
    level, frames = log_mel(wave[None], torch.tensor([len(wave)]))
    assert level.shape == (1, frames.item(), BANDS)
    return level[0]


def test_stored_spectrum(log_mel, wave):
    result = run(log_mel, wave)
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result, STORED["logmel"], rtol=0, atol=TOLERANCE)


def test_bands_are_those_of_librosa(log_mel):
    expected = librosa.filters.mel(
        sr=SAMPLE_RATE, n_fft=FFT_SAMPLES, n_mels=BANDS, fmin=LOW_HZ, fmax=HIGH_HZ
    )
    np.testing.assert_allclose(log_mel.mel.T, expected, rtol=0, atol=2e-7)


@pytest.mark.parametrize("samples", [1, 2, 255, 256, 512, 513, 5000])
def test_recordings_are_mirrored_at_their_own_ends(wave, samples):
    batch = torch.full((1, 8000), float("nan"))
    batch[0, :samples] = wave[:samples]
    frames = mirrored_frames(batch, torch.tensor([samples]))[0]
    padded = np.pad(wave[:samples].numpy(), FFT_SAMPLES // 2, mode="reflect")
    expected = np.lib.stride_tricks.sliding_window_view(padded, FFT_SAMPLES)[::HOP_SAMPLES]
    count = frame_count(torch.tensor(samples))
    assert len(expected) == count
    np.testing.assert_array_equal(frames[:count], expected)


def test_batch_equals_items(log_mel, wave):
    lengths = torch.tensor([27072, 300, 9000, 20224, 1])
    batch = torch.full((len(lengths), 27072), float("nan"))
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = wave[:length]
    level, frames = log_mel(batch, lengths)
    assert level.isfinite().all()
    assert torch.equal(frames, lengths // HOP_SAMPLES + 1)
    for row, length, count in zip(level, lengths, frames, strict=True):
        alone = run(log_mel, wave[:length])
        torch.testing.assert_close(row[:count], alone, rtol=0, atol=BATCH_TOLERANCE)


def test_silence_gives_the_floor(log_mel):
    assert torch.equal(run(log_mel, torch.zeros(1000)), torch.full((4, BANDS), -10.0))


def test_autocast_and_inference_mode_change_nothing(log_mel, wave):
    expected = run(log_mel, wave)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(run(log_mel, wave), expected)


def test_needs_no_weights(log_mel):
    assert not log_mel.state_dict()
    with torch.device("meta"):
        assert LogMel().mel.device.type == "cpu"
