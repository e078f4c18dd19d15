"""Resampling by windowed sinc, held to torchaudio, to soxr, and to the stored steps of B4."""

import numpy as np
import pytest
import soxr
import torch
import torchaudio
from golden.codec_lm_files import FOLDER

from voiceanon.components.sinc_resampling import SOXR_HQ_2_3, resample, torchaudio_filter

CHAIN = np.load(FOLDER / "chain.npz")
TOLERANCE = 1e-6
"""Share of full scale: float32 sums of up to 294 products."""


def noise(samples, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, samples).astype(np.float32)


def run(wav, ratio):
    result, lengths = resample(torch.as_tensor(wav)[None], torch.tensor([len(wav)]), ratio)
    assert lengths.tolist() == [result.shape[1]]
    return result[0].numpy()


@pytest.mark.parametrize(
    ("before", "after", "ratio"),
    [
        ("wave16k", "wave24k", torchaudio_filter(3, 2)),
        ("wave24k", "hubert_in16k", torchaudio_filter(2, 3)),
        ("wave_out24k", "wave_out16k", SOXR_HQ_2_3),
    ],
)
def test_the_published_steps(before, after, ratio):
    expected = CHAIN[after]
    peak = max(1.0, np.abs(expected).max())
    assert np.abs(run(CHAIN[before], ratio) - expected).max() <= TOLERANCE * peak


@pytest.mark.parametrize(("up", "down"), [(3, 2), (2, 3), (1, 2), (2, 1), (147, 160)])
@pytest.mark.parametrize("samples", [1, 2, 7, 1000])
def test_torchaudio(up, down, samples):
    """In float64, since its kernel is as exact as the signal."""
    wav = noise(samples).astype(np.float64)
    expected = torchaudio.functional.resample(torch.from_numpy(wav), down, up).numpy()
    result = run(wav, torchaudio_filter(up, down))
    assert result.shape == expected.shape
    assert np.abs(result - expected).max() <= 1e-10


@pytest.mark.parametrize("samples", [320, 321, 322, 24_000])
def test_soxr_on_white_noise_with_its_length(samples):
    wav = noise(samples)
    expected = soxr.resample(wav, 24_000, 16_000, quality="HQ")
    result = run(wav, SOXR_HQ_2_3)
    assert len(result) == -(-samples * 2 // 3)
    # soxr rounds its length to the nearest.
    common = min(len(result), len(expected))
    assert len(result) - common <= 1
    assert np.abs(result[:common] - expected[:common]).max() <= 2e-6


def test_a_constant_stays_one():
    for ratio in (SOXR_HQ_2_3, torchaudio_filter(3, 2)):
        middle = run(np.full(2000, 0.5, np.float32), ratio)[400:-400]
        assert np.abs(middle - 0.5).max() <= 5e-4


@pytest.mark.parametrize("padding", [0.0, torch.nan, torch.inf])
@pytest.mark.parametrize("ratio", [torchaudio_filter(3, 2), torchaudio_filter(2, 3), SOXR_HQ_2_3])
def test_a_padded_batch(ratio, padding):
    lengths = [1, 500, 333, 2]
    batch = torch.full((4, 500), padding)
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = torch.from_numpy(noise(length, length))
    result, ends = resample(batch, torch.tensor(lengths), ratio)
    for i, length in enumerate(lengths):
        expected = run(noise(length, length), ratio)
        assert int(ends[i]) == len(expected)
        assert np.abs(result[i, : len(expected)].numpy() - expected).max() <= TOLERANCE
        assert not result[i, len(expected) :].any()


def test_other_types_and_defaults():
    wav = torch.from_numpy(noise(300)).double()[None]
    lengths = torch.tensor([300])
    expected, _ = resample(wav, lengths, SOXR_HQ_2_3)
    assert expected.dtype == torch.float64
    with torch.device("meta"):
        result, _ = resample(wav, lengths, SOXR_HQ_2_3)
    assert torch.equal(result, expected)
    with torch.autocast("cpu", torch.bfloat16):
        single, _ = resample(wav.float(), lengths, SOXR_HQ_2_3)
    assert float((single - expected).abs().max()) <= TOLERANCE
