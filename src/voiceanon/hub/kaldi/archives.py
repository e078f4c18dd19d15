"""Archives (``ark``) of vectors and matrices by key, and their indices (``scp``).

Source: specification sheet of the x-vector family, section 15.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from voiceanon.hub.kaldi.stream import Stream, open_stream

_PERCENTILES = 4
"""Values of a column that a compressed matrix keeps: 0, 25, 75 and 100 %."""

_KNOTS = (0, 64, 192, 255)
"""Bytes that stand for these four; between them values lie on straight lines."""


def read_ark(path: Path) -> dict[str, Tensor]:
    """Reads a binary archive.

    Args:
        path: A verified file.

    Returns:
        By key, in the order of the file: ``(N,)`` or ``(R, C)``, float32 or float64; compressed
        matrices as float32.

    Raises:
        WeightsError: It is none, is damaged, or names a key twice.
    """
    stream = open_stream(path)
    found: dict[str, Tensor] = {}
    while stream.left:
        key = stream.token()
        if not key or key in found:
            stream.fail(f"the key {key!r} is empty or there twice")
        found[key] = read_object(stream)
    return found


def read_scp(path: Path, *, folder: Path | None = None) -> dict[str, Tensor]:
    """Reads what an index lists: lines of ``key file:offset``.

    The paths in an index are those of the machine that wrote it. Only the name of the archive
    counts; it must lie beside the index.

    Args:
        path: A verified index.
        folder: Where the archives lie; ``None`` for the folder of the index.

    Returns:
        As `read_ark`, in the order of the index.

    Raises:
        WeightsError: A line is no such entry, an archive is missing or damaged.
    """
    index = open_stream(path)
    folder = path.parent if folder is None else folder
    streams: dict[str, Stream] = {}
    found: dict[str, Tensor] = {}
    for key, name, offset in _index_lines(index):
        if key in found:
            index.fail(f"the key {key!r} is there twice")
        stream = streams.get(name)
        if stream is None:
            stream = streams[name] = open_stream(folder / name)
        stream.place = min(offset, len(stream.data))
        found[key] = read_object(stream)
    return found


def _index_lines(index: Stream) -> Iterator[tuple[str, str, int]]:
    while index.left:
        words = index.line().split()
        if not words:
            continue
        place, _, offset = words[-1].rpartition(":")
        name = PurePosixPath(place.replace("\\", "/")).name
        if (
            len(words) != 2
            or not name.isprintable()
            or not name.strip(".")
            or not _is_count(offset)
        ):
            index.fail(f"expected 'key file:offset', found {' '.join(words)[:80]!r}")
        yield words[0], name, int(offset[:20])


def read_object(stream: Stream) -> Tensor:
    """Reads a vector or a matrix, compressed or not, with the mark in front of it."""
    stream.begin()
    token = stream.peek()
    if token in ("FV", "DV"):
        return stream.vector()
    if token in ("FM", "DM"):
        return stream.matrix()
    if token in ("CM", "CM2", "CM3"):
        return torch.from_numpy(_compressed(stream))
    return stream.fail(f"expected a vector or a matrix, found {token!r}")


def _compressed(stream: Stream) -> npt.NDArray[np.float32]:
    """A compressed matrix: 8 bits with order statistics by column, 16 bits, or 8 bits."""
    token = stream.token()
    limits = stream.numbers((2,), np.dtype("<f4"))
    if not np.isfinite(limits).all():
        stream.fail("the values of a compressed matrix are not finite,")
    lowest, span = limits.astype(np.float64)
    rows, columns = stream.numbers((2,), np.dtype("<i4")).tolist()
    if token == "CM":
        heads = stream.numbers((columns, _PERCENTILES), np.dtype("<u2")) / 0xFFFF
        codes = stream.numbers((columns, rows), np.dtype("u1")).T
        values = _by_percentiles(codes, lowest + span * heads)
    elif token == "CM2":
        values = lowest + span * (stream.numbers((rows, columns), np.dtype("<u2")) / 0xFFFF)
    else:
        values = lowest + span * (stream.numbers((rows, columns), np.dtype("u1")) / 0xFF)
    largest = np.finfo(np.float32).max
    return values.clip(-largest, largest).astype(np.float32)


def _by_percentiles(
    codes: npt.NDArray[Any], knots: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Values of codes ``(R, C)`` on the lines between the knots ``(C, 4)`` of their column."""
    values = np.zeros(codes.shape)
    for start, (low, high) in enumerate(pairwise(_KNOTS)):
        first, last = knots[:, start], knots[:, start + 1]
        inside = codes >= low if start == 0 else codes > low
        values = np.where(
            inside, first + (last - first) * ((codes - float(low)) / (high - low)), values
        )
    return values


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()
