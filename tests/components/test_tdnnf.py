"""TDNN-F layers against their definition, frame by frame."""

import pytest
import torch

from voiceanon.components.content.bottleneck import FBANK_LAYERS, WAV2VEC2_LAYERS
from voiceanon.components.content.tdnnf import TdnnfBottleneck, TdnnfLayer, edge_frames

TOLERANCE = 1e-5
"""Absolute, for sums of up to 60 products of a standard deviation of about 1."""


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def noise(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def filled(module):
    """Values that leave no term out: biases, means and variances, too."""
    for name, value in module.state_dict().items():
        value.copy_(noise(*value.shape).abs() + 0.5 if "var" in name else noise(*value.shape))
    return module


def affine(layer, frames):
    maps = layer.tdnn["linearB"].inner_nat
    return maps["weight"] @ torch.cat(list(frames)) + maps["bias"][0]


@pytest.mark.parametrize(
    ("inputs", "context", "stride", "frames"),
    [(5, 3, 1, 9), (8, 3, 1, 9), (8, 3, 1, 3), (8, 1, 2, 9), (8, 1, 2, 8), (8, 3, 2, 10)],
)
def test_layer_is_what_its_definition_says(inputs, context, stride, frames):
    layer = filled(TdnnfLayer(inputs, 4, 8, context=context, stride=stride))
    x = noise(1, frames, inputs)
    expected = []
    for start in range(0, frames - context + 1, stride):
        y = layer.tdnn["linearA"](affine(layer, x[0, start : start + context]))
        if inputs == 8:
            y = y + 0.66 * x[0, start + context // 2]
        y = (y - layer.bn.running_mean) / (layer.bn.running_var + 1e-5).sqrt()
        expected.append(y.clamp_min(0))
    result = layer(x)
    assert (result == 0).any()
    torch.testing.assert_close(result[0], torch.stack(expected), rtol=0, atol=TOLERANCE)


def test_bottleneck_is_the_first_map_alone():
    layer = filled(TdnnfBottleneck(5, 4, None, context=3))
    x = noise(1, 6, 5)
    expected = torch.stack([affine(layer, x[0, i : i + 3]) for i in range(4)])
    result, codes = layer(x)
    assert codes is None
    torch.testing.assert_close(result[0], expected, rtol=0, atol=TOLERANCE)


def test_bottleneck_is_quantised_last():
    plain = filled(TdnnfBottleneck(5, 4, None, context=3))
    layer = filled(TdnnfBottleneck(5, 4, 7, context=3))
    layer.load_state_dict(plain.state_dict(), strict=False)
    x = noise(2, 30, 5)
    vectors, codes = layer(x)
    codebook = layer.state_dict()["tdnn.bottleneck_func.quant._embedding.weight"]
    assert torch.equal(vectors, codebook[codes])
    assert torch.equal(codes, torch.cdist(plain(x)[0], codebook).argmin(-1))


@pytest.mark.parametrize("stride", [1, 2])
def test_items_of_a_batch_do_not_touch_each_other(stride):
    layer = filled(TdnnfLayer(8, 4, 8, context=3, stride=stride))
    x = noise(3, 20, 8)
    x[1, 11:] = torch.nan
    result = layer(x)
    for i, count in enumerate((20, 11, 20)):
        alone = layer(x[i : i + 1, :count])[0]
        torch.testing.assert_close(result[i, : len(alone)], alone, rtol=0, atol=TOLERANCE)


def test_edges_make_up_for_the_context():
    # 19 and 3 are the published numbers.
    assert edge_frames(FBANK_LAYERS) == 19
    assert edge_frames(WAV2VEC2_LAYERS) == 3
    assert edge_frames([(1, 1)]) == 0
    for layers, step in ((FBANK_LAYERS, 2), (WAV2VEC2_LAYERS, 1)):
        for frames in range(1, 60):
            left = frames + 2 * edge_frames(layers)
            for context, stride in layers:
                left = (left - context) // stride + 1
            assert left == -(-frames // step)
