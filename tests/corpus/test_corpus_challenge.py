"""The challenge's own draws."""

import numpy as np
import pytest

from voiceanon import ConfigError
from voiceanon.corpus import anonymize_folder, challenge_alphas, challenge_speaker_alpha

FIRST_EIGHT = [
    0.6875880725850418,
    0.567471028445037,
    0.7592414130478444,
    0.8749947180705998,
    0.6147263878848099,
    0.6692523629584067,
    0.8666743661968667,
    0.5265077263055816,
]
"""Drawn by the challenge's code for its seed 4284258105."""


def test_draws_equal_those_of_the_challenge():
    assert challenge_alphas(8).tolist() == FIRST_EIGHT
    assert challenge_alphas(3).tolist() == FIRST_EIGHT[:3]
    assert challenge_alphas(0).shape == (0,)


def test_a_speaker_has_one_draw_of_its_own():
    assert challenge_speaker_alpha("VPC2024") == FIRST_EIGHT[0]
    assert challenge_speaker_alpha("1272") != challenge_speaker_alpha("1462")
    assert 0.5 <= challenge_speaker_alpha("1272") <= 0.9


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].tolist()
    challenge_alphas(4)
    assert np.random.get_state()[1].tolist() == before


def test_a_negative_number_is_refused():
    with pytest.raises(ConfigError, match="got -1"):
        challenge_alphas(-1)


def test_draws_can_be_handed_on_as_targets(anon, tmp_path, corpus):
    keys = ["ann/a1", "ann/a2", "ben/b1", "ben/deep/b2"]
    alphas = challenge_alphas(len(keys))
    targets = {key: {"alpha": alpha} for key, alpha in zip(keys, alphas, strict=True)}
    result = anonymize_folder(anon, corpus, tmp_path / "out", targets=targets)
    assert [r.report["target"]["alpha"] for r in result.done] == FIRST_EIGHT[:4]
