"""Silero's detector in its published layout: two networks in one graph, some names lost."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from golden.onnx_writer import graph, node, write_model
from voiceanon.components.vad.silero import FOLDED, SileroVad

ONNX_GATES = (0, 3, 1, 2)
"""Input, output, forget, cell, in the order of torch."""


def write_silero(path: Path, network: SileroVad) -> Path:
    """Writes a network as ``silero_vad.onnx``; that for 8 kHz holds other numbers."""
    entries = network.state_dict()
    other = {name: value + 1 for name, value in entries.items()}
    tensors = {"onnx::Equal_124": torch.tensor(16_000)}
    branches = {}
    for number, (kind, state) in enumerate((("then_branch", entries), ("else_branch", other))):
        prefix = ("model.", "model_8k.")[number]
        branches[kind] = _branch(state, prefix, 1110 + 12 * number, tensors)
    nodes = [
        node("Equal", ["sr", "onnx::Equal_124"], name="Equal_23"),
        node("If", ["onnx::Cast_125"], name="If_25", branches=branches),
    ]
    return write_model(path, graph(nodes, tensors))


def _branch(
    entries: dict[str, Tensor], prefix: str, number: int, tensors: dict[str, Tensor]
) -> bytes:
    """One network; its named tensors, and those with numbers for names, lie outside."""
    nodes = []
    for name, value in entries.items():
        place = name.removesuffix(".weight").removesuffix(".bias")
        bias = f"{place}.bias"
        if name.startswith("lstm."):
            continue
        if place in FOLDED:
            if name.endswith(".weight"):
                tensors[str(number)], tensors[str(number + 1)] = value, entries[bias]
                nodes.append(node("Conv", ["x", str(number), str(number + 1)]))
                number += 3
            continue
        tensors[prefix + name] = value
        if not name.endswith(".bias"):
            inputs = ["x", prefix + name, *([prefix + bias] if bias in entries else [])]
            nodes.append(node("Conv", inputs))
    squeeze = {kind: graph([node("Identity", ["x"])], {}) for kind in ("else_branch",)}
    squeeze["then_branch"] = graph([node("Squeeze", ["x", "174"])], {"174": torch.tensor([3])})
    recurrent = {kind: _recurrent(entries) for kind in ("else_branch", "then_branch")}
    nodes.insert(0, node("If", ["662"], branches=squeeze))
    nodes.insert(-1, node("If", ["281"], branches=recurrent))
    return graph(nodes, {"178": torch.tensor([1])})


def _recurrent(entries: dict[str, Tensor]) -> bytes:
    nodes, tensors = [], {}
    for layer, first in enumerate((343, 415)):
        parts = [
            _gates(entries[f"lstm.{kind}_l{layer}"])
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        values = (parts[0], parts[1], torch.cat(parts[2:]))
        names = [str(first + 2 * i) for i in range(3)]
        tensors |= {name: value[None] for name, value in zip(names, values, strict=True)}
        nodes.append(node("LSTM", ["284", *names, "", "351", "355"]))
    return graph(nodes, tensors)


def _gates(value: Tensor) -> Tensor:
    return torch.cat([value.chunk(4)[gate] for gate in ONNX_GATES])
