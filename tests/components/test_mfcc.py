"""MFCC against Kaldi's stored values and against torchaudio; batches; dither."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torchaudio.compliance.kaldi as kaldi
from signals import speech

from voiceanon.components.features.mfcc import HIRES_MFCC, XVECTOR_MFCC, Mfcc

STORED = np.load(Path(__file__).parents[1] / "golden" / "xvector_nsf" / "features.npz")
KINDS = pytest.mark.parametrize("config", [XVECTOR_MFCC, HIRES_MFCC], ids=["xvector", "hires"])

KALDI_TOLERANCE = 2e-3
"""Of values up to 117: Kaldi has another Fourier transform, and torchaudio is 1.3e-3 from it."""

TOLERANCE = 1e-3
"""From torchaudio, which differs in the order of sums."""

BATCH_TOLERANCE = 2e-4
"""Products of matrices of another height may add up in another order."""


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def utterance():
    return torch.from_numpy(STORED["wav"] / np.float32(32_768))


def run(config, wav, **options):
    """Coefficients of one recording, ``(N, D)``."""
    result, frames = Mfcc(config)(wav[None], torch.tensor([len(wav)]), **options)
    assert result.shape == (1, frames.item(), config.cepstra)
    return result[0]


def torchaudio_mfcc(config, wav, dither=0.0):
    return kaldi.mfcc(
        wav[None] * 32_768,
        num_ceps=config.cepstra,
        num_mel_bins=config.bins,
        low_freq=20.0,
        high_freq=7600.0,
        snip_edges=config.snip_edges,
        use_energy=config.log_energy,
        energy_floor=0.0,
        dither=dither,
    )


def close(result, expected, tolerance):
    torch.testing.assert_close(result, torch.as_tensor(expected), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("config", "name"), [(XVECTOR_MFCC, "mfcc30"), (HIRES_MFCC, "mfcc40")])
def test_stored_values(config, name):
    close(run(config, utterance()), STORED[name], KALDI_TOLERANCE)


def test_stored_energies_of_a_quiet_stretch():
    pcm = STORED["wav"].astype(np.float64)
    pcm[14_000:26_000] = np.trunc(pcm[14_000:26_000] * 0.002)
    energy = run(XVECTOR_MFCC, torch.from_numpy(pcm / 32_768).float())[:, 0]
    close(energy, STORED["vad2_logenergy"], 1e-5)


@KINDS
@pytest.mark.parametrize("samples", [400, 479, 480, 559, 560, 640, 8000])
def test_equals_torchaudio(config, samples):
    wav = speech(0.5)[:samples]
    close(run(config, wav), torchaudio_mfcc(config, wav), TOLERANCE)


@KINDS
def test_silence_is_finite(config):
    silence = torch.zeros(800)
    close(run(config, silence), torchaudio_mfcc(config, silence), TOLERANCE)


def test_frame_counts():
    samples = torch.tensor([400, 559, 560, 37_840])
    assert Mfcc(HIRES_MFCC).frame_count(samples).tolist() == [1, 1, 2, 235]
    assert Mfcc(XVECTOR_MFCC).frame_count(samples).tolist() == [3, 3, 4, 237]


@KINDS
def test_batch_equals_single_recordings(config):
    wav = utterance()
    lengths = torch.tensor([len(wav), 400, 12_345])
    batch = torch.full((3, len(wav) + 700), torch.nan)
    for row, length in zip(batch, lengths, strict=True):
        row[:length] = wav[:length]
    result, frames = Mfcc(config)(batch, lengths)
    assert result.isfinite().all()
    for row, count, length in zip(result, frames, lengths, strict=True):
        close(row[:count], run(config, wav[:length]), BATCH_TOLERANCE)


@KINDS
def test_dither_is_that_of_torchaudio(config):
    wav = utterance()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = torchaudio_mfcc(config, wav, dither=1.0)
    seeded = torch.Generator().manual_seed(7)
    close(run(config, wav, dither=1.0, generators=[seeded]), expected, TOLERANCE)
    assert (expected - run(config, wav)).abs().max() > 0.1


@KINDS
def test_dither_does_not_depend_on_the_batch(config):
    batch, lengths = torch.zeros(2, 16_000), torch.tensor([1_000, 16_000])
    ours = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    result, frames = Mfcc(config)(batch, lengths, dither=1.0, generators=ours)
    alone = torch.Generator().manual_seed(1)
    expected = run(config, batch[0, :1_000], dither=1.0, generators=[alone])
    close(result[0, : frames[0]], expected, BATCH_TOLERANCE)
    # What is drawn next is the same, too.
    assert torch.equal(ours[0].get_state(), alone.get_state())


@KINDS
@pytest.mark.gpu
def test_gpu_equals_cpu(config):
    wav, lengths = utterance()[None], torch.tensor([37_840])
    draws = [torch.Generator().manual_seed(0) for _ in range(2)]
    expected, _ = Mfcc(config)(wav, lengths, dither=1.0, generators=draws[:1])
    front_end = Mfcc(config).cuda()
    result, _ = front_end(wav.cuda(), lengths.cuda(), dither=1.0, generators=draws[1:])
    close(result.cpu(), expected, KALDI_TOLERANCE)


def test_default_dtype_changes_nothing():
    wav = utterance()[:1_000]
    expected = run(XVECTOR_MFCC, wav, dither=1.0, generators=[torch.Generator().manual_seed(0)])
    torch.set_default_dtype(torch.float64)
    try:
        result = run(XVECTOR_MFCC, wav, dither=1.0, generators=[torch.Generator().manual_seed(0)])
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(result, expected)


def test_autocast_changes_nothing():
    wav = utterance()
    with torch.autocast("cpu", torch.bfloat16):
        result = run(HIRES_MFCC, wav)
    assert torch.equal(result, run(HIRES_MFCC, wav))
