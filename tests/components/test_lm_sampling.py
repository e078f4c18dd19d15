"""Tokens by given random numbers: the distribution, its edges, and no hidden randomness."""

import numpy as np
import pytest
import torch
from golden.codec_lm_files import FOLDER

from voiceanon.components.lm.sampling import all_finite, check_temperature, choose
from voiceanon.errors import ConfigError

GOLDEN = np.load(FOLDER / "coarse.npz")
PUBLISHED_TEMPERATURE = 0.7
STEPS = 20_000


def spread(count):
    """Random numbers that lie as evenly as they can."""
    return (torch.arange(count) + 0.5) / count


@pytest.mark.parametrize("case", "abcd")
@pytest.mark.parametrize("step", [0, 1])
def test_frequencies_are_the_published_probabilities(case, step):
    logits = torch.from_numpy(GOLDEN[f"{case}_logits_first4"][step])
    draws = spread(STEPS)
    tokens = choose(logits.expand(STEPS, -1), PUBLISHED_TEMPERATURE, draws)
    frequency = torch.bincount(tokens, minlength=1024) / STEPS
    expected = torch.from_numpy(GOLDEN[f"{case}_probs_first2_t07"][step])
    # Each token's share of the numbers is cut at two places.
    assert float((frequency - expected).abs().max()) <= 2 / STEPS


def test_tokens_come_in_the_order_of_the_cumulative_probabilities():
    logits = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
    draws = torch.tensor([0.0, 0.09, 0.11, 0.29, 0.31, 0.59, 0.61, 0.99])
    assert choose(logits.expand(8, -1), 1.0, draws).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tokens_without_a_chance_are_never_chosen(dtype):
    logits = torch.full((5,), -torch.inf, dtype=dtype)
    logits[2] = 0.0
    draws = torch.tensor([0.0, 0.5, 1 - 2.0**-24])
    assert choose(logits.expand(3, -1), 0.7, draws).tolist() == [2, 2, 2]


def test_the_largest_draw_stays_within_the_tokens():
    draws = torch.full((1,), 1 - 2.0**-24)
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        logits = 5 * torch.randn(1, 1024, generator=generator)
        assert 0 <= int(choose(logits, 0.5, draws)) < 1024


def test_without_a_temperature_the_most_likely_token():
    logits = torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 1.0]])
    assert choose(logits, None, None).tolist() == [1, 0]
    assert choose(logits, None, torch.tensor([0.9, 0.9])).tolist() == [1, 0]
    cold = choose(logits, 1e-3, torch.tensor([0.9, 0.1]))
    assert cold.tolist() == [1, 0]


def test_a_temperature_needs_draws():
    with pytest.raises(ConfigError, match="draws"):
        choose(torch.zeros(1, 3), 1.0, None)


@pytest.mark.parametrize("temperature", [0, 0.0, -1.0, float("nan"), float("inf")])
def test_impossible_temperatures(temperature):
    with pytest.raises(ConfigError, match=r"coarse: .*positive"):
        check_temperature("coarse", temperature)


def test_what_makes_no_distribution_is_noticed():
    logits = torch.zeros(2, 3, 4)
    assert all_finite(logits)
    for value, sound in ((torch.nan, False), (torch.inf, False), (-torch.inf, True)):
        spoiled = logits.clone()
        spoiled[1, 2, 3] = value
        assert bool(all_finite(spoiled)) == sound
