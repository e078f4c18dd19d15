"""Levels."""

from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.features.peak import peak_normalise

AUDIO = np.load(Path(__file__).parents[1] / "golden" / "gan_fastspeech2" / "audio.npz")
WAVE = torch.from_numpy(AUDIO["wave"])


def test_the_stored_recording():
    """Its largest value lies in what is stored; the file's level is undone."""
    quiet = (WAVE * float(AUDIO["peak"]))[None]
    result = peak_normalise(quiet, torch.tensor([len(WAVE)]))[0]
    assert result.abs().max() == 1
    np.testing.assert_allclose(result.numpy(), AUDIO["wave"], rtol=0, atol=1e-7)


@pytest.mark.parametrize("padding", [0.0, -1e6, torch.inf, torch.nan])
def test_a_batch_equals_single_recordings(padding):
    batch = torch.full((4, 50), padding)
    lengths = torch.tensor([50, 20, 0, 7])
    batch[0], batch[1, :20] = WAVE[:50], -3 * WAVE[5000:5020]
    batch[3, :7] = 0
    result = peak_normalise(batch, lengths)
    for row, source, count in zip(result, batch, lengths.tolist(), strict=True):
        alone = peak_normalise(source[None, :count], torch.tensor([count]))
        assert torch.equal(row[:count], alone[0])
        assert not row[count:].any()
    assert result[:2].abs().amax(1).tolist() == [1, 1]
    assert not result[2:].any()


def test_the_smallest_numbers():
    wav = torch.tensor([[2.0**-130, -(2.0**-129), 0.0]])
    assert peak_normalise(wav, torch.tensor([3])).tolist() == [[0.5, -1, 0]]
