"""Writes ONNX files, as far as the tests need them, without the package onnx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

_KINDS = {torch.float32: 1, torch.int64: 7}


def node(
    kind: str,
    inputs: Sequence[str],
    *,
    name: str = "",
    settings: Mapping[str, Sequence[int]] | None = None,
    branches: Mapping[str, bytes] | None = None,
) -> bytes:
    """One operation; branches are graphs by the name of their attribute."""
    message = b"".join(_field(1, text.encode()) for text in inputs)
    message += _field(3, name.encode()) + _field(4, kind.encode())
    for key, numbers in (settings or {}).items():
        attribute = _field(1, key.encode()) + b"".join(_number(8, n) for n in numbers)
        message += _field(5, attribute)
    for key, content in (branches or {}).items():
        message += _field(5, _field(1, key.encode()) + _field(6, content))
    return message


def graph(nodes: Sequence[bytes], tensors: Mapping[str, Tensor]) -> bytes:
    """A graph, or a branch of one."""
    message = b"".join(_field(1, each) for each in nodes)
    return message + b"".join(_field(5, _tensor(name, value)) for name, value in tensors.items())


def write_model(path: Path, content: bytes) -> Path:
    """Writes a graph as a file."""
    path.write_bytes(_number(1, 8) + _field(2, b"pytorch") + _field(7, content))
    return path


def _tensor(name: str, value: Tensor) -> bytes:
    size = b"".join(_varint(n) for n in value.shape)
    return (
        _field(1, size)
        + _number(2, _KINDS[value.dtype])
        + _field(8, name.encode())
        + _field(9, value.contiguous().numpy().tobytes())
    )


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content
