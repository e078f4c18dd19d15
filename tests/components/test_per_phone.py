"""Pitch and energy of symbols: stored values by stage, and batches."""

from pathlib import Path

import numpy as np
import pytest
import signals
import torch

from voiceanon.components.f0.praat import praat_f0
from voiceanon.components.features.slaney_log_mel import frame_count
from voiceanon.components.prosody.per_phone import (
    centre_frames,
    energy_frames,
    mean_per_symbol,
    prosody_per_phone,
)
from voiceanon.components.text.articulatory import PHONEME, VOICED

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
WAVE = torch.from_numpy(np.load(GOLDEN / "audio.npz")["wave"])
LENGTH = torch.tensor([len(WAVE)])
STORED = np.load(GOLDEN / "prosody.npz")
DURATIONS = torch.from_numpy(STORED["durations"])
VECTORS = torch.from_numpy(STORED["text_active"]).float()

F0_TOLERANCE = 1e-4
"""Hz; see `test_praat_f0`."""

ENERGY_TOLERANCE = 1e-5
"""Relative."""


def close(result, expected, *, relative=0.0, absolute=0.0):
    expected = torch.as_tensor(expected).to(result.dtype)
    torch.testing.assert_close(result, expected, rtol=relative, atol=absolute)


def run(wav, durations=DURATIONS, vectors=VECTORS):
    """Pitch and energy of one recording, ``(N,)`` each."""
    results = prosody_per_phone(wav[None], torch.tensor([len(wav)]), durations[None], vectors[None])
    return tuple(each[0] for each in results)


def example(samples, symbols, seed):
    """Speech, durations that fill its frames, and vectors."""
    draws = torch.Generator().manual_seed(seed)
    wav = signals.speech(samples / 16_000, seed=seed)
    frames = int(frame_count(torch.tensor(samples)))
    cuts = torch.randint(0, frames + 1, (symbols - 1,), generator=draws).sort().values
    durations = torch.diff(cuts, prepend=torch.tensor([0]), append=torch.tensor([frames]))
    return wav, durations, torch.randint(0, 2, (symbols, 62), generator=draws).float()


# Stages.


def test_energy_of_frames():
    close(energy_frames(WAVE[None], LENGTH)[0], STORED["energy_frames"], relative=ENERGY_TOLERANCE)


def test_energy_is_the_norm_of_the_spectrum():
    wav = signals.noise(0.2) + 0.05
    spectrum = torch.stft(
        wav, 1024, 256, window=torch.hann_window(1024), return_complex=True, pad_mode="reflect"
    )
    result = energy_frames(wav[None], torch.tensor([len(wav)]))[0]
    close(result, spectrum.abs().square().sum(0).sqrt(), relative=ENERGY_TOLERANCE)


def test_energy_of_silence():
    result = energy_frames(torch.zeros(1, 2000), torch.tensor([2000]))
    assert result.tolist() == [[pytest.approx(1e-5)] * 8]


def test_f0_fits_the_spectrum():
    raw = torch.from_numpy(STORED["f0_raw"])[None]
    result = centre_frames(raw, torch.tensor([102]), torch.tensor([106]), 106)
    assert torch.equal(result[0], torch.from_numpy(STORED["f0_adjusted"]))


