"""Self-attention with relative positions: the stored stage, the definition, and padding."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.relative_attention import RelativeAttention, relative_positions

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"

TOLERANCE = 1e-5
"""Absolute, for values of about 1 in float32."""


def attention(width=16, heads=4, seed=0):
    torch.manual_seed(seed)
    module = RelativeAttention(width, heads).eval()
    for bias in (module.pos_bias_u, module.pos_bias_v):
        torch.nn.init.normal_(bias)
    return module


def run(module, x, lengths=None):
    lengths = torch.tensor([x.shape[1]] * len(x)) if lengths is None else lengths
    valid = torch.arange(x.shape[1]) < lengths[:, None]
    return module(x, relative_positions(x.shape[1], x.shape[2], x), valid)


@torch.no_grad()
def test_stored_stage():
    golden = np.load(GOLDEN / "asr.npz")
    entries = json.loads((GOLDEN / "entries_asr_reduced.json").read_text())
    weights = seeded_state_dict(entries)
    prefix = "encoder.encoders.0."
    module = RelativeAttention(32, 4)
    module.load_state_dict(
        {k.removeprefix(f"{prefix}attn."): v for k, v in weights.items() if f"{prefix}attn." in k}
    )
    normed = torch.nn.functional.layer_norm(
        torch.from_numpy(golden["embed"]),
        (32,),
        weights[f"{prefix}norm_mha.weight"],
        weights[f"{prefix}norm_mha.bias"],
        1e-12,
    )
    result = run(module, normed[None])[0]
    torch.testing.assert_close(
        result, torch.from_numpy(golden["layer0_attn"]), rtol=0, atol=TOLERANCE
    )


@torch.no_grad()
def test_definition():
    """Each score by itself, in float64."""
    frames, width, heads = 5, 8, 2
    module = attention(width, heads).double()
    x = torch.randn(frames, width, dtype=torch.float64)
    q, k, v = (
        linear(x).view(frames, heads, -1)
        for linear in (module.linear_q, module.linear_k, module.linear_v)
    )
    mixed = torch.zeros(frames, heads, width // heads, dtype=torch.float64)
    for i in range(frames):
        for h in range(heads):
            scores = []
            for j in range(frames):
                sinusoid = torch.zeros(width, dtype=torch.float64)
                for c in range(width // 2):
                    angle = (i - j) * 10000 ** (-2 * c / width)
                    sinusoid[2 * c], sinusoid[2 * c + 1] = math.sin(angle), math.cos(angle)
                position = module.linear_pos(sinusoid).view(heads, -1)[h]
                score = (q[i, h] + module.pos_bias_u[h]) @ k[j, h]
                score += (q[i, h] + module.pos_bias_v[h]) @ position
                scores.append(score / math.sqrt(width / heads))
            mixed[i, h] = torch.stack(scores).softmax(0) @ v[:, h]
    expected = module.linear_out(mixed.flatten(1))
    # Positions are computed in float32.
    torch.testing.assert_close(run(module, x[None])[0], expected, rtol=0, atol=1e-6)


def test_positions():
    positions = relative_positions(4, 6, torch.zeros(1, dtype=torch.float64))
    assert positions.dtype == torch.float64
    assert positions.shape == (7, 6)
    torch.testing.assert_close(positions[3], torch.tensor([0.0, 1.0] * 3, dtype=torch.float64))
    assert positions[0, 0] == pytest.approx(math.sin(3.0))
    assert positions[6, 2] == pytest.approx(math.sin(-3.0 * 10000 ** (-2 / 6)))
    torch.testing.assert_close(positions[:, 0::2], -positions.flip(0)[:, 0::2])


@torch.no_grad()
@pytest.mark.parametrize("length", [1, 2, 7])
def test_item_in_a_batch_is_item_alone(length):
    module = attention()
    x = torch.randn(2, 9, 16)
    x[0, length:] = math.nan
    together = run(module, x, torch.tensor([length, 9]))
    assert together.isfinite().all()
    torch.testing.assert_close(
        together[0, :length], run(module, x[:1, :length])[0], rtol=0, atol=1e-6
    )
    torch.testing.assert_close(together[1], run(module, x[1:])[0], rtol=0, atol=1e-6)


@torch.no_grad()
def test_item_without_frames_is_finite():
    assert run(attention(), torch.randn(2, 3, 16), torch.tensor([0, 3])).isfinite().all()
