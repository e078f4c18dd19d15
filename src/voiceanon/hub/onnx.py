"""Reads the weights of ONNX files as tensors, without the package onnx; nothing in a file can run.

An ONNX file is one message of Protocol Buffers: a graph of nodes and the tensors that they use.
Files that PyTorch exported name each node by its place in the network, ``/dec/ups.0/Conv...``, so
that a layer's weight can be found even where the exporter gave it a number for a name. Graphs may
hold graphs: the branches of a choice, with tensors of their own.

Source of the field numbers: onnx.proto3 of the ONNX project (Apache-2.0).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from voiceanon.errors import WeightsError

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_TENSOR = 1, 5
_NODE_INPUT, _NODE_NAME, _NODE_KIND, _NODE_ATTRIBUTE = 1, 3, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_GRAPH, _ATTRIBUTE_INTS = 1, 6, 8
_TENSOR_SIZE, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_BYTES = 1, 2, 8, 9
_TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 10: torch.float16, 11: torch.float64}

_VARINT, _BYTES = 0, 2
_FIXED_SIZES = {1: 8, 5: 4}
"""Bytes of the wire types of fixed size."""


@dataclass(frozen=True)
class Layer:
    """One operation of a network that was exported by PyTorch.

    Attributes:
        kind: Such as ``"Conv"``.
        inputs: Names of what it takes, weights among them.
        settings: Lists of whole numbers by name, such as ``"dilations"``.
        branches: Graphs that it chooses from, such as ``"then_branch"``.
    """

    kind: str
    inputs: tuple[str, ...]
    settings: Mapping[str, tuple[int, ...]]
    branches: Mapping[str, OnnxFile] = field(default_factory=dict)


@dataclass(frozen=True)
class OnnxFile:
    """What a file, or a branch in it, holds of interest.

    Attributes:
        tensors: By name, on the CPU; a branch also sees those around it, which are not listed here.
        layers: By place in the network and kind, such as ``"dec.ups.0/ConvTranspose"``; of several
            operations of one kind at one place, the first.
        operations: All of them, in the order in which they run.
    """

    tensors: Mapping[str, Tensor]
    layers: Mapping[str, Layer]
    operations: tuple[Layer, ...] = ()


def read_onnx(path: Path) -> OnnxFile:
    """Reads a file.

    Args:
        path: A verified file.

    Raises:
        WeightsError: The file is damaged, or of another kind.
    """
    try:
        data = memoryview(path.read_bytes())
        graphs = [value for number, value in _fields(data) if number == _MODEL_GRAPH]
        return _graph(_message(graphs[0]))
    except (IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise WeightsError(
            f"{path}: cannot be read as ONNX ({type(error).__name__}: {error}). The file is "
            "damaged or of another kind; delete it and fetch it again."
        ) from error


def _graph(graph: memoryview) -> OnnxFile:
    tensors: dict[str, Tensor] = {}
    layers: dict[str, Layer] = {}
    operations: list[Layer] = []
    for number, value in _fields(graph):
        if number == _GRAPH_TENSOR:
            name, tensor = _tensor(_message(value))
            if tensor is not None:
                tensors[name] = tensor
        elif number == _GRAPH_NODE:
            name, layer = _node(_message(value))
            place = ".".join(name.split("/")[1:-1])
            layers.setdefault(f"{place}/{layer.kind}", layer)
            operations.append(layer)
    return OnnxFile(tensors, layers, tuple(operations))


def _tensor(message: memoryview) -> tuple[str, Tensor | None]:
    size: list[int] = []
    kind, name = 0, ""
    content = memoryview(b"")
    for number, value in _fields(message):
        if number == _TENSOR_SIZE:
            size += _integers(value)
        elif number == _TENSOR_TYPE:
            kind = _number(value)
        elif number == _TENSOR_NAME:
            name = _text(value)
        elif number == _TENSOR_BYTES:
            content = _message(value)
    if kind not in _TYPES or not content or 0 in size:
        return name, None
    # A copy, which can be written to and does not hold the file.
    flat = torch.frombuffer(bytearray(content), dtype=_TYPES[kind])
    if len(flat) != math.prod(size):
        raise ValueError(f"{name} has {len(flat)} values for the shape {size}")
    return name, flat.reshape(size)


def _node(message: memoryview) -> tuple[str, Layer]:
    inputs: list[str] = []
    settings: dict[str, tuple[int, ...]] = {}
    branches: dict[str, OnnxFile] = {}
    name = kind = ""
    for number, value in _fields(message):
        if number == _NODE_INPUT:
            inputs.append(_text(value))
        elif number == _NODE_NAME:
            name = _text(value)
        elif number == _NODE_KIND:
            kind = _text(value)
        elif number == _NODE_ATTRIBUTE:
            attribute, numbers, branch = _attribute(_message(value))
            settings[attribute] = numbers
            if branch is not None:
                branches[attribute] = branch
    return name, Layer(kind, tuple(inputs), settings, branches)


def _attribute(message: memoryview) -> tuple[str, tuple[int, ...], OnnxFile | None]:
    numbers: list[int] = []
    name, branch = "", None
    for number, value in _fields(message):
        if number == _ATTRIBUTE_NAME:
            name = _text(value)
        elif number == _ATTRIBUTE_INTS:
            numbers += _integers(value)
        elif number == _ATTRIBUTE_GRAPH:
            branch = _graph(_message(value))
    return name, tuple(numbers), branch


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Numbers and values of the fields of a message; numbers of variable size, or bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        size = _FIXED_SIZES.get(wire, 0)
        if wire == _BYTES:
            size, place = _varint(message, place)
        elif not size:
            raise ValueError(f"wire type {wire} at byte {place}")
        if place + size > len(message):
            raise ValueError("the file is cut short")
        yield number, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def _integers(value: int | memoryview) -> list[int]:
    """Whole numbers, which may come one by one or packed."""
    if isinstance(value, int):
        return [value]
    numbers, place = [], 0
    while place < len(value):
        number, place = _varint(value, place)
        numbers.append(number)
    return numbers


def _number(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise TypeError("bytes where a number is due")
    return value


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise TypeError("a number where bytes are due")
    return value


def _text(value: int | memoryview) -> str:
    return bytes(_message(value)).decode()
