"""48 to 16 kHz against resampy's stored outputs, and by what a low-pass filter has to do."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.kaiser_resampling import BETA, ROLLOFF, resample_48_to_16, taps

STORED = np.load(Path(__file__).parents[1] / "golden" / "gan_fastspeech2" / "resample.npz")
TOLERANCE = 1e-6
"""Absolute, at a peak of 0.9; float32."""


def run(wav):
    wav = torch.as_tensor(wav)
    result, lengths = resample_48_to_16(wav[None], torch.tensor([len(wav)]))
    assert lengths.tolist() == [len(result[0])] == [len(wav) // 3]
    assert result.dtype == wav.dtype
    return result[0].numpy()


def test_taps():
    left, right = taps()
    np.testing.assert_allclose(left, STORED["taps_left"], rtol=0, atol=1e-10)
    np.testing.assert_allclose(right, STORED["taps_right"], rtol=0, atol=1e-10)


def test_taps_are_a_sinc_under_a_window():
    """Without the table: exact on the left, but for the cut step; to its slope on the right."""
    left, right = taps()
    for side, places in (
        (left, np.arange(150) * 2730 / 8192),
        (right, (np.arange(149) * 2730 + 8192 / 3) / 8192),
    ):
        window = np.i0(BETA * np.sqrt(1 - (places / 50) ** 2)) / np.i0(BETA)
        expected = ROLLOFF / 3 * np.sinc(ROLLOFF * places) * window
        np.testing.assert_allclose(side, expected, rtol=0, atol=1e-8)


def test_float32():
    np.testing.assert_allclose(run(STORED["y48"]), STORED["y16"], rtol=0, atol=TOLERANCE)


def test_float64():
    np.testing.assert_allclose(run(STORED["x64_48k"]), STORED["y64_16k"], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("hertz", "gain"), [(0, 1), (500, 1), (6500, 1), (8500, 0), (15_000, 0)])
def test_pass_and_stop_band(hertz, gain):
    time = np.arange(9000) / 48_000
    result = run(np.cos(2 * math.pi * hertz * time + 0.3))[200:-200]
    expected = gain * np.cos(2 * math.pi * hertz * time[::3] + 0.3)[200:-200]
    # The cut step bends the filter by 2e-4.
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("samples", [0, 1, 2, 3, 4, 5, 100])
def test_short(samples):
    assert len(run(torch.ones(samples))) == samples // 3


@pytest.mark.parametrize("padding", [0.0, math.inf, math.nan])
def test_a_batch_equals_single_recordings(padding):
    wav = torch.from_numpy(STORED["y48"])
    counts = [len(wav), 3001, 100, 2, 0]
    batch = torch.full((5, len(wav) + 10), padding)
    for row, count in zip(batch, counts, strict=True):
        row[:count] = wav[:count]
    result, lengths = resample_48_to_16(batch, torch.tensor(counts))
    assert lengths.tolist() == [count // 3 for count in counts]
    for row, count in zip(result, counts, strict=True):
        np.testing.assert_allclose(
            row[: count // 3].numpy(), run(wav[:count]), rtol=0, atol=TOLERANCE
        )
        assert not row[count // 3 :].any()


def test_autocast_does_not_matter():
    with torch.autocast("cpu", torch.bfloat16):
        result = run(STORED["y48"])
    np.testing.assert_allclose(result, STORED["y16"], rtol=0, atol=TOLERANCE)
