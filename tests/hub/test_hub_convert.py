"""Renaming and strict loading."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import WeightsError
from voiceanon.hub.convert import load_strict, rename
from voiceanon.hub.read import read_state

FILE = Path("published.pt")
RENAMES = ((r"^old\.(\d+)\.", r"layers.\1."), (r"\.w$", ".weight"), (r"\.b$", ".bias"))


class Net(nn.Module):
    def __init__(self, width=3, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norm = nn.BatchNorm1d(width, affine=False)
        self.register_buffer("window", torch.hann_window(8), persistent=False)


def published(width=3, depth=2):
    state = {}
    for i in range(depth):
        state[f"old.{i}.w"] = torch.full((width, width), 1.0 + i)
        state[f"old.{i}.b"] = torch.full((width,), 10.0 + i)
    state["norm.running_mean"] = torch.full((width,), 20.0)
    state["norm.running_var"] = torch.full((width,), 21.0)
    state["norm.num_batches_tracked"] = torch.tensor(22)
    return state


def failure(net, state, **how):
    with pytest.raises(WeightsError) as caught:
        load_strict(net, state, file=FILE, renames=RENAMES, **how)
    return str(caught.value)


def test_every_parameter_and_buffer_is_filled():
    net = Net()
    load_strict(net, published(), file=FILE, renames=RENAMES)
    assert torch.equal(net.layers[1].weight, torch.full((3, 3), 2.0))
    assert torch.equal(net.layers[0].bias, torch.full((3,), 10.0))
    assert net.norm.running_var.tolist() == [21.0] * 3
    assert net.norm.num_batches_tracked == 22
    assert net.layers[0].weight.requires_grad


def test_pairs_apply_in_their_order():
    pairs = ((r"^a", "b"), (r"^b", "c"))
    assert list(rename({"a.x": torch.ones(1)}, pairs, file=FILE)) == ["c.x"]
    assert list(rename({"a.x": torch.ones(1)}, pairs[::-1], file=FILE)) == ["b.x"]


def test_two_entries_of_one_name():
    with pytest.raises(WeightsError, match=r"published\.pt: 'b' is one of two entries .* 'a'"):
        rename({"a": torch.ones(1), "b": torch.ones(1)}, (("b", "a"),), file=FILE)


def test_a_missing_entry():
    state = published()
    del state["old.1.b"]
    message = failure(Net(), state)
    assert "published.pt: does not fit Net." in message
    assert "1 entry missing from the file:\n  layers.1.bias" in message


def test_an_entry_too_many():
    message = failure(Net(), {**published(), "old.7.w": torch.ones(1)})
    assert "of no use to the network:\n  layers.7.weight" in message
    assert "missing" not in message


def test_entries_without_use_are_named_by_the_caller():
    state = {**published(), "old.7.w": torch.ones(1), "mask_emb": torch.ones(1)}
    unused = re.compile(r"mask_emb|old\.7\.").match
    load_strict(Net(), state, file=FILE, renames=RENAMES, unused=lambda name: bool(unused(name)))
    message = failure(Net(), state, unused=lambda name: name == "mask_emb")
    assert "layers.7.weight" in message
    assert "mask_emb" not in message


def test_a_wrong_shape_names_entry_file_and_both_shapes():
    message = failure(Net(), published(width=4))
    assert "published.pt" in message
    assert "layers.0.weight: (4, 4), (3, 3)" in message
    assert "norm.running_mean: (4,), (3,)" in message


def test_integers_are_not_taken_for_weights():
    state = {**published(), "old.0.w": torch.ones(3, 3, dtype=torch.int64)}
    assert "layers.0.weight: torch.int64, torch.float32" in failure(Net(), state)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(value):
    state = published()
    state["old.1.b"][2] = value
    message = failure(Net(), state)
    assert "1 entry with values that are not finite:\n  layers.1.bias\n" in message


def test_all_faults_come_in_one_message_of_bounded_length():
    message = failure(Net(depth=30), {f"other.{i}": torch.ones(1) for i in range(40)})
    assert "63 entries missing from the file" in message
    assert "... and 53 more" in message
    assert "40 entries of no use to the network" in message
    assert "... and 30 more" in message
    assert len(message.splitlines()) < 30


def test_nothing_is_changed_if_anything_does_not_fit():
    net = Net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    failure(net, {**published(), "old.0.w": torch.ones(2)})
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_half_precision_becomes_the_modules_own():
    net = Net()
    state = {name: v.half() if v.is_floating_point() else v for name, v in published().items()}
    load_strict(net, state, file=FILE, renames=RENAMES)
    assert {p.dtype for p in net.parameters()} == {torch.float32}


def test_a_module_without_memory_gets_its_own(tmp_path):
    with torch.device("meta"):
        net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    donor = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).half()
    torch.save(donor.state_dict(), tmp_path / "a.pt")
    load_strict(net, read_state(tmp_path / "a.pt"), file=tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes(b"")
    for name, value in net.state_dict().items():
        assert value.device.type == "cpu", name
        assert torch.equal(value, donor.state_dict()[name].to(value.dtype))
    assert net[0].weight.dtype == torch.float32
    assert isinstance(net[0].weight, nn.Parameter)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3)


@pytest.mark.parametrize("spelling", ["old", "new", "folded"])
def test_all_spellings_of_weight_norm(spelling):
    generator = torch.Generator().manual_seed(0)
    magnitude = torch.rand(4, 1, 1, generator=generator) + 0.5
    direction = torch.randn(4, 2, 3, generator=generator)
    weight = magnitude * direction / direction.flatten(1).norm(dim=1)[:, None, None]
    entries = {
        "old": {"c.weight_g": magnitude, "c.weight_v": direction},
        "new": {
            "c.parametrizations.weight.original0": magnitude,
            "c.parametrizations.weight.original1": direction,
        },
        "folded": {"c.weight": weight},
    }[spelling]
    net = Plain()
    state = {**entries, "c.bias": torch.zeros(4)}
    load_strict(net, state, file=FILE, renames=((r"^c\.", "conv."),), fold=fold_entries)
    assert torch.allclose(net.conv.weight, weight, atol=1e-6)
