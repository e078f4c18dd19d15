"""Normalised F0 and its frames against the original's, and against each item alone."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from voiceanon.components.f0.normalization import align_nearest, normalize_f0

GOLDEN = Path(__file__).parents[1] / "golden" / "vqbn_hifigan"
STORED = np.load(GOLDEN / "b6_reduced.npz")
RNG = np.random.default_rng(5)

TOLERANCE = 1e-6
"""Absolute, of values up to 4: the original sums in float32. Reached: 4e-7."""


def stored(name):
    return torch.from_numpy(STORED[name])[None]


def random_f0(frames, longest):
    """F0 with unvoiced parts; NaN behind each item."""
    f0 = RNG.uniform(60, 400, (len(frames), longest)).astype(np.float32)
    f0[RNG.uniform(0, 1, f0.shape) < 0.4] = 0
    for row, count in zip(f0, frames, strict=True):
        row[count:] = np.nan
    return torch.from_numpy(f0), torch.tensor(frames)


@pytest.mark.parametrize("name", ["det", "u367_2s"])
def test_stored_values(name):
    f0 = stored(f"{name}.f0_hz")
    frames = torch.tensor([f0.shape[1]])
    normal = normalize_f0(f0, frames)
    torch.testing.assert_close(normal, stored(f"{name}.f0_norm"), rtol=0, atol=TOLERANCE)
    expected = stored(f"{name}.f0_interp")
    aligned = align_nearest(stored(f"{name}.f0_norm"), frames, torch.tensor([expected.shape[1]]))
    assert torch.equal(aligned, expected)


def test_mean_and_deviation_are_those_of_the_voiced_frames():
    f0, frames = random_f0([200], 200)
    normal = normalize_f0(f0, frames)
    voiced = f0 != 0
    assert torch.equal(normal != 0, voiced)
    assert abs(float(normal[voiced].mean())) < 1e-6
    assert abs(float(normal[voiced].std()) - 1) < 1e-6


def test_an_item_of_a_batch_is_the_item_alone():
    f0, frames = random_f0([50, 1, 2, 300, 7, 149], 300)
    normal = normalize_f0(f0, frames)
    for row, alone, count in zip(normal, f0, frames, strict=True):
        expected = normalize_f0(alone[None, :count], count[None])
        assert torch.equal(row[:count], expected[0])
        assert not row[count:].any()


@pytest.mark.parametrize("values", [[0, 0, 0], [0, 150, 0], [150, 150, 150], [0], [210]])
def test_without_spread_all_is_zero(values):
    f0 = torch.tensor([values], dtype=torch.float32)
    assert torch.equal(normalize_f0(f0, torch.tensor([len(values)])), torch.zeros_like(f0))


def test_two_voiced_frames():
    result = normalize_f0(torch.tensor([[100.0, 0.0, 102.0]]), torch.tensor([3]))
    # Mean 101, unbiased variance 2.
    torch.testing.assert_close(result, torch.tensor([[-1.0, 0.0, 1.0]]) / 2**0.5)


@pytest.mark.parametrize("fewer", [0, 1])
def test_alignment_equals_interpolation_of_each_item(fewer):
    # From 4096 frames on, the rounding of float32 moves the last value.
    frames = torch.tensor([*range(1 + fewer, 2001), 4095, 4096, 4097, 4098, 5000])
    wanted = frames - fewer
    values = torch.arange(5000, dtype=torch.float32).expand(len(frames), -1)
    aligned = align_nearest(values, frames, wanted)
    assert aligned.shape == (len(frames), int(wanted.max()))
    for row, count, size in zip(aligned, frames.tolist(), wanted.tolist(), strict=True):
        expected = F.interpolate(values[:1, None, :count], size=size, mode="nearest")
        assert torch.equal(row[:size], expected[0, 0])
        assert not row[size:].any()


@pytest.mark.parametrize(("frames", "wanted"), [(1, 7), (5, 3), (30, 100), (100, 30), (77, 76)])
def test_alignment_to_any_number_of_frames(frames, wanted):
    values = torch.rand(1, frames + 4)
    aligned = align_nearest(values, torch.tensor([frames]), torch.tensor([wanted]))
    expected = F.interpolate(values[:, None, :frames], size=wanted, mode="nearest")[:, 0]
    assert torch.equal(aligned, expected)


@pytest.mark.gpu
def test_gpu_equals_cpu():
    f0, frames = random_f0([50, 1, 300], 300)
    normal = normalize_f0(f0.cuda(), frames.cuda()).cpu()
    torch.testing.assert_close(normal, normalize_f0(f0, frames), rtol=0, atol=1e-6)
    wanted = torch.tensor([49, 1, 300])
    aligned = align_nearest(normal.cuda(), frames.cuda(), wanted.cuda()).cpu()
    assert torch.equal(aligned, align_nearest(normal, frames, wanted))
