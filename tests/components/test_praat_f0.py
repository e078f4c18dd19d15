"""F0 as Praat finds it: stored values, the plain form, known answers, batches.

`prosody.npz` and `praat_f0.npz` hold what Praat 6.1.38 (praat-parselmouth 0.4.7) gives.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import signals
import torch
from components import plain_praat

from voiceanon.components.f0.praat import praat_f0
from voiceanon.components.f0.praat.frames import frame_count, frame_start
from voiceanon.components.f0.praat.maximum import maximise
from voiceanon.components.f0.praat.path import best_path
from voiceanon.components.f0.praat.settings import Settings
from voiceanon.errors import ConfigError

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
WAVE = torch.from_numpy(np.load(GOLDEN / "audio.npz")["wave"])
PROSODY = np.load(GOLDEN / "prosody.npz")
PRAAT = np.load(GOLDEN / "praat_f0.npz")
SETTINGS = Settings(rate=16_000, step=0.016, floor=40, ceiling=600)

TOLERANCE = 1e-4
"""Hz. Praat stops looking for a maximum 1e-5 samples before it, which is 3e-5 Hz at 200 Hz."""

EXACT = 1e-5
"""Hz, between two forms that both look until values differ by their rounding alone."""

UNVOICED = {
    "silence": signals.silence(0.5),
    "constant": signals.constant(0.1, 0.5),
    "noise": signals.noise(1.0, peak=0.3),
}
VARIOUS = {
    "speech": signals.speech(1.3, seed=1),
    "odd": signals.speech(1.3, seed=2)[:12_347],
    "one frame": signals.speech(1.3, seed=2)[:1200],
    "too short": signals.speech(1.3, seed=2)[:1199],
    "high voice": signals.vowel(0.4, pitch=520),
    "low voice": signals.vowel(0.4, pitch=45),
    "two voices": signals.vowel(0.4, pitch=100) + signals.vowel(0.4, pitch=233, name="i"),
    "many maxima": signals.tone(0.3, frequency=3900),
    "sweep": signals.sweep(0.5),
    "offset": signals.speech(0.6, seed=3) + 0.3,
    **UNVOICED,
}


def run(wav, **settings):
    """F0 of one recording, float64 array."""
    f0, frames = praat_f0(wav[None], torch.tensor([len(wav)]), **settings)
    assert f0.dtype == torch.float64
    assert frames.tolist() == [f0.shape[1]]
    return f0[0].numpy()


def close(result, expected, tolerance=TOLERANCE):
    assert len(result) == len(expected)
    np.testing.assert_array_equal(result > 0, expected > 0)
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)


# Praat.


def test_the_recording():
    close(run(WAVE), PROSODY["f0_raw_double"])


def test_places_of_frames():
    times = PROSODY["f0_frame_times"]
    length = torch.full((len(times),), len(WAVE))
    start = frame_start(length, torch.arange(len(times)), SETTINGS)
    expected = np.floor((times - 0.5 / 16_000) * 16_000) + 1 - 599
    assert start.tolist() == expected.astype(int).tolist()


@pytest.mark.parametrize("samples", [1200, 1201, 1455, 1456, 5001, 12_347, 15_999, 27_071])
def test_lengths(samples):
    close(run(WAVE[:samples]), PRAAT[f"first_{samples}"])


def test_backwards():
    close(run(WAVE.flip(0)), PRAAT["reversed"])


@pytest.mark.parametrize("hertz", [100, 440, 550, 597, 605, 1000, 3900])
def test_tones(hertz):
    time = torch.arange(4001, dtype=torch.float64) / 16_000
    result = run((2 * math.pi * hertz * time).sin().float())
    expected = PRAAT[f"tone_{hertz}"]
    # Maxima near a whole lag have a kink there, and another maximum close by.
    close(result, expected, 1e-3)
    # Above the ceiling, the largest fraction of the frequency below it.
    period = math.ceil(hertz / 600)
    np.testing.assert_allclose(result, hertz / period, rtol=0, atol=3e-3)


def test_noise():
    noise = np.random.RandomState(0).uniform(-1, 1, 8000).astype(np.float32)
    close(run(torch.from_numpy(noise)), PRAAT["noise"])


@pytest.mark.parametrize(
    ("rate", "step", "floor", "ceiling"),
    [(22_050, 0.01, 75, 500), (8000, 0.0125, 60, 400), (16_000, 0.016, 40, 1200)],
)
def test_other_settings(rate, step, floor, ceiling):
    result = run(WAVE[:9001], sample_rate=rate, step=step, floor=floor, ceiling=ceiling)
    close(result, PRAAT[f"set_{rate}_{step}_{floor}_{ceiling}"])


# The plain form.


@pytest.mark.parametrize("name", VARIOUS)
def test_the_plain_form(name):
    close(run(VARIOUS[name]), plain_praat.track(VARIOUS[name].numpy()), EXACT)


# Known answers.


@pytest.mark.parametrize("name", UNVOICED)
def test_unvoiced(name):
    result = run(UNVOICED[name])
    assert len(result)
    assert not result.any()


@pytest.mark.parametrize("hertz", [42.0, 60.5, 123.4, 311.1, 440.0, 590.0])
def test_f0_of_a_tone(hertz):
    result = run(signals.tone(0.5, frequency=hertz))
    np.testing.assert_allclose(result, hertz, rtol=1e-3)


def test_a_pause_is_unvoiced():
    wav = signals.vowel(1.0, pitch=150).clone()
    wav[6000:10_000] = 0
    voiced = run(wav) > 0
    centres = np.array(plain_praat.centres(len(wav))) * 16_000
    assert not voiced[(centres > 6700) & (centres < 9300)].any()
    assert voiced[(centres < 5300) | (centres > 10_700)].all()


def test_the_level_does_not_matter():
    wav = VARIOUS["speech"]
    np.testing.assert_allclose(run(wav * 2**-40), run(wav), rtol=1e-12)


def test_too_short_for_a_frame():
    f0, frames = praat_f0(torch.ones(2, 1199), torch.tensor([1199, 0]))
    assert f0.shape == (2, 0)
    assert frames.tolist() == [0, 0]


# Batches.


@pytest.mark.parametrize("padding", [0.0, 1e6, math.nan])
def test_a_batch_equals_single_recordings(padding):
    waves = list(VARIOUS.values())
    lengths = torch.tensor([len(wav) for wav in waves])
    batch = torch.full((len(waves), int(lengths.max()) + 500), padding)
    for row, wav in zip(batch, waves, strict=True):
        row[: len(wav)] = wav
    f0, frames = praat_f0(batch, lengths)
    assert f0.shape[1] == frame_count(torch.tensor(batch.shape[1]), SETTINGS)
    for row, count, wav in zip(f0, frames.tolist(), waves, strict=True):
        np.testing.assert_array_equal(row[:count].numpy(), run(wav))
        assert not row[count:].any()


def test_blocks_of_frames_do_not_matter(monkeypatch):
    expected = run(VARIOUS["speech"])
    monkeypatch.setattr("voiceanon.components.f0.praat.tracker.CPU_BLOCK_FRAMES", 7)
    monkeypatch.setattr("voiceanon.components.f0.praat.path.BLOCK_FRAMES", 5)
    np.testing.assert_allclose(run(VARIOUS["speech"]), expected, rtol=0, atol=1e-9)


def test_autocast_and_defaults_do_not_matter():
    wav = VARIOUS["high voice"]
    expected = run(wav)
    torch.set_default_dtype(torch.float16)
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.device("meta"), torch.inference_mode():
            f0, _ = praat_f0(wav[None], torch.tensor([len(wav)], device="cpu"))
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(f0[0].numpy(), expected)


@pytest.mark.gpu
def test_gpu_equals_cpu():
    waves = list(VARIOUS.values())
    lengths = torch.tensor([len(wav) for wav in waves])
    batch = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True)
    expected, _ = praat_f0(batch, lengths)
    result, _ = praat_f0(batch.cuda(), lengths.cuda())
    # Rounding may decide between two maxima on either side of a kink.
    close(result.cpu().numpy().ravel(), expected.numpy().ravel(), 1e-3)


# Parts.


def test_maxima():
    """Of parabolas, of a kink, of one at an end, and of two bumps of which one is nearer."""
    functions = [
        lambda x: -((x - 0.3) ** 2),
        lambda x: 1 - (x + 0.77).abs(),
        lambda x: -((x - 1e-9) ** 4),
        lambda x: x * 0,
        lambda x: (3 * x).cos() + 0.1 * x,
    ]

    def function(number, place):
        values = [functions[n](x) for n, x in zip(number.tolist(), place, strict=True)]
        return torch.stack(values) if values else place

    every = torch.arange(len(functions))
    ends = [function(every, torch.full((len(functions),), x).double()) for x in (-1, 0, 1)]
    place, value = maximise(function, torch.stack(ends))
    bump = math.asin(0.1 / 3) / 3
    for n, expected in ((0, 0.3), (4, bump)):
        assert place[n] == pytest.approx(expected, abs=1e-7)
    assert place[1] == pytest.approx(-0.77, abs=1e-6)
    assert place[2] == pytest.approx(0, abs=1e-2)
    torch.testing.assert_close(value, function(every, place), rtol=0, atol=0)


def test_no_maximum_to_look_for():
    place, value = maximise(lambda number, x: x, torch.empty(3, 0, dtype=torch.float64))
    assert place.shape == value.shape == (0,)


def test_best_path_against_all_paths():
    draws = np.random.default_rng(0)
    hertz = draws.uniform(50, 590, (3, 4, 2)) * (draws.uniform(size=(3, 4, 2)) < 0.8)
    strength = draws.uniform(0.3, 1, hertz.shape) * (hertz > 0)
    intensity = draws.uniform(0.02, 0.1, (3, 4)).clip(0, 1)
    frames = [4, 3, 1]
    result = best_path(
        *(torch.from_numpy(x) for x in (hertz, strength, intensity)), torch.tensor(frames), SETTINGS
    )
    for item, count in enumerate(frames):
        rows = []
        for t in range(count):
            pairs = [(0.0, 0.0), *zip(hertz[item, t], strength[item, t], strict=True)]
            rows.append(
                ([(f, s) for n, (f, s) in enumerate(pairs) if f or not n], intensity[item, t])
            )
        expected = plain_praat.best_path(rows)
        np.testing.assert_array_equal(result[item, :count].numpy(), expected)
        assert not result[item, count:].any()


@pytest.mark.parametrize(
    "wrong", [{"floor": 0.0}, {"ceiling": 30.0}, {"ceiling": 5000.0}, {"step": 0.0}]
)
def test_settings_are_checked(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        run(WAVE, **wrong)
