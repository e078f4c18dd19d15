"""The acoustic model of B1.a stage by stage against the original's stored outputs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.acoustic.autoregressive_mel import (
    AutoregressiveMel,
    AutoregressiveMelConfig,
    GateNoise,
    draw_gate_noise,
)
from voiceanon.errors import WeightsError

GOLDEN = Path(__file__).parents[1] / "golden" / "xvector_nsf"
STORED = {name: torch.from_numpy(x) for name, x in np.load(GOLDEN / "am_pytorch.npz").items()}
FRAMES = torch.tensor([30])

TOLERANCE = 1e-5
"""Absolute, for values of a standard deviation of 1 to 2; found is 1e-6."""


def entries():
    shapes = json.loads((GOLDEN / "entries_3_ss_am_pt_trained_network.json").read_text())
    result = seeded_state_dict(shapes)
    result["input_mean"][-1], result["input_std"][-1] = 180, 50
    result["output_mean"] += 5
    return result


@pytest.fixture(scope="module")
def model():
    weights = entries()
    network = AutoregressiveMel(AutoregressiveMelConfig.from_entries(weights)).eval()
    network.load_state_dict(weights, strict=True)
    return network


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def features():
    xvector = STORED["xvector"].expand(30, -1)
    return torch.cat([STORED["feat"], xvector, STORED["f0"][:, None]], 1)[None]


def gate_noise(kind):
    if kind == "half":
        return GateNoise(torch.zeros(1, 30, 80), torch.zeros(4, 1, 80, 30))
    r = np.random.RandomState(2022)
    feedback = np.concatenate([r.random_sample((1, 1, 80)) for _ in range(30)], 1)
    post = np.stack([r.random_sample((1, 80, 30)) for _ in range(4)])
    return GateNoise(*(2 * torch.from_numpy(x.astype(np.float32)) - 1 for x in (feedback, post)))


def close(result, expected, tolerance=TOLERANCE):
    assert result.shape == expected.shape
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)


def test_sizes_are_the_published_ones(model):
    assert model.config == AutoregressiveMelConfig()


def test_base(model):
    normalised = (features() - model.input_mean) / model.input_std
    close(model.base(normalised, FRAMES)[0], STORED["half_base"])


@pytest.mark.parametrize("kind", ["half", "rs"])
def test_feedback(model, kind):
    result = model.generate(STORED["half_base"][None], gate_noise(kind).feedback)
    close(result[0], STORED[f"{kind}_prenet_out"])


@pytest.mark.parametrize("kind", ["half", "rs"])
def test_post_net(model, kind):
    given = STORED[f"{kind}_prenet_out"][None]
    close((given + model.m_post(given, gate_noise(kind).post))[0], STORED[f"{kind}_post"])


@pytest.mark.parametrize("kind", ["half", "rs"])
def test_mel(model, kind):
    close(model(features(), FRAMES, gate_noise(kind))[0], STORED[f"{kind}_mel"])


@pytest.mark.parametrize("garbage", [1e3, torch.nan])
def test_batch_of_mixed_lengths_equals_single_runs(model, garbage):
    frames = torch.tensor([11, 30, 1])
    batch = features().repeat(3, 1, 1) + torch.randn(3, 30, 769, generator=torch.Generator())
    noise = draw_gate_noise(frames, [torch.Generator().manual_seed(n) for n in range(3)])
    expected = []
    for i, count in enumerate(frames.tolist()):
        own = draw_gate_noise(frames[i, None], [torch.Generator().manual_seed(i)])
        assert torch.equal(own.feedback[0], noise.feedback[i, :count])
        assert torch.equal(own.post[:, 0], noise.post[:, i, :, :count])
        expected.append(model(batch[i, None, :count], frames[i, None], own)[0])
        batch[i, count:] = garbage
        noise.feedback[i, count:], noise.post[:, i, :, count:] = garbage, garbage
    result = model(batch, frames, noise)
    for row, alone in zip(result, expected, strict=True):
        close(row[: len(alone)], alone)
        assert not row[len(alone) :].any()


def test_draws_are_those_of_the_published_order():
    draw = torch.Generator().manual_seed(4)
    feedback = torch.cat([torch.rand(1, 1, 80, generator=draw) for _ in range(7)], 1)
    post = torch.stack([torch.rand(1, 80, 7, generator=draw) for _ in range(4)])
    noise = draw_gate_noise(torch.tensor([7]), [torch.Generator().manual_seed(4)])
    assert torch.equal(noise.feedback, 2 * feedback - 1)
    assert torch.equal(noise.post, 2 * post - 1)


def test_other_weights_are_refused():
    with pytest.raises(WeightsError, match=r"m_base\.0\.weight"):
        AutoregressiveMelConfig.from_entries({"conv_pre.weight": torch.zeros(1)})
