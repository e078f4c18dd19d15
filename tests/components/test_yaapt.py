"""YAAPT as a whole: the original's stored F0, the plain form, batches, and what has no F0."""

from pathlib import Path

import numpy as np
import pytest
import signals
import torch
from components import plain_yaapt

from voiceanon.components.f0.yaapt import HOP_SAMPLES, Yaapt

GOLDEN = Path(__file__).parents[1] / "golden" / "vqbn_hifigan"
INPUTS = np.load(GOLDEN / "inputs.npz")
STORED = np.load(GOLDEN / "yaapt.npz")
NAMES = [key.removesuffix(".f0") for key in STORED if key.endswith(".f0")]

GAP = signals.speech(3.0, seed=11)
GAP[16_000:40_000] = 0

SYNTHETIC = {
    **{f"pulses {p} Hz": signals.pulses(1.5, pitch=p)
       for p in (50, 60, 63.7, 97, 125, 160, 200, 250, 333.3, 400, 444, 500)},
    **{f"tone {f} Hz": signals.tone(1.3, frequency=f)
       for f in (55, 100, 150, 199.9, 300, 440, 1000, 3999)},
    **{f"vowel {name} {pitch} Hz": signals.vowel(0.9, name=name, pitch=pitch)
       for name in "aiu" for pitch in (80, 120, 210, 330)},
    "speech": signals.speech(3.0, seed=1),
    "two voices": signals.vowel(2.0, pitch=100) + signals.vowel(2.0, pitch=233, name="i"),
    "noise": signals.noise(3.0, peak=0.3),
    "faint noise": signals.noise(2.0, peak=1e-4, seed=2),
    "rising": signals.sweep(3.0, low=60, high=500),
    "falling": signals.sweep(2.0, low=400, high=50),
    "square": signals.square(1.2),
    "square, full scale": signals.square(1.4, frequency=117, peak=1.0),
    "clipped": (30 * signals.speech(2.0, seed=9)).clamp(-1, 1),
    "16 bits": (1000 * signals.speech(2.0, seed=14)).round() / 32768,
    "soft": 1e-4 * signals.speech(2.0, seed=12),
    "at the smallest level": 1e-20 * signals.speech(2.0, seed=13),
    "digital silence within": GAP,
    "one short vowel": torch.cat(
        [signals.silence(0.5), signals.vowel(0.09), signals.silence(1.0)]
    ),
    "alternating": torch.tensor([1.0, -1.0]).repeat(8000),
}  # fmt: skip

UNVOICED = {
    "silence": signals.silence(2.0),
    "DC, full scale": signals.constant(1.0, 2.0),
    "DC, negative": signals.constant(-1.0, 0.5),
    "next to nothing": signals.constant(1e-30, 1.0),
    "denormal": signals.constant(1e-40, 1.0),
    "one sample": torch.eye(20_000)[8000],
    "first sample": torch.eye(1, 16_000)[0],
    **{f"{n} samples": signals.vowel(n / signals.RATE) for n in (1, 2, 319, 320, 321, 640, 960)},
}


pytestmark = pytest.mark.usefixtures("one_thread")


def golden_input(name):
    if name == "det":
        return torch.from_numpy(INPUTS["det"])
    key = name.replace("u367_2s", "367-130732-0000")
    wav = torch.from_numpy(INPUTS[f"pcm_{key}"] / np.float32(32768))
    return wav[:32_000] if name == "u367_2s" else wav


