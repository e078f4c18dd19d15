"""Filter bank against the original's stored values and against torchaudio; batches; silence."""

from pathlib import Path

import numpy as np
import pytest
import torch
from signals import speech, sweep

from voiceanon.components.content.filter_bank import FilterBank, FilterBankConfig, subtract_mean

GOLDEN = Path(__file__).parents[1] / "golden" / "vqbn_hifigan"
STORED = np.load(GOLDEN / "b6_reduced.npz")

TOLERANCE = 1e-3
"""Of logarithms: the same code on another machine is 5e-4 away, where energies are small."""

BATCH_TOLERANCE = 2e-6
"""Relative to energies: products of matrices of another height may add up in another order."""


@pytest.fixture(scope="module")
def fbank():
    return FilterBank()


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def recordings():
    inputs = np.load(GOLDEN / "inputs.npz")
    utterance = inputs["pcm_367-130732-0000"][:32_000] / np.float32(32_768)
    return {"det": torch.from_numpy(inputs["det"]), "u367_2s": torch.from_numpy(utterance)}


def run(fbank, wav):
    """Energies of one recording, ``(N, D)``."""
    energies, frames = fbank(wav[None], torch.tensor([len(wav)]))
    assert energies.shape == (1, frames.item(), fbank.config.bins)
    return energies[0]


@pytest.mark.parametrize("name", ["det", "u367_2s"])
def test_stored_energies(fbank, name):
    result = run(fbank, recordings()[name])
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result, STORED[f"{name}.fbank"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["det", "u367_2s"])
def test_stored_mean_subtraction(name):
    energies = torch.from_numpy(STORED[f"{name}.fbank"])
    result = subtract_mean(energies[None], torch.tensor([len(energies)]))[0]
    np.testing.assert_allclose(result, STORED[f"{name}.fbank_cmn"], rtol=0, atol=1e-5)


# The second is another front end, so that nothing of the first is taken for granted.
@pytest.mark.parametrize(
    "config",
    [
        FilterBankConfig(),
        FilterBankConfig(bins=30, frame_samples=320, shift_samples=80, low_hz=100, high_hz=7600),
    ],
    ids=["b6", "other"],
)
@pytest.mark.parametrize("samples", [400, 479, 480, 559, 560, 9999, 16_000, 40_123])
def test_equals_torchaudio(config, samples):
    kaldi = pytest.importorskip("torchaudio.compliance.kaldi")
    wav = speech(samples / 16_000)
    assert len(wav) == samples
    expected = kaldi.fbank(
        wav[None] * 32_768,
        num_mel_bins=config.bins,
        frame_length=config.frame_samples / 16,
        frame_shift=config.shift_samples / 16,
        low_freq=config.low_hz,
        high_freq=config.high_hz,
        snip_edges=False,
        dither=0.0,
    )
    torch.testing.assert_close(run(FilterBank(config), wav), expected, rtol=0, atol=1e-4)


def test_silence_is_the_floor(fbank):
    assert torch.equal(
        run(fbank, torch.zeros(800)), torch.full((5, 80), torch.tensor(1e-6).log().item())
    )


@pytest.mark.parametrize("padding", [0.0, 1e30, torch.nan, torch.inf])
def test_padded_batch_equals_single_recordings(fbank, padding):
    clips = [speech(2.0), sweep(0.025), speech(0.731, seed=1), speech(1.999, seed=2)]
    batch = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True, padding_value=padding)
    lengths = torch.tensor([len(clip) for clip in clips])
    energies, frames = fbank(batch, lengths)
    assert frames.tolist() == [(len(clip) + 80) // 160 for clip in clips] == [200, 3, 73, 200]
    assert energies.isfinite().all()
    centred = subtract_mean(energies, frames)
    for i, clip in enumerate(clips):
        alone = run(fbank, clip)
        found = energies[i, : frames[i]]
        torch.testing.assert_close(found.exp(), alone.exp(), rtol=BATCH_TOLERANCE, atol=0)
        alone = subtract_mean(alone[None], frames[i : i + 1])[0]
        torch.testing.assert_close(centred[i, : frames[i]], alone, rtol=0, atol=2e-5)
        assert centred[i, : frames[i]].mean(0).abs().max() <= 1e-5


def test_autocast_does_not_matter(fbank):
    wav = speech(0.5)
    expected = run(fbank, wav)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(run(fbank, wav), expected)


def test_constants_have_memory_whatever_the_default_device():
    with torch.device("meta"):
        built = FilterBank()
    assert not built.state_dict()
    wav = speech(0.1)
    assert torch.equal(run(built, wav), run(FilterBank(), wav))
