"""Kaldi's lossy compression against its stored results and against plain code, value by value."""

from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.features.compression import compress_and_restore

GOLDEN = Path(__file__).parents[1] / "golden" / "xvector_nsf"

ROUNDING = 1.5e-7
"""Relative to the largest value: the last bit of float32."""

CASES = [
    ("features", "mfcc30", "mfcc30_compressed"),
    ("features", "mfcc40", "mfcc40_compressed"),
    ("ivector", "ivectors_utt1", "ivectors_utt1_compressed"),
    ("bn_small", "bn", "bn_compressed"),
]


def run(x):
    return compress_and_restore(x[None], torch.tensor([len(x)]))[0]


def close(result, expected):
    largest = float(expected.abs().max())
    torch.testing.assert_close(result, expected, rtol=0, atol=ROUNDING * largest)


@pytest.mark.parametrize(("file", "before", "after"), CASES)
def test_stored_results(file, before, after):
    stored = np.load(GOLDEN / f"{file}.npz")
    expected = torch.from_numpy(stored[after])
    close(run(torch.from_numpy(stored[before])), expected)
    assert (expected - torch.from_numpy(stored[before])).abs().max() > 1e-4


def plain(matrix):
    """The layout of section 15.3, one value after the other."""
    f32 = np.float32
    low = matrix.min()
    high = matrix.max()
    if low == high:
        high = low + f32(1 + abs(low))
    span = f32(high - low)

    def level(value):
        share = min(max(f32((value - low) / span), f32(0)), f32(1))
        return int(float(f32(share * f32(65_535))) + 0.499)

    def value(number):
        return f32(low + f32(f32(span * f32(1.52590218966964e-05)) * f32(number)))

    if len(matrix) <= 8:
        return np.array([[value(level(v)) for v in row] for row in matrix])
    columns = []
    for column in matrix.T:
        ordered, quarter = np.sort(column), len(column) // 4
        p0 = min(level(ordered[0]), 65_532)
        p25 = min(max(level(ordered[quarter]), p0 + 1), 65_533)
        p75 = min(max(level(ordered[3 * quarter]), p25 + 1), 65_534)
        p100 = max(level(ordered[-1]), p75 + 1)
        marks = [value(p) for p in (p0, p25, p75, p100)]
        restored = []
        for v in column:
            place = 0 if v < marks[1] else 1 if v < marks[2] else 2
            start, end, steps = marks[place], marks[place + 1], (64, 128, 63)[place]
            step = int(float(f32(f32((v - start) / (end - start)) * f32(steps))) + 0.5)
            step = min(max(step, 0), steps)
            restored.append(f32(float(start) + float(f32((end - start) * f32(step))) / steps))
        columns.append(restored)
    return np.array(columns).T


@pytest.mark.parametrize("frames", [1, 4, 8, 9, 10, 11, 12, 50])
def test_is_what_its_definition_says(frames):
    x = torch.randn(frames, 5, generator=torch.Generator().manual_seed(frames)) * 20
    # A column that is constant, and one that lies at the upper end.
    x[:, 1], x[:, 2] = 3.0, 90.0
    close(run(x), torch.from_numpy(plain(x.numpy())))


@pytest.mark.parametrize("frames", [3, 30])
def test_constant_matrix(frames):
    x = torch.full((frames, 2), -4.0)
    close(run(x), torch.from_numpy(plain(x.numpy())))


def test_batch_equals_single_recordings():
    x = 10 * torch.randn(4, 60, 7, generator=torch.Generator().manual_seed(0))
    frames = torch.tensor([60, 23, 8, 1])
    for row, count in zip(x, frames, strict=True):
        row[count:] = torch.nan
    result = compress_and_restore(x, frames)
    assert result.isfinite().all()
    for row, own, count in zip(x, result, frames, strict=True):
        assert torch.equal(own[:count], run(row[:count]))