def test_missing_and_superfluous_frames():
    f0 = torch.arange(1.0, 6.0).repeat(4, 1)
    result = centre_frames(f0, torch.tensor([5, 5, 2, 0]), torch.tensor([6, 3, 5, 4]), 7)
    assert result.tolist() == [
        [0, 1, 2, 3, 4, 5, 0],
        [1, 2, 3, 0, 0, 0, 0],
        [0, 0, 1, 2, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    assert not centre_frames(f0[:, :0], torch.zeros(4).long(), torch.tensor([3, 2, 1, 0]), 3).any()


def test_f0_of_symbols():
    f0 = torch.from_numpy(STORED["f0_adjusted"])[None]
    result = mean_per_symbol(f0, f0 > 0, DURATIONS[None])[0]
    close(result * VECTORS[:, VOICED], STORED["f0_tokens_hz"], absolute=F0_TOLERANCE)


def test_energy_of_symbols():
    energy = torch.from_numpy(STORED["energy_frames"])[None]
    result = mean_per_symbol(energy, energy > 0, DURATIONS[None])[0]
    close(result * VECTORS[:, PHONEME], STORED["energy_tokens"], relative=ENERGY_TOLERANCE)


def test_means_of_some_values():
    values = torch.tensor([[1.0, 2.0, 4.0, torch.nan, 8.0, 16.0]])
    counts = torch.tensor([[True, True, True, False, True, True]])
    result = mean_per_symbol(values, counts, torch.tensor([[2, 0, 1, 1, 9]]))
    assert result.tolist() == [[1.5, 0, 4, 0, 12]]


# The chain.


def test_all():
    pitch, energy = run(WAVE)
    assert pitch.dtype == energy.dtype == torch.float32
    close(pitch, STORED["pitch"][:, 0], absolute=1e-6)
    close(energy, STORED["energy"][:, 0], relative=ENERGY_TOLERANCE)


def test_what_must_be_zero():
    wav, durations, vectors = example(14_000, 12, 3)
    pitch, energy = run(wav, durations, vectors)
    assert not pitch[vectors[:, VOICED] == 0].any()
    assert not energy[vectors[:, PHONEME] == 0].any()
    assert torch.equal(energy > 0, (vectors[:, PHONEME] > 0) & (durations > 0))
    assert pitch[pitch > 0].mean() == pytest.approx(1, abs=1e-6)
    assert energy[energy > 0].mean() == pytest.approx(1, abs=1e-6)


def test_nothing_voiced_is_zero():
    vectors = VECTORS.clone()
    vectors[:, [PHONEME, VOICED]] = 0
    for wav in (WAVE, torch.zeros_like(WAVE)):
        pitch, energy = run(wav, vectors=vectors)
        assert not pitch.any()
        assert not energy.any()
    pitch, energy = run(torch.zeros_like(WAVE))
    assert not pitch.any()
    assert energy.isfinite().all()


@pytest.mark.parametrize("padding", [0.0, 1e6, torch.nan])
def test_a_batch_equals_single_recordings(padding):
    examples = [example(*each) for each in ((14_000, 12, 0), (5001, 3, 1), (1000, 4, 2))]
    lengths = torch.tensor([len(wav) for wav, _, _ in examples])
    batch = torch.full((4, 28_000), padding)
    durations = torch.zeros(4, 23, dtype=torch.long)
    vectors = torch.ones(4, 23, 62)
    examples.append((WAVE, DURATIONS, VECTORS))
    for i, (wav, duration, vector) in enumerate(examples):
        batch[i, : len(wav)], durations[i, : len(duration)] = wav, duration
        vectors[i, : len(vector)] = vector
    lengths = torch.cat([lengths, LENGTH])
    together = prosody_per_phone(batch, lengths, durations, vectors)
    for i, (wav, duration, vector) in enumerate(examples):
        for row, alone in zip(together, run(wav, duration, vector), strict=True):
            assert torch.equal(row[i, : len(alone)], alone)
            assert not row[i, len(alone) :].any()


def test_pitch_is_that_of_the_tracker():
    """One symbol over a whole tone, one over nothing, one over what comes after."""
    tone = torch.cat([signals.tone(0.5, frequency=200), signals.tone(0.5, frequency=300)])
    durations, vectors = torch.tensor([32, 0, 31]), torch.ones(3, 62)
    pitch, _ = run(tone, durations, vectors)
    assert pitch[1] == 0
    f0, _ = praat_f0(tone[None], torch.tensor([len(tone)]))
    assert 190 < f0.min() < 210
    assert pitch[2] / pitch[0] == pytest.approx(1.5, abs=0.05)
