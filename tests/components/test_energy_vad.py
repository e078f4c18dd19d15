"""Voice activity against Kaldi's stored decisions and against its definition; selection."""

from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.vad.energy import select_voiced, voiced_frames

STORED = np.load(Path(__file__).parents[1] / "golden" / "xvector_nsf" / "features.npz")


def plain(energy):
    threshold = 5.5 + 0.5 * energy.double().mean().item()
    decisions = []
    for t in range(len(energy)):
        near = energy[max(0, t - 2) : t + 3]
        decisions.append(sum(e > threshold for e in near.tolist()) >= 0.12 * len(near))
    return decisions


@pytest.mark.parametrize("name", ["vad", "vad2"])
def test_stored_decisions(name):
    energy = STORED["mfcc30_compressed"][:, 0] if name == "vad" else STORED["vad2_logenergy"]
    energy = torch.from_numpy(energy)
    result = voiced_frames(energy[None], torch.tensor([len(energy)]))[0]
    assert 0 < result.sum() < len(energy)
    assert result.int().tolist() == STORED[name].tolist()


@pytest.mark.parametrize("frames", [1, 2, 3, 5, 40])
def test_is_what_its_definition_says(frames):
    draws = torch.Generator().manual_seed(frames)
    for level in (9.0, 11.0, 14.0):
        energy = level + 3 * torch.randn(frames, generator=draws)
        assert voiced_frames(energy[None], torch.tensor([frames]))[0].tolist() == plain(energy)


def test_a_frame_at_the_threshold_is_not_above_it():
    energy = torch.full((1, 6), 11.0)
    assert not voiced_frames(energy, torch.tensor([6])).any()


def test_batch_equals_single_recordings():
    energy = 11 + 3 * torch.randn(3, 60, generator=torch.Generator().manual_seed(0))
    frames = torch.tensor([60, 31, 1])
    for row, count in zip(energy, frames, strict=True):
        row[count:] = torch.nan
    result = voiced_frames(energy, frames)
    for row, own, count in zip(energy, result, frames, strict=True):
        assert own.tolist() == plain(row[:count]) + [False] * (60 - int(count))


def test_stored_selection():
    features = torch.from_numpy(STORED["cmn_sliding"])
    voiced = torch.from_numpy(STORED["vad"]).bool()
    selected, frames = select_voiced(features[None], torch.tensor([237]), voiced[None])
    assert frames.tolist() == [203]
    expected = torch.from_numpy(STORED["voiced_cmn"])
    torch.testing.assert_close(selected[0, :203], expected, rtol=0, atol=2e-6)


def test_selection_keeps_order_and_all_frames_of_a_recording_without_voice():
    features = torch.arange(12.0).view(2, 6, 1)
    voiced = torch.tensor([[0, 1, 0, 1, 1, 0], [0] * 6], dtype=torch.bool)
    selected, frames = select_voiced(features, torch.tensor([6, 4]), voiced)
    assert frames.tolist() == [3, 4]
    assert selected[0, :3, 0].tolist() == [1, 3, 4]
    assert selected[1, :4, 0].tolist() == [6, 7, 8, 9]