def track(wav):
    f0, frames = Yaapt()(wav[None], torch.tensor([len(wav)]))
    assert f0.shape == (1, -(-len(wav) // HOP_SAMPLES))
    assert f0.dtype == torch.float32
    assert frames.tolist() == [f0.shape[1]]
    return f0[0].numpy()


def batch_of(waves, padding=torch.nan, more=0):
    """A padded batch with any value behind its items."""
    lengths = torch.tensor([len(wav) for wav in waves])
    batch = torch.full((len(waves), int(lengths.max()) + more), padding)
    for row, wav in zip(batch, waves, strict=True):
        row[: len(wav)] = wav
    return batch, lengths


def mixed(count, seed, longest):
    """Signals of many lengths."""
    draws = np.random.default_rng(seed)
    seconds = draws.uniform(0.3, longest, count)
    return [
        10 ** float(draws.uniform(-2, 0.5)) * signals.speech(s, seed=n)
        for n, s in enumerate(seconds)
    ]


# Values.


@pytest.mark.parametrize("name", NAMES)
def test_stored_f0(name):
    # Equal also in the frames that are marked as unstable.
    np.testing.assert_array_equal(track(golden_input(name)), STORED[f"{name}.f0"])


@pytest.mark.parametrize("name", NAMES)
def test_stored_f0_of_the_plain_form(name):
    np.testing.assert_array_equal(plain_yaapt.track(golden_input(name)), STORED[f"{name}.f0"])


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_plain_form_gives_the_same(name):
    result = track(SYNTHETIC[name])
    np.testing.assert_array_equal(result, plain_yaapt.track(SYNTHETIC[name]))
    assert np.isfinite(result).all()
    assert ((result == 0) | ((result > 50) & (result < 410))).all()


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_plain_form_gives_the_same_for_any_length(seed):
    waves = mixed(*((6, 0, 5.0) if seed == 0 else (24, seed, 12.0)))
    f0, frames = Yaapt()(*batch_of(waves))
    for row, count, wav in zip(f0, frames.tolist(), waves, strict=True):
        np.testing.assert_array_equal(row[:count].numpy(), plain_yaapt.track(wav))
    assert (f0 > 0).float().mean() > 0.2


@pytest.mark.parametrize("period", [160, 133, 100, 80, 64, 50])
def test_f0_of_pulses(period):
    # The published period is one sample too long.
    result = track(signals.pulses(1.0, pitch=signals.RATE / period))
    assert np.mean(result == np.float32(signals.RATE / (period + 1))) > 0.9


def test_level_has_an_effect():
    # Specification sheet, "Traps": a gain of 2 changes 44 of 100 frames.
    wav = golden_input("u367_2s")
    assert (track(2 * wav) != track(wav)).sum() == 44


# Batches and surroundings.


@pytest.mark.parametrize("padding", [0.0, 1e3, torch.nan, -torch.inf])
def test_an_item_of_a_batch_is_the_item_alone(padding):
    waves = [*mixed(4, 2, 3.0), golden_input("u367_2s"), *UNVOICED.values()]
    waves += [SYNTHETIC["square"], SYNTHETIC["one short vowel"], SYNTHETIC["soft"]]
    f0, frames = Yaapt()(*batch_of(waves, padding, more=1000))
    assert frames.tolist() == [-(-len(wav) // HOP_SAMPLES) for wav in waves]
    for row, count, wav in zip(f0, frames.tolist(), waves, strict=True):
        np.testing.assert_array_equal(row[:count].numpy(), track(wav))
        assert not row[count:].any()


def test_threads_have_no_effect():
    waves = mixed(3, 3, 2.0)
    alone, _ = Yaapt()(*batch_of(waves))
    torch.set_num_threads(2)
    assert torch.equal(Yaapt()(*batch_of(waves))[0], alone)


def test_input_stays_as_it_is():
    wav, lengths = batch_of(mixed(3, 4, 1.0))
    given = wav.clone()
    Yaapt()(wav, lengths)
    torch.testing.assert_close(wav, given, rtol=0, atol=0, equal_nan=True)


def test_neither_autocast_nor_gradients_nor_defaults_have_an_effect():
    wav = golden_input("u367_2s")[None].requires_grad_()
    lengths = torch.tensor([wav.shape[1]])
    tracker = Yaapt()
    assert not list(tracker.parameters())
    assert not tracker.state_dict()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.device("meta"), torch.autocast("cpu", dtype=torch.bfloat16):
            f0, frames = tracker(wav, lengths)
    finally:
        torch.set_default_dtype(torch.float32)
    assert f0.dtype == torch.float32
    assert not f0.requires_grad
    assert frames.tolist() == [100]
    np.testing.assert_array_equal(f0[0].numpy(), STORED["u367_2s.f0"])
    with torch.inference_mode():
        assert torch.equal(tracker(wav, lengths)[0], f0)


# What has no F0.


@pytest.mark.parametrize("name", UNVOICED)
def test_unvoiced(name):
    assert not track(UNVOICED[name]).any()


@pytest.mark.parametrize("seconds", [0.05, 0.06, 0.08, 0.1, 0.15, 0.2])
@pytest.mark.parametrize("pitch", [90, 140, 300])
def test_few_voiced_frames(seconds, pitch):
    burst = signals.vowel(seconds, pitch=pitch)
    for silence in (0.0, 0.3, 1.0):
        wav = torch.cat([signals.silence(silence), burst, signals.silence(silence)])
        result = track(wav)
        np.testing.assert_array_equal(result, plain_yaapt.track(wav))
        assert np.isfinite(result).all()


@pytest.mark.gpu
def test_gpu_nearly_equals_cpu():
    # Other rounding in filters and spectra: ties of u367_2s fall otherwise, and little else.
    waves = [golden_input(name) for name in NAMES]
    batch, lengths = batch_of(waves)
    f0, frames = Yaapt()(batch.cuda(), lengths.cuda())
    assert f0.is_cuda
    assert frames.is_cuda
    for row, count, name in zip(f0.cpu(), frames.tolist(), NAMES, strict=True):
        stable = ~STORED[f"{name}.unstable"]
        equal = row[:count].numpy() == STORED[f"{name}.f0"]
        assert equal[stable].mean() >= 0.98
    for row, wav in zip(f0, waves, strict=True):
        alone, _ = Yaapt()(wav[None].cuda(), torch.tensor([len(wav)]).cuda())
        assert (alone[0] == row[: alone.shape[1]]).float().mean() >= 0.99
