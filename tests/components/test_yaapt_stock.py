"""YAAPT as B1 has it, against stored outputs of AMFM_decompy 1.0.8.1.

The stored stages are what the functions of that package took and gave for the utterance, with
B1's settings.
"""

from pathlib import Path

import numpy as np
import pytest
import scipy.interpolate
import scipy.signal
import signals
import torch

from voiceanon.components.f0.frame_count import fit_frames
from voiceanon.components.f0.yaapt import AMFM_DECOMPY, Yaapt
from voiceanon.components.f0.yaapt.energy import energy_and_mean, voicing_flag
from voiceanon.components.f0.yaapt.frames import within
from voiceanon.components.f0.yaapt.merge import choose, merge
from voiceanon.components.f0.yaapt.spectral_track import spectral_candidates, spectral_track
from voiceanon.components.f0.yaapt.stock_correlation import nccf_candidates
from voiceanon.components.f0.yaapt.stock_interpolation import fill
from voiceanon.components.f0.yaapt.stock_signals import (
    band_limited,
    band_pass_taps,
    frame_counts,
)

GOLDEN = Path(__file__).parents[1] / "golden"
STORED = {
    name: torch.from_numpy(np.atleast_1d(x))
    for name, x in np.load(GOLDEN / "xvector_nsf" / "f0_stages.npz").items()
}
F0 = {name: torch.from_numpy(x) for name, x in np.load(GOLDEN / "xvector_nsf" / "f0.npz").items()}
PCM = np.load(GOLDEN / "vqbn_hifigan" / "inputs.npz")["pcm_367-130732-0000"]
WAV = torch.from_numpy(PCM / np.float32(32768))
LENGTHS = torch.tensor([len(WAV)])
FRAMES = frame_counts(LENGTHS, AMFM_DECOMPY)
VALID = within(FRAMES, int(FRAMES))

SAME_HZ = 1e-2
"""Hz up to which an F0 is the same: it is given as float32."""

SAME_SHARE = 0.98
"""Share of frames: among paths of equal cost, such as those by way of a candidate and of the median
of its neighbours, the rounding of a mean chooses. The chain differs in 1 of 233 frames, the dynamic
programming alone in 4."""

CHAIN_SHARE = 0.99


pytestmark = pytest.mark.usefixtures("one_thread")


def stored(*names):
    return [STORED[name][None] for name in names]


def close(result, expected, tolerance=1e-9):
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=tolerance)


def agreement(result, expected):
    assert result.shape == expected.shape
    return ((result - expected).abs() < SAME_HZ).double().mean()


# Stages: each gets the stored output of the stage in front of it.


def test_filters():
    linear, squared = band_limited(WAV[None], LENGTHS)
    close(linear[0, 5000:6000], STORED["linear_5000_6000"], 1e-15)
    expected = scipy.signal.lfilter(band_pass_taps().numpy(), 1, WAV.double().numpy() ** 2)
    close(squared[0, : len(WAV)], torch.from_numpy(expected), 1e-15)
    assert not squared[0, len(WAV) :].any()


def test_taps_are_those_of_scipy():
    expected = scipy.signal.firwin(151, [50, 1500], pass_zero=False, fs=16_000)
    close(band_pass_taps(), torch.from_numpy(expected), 1e-16)


def test_energy():
    linear, _ = band_limited(WAV[None], LENGTHS)
    close(energy_and_mean(linear, VALID, AMFM_DECOMPY)[0][0], STORED["energy"])


def test_spectral_candidates():
    _, squared = band_limited(WAV[None], LENGTHS)
    flagged = voicing_flag(STORED["energy"])
    hertz, merits = spectral_candidates(squared, flagged[None], AMFM_DECOMPY)
    assert torch.equal(hertz[0, flagged], STORED["peaks_hertz"])
    close(merits[0, flagged], STORED["peaks_merits"])


def test_spectral_track():
    flagged = voicing_flag(STORED["energy"])
    hertz = torch.zeros(1, len(flagged), 4, dtype=torch.float64)
    merits = torch.ones_like(hertz)
    hertz[0, flagged], merits[0, flagged] = STORED["peaks_hertz"], STORED["peaks_merits"]
    track, spread, tracked = spectral_track(hertz, merits, FRAMES, AMFM_DECOMPY)
    assert bool(tracked)
    close(track[0], STORED["track"])
    close(spread, STORED["spread"])


