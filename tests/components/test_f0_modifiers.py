"""F0 modifiers against the toolkit's stored outputs, alone and in batches."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.prosody.f0_modifiers import (
    GlobalScale,
    MeanReversion,
    Quantization,
    WhiteNoise,
    modify,
    parse_modifiers,
)
from voiceanon.errors import ConfigError

GOLDEN = Path(__file__).parents[1] / "golden" / "vqbn_hifigan"
TOOLKIT = np.load(GOLDEN / "f0_transform.npz")
VOICED = np.load(GOLDEN / "mean_reversion_voiced.npz")
INPUTS = ("det", "u367_2s")
CONTOURS = [torch.from_numpy(TOOLKIT[f"{name}.f0_norm"]) for name in INPUTS]
TRANSFORMATIONS = [
    name.removeprefix("det.")
    for name in TOOLKIT
    if name.startswith("det.") and name.split(".")[1] not in ("f0_norm", "noise_awgn_2_seed1234")
]
"""All but the input and the noise."""

EXAMPLES = [
    Quantization(levels=8),
    WhiteNoise(power_db=-3.5),
    MeanReversion(weight=0.3, window=11),
    MeanReversion(weight=0.75, over="voiced"),
    GlobalScale(),
]


def seeded(number, count=1):
    return [torch.Generator().manual_seed(number + i) for i in range(count)]


def run(modifiers, *contours, seed=1234):
    """Applies modifiers to a padded batch; garbage is not allowed behind F0, so it is zeros."""
    frames = torch.tensor([len(f0) for f0 in contours])
    batch = torch.nn.utils.rnn.pad_sequence(list(contours), batch_first=True)
    result = modify(batch, frames, modifiers, seeded(seed, len(contours)))
    assert result.shape == batch.shape
    for row, count in zip(result, frames.tolist(), strict=True):
        assert not row[count:].any()
    return [row[:count] for row, count in zip(result, frames.tolist(), strict=True)]


def test_the_golden_values_are_seven():
    assert len(TRANSFORMATIONS) == 7


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_the_toolkit(name, transformation):
    modifiers = parse_modifiers(transformation)
    (result,) = run(modifiers, torch.from_numpy(TOOLKIT[f"{name}.f0_norm"]))
    expected = torch.from_numpy(TOOLKIT[f"{name}.{transformation}"])
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["f0", "f0_short"])
def test_mean_reversion_over_voiced_frames(name):
    stored = {"f0": "f0_mr_n32_a075", "f0_short": "f0_short_mr"}[name]
    modifier = MeanReversion(weight=0.75, window=32, over="voiced")
    (result,) = run([modifier], torch.from_numpy(VOICED[name]))
    torch.testing.assert_close(result, torch.from_numpy(VOICED[stored]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("modifier", EXAMPLES, ids=lambda each: each.kind)
def test_a_batch_equals_single_runs(modifier):
    contours = [CONTOURS[0], CONTOURS[1][:3], CONTOURS[1], torch.zeros(5), CONTOURS[1][:1]]
    together = run([modifier], *contours, seed=7)
    for index, (f0, result) in enumerate(zip(contours, together, strict=True)):
        (alone,) = run([modifier], f0, seed=7 + index)
        assert torch.equal(result, alone)


def test_unvoiced_frames():
    """Only mean reversion over all frames makes them voiced."""
    f0 = CONTOURS[1]
    unvoiced = f0 == 0
    assert unvoiced.any()
    for modifier in EXAMPLES:
        (result,) = run([modifier], f0)
        kept = not result[unvoiced].any()
        assert kept == (modifier != MeanReversion(weight=0.3, window=11)), modifier


def test_noise_has_the_stated_power():
    (result,) = run([WhiteNoise(power_db=-6.0)], torch.full((50_000,), 10.0))
    assert float((result - 10).square().mean()) == pytest.approx(10**-0.6, rel=0.03)


def test_global_scale_draws_one_factor_between_its_limits():
    f0 = torch.full((40,), 100.0)
    factors = []
    for seed in range(200):
        (result,) = run([GlobalScale(low=0.5, high=2.0)], f0, seed=seed)
        assert len(result.unique()) == 1
        factors.append(float(result[0]) / 100)
    assert 0.5 <= min(factors) < 0.6
    assert 1.9 < max(factors) <= 2.0


def test_the_order_counts():
    parts = parse_modifiers("quant_16_awgn_2")
    assert parts == (Quantization(levels=16), WhiteNoise(power_db=2.0))
    assert parse_modifiers("awgn_2_quant_16") == parts  # as in the toolkit
    (one,), (other,) = run(parts, CONTOURS[0]), run(parts[::-1], CONTOURS[0])
    assert not torch.equal(one, other)


@pytest.mark.parametrize("modifier", EXAMPLES, ids=lambda each: each.kind)
def test_modifiers_go_through_json(modifier):
    stored = json.loads(json.dumps([dataclasses.asdict(modifier)]))
    assert parse_modifiers(stored) == (modifier,)


@pytest.mark.parametrize("text", ["", "none"])
def test_no_modifier(text):
    assert parse_modifiers(text) == ()


@pytest.mark.parametrize(
    "value",
    [
        "awgn_2.5",  # the toolkit would read 25
        "awgn_-2",  # the toolkit would lose the minus
        "quant_16_quant_8",
        "quant_16awgn_2",
        "quant",
        "nonsense",
        3,
        [{"kind": "nonsense"}],
        [{"power_db": 2.0}],
        [{"kind": "white-noise"}],
        [{"kind": "white-noise", "power_db": 2.0, "seed": 1}],
        ["quant_16"],
    ],
)
def test_what_is_no_modifier(value):
    with pytest.raises(ConfigError, match="f0_modifiers"):
        parse_modifiers(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Quantization(levels=0),
        lambda: WhiteNoise(power_db=math.nan),
        lambda: MeanReversion(weight=1.5),
        lambda: MeanReversion(window=0),
        lambda: MeanReversion(over="unvoiced"),
        lambda: GlobalScale(low=0.0),
        lambda: GlobalScale(low=2.0, high=1.0),
    ],
)
def test_settings_are_checked(make):
    with pytest.raises(ConfigError):
        make()
