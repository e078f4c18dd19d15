"""Layers of nnet3 networks against their definition, frame by frame."""

import pytest
import torch

from voiceanon.components.kaldi_layers import AffineReluNorm, ContextAffine, RunningNorm

TOLERANCE = 1e-5
"""Absolute, for sums of up to 15 products of a standard deviation of about 1."""


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def noise(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def close(result, expected):
    torch.testing.assert_close(result, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("offsets", [(0,), (-1, 0), (0, 3), (-2, 0, 2), (-2, -1, 0, 1, 2)])
@pytest.mark.parametrize("bias", [True, False])
def test_affine_is_what_its_definition_says(offsets, bias):
    layer = ContextAffine(3, 4, offsets=offsets, bias=bias)
    layer.weight.copy_(noise(4, 3 * len(offsets)))
    if bias:
        layer.bias.copy_(noise(4))
    x = noise(2, 9, 3)
    expected = []
    for t in range(-offsets[0], 9 - offsets[-1]):
        seen = torch.cat([x[:, t + offset] for offset in offsets], dim=1)
        expected.append(seen @ layer.weight.T + (layer.bias if bias else 0))
    close(layer(x), torch.stack(expected, dim=1))
    assert sorted(layer.state_dict()) == ["bias", "weight"][not bias :]


def test_norm_is_what_its_definition_says():
    norm = RunningNorm(3)
    norm.running_mean.copy_(torch.tensor([1.0, -2.0, 0.5]))
    # Statistics of few frames can give a variance below zero: Kaldi takes it as zero.
    norm.running_var.copy_(torch.tensor([4.0, 0.25, -1e-3]))
    x = noise(5, 3)
    deviations = torch.tensor([4.001, 0.251, 0.001]).sqrt()
    close(norm(x), (x - norm.running_mean) / deviations)


def test_order_within_a_layer():
    layer = AffineReluNorm(2, 2)
    layer.affine.weight.copy_(torch.eye(2))
    layer.batchnorm.running_mean.fill_(1.0)
    result = layer(torch.tensor([[[-3.0, 2.0]]]))
    close(result[0, 0], torch.tensor([-1.0, 1.0]) / torch.tensor(1.001).sqrt())
