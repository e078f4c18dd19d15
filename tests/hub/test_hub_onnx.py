"""Graphs in graphs: what the branches of a choice hold."""

import pytest
import torch
from golden.onnx_writer import graph, node, write_model

from voiceanon.errors import WeightsError
from voiceanon.hub.onnx import read_onnx


def test_branches_have_tensors_of_their_own(tmp_path):
    inner = graph([node("Squeeze", ["x", "3"])], {"3": torch.tensor([7])})
    nodes = [node("Add", ["x", "w"], name="/a/Add"), node("If", ["c"], branches={"other": inner})]
    outer = graph(nodes, {"3": torch.tensor([5.0]), "w": torch.arange(6.0).view(2, 3)})
    choice = node("If", ["c"], name="If_1", branches={"then_branch": outer, "else_branch": inner})
    content = graph([choice, node("Relu", ["y"])], {"top": torch.tensor([1])})
    file = read_onnx(write_model(tmp_path / "x.onnx", content))

    assert [layer.kind for layer in file.operations] == ["If", "Relu"]
    assert file.tensors.keys() == {"top"}
    branches = file.operations[0].branches
    assert branches.keys() == {"then_branch", "else_branch"}
    then = branches["then_branch"]
    assert [layer.kind for layer in then.operations] == ["Add", "If"]
    assert then.layers["a/Add"].inputs == ("x", "w")
    assert torch.equal(then.tensors["w"], torch.arange(6.0).view(2, 3))
    for branch in (branches["else_branch"], then.operations[1].branches["other"]):
        assert branch.tensors["3"].tolist() == [7]
        assert branch.operations[0].branches == {}


def test_operations_keep_their_order(tmp_path):
    kinds = ["Conv", "Relu", "Conv", "Conv"]
    nodes = [node(kind, ["x", str(i)], settings={"pads": [i]}) for i, kind in enumerate(kinds)]
    file = read_onnx(write_model(tmp_path / "x.onnx", graph(nodes, {})))
    assert [layer.kind for layer in file.operations] == kinds
    assert [layer.inputs[1] for layer in file.operations] == ["0", "1", "2", "3"]
    assert [layer.settings["pads"] for layer in file.operations] == [(0,), (1,), (2,), (3,)]
    assert file.layers["/Conv"] == file.operations[0]


def test_endless_nesting_is_refused(tmp_path):
    content = graph([node("Identity", ["x"])], {})
    for _ in range(2000):
        content = graph([node("If", ["c"], branches={"then_branch": content})], {})
    path = write_model(tmp_path / "x.onnx", content)
    with pytest.raises(WeightsError, match="RecursionError"):
        read_onnx(path)


def test_damage_in_a_branch_is_seen(tmp_path):
    branch = graph([], {"w": torch.zeros(4)})
    content = graph([node("If", ["c"], branches={"then_branch": branch[:-3]})], {})
    with pytest.raises(WeightsError, match="cut short"):
        read_onnx(write_model(tmp_path / "x.onnx", content))