@pytest.mark.parametrize("number", [1, 2])
def test_nccf_candidates(number):
    signal = band_limited(WAV[None], LENGTHS)[number - 1]
    (track,) = stored("track")
    hertz, merits = nccf_candidates(signal, track, STORED["spread"], VALID, AMFM_DECOMPY)
    close(hertz[0], STORED[f"hertz{number}"])
    close(merits[0], STORED[f"merits{number}"])


def test_merge():
    both = [stored(f"hertz{number}", f"merits{number}") for number in (1, 2)]
    track, energy = stored("track", "energy")
    hertz, merits = merge(*both, track, energy, voicing_flag(energy))
    assert torch.equal(hertz[0], STORED["merged_hertz"])
    close(merits[0], STORED["merged_merits"])


def test_dynamic_programming():
    hertz, merits, energy = stored("merged_hertz", "merged_merits", "energy")
    result = choose(hertz, merits, energy, VALID, AMFM_DECOMPY)
    assert agreement(result[0], STORED["f0"]) >= SAME_SHARE


# The chain.


def test_f0():
    f0, frames = Yaapt(AMFM_DECOMPY)(WAV[None], LENGTHS)
    assert f0.dtype == torch.float32
    assert frames.tolist() == [233]
    assert agreement(f0[0], F0["f0_yaapt"]) >= CHAIN_SHARE
    fitted = fit_frames(f0, torch.tensor([f0.shape[1]]), torch.tensor([235]), 235)
    assert agreement(fitted[0], F0["f0_aligned"]) >= CHAIN_SHARE


def test_batch_of_mixed_lengths_equals_single_recordings():
    waves = [signals.speech(seconds, seed=n) for n, seconds in enumerate((2.0, 0.7, 0.03, 1.3))]
    lengths = torch.tensor([len(wav) for wav in waves])
    batch = torch.full((4, int(lengths.max())), torch.nan)
    for row, wav in zip(batch, waves, strict=True):
        row[: len(wav)] = wav
    tracker = Yaapt(AMFM_DECOMPY)
    f0, frames = tracker(batch, lengths)
    assert (f0[0] > 0).any()
    for row, count, wav, length in zip(f0, frames, waves, lengths, strict=True):
        alone, own = tracker(wav[None], length[None])
        assert own[0] == count
        if count:
            assert agreement(row[:count], alone[0]) >= CHAIN_SHARE
        assert not row[count:].any()


@pytest.mark.parametrize(
    ("samples", "frames"), [(1, 0), (560, 0), (561, 1), (720, 1), (721, 2), (1041, 4), (1201, 5)]
)
def test_frame_counts(samples, frames):
    wav = signals.speech(0.1)[:samples]
    f0, counts = Yaapt(AMFM_DECOMPY)(wav[None], torch.tensor([samples]))
    assert f0.shape == (1, frames)
    assert counts.tolist() == [frames]


def test_silence_is_unvoiced():
    f0, _ = Yaapt(AMFM_DECOMPY)(torch.zeros(2, 8000), torch.tensor([8000, 3000]))
    assert f0.shape == (2, 47)
    assert not f0.any()


@pytest.mark.parametrize("seed", range(5))
def test_track_is_filled_as_by_scipy(seed):
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((3, 40)) < 0.3, rng.uniform(80, 300, (3, 40)).round(-1), 0)
    rows[:, [0, 20, -1]] = 100, 180, 120
    rows[2, 21:] = 0
    sizes = (40, 40, 21)
    rows[1, 1:-1] = 0
    result = fill(torch.from_numpy(rows))
    for row, filled, size in zip(rows, result, sizes, strict=True):
        (known,) = np.nonzero(row)
        curve = scipy.interpolate.PchipInterpolator(known, row[known])(range(size))
        smooth = scipy.signal.lfilter(np.ones(3) / 3, 1, curve)
        close(filled[:size], torch.from_numpy(smooth))


def test_frames_are_cut_or_unvoiced():
    f0 = torch.arange(1.0, 13).reshape(2, 6)
    tracked, frames = torch.tensor([6, 3]), torch.tensor([4, 5])
    assert fit_frames(f0, tracked, frames, 5).tolist() == [[1, 2, 3, 4, 0], [7, 8, 9, 0, 0]]
    assert fit_frames(f0[:, :0], 0 * tracked, frames, 5).tolist() == [[0] * 5] * 2
