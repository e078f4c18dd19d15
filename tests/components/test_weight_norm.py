"""Folded weight norm against torch's two implementations of it."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, weight_norm

from voiceanon.components.weight_norm import fold_entries, fold_weight_norm
from voiceanon.errors import WeightsError

SPELLINGS = pytest.mark.parametrize("normed", [weight_norm, parametrizations.weight_norm])
LAYERS = pytest.mark.parametrize(
    ("make", "dim"),
    [
        (lambda: nn.Conv1d(12, 8, 5), 0),
        (lambda: nn.Conv1d(12, 8, 5, groups=4), 2),
        (lambda: nn.Conv1d(12, 1, 7), 0),
        (lambda: nn.ConvTranspose1d(12, 8, 4), 0),
        (lambda: nn.Linear(12, 8), 0),
    ],
)


def randomized(layer):
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in layer.parameters():
            value.copy_(torch.randn(value.shape, generator=generator))
    return layer


@SPELLINGS
@LAYERS
def test_folded_layer_equals_normed_layer(normed, make, dim):
    layer = randomized(normed(make(), dim=dim))
    plain = make()
    plain.load_state_dict(fold_entries(layer.state_dict()))
    x = torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(plain(x), layer(x), rtol=0, atol=2e-6)


def test_the_kept_dimension_follows_from_the_shape():
    direction = torch.randn(4, 3, 5, dtype=torch.float64)
    for dim in range(3):
        shape = [1, 1, 1]
        shape[dim] = direction.shape[dim]
        magnitude = torch.rand(shape, dtype=torch.float64)
        weight = fold_weight_norm(magnitude, direction)
        rows = weight.movedim(dim, 0).flatten(1)
        torch.testing.assert_close(rows.norm(dim=1), magnitude.flatten())
        cosine = torch.cosine_similarity(weight.flatten(), direction.flatten(), dim=0)
        assert cosine > 0


def test_a_magnitude_per_value_replaces_the_size():
    weight = fold_weight_norm(torch.tensor([2.0, 3.0]), torch.tensor([-0.1, 7.0]))
    torch.testing.assert_close(weight, torch.tensor([-2.0, 3.0]))


def test_other_entries_pass_in_order():
    g, v, w, b = torch.ones(2, 1), torch.ones(2, 3), torch.zeros(4), torch.zeros(2)
    state = {"a.bias": b, "a.weight_g": g, "a.weight_v": v, "c.weight": w, "my_weight_g": b}
    folded = fold_entries(state)
    assert list(folded) == ["a.bias", "a.weight", "c.weight", "my_weight_g"]
    assert folded["c.weight"] is w
    assert folded["my_weight_g"] is b
    again = fold_entries(folded)
    assert all(again[name] is folded[name] for name in folded)


@pytest.mark.parametrize("missing", ["weight_g", "weight_v"])
def test_half_a_pair_is_refused(missing):
    state = {"a.weight_g": torch.ones(2, 1), "a.weight_v": torch.ones(2, 3)}
    del state[f"a.{missing}"]
    with pytest.raises(WeightsError, match=rf"'a\.{missing}' is missing"):
        fold_entries(state)


@pytest.mark.parametrize("plain_first", [True, False])
def test_two_weights_of_one_layer_are_refused(plain_first):
    pair = {"a.weight_g": torch.ones(2, 1), "a.weight_v": torch.ones(2, 3)}
    plain = {"a.weight": torch.ones(2, 3)}
    with pytest.raises(WeightsError, match=r"'a\.weight' more than once"):
        fold_entries(plain | pair if plain_first else pair | plain)


@pytest.mark.parametrize("shape", [(2,), (3, 1), (1, 2)])
def test_shapes_that_do_not_fit_are_refused(shape):
    with pytest.raises(WeightsError, match=r"does not fit a direction of shape \(2, 3\)"):
        fold_weight_norm(torch.ones(shape), torch.ones(2, 3))
