import math

import pytest
import torch

from voiceanon.audio.level import LevelMeter, decibels, peak_gain, rms_gain


def meter(*blocks):
    level = LevelMeter()
    for block in blocks:
        level.add(torch.tensor(block))
    return level


def test_meter_is_the_same_for_blocks_and_whole():
    parts, whole = meter([0.5, -0.7], [], [0.1]), meter([0.5, -0.7, 0.1])
    assert parts.peak == whole.peak == pytest.approx(0.7)
    assert parts.rms == pytest.approx(whole.rms) == pytest.approx(math.sqrt(0.75 / 3))


def test_meter_sums_in_float64():
    level = LevelMeter()
    for _ in range(64):
        level.add(torch.full((1 << 20,), 0.1))
    assert level.rms == pytest.approx(0.1, rel=1e-7)


def test_gains():
    assert peak_gain(0.5, 1.0) == 2.0
    assert peak_gain(0.0, 1.0) == 1.0
    assert rms_gain(meter([0.2, -0.2]), meter([0.1, 0.1])) == pytest.approx(2.0)
    assert rms_gain(meter([0.0]), meter([0.1])) == 1.0
    assert rms_gain(meter([0.1]), meter([0.0])) == 1.0
    assert decibels(10.0) == 20.0
