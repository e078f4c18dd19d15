"""Tokens and values of Kaldi's binary streams.

Source: specification sheet of the x-vector family, section 14.

All numbers are little-endian. Scalars have a byte in front that states their size; data of vectors
and matrices are taken only if as many bytes are there as their sizes ask for.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from voiceanon.errors import WeightsError

BINARY_MARK = b"\0B"
"""What every binary object begins with."""

LARGEST_TOKEN = 256
"""Bytes; Kaldi's longest token and the names of components stay far below."""

_SCALARS = {4: "<f", 8: "<d"}
"""Forms of a float and a double by their size."""

_KINDS: dict[str, np.dtype[Any]] = {"F": np.dtype("<f4"), "D": np.dtype("<f8")}
"""First letter of a vector's or matrix's token: float or double."""


class Stream:
    """A place in the bytes of a file, and how to read on from there.

    Attributes:
        path: Of the file, for messages.
        data: All of its bytes.
        place: Of the byte that is read next.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        """Starts at the first byte."""
        self.path = path
        self.data = data
        self.place = 0

    def fail(self, what: str) -> NoReturn:
        """Raises `WeightsError` with the file and the place."""
        raise WeightsError(
            f"{self.path}: {what} at byte {self.place} of {len(self.data)}. The file is damaged or "
            "of another kind; take the published file."
        )

    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return len(self.data) - self.place

    def take(self, count: int, what: str) -> bytes:
        """Reads so many bytes."""
        if not 0 <= count <= self.left:
            self.fail(f"expected {count} bytes for {what}, found {self.left}")
        start = self.place
        self.place += count
        return self.data[start : self.place]

    def line(self) -> str:
        """Reads up to the end of the line."""
        end = self.data.find(b"\n", self.place)
        if end < 0:
            self.fail("expected the end of a line, found the end of the file")
        return self._text(self.take(end - self.place + 1, "a line")[:-1])

    # Tokens.

    def peek(self) -> str:
        """The next token, which stays unread."""
        end = self.data.find(b" ", self.place, self.place + LARGEST_TOKEN + 1)
        if end < 0:
            self.fail("expected a token")
        return self._text(self.data[self.place : end])

    def token(self) -> str:
        """Reads a token and the space behind it."""
        token = self.peek()
        self.place += len(token.encode()) + 1
        return token

    def expect(self, wanted: str) -> None:
        """Reads this token, or fails."""
        if self.peek() != wanted:
            self.fail(f"expected {wanted}, found {self.peek()!r}")
        self.token()

    def begin(self) -> None:
        """Reads the mark of a binary object."""
        if not self.is_binary():
            self.fail(r"expected a binary Kaldi object (\0B)")
        self.place += len(BINARY_MARK)

    def is_binary(self) -> bool:
        """Whether a binary object is next."""
        return self.data.startswith(BINARY_MARK, self.place)

    def end(self) -> None:
        """Fails where bytes are left."""
        if self.left:
            self.fail(f"expected the end of the file, found {self.left} more bytes")

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"expected text, found {raw[:20]!r}")

    # Scalars.

    def integer(self) -> int:
        """Reads an int32 with its size byte."""
        self._size((4,), "an integer")
        return int.from_bytes(self.take(4, "an integer"), "little", signed=True)

    def real(self) -> float:
        """Reads a float or a double, whichever its size byte says."""
        size = self._size(tuple(_SCALARS), "a number")
        number: float = struct.unpack(_SCALARS[size], self.take(size, "a number"))[0]
        return number

    def flag(self) -> bool:
        """Reads a ``T`` or an ``F``."""
        found = self.take(1, "a flag")
        if found not in (b"T", b"F"):
            self.place -= 1
            self.fail(f"expected T or F, found {found!r}")
        return found == b"T"

    def integers(self) -> tuple[int, ...]:
        """Reads a list of int32: the size byte, the count, the numbers."""
        self._size((4,), "a list of integers")
        count = int.from_bytes(self.take(4, "a count"), "little", signed=True)
        return tuple(self._array(count, np.dtype("<i4"), "a list of integers").tolist())

    def _size(self, allowed: tuple[int, ...], what: str) -> int:
        size = self.take(1, what)[0]
        if size not in allowed:
            self.place -= 1
            self.fail(f"expected the size of {what} ({' or '.join(map(str, allowed))}), got {size}")
        return size

    # Arrays.

    def vector(self) -> Tensor:
        """Reads a vector, float32 or float64 ``(N,)``."""
        return _own_tensor(self._shaped("V", 1)[1])

    def matrix(self) -> Tensor:
        """Reads a matrix, float32 or float64 ``(R, C)``."""
        return _own_tensor(self._shaped("M", 2)[1])

    def symmetric(self) -> Tensor:
        """Reads a packed symmetric matrix and gives it in full, ``(N, N)``."""
        (size,), packed = self._shaped("P", 1)
        lower = np.tri(size, dtype=bool)
        full = np.zeros((size, size), packed.dtype.newbyteorder("="))
        full[lower] = packed
        return torch.from_numpy(np.where(lower, full, full.T))

    def numbers(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Reads an array without a header.

        Args:
            shape: No size may be negative.
            dtype: Little-endian.
        """
        count = 1
        for size in shape:
            if size < 0:
                self.fail(f"expected sizes of at least 0, found {shape}")
            count *= size
        return self._array(count, dtype, f"values of shape {shape}").reshape(shape)

    def _shaped(self, form: str, sizes: int) -> tuple[tuple[int, ...], npt.NDArray[Any]]:
        """Sizes and values behind a token such as ``FM``, whose last letter is ``form``."""
        token = self.peek()
        if token not in [kind + form for kind in _KINDS]:
            self.fail(f"expected F{form} or D{form}, found {token!r}")
        self.token()
        shape = tuple(self.integer() for _ in range(sizes))
        if min(shape) < 0 or (0 in shape and any(shape)):
            self.fail(f"expected sizes above 0, or all of them 0, found {shape}")
        stored = (shape[0] * (shape[0] + 1) // 2,) if form == "P" else shape
        return shape, self.numbers(stored, _KINDS[token[0]])

    def _array(self, count: int, dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
        return np.frombuffer(self.take(count * dtype.itemsize, what), dtype)


def _own_tensor(values: npt.NDArray[Any]) -> Tensor:
    """A copy, which can be written to and does not hold the file."""
    return torch.from_numpy(values.astype(values.dtype.newbyteorder("=")))


def open_stream(path: Path) -> Stream:
    """Reads a file into memory.

    Raises:
        WeightsError: It cannot be read.
    """
    try:
        return Stream(path, path.read_bytes())
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read ({error}); check path and rights.") from error
