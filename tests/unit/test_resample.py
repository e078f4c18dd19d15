import numpy as np
import pytest
import scipy.signal
import torch

from voiceanon.audio.resample import Resampler, resample, resampled_length


def tone(frequency, rate, seconds=1.0):
    time = np.arange(int(seconds * rate)) / rate
    return torch.from_numpy(np.sin(2 * np.pi * frequency * time)).float()


@pytest.mark.parametrize("rates", [(44100, 16000), (8000, 16000), (16000, 44100), (11127, 16000)])
@pytest.mark.parametrize("samples", [1, 2, 3, 100, 44101])
def test_exact_length(rates, samples):
    wav = torch.randn(samples)
    there = resample(wav, *rates)
    assert len(there) == resampled_length(samples, *rates) == -(-samples * rates[1] // rates[0])
    assert len(resample(there, rates[1], rates[0], exact=samples)) == samples


@pytest.mark.parametrize("rates", [(44100, 16000), (8000, 16000), (16000, 44100), (11127, 16000)])
def test_tones_keep_their_place(rates):
    # A wrong delay of one sample would give an error of 0.4 at 1 kHz and 16 kHz.
    result, expected = resample(tone(1000, rates[0]), *rates), tone(1000, rates[1])
    inside = slice(500, min(len(result), len(expected)) - 500)
    assert (result[inside] - expected[inside]).abs().max() < 1e-3


def test_agrees_with_an_independent_resampler():
    wav = torch.from_numpy(scipy.signal.firwin(4001, 3000, fs=48000) * 100).float()
    expected = scipy.signal.resample_poly(wav.numpy(), 1, 3)
    assert np.abs(resample(wav, 48000, 16000).numpy() - expected).max() < 2e-3 * expected.max()


@pytest.mark.parametrize("block", [1000, 7777])
def test_blocks_give_the_whole(block):
    wav = torch.randn(30000, generator=torch.Generator().manual_seed(0))
    stream = Resampler(44100, 16000)
    starts = range(0, len(wav), block)
    pieces = [stream.push(wav[i : i + block], last=i + block >= len(wav)) for i in starts]
    torch.testing.assert_close(torch.cat(pieces), resample(wav, 44100, 16000), rtol=0, atol=1e-5)


def test_images_are_60_db_down():
    rate, seconds = 8000, 4.0
    time = np.arange(int(rate * seconds)) / rate
    sweep = scipy.signal.chirp(time, 100, seconds, 3600).astype(np.float32)
    result = resample(torch.from_numpy(sweep), rate, 16000).numpy()
    # The sweep's abrupt ends hold all frequencies; the window leaves them out.
    spectrum = np.abs(np.fft.rfft(result * scipy.signal.windows.hann(len(result))))
    frequency = np.fft.rfftfreq(int(16000 * seconds), 1 / 16000)
    band, image = spectrum[frequency < 3700], spectrum[frequency > 4300]
    assert 20 * np.log10(image.max() / band.max()) < -60
