"""Loudness against golden values and torchaudio, streamed in blocks of any size."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torchaudio import functional

from voiceanon.audio.biquads import filter_clamped
from voiceanon.audio.loudness import (
    ABSOLUTE_GATE,
    LoudnessMeter,
    k_weighting,
    loudness_gain,
)

GOLDEN_DIR = Path(__file__).parents[1] / "golden" / "knn_vc"
GOLDEN = json.loads((GOLDEN_DIR / "loudness.json").read_text())
RATE = 16_000
TARGET = -16.0

# The reference filters in float32; float64 is within 1e-5 LU of it.
LEVEL_TOLERANCE = 1e-3
SAMPLE_TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def speech():
    samples = np.load(GOLDEN_DIR / "input.npz")["utt_int16"]
    return torch.from_numpy(samples.astype(np.float32) / 32768)


def measure(wav, rate=RATE, sizes=()):
    meter = LoudnessMeter(rate)
    start = 0
    for size in sizes:
        meter.add(wav[start : start + size])
        start += size
    meter.add(wav[start:])
    return meter


def lkfs(wav, rate=RATE):
    return measure(wav, rate).lkfs


def weigh(wav, rate=RATE):
    return filter_clamped(wav.numpy(), k_weighting(rate), np.zeros((2, 2)))


def sine(amplitude):
    t = torch.arange(2 * RATE, dtype=torch.float64) / RATE
    return (amplitude * torch.sin(2 * math.pi * 997 * t)).float()


def level(value):
    return pytest.approx(value, abs=LEVEL_TOLERANCE)


def test_golden_levels(speech):
    assert lkfs(speech) == level(GOLDEN["utterance_lkfs"])
    for scale, expected in GOLDEN["scaled"].items():
        assert lkfs(speech * float(scale)) == level(expected)
    assert lkfs(sine(1.0)) == level(GOLDEN["sine_997hz_2s_amp1"])
    assert lkfs(sine(0.1)) == level(GOLDEN["sine_997hz_2s_amp0.1"])
    assert lkfs(speech[5000:11400]) == level(GOLDEN["first_6400_from_5000"])
    longer = torch.cat([speech, torch.zeros(2 * RATE)])
    assert lkfs(longer) == level(GOLDEN["utterance_plus_2s_zeros"])


def test_golden_blocks(speech):
    meter = measure(speech)
    found = -0.691 + 10 * np.log10(np.array(meter._energies))
    np.testing.assert_allclose(found, GOLDEN["block_lkfs"], rtol=0, atol=LEVEL_TOLERANCE)


def test_golden_samples(speech):
    found = weigh(speech)[8000:8008]
    expected = GOLDEN["k_weighted_first8_from_8000"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=SAMPLE_TOLERANCE)


def test_golden_gain(speech):
    gain = loudness_gain(lkfs(speech), TARGET)
    assert 20 * math.log10(gain) == level(GOLDEN["utterance_gain_db"])
    louder = speech * gain
    assert louder.abs().max().item() == pytest.approx(GOLDEN["peak_after_gain"], abs=1e-4)
    assert lkfs(louder) == level(GOLDEN["lkfs_after_gain"])


def test_golden_chain():
    golden = np.load(GOLDEN_DIR / "chain_small.npz")
    raw = torch.from_numpy(golden["raw"])
    found = lkfs(raw)
    assert found == level(float(golden["raw_lkfs"]))
    output = raw * loudness_gain(found, TARGET)
    np.testing.assert_allclose(output.numpy(), golden["output"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("scale", [0.5, 20])
def test_other_rates(speech, rate, scale):
    wav = (speech * scale).repeat(1 + rate // RATE)
    assert lkfs(wav, rate) == level(functional.loudness(wav[None], rate).item())


@pytest.mark.parametrize("scale", [1, 8])
def test_weighting_equals_torchaudio(speech, scale):
    wav = speech * scale
    shelf = functional.treble_biquad(wav, RATE, 4.0, 1500.0, 1 / math.sqrt(2))
    expected = functional.highpass_biquad(shelf, RATE, 38.0, 0.5).numpy()
    # Its float32 error is relative to the signal.
    np.testing.assert_allclose(
        weigh(wav), expected, rtol=0, atol=SAMPLE_TOLERANCE * max(1, scale / 4)
    )


@pytest.mark.parametrize("scale", [1, 20])
@pytest.mark.parametrize("size", [331, 1600, 6400, 6401, 30_000])
def test_blocks_equal_the_whole(speech, size, scale):
    wav = speech * scale
    whole = measure(wav)
    parts = measure(wav, sizes=[size] * (len(wav) // size))
    assert parts.lkfs == pytest.approx(whole.lkfs, abs=1e-9)
    assert len(parts._energies) == len(whole._energies)


def test_blocks_of_one_sample_and_of_none(speech):
    wav = speech[:8200]
    parts = measure(wav, sizes=[1, 0, 1, 6397, 1, 1] + [1] * 50)
    assert parts.lkfs == pytest.approx(lkfs(wav), abs=1e-9)


def test_long_audio_in_one_block(speech):
    wav = speech.repeat(12)
    assert lkfs(wav) == level(functional.loudness(wav[None], RATE).item())


def test_memory_grows_by_the_block_energies_alone(speech):
    meter = LoudnessMeter(RATE)
    for _ in range(50):
        meter.add(speech)
        assert len(meter._squares) < 6400
    seconds = 50 * len(speech) / RATE
    assert len(meter._energies) == pytest.approx(10 * seconds, abs=4)


@pytest.mark.parametrize("samples", [0, 1, 6399])
def test_no_loudness_below_one_block(speech, samples):
    assert lkfs(speech[8000 : 8000 + samples]) is None


def test_loudness_of_exactly_one_block(speech):
    assert lkfs(speech[8000:14_400]) is not None


def test_no_loudness_of_silence():
    assert lkfs(torch.zeros(RATE)) is None
    assert lkfs(sine(10 ** ((ABSOLUTE_GATE - 3) / 20))) is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_loudness_of_what_is_not_finite(speech, value):
    wav = speech.clone()
    wav[9000] = value
    assert lkfs(wav) is None


def test_gate_ignores_pauses_at_any_place(speech):
    alone = lkfs(speech)
    paused = torch.cat([torch.zeros(3 * RATE), speech, torch.zeros(5 * RATE)])
    assert lkfs(paused) == pytest.approx(alone, abs=0.05)


def test_filters_come_to_rest():
    """Digital silence after a sound ends in plain zeros, which cost no more than other numbers."""
    state = np.zeros((2, 2))
    sections = k_weighting(RATE)
    filter_clamped(np.ones(100, np.float32), sections, state)
    assert state.any()
    filter_clamped(np.zeros(RATE, np.float32), sections, state)
    assert not state.any()


def test_gain():
    assert loudness_gain(None, TARGET) == 1.0
    assert loudness_gain(-16.0, TARGET) == 1.0
    assert loudness_gain(-36.0, TARGET) == pytest.approx(10.0)
    assert loudness_gain(-10.0, TARGET) == pytest.approx(10 ** (-6 / 20))


def test_inference_tensors_and_views(speech):
    with torch.inference_mode():
        stereo = torch.stack([speech, speech], dim=1)
        assert lkfs(stereo[:, 1]) == pytest.approx(lkfs(speech), abs=1e-9)
