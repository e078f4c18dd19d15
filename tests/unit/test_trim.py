"""Trimming of references by voice activity."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.audio.trim import MIN_SAMPLES, trim_voice

GOLDEN_DIR = Path(__file__).parents[1] / "golden" / "knn_vc"
GOLDEN = json.loads((GOLDEN_DIR / "vad.json").read_text())
RATE = 16_000


@pytest.fixture(scope="module")
def speech():
    samples = np.load(GOLDEN_DIR / "input.npz")["utt_int16"]
    return torch.from_numpy(samples.astype(np.float32) / 32768)


@pytest.mark.parametrize(
    ("before", "after"), [(0, 0), (8000, 8000), (16_000, 16_000), (24_000, 4000)]
)
def test_golden(speech, before, after):
    golden = GOLDEN[f"zeros{before}_utt_zeros{after}"]
    clip = torch.cat([torch.zeros(before), speech, torch.zeros(after)])
    assert len(clip) == golden["in"]
    trimmed = trim_voice(clip, RATE)
    assert len(trimmed) == golden["after_both"]
    start = golden["front_removed"]
    assert torch.equal(trimmed, clip[start : start + len(trimmed)])


@pytest.mark.parametrize(("ratio", "frames"), [(1.15, 112), (0.9, 141)])
def test_references_of_the_golden_chain(speech, ratio, frames):
    positions = np.arange(0, len(speech) - 1, ratio)
    warped = np.interp(positions, np.arange(len(speech)), speech.numpy().astype(np.float64))
    clip = torch.from_numpy(np.pad(warped, 8000).astype(np.float32))
    assert (len(trim_voice(clip, RATE)) - 400) // 320 + 1 == frames


def test_silence_and_short_clips_stay_whole(speech):
    # The detector itself leaves nothing of these (`GOLDEN`: length 0).
    assert GOLDEN["zeros_16000"] == GOLDEN["utt[5000:9000]"] == 0
    noise = 0.1 * torch.randn(RATE, generator=torch.Generator().manual_seed(0))
    for clip in (torch.zeros(RATE), speech[5000:9000], noise):
        assert trim_voice(clip, RATE) is clip


@pytest.mark.parametrize("samples", [0, 1, MIN_SAMPLES - 1, MIN_SAMPLES, 1600])
def test_clips_of_any_length(speech, samples):
    clip = speech[10_000 : 10_000 + samples]
    assert trim_voice(clip, RATE) is clip


def test_fewest_samples_that_may_be_left(speech):
    assert len(trim_voice(speech, RATE, min_samples=26_640)) == 26_640
    assert trim_voice(speech, RATE, min_samples=26_641) is speech


def test_trigger_level(speech):
    # The higher, the later does speech begin; 0 stands for no trimming.
    lengths = [len(trim_voice(speech, RATE, level)) for level in (0.0, 7.0, 10.0)]
    assert lengths == [len(speech), 26_640, 13_840]


def test_input_is_left_alone(speech):
    before = speech.clone()
    with torch.inference_mode():
        trimmed = trim_voice(speech, RATE)
        trimmed.zero_()
    assert torch.equal(speech, before)
