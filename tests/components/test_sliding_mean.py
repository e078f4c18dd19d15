"""Sliding mean against Kaldi's stored values and against its definition, frame by frame."""

from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.features.cmn import subtract_sliding_mean

STORED = np.load(Path(__file__).parents[1] / "golden" / "xvector_nsf" / "features.npz")

TOLERANCE = 1e-4
"""Absolute, for values up to 60: Kaldi adds up in float32."""


def noise(*shape):
    return 10 + torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def plain(x, window):
    rows = []
    for t in range(len(x)):
        start, end = t - window // 2, t - window // 2 + window
        if start < 0:
            start, end = 0, end - start
        if end > len(x):
            start, end = max(0, start - (end - len(x))), len(x)
        rows.append(x[t] - x[start:end].double().mean(0).float())
    return torch.stack(rows)


def test_stored_values():
    x = torch.from_numpy(STORED["mfcc30_compressed"])
    result = subtract_sliding_mean(x[None], torch.tensor([len(x)]))[0]
    expected = torch.from_numpy(STORED["cmn_sliding"])
    torch.testing.assert_close(result, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("frames", [1, 2, 150, 299, 300, 301, 450, 700])
def test_is_what_its_definition_says(frames):
    x = noise(frames, 3)
    result = subtract_sliding_mean(x[None], torch.tensor([frames]))[0]
    torch.testing.assert_close(result, plain(x, 300), rtol=0, atol=1e-5)


def test_long_recording_keeps_its_digits():
    x = 1_000 + noise(20_000, 1)
    result = subtract_sliding_mean(x[None], torch.tensor([20_000]))[0]
    last = x[-1] - x[-300:].double().mean(0).float()
    torch.testing.assert_close(result[-1], last, rtol=0, atol=2e-4)


@pytest.mark.parametrize("window", [4, 5])
def test_other_windows(window):
    x = noise(20, 3)
    result = subtract_sliding_mean(x[None], torch.tensor([20]), window=window)[0]
    torch.testing.assert_close(result, plain(x, window), rtol=0, atol=1e-5)


def test_batch_equals_single_recordings():
    x = noise(3, 700, 4)
    frames = torch.tensor([700, 310, 1])
    for row, count in zip(x, frames, strict=True):
        row[count:] = torch.nan
    result = subtract_sliding_mean(x, frames)
    assert result.isfinite().all()
    for row, own, count in zip(x, result, frames, strict=True):
        alone = subtract_sliding_mean(row[None, :count], count[None])[0]
        assert torch.equal(own[:count], alone)
