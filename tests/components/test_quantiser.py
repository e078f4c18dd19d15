"""The vector quantiser: nearest rows, ties, precision, and vectors that are not finite."""

import pytest
import torch

from voiceanon.components.content.quantiser import VectorQuantiser


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def quantiser(codebook):
    module = VectorQuantiser(*codebook.shape)
    assert list(module.state_dict()) == ["_embedding.weight"]
    module.load_state_dict({"_embedding.weight": codebook})
    return module


def noise(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def test_gives_the_nearest_row_itself():
    codebook, z = noise(48, 256), 0.3 * noise(2, 100, 256)
    vectors, codes = quantiser(codebook)(z)
    assert codes.dtype == torch.int64
    assert torch.equal(codes, torch.cdist(z.double(), codebook.double()).argmin(-1))
    assert torch.equal(vectors, codebook[codes])
    assert codes.unique().numel() > 10


def test_of_equal_rows_the_first_wins():
    codebook = torch.tensor([[3.0, 3.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])
    z = torch.tensor([[[0.0, 0.0], [2.0, 0.0], [-2.0, 5.0], [0.0, -7.0]]])
    assert quantiser(codebook)(z)[1].tolist() == [[1, 1, 2, 1]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_no_code(dtype):
    codebook = torch.cat([noise(24, 256), noise(24, 256) + 1e-4])
    z = noise(1, 100, 256)
    expected = quantiser(codebook)(z)
    with torch.autocast("cpu", dtype):
        vectors, codes = quantiser(codebook)(z)
    assert vectors.dtype == torch.float32
    assert torch.equal(codes, expected[1])
    assert torch.equal(vectors, expected[0])


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_went_wrong_is_not_hidden(value):
    z = noise(1, 3, 4)
    z[0, 1, 2] = value
    vectors, _ = quantiser(noise(5, 4))(z)
    assert vectors[0, 1].isnan().all()
    assert vectors[0, [0, 2]].isfinite().all()
