"""Random factors of pitch and energy."""

from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.prosody.multipliers import PUBLISHED_RANGE, multiply_prosody
from voiceanon.errors import ConfigError

STORED = np.load(Path(__file__).parents[1] / "golden" / "gan_fastspeech2" / "prosody.npz")
PITCH = torch.from_numpy(STORED["pitch"][:, 0])
ENERGY = torch.from_numpy(STORED["energy"][:, 0])


def seeded(*numbers):
    return [torch.Generator().manual_seed(number) for number in numbers]


def factors(count, seed, **options):
    ones = torch.ones(1, count)
    pitch, energy = multiply_prosody(ones, ones, torch.tensor([count]), seeded(seed), **options)
    return pitch[0], energy[0]


def test_published_draws():
    pitch, energy = multiply_prosody(PITCH[None], ENERGY[None], torch.tensor([23]), seeded(0))
    assert np.array_equal(pitch[0].numpy(), STORED["anon_pitch"][:, 0])
    assert np.array_equal(energy[0].numpy(), STORED["anon_energy"][:, 0])


def test_energy_is_drawn_before_pitch():
    pitch, energy = factors(23, seed=0)
    assert np.array_equal(energy.numpy(), STORED["seed0_energy_scales"][:, 0])
    assert np.array_equal(pitch.numpy(), STORED["seed0_pitch_scales"][:, 0])


@pytest.mark.parametrize("limits", [PUBLISHED_RANGE, (70, 131), (100, 101)])
def test_whole_percentages(limits):
    pitch, energy = factors(5000, seed=1, range=limits)
    drawn = (torch.cat([pitch, energy]) * 100).round().long()
    assert sorted(set(drawn.tolist())) == list(range(*limits))
    assert torch.equal(drawn.float() / 100, torch.cat([pitch, energy]))


def test_no_change():
    generators = seeded(0)
    pitch, energy = multiply_prosody(
        PITCH[None], ENERGY[None], torch.tensor([23]), generators, range=None
    )
    assert torch.equal(pitch[0], PITCH)
    assert torch.equal(energy[0], ENERGY)
    assert torch.equal(generators[0].get_state(), seeded(0)[0].get_state())


def test_a_batch_equals_single_items():
    counts = torch.tensor([23, 5, 0])
    batch = torch.full((3, 30), 2.0)
    pitch, energy = multiply_prosody(batch, batch, counts, seeded(3, 4, 5))
    for item, count in enumerate(counts.tolist()):
        alone = factors(count, seed=3 + item)
        for row, values in zip((pitch[item], energy[item]), alone, strict=True):
            assert torch.equal(row[:count], 2 * values)
            assert (row[count:] == 2).all()


def test_what_is_given_is_not_changed():
    pitch = PITCH[None].clone()
    multiply_prosody(pitch, pitch, torch.tensor([23]), seeded(0))
    assert torch.equal(pitch[0], PITCH)


@pytest.mark.parametrize("limits", [(140, 60), (60, 60), (-10, 20)])
def test_ranges_are_checked(limits):
    with pytest.raises(ConfigError, match="prosody range"):
        factors(3, seed=0, range=limits)
