"""Pitch correlation from stored tracks."""

import json

import numpy as np
import pytest
from score_sets import GOLDEN

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics import MetricWarning, mean_pitch_correlation, pitch_correlation
from voiceanon.eval.metrics.pitch import _in_range, _stretched

NUMBERS = json.loads((GOLDEN / "pitch.json").read_text())
TRACKS = np.load(GOLDEN / "pitch.npz")
ORIGINAL, ANONYMIZED = TRACKS["f0_orig"], TRACKS["f0_anon"]


def test_golden():
    found = pitch_correlation(ORIGINAL, ANONYMIZED)
    golden = NUMBERS["pair1"]
    assert found.value == pytest.approx(golden["reference_pitchCorr"], abs=1e-10)
    assert found.voiced_only == pytest.approx(golden["voiced_only_pearson"], abs=1e-10)
    assert found.lag_frames == golden["lag"]


def test_golden_alignment():
    original = _in_range(_stretched(ORIGINAL, 236))
    np.testing.assert_allclose(original, TRACKS["f0_orig_aligned"], atol=1e-10)
    anonymized = np.roll(_in_range(ANONYMIZED), NUMBERS["pair1"]["lag"])
    np.testing.assert_allclose(anonymized, TRACKS["f0_anon_aligned"], atol=1e-10)
    voiced = (original > 0) & (anonymized > 0)
    assert pitch_correlation(ORIGINAL, ANONYMIZED).voiced_share == voiced.mean()


def test_golden_of_another_extractor():
    found = pitch_correlation(TRACKS["pair2_f0_orig"], TRACKS["pair2_f0_anon"])
    golden = NUMBERS["pair2_pyworld"]
    assert found.value == pytest.approx(golden["reference_pitchCorr"], abs=1e-10)
    assert found.lag_frames == golden["lag"]


def test_golden_ends():
    assert pitch_correlation(ORIGINAL, ORIGINAL).value == NUMBERS["self"]
    backwards = pitch_correlation(ORIGINAL, ORIGINAL[::-1])
    assert backwards.value == pytest.approx(NUMBERS["time_reversed"], abs=1e-10)
    silent = pitch_correlation(ORIGINAL, np.zeros(233))
    assert silent.value == NUMBERS["silent_anonymised"]
    assert np.isnan(silent.voiced_only)
    assert silent.voiced_share == 0


def test_a_shift_is_undone():
    track = np.zeros(300)
    track[50:120] = 150 + 20 * np.sin(np.arange(70) / 5)
    found = pitch_correlation(track, np.roll(track, 7))
    assert found.lag_frames == -7
    assert found.value == pytest.approx(1)
    assert pitch_correlation(np.roll(track, 7), track).lag_frames == 7


def test_long_recordings_take_another_way_to_the_same_number(monkeypatch):
    expected = pitch_correlation(ORIGINAL, ANONYMIZED)
    monkeypatch.setattr("voiceanon.eval.metrics.pitch.DIRECT_FRAMES", 100)
    assert pitch_correlation(ORIGINAL, ANONYMIZED) == expected


def test_values_out_of_range_are_unvoiced():
    track = np.tile([100.0, 120.0, 140.0], 20)
    wild = track.copy()
    wild[[3, 30]] = 60.0, 800.0
    quiet = track.copy()
    quiet[[3, 30]] = 0
    assert pitch_correlation(track, wild) == pitch_correlation(track, quiet)


def test_warns_of_different_lengths():
    # 65 ms are allowed; a track is 10 ms per frame.
    pitch_correlation(np.ones(100), np.ones(106))
    with pytest.warns(MetricWarning, match=r"differ by 0.070 s"):
        pitch_correlation(np.ones(100), np.ones(107))
    pitch_correlation(np.ones(100), np.ones(107), hop_seconds=0.005)


def test_mean():
    items = [
        pitch_correlation(ORIGINAL, ANONYMIZED),
        pitch_correlation(ORIGINAL, np.zeros(233)),
    ]
    found = mean_pitch_correlation(items)
    assert found.mean == pytest.approx(items[0].value / 2)
    assert found.standard_deviation == pytest.approx(items[0].value / 2)
    assert found.voiced_only_mean == items[0].voiced_only
    assert found.count == 2
    assert np.isnan(mean_pitch_correlation(items[1:]).voiced_only_mean)


@pytest.mark.parametrize(
    ("tracks", "message"),
    [
        (([], [1.0]), "original track has shape"),
        (([1.0], [[1.0]]), "anonymized track has shape"),
        (([np.nan], [1.0]), "below 0 or not finite"),
        (([1.0], [-1.0]), "below 0 or not finite"),
        (([1.0], [np.inf]), "below 0 or not finite"),
    ],
)
def test_refused(tracks, message):
    with pytest.raises(ConfigError, match=message):
        pitch_correlation(*tracks)
    with pytest.raises(ConfigError, match="no utterance"):
        mean_pitch_correlation([])
