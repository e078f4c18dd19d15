"""Reads weight files as tensors and plain settings; no file can run code.

Kaldi's files, whose names tell nothing, have readers of their own: see `voiceanon.hub.kaldi`.

The kind of a file is told by its ending: ``.safetensors``, ``.npz``, ``.npy``, ``.json``; anything
else is taken for a checkpoint of ``torch.save``, which is read under a list of allowed types.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from voiceanon.errors import WeightsError
from voiceanon.hub.archives import is_zip

_SHOWN_NAMES = 10
_FOUND_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")
_SCALAR_TYPES = (
    np.bool_,
    np.int8, np.int16, np.int32, np.int64,
    np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64,
)  # fmt: skip


def _allowed_types() -> list[Any]:
    """Types that published checkpoints hold besides tensors.

    `argparse.Namespace` for settings; for NumPy scalars their constructor, under its names before
    and after NumPy 2, `numpy.dtype`, and the classes of the dtypes.
    """
    scalar: Any = np.float64(0).__reduce__()[0]
    return [
        argparse.Namespace,
        (scalar, "numpy.core.multiarray.scalar"),
        (scalar, "numpy._core.multiarray.scalar"),
        np.dtype,
        *(type(np.dtype(kind)) for kind in _SCALAR_TYPES),
    ]


def read(path: Path) -> Any:
    """Reads a file as plain data.

    Args:
        path: A verified file.

    Returns:
        Dictionaries, lists, numbers, strings and tensors on the CPU, without gradients. Settings
        that were saved as `argparse.Namespace` come as dictionaries, NumPy scalars as numbers,
        arrays as tensors of the same type.

    Raises:
        WeightsError: The file cannot be read, or would have to run code.
    """
    reader = _READERS.get(path.suffix.lower(), _read_checkpoint)
    try:
        return _plain(reader(path), path)
    except WeightsError:
        raise
    except pickle.UnpicklingError as error:
        wanted = _FOUND_GLOBAL.search(str(error))
        what = f"wants {wanted.group(1)}" if wanted else "holds more than tensors"
        # Without the cause: it advises to allow code.
        raise WeightsError(
            f"{path}: the file {what}, which could run code; only tensors and plain settings are "
            "read. Take the published file, or save its tensors anew."
        ) from None
    except Exception as error:
        # Damaged bytes make the readers fail in many ways; all mean that the file is not usable.
        reason = str(error).strip().splitlines() or [""]
        raise WeightsError(
            f"{path}: cannot be read ({type(error).__name__}: {reason[0]}). The file is damaged or "
            "of another kind than its ending says; delete it and fetch it again."
        ) from error


def read_state(path: Path, *keys: str) -> dict[str, Tensor]:
    """Reads the entries of one network.

    Args:
        path: A verified file.
        *keys: Where in the file they stand, outermost first, such as ``"generator"``.

    Returns:
        Tensor by entry name, on the CPU.

    Raises:
        WeightsError: The file cannot be read, has no such part, or the part holds something else
            than tensors.
    """
    return state_of(read(path), *keys, file=path)


def state_of(data: Any, *keys: str, file: Path) -> dict[str, Tensor]:
    """Takes the entries of one network out of what `read` gave.

    Args:
        data: What `read` gave.
        *keys: As in `read_state`.
        file: Where it came from, for messages.

    Returns:
        Tensor by entry name.

    Raises:
        WeightsError: As in `read_state`.
    """
    state = part_of(data, *keys, file=file)
    where = f"{file}{_shown_keys(keys)}"
    if not isinstance(state, Mapping) or not state:
        raise WeightsError(
            f"{where}: expected tensors by name, found {_shown(state)}; take the published file."
        )
    others = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if others:
        raise WeightsError(
            f"{where}: expected tensors only, found {_shown(state[others[0]])} under "
            f"{others[0]!r}; take the published file."
        )
    return {str(name): value for name, value in state.items()}


def part_of(data: Any, *keys: str, file: Path) -> Any:
    """Takes a part out of nested dictionaries.

    Args:
        data: What `read` gave.
        *keys: Outermost first.
        file: Where it came from, for messages.

    Returns:
        What stands there.

    Raises:
        WeightsError: It has no such part; the message lists what there is.
    """
    for depth, key in enumerate(keys):
        if not isinstance(data, Mapping) or key not in data:
            raise WeightsError(
                f"{file}{_shown_keys(keys[:depth])}: expected an entry {key!r}, found "
                f"{_shown(data)}; take the published file."
            )
        data = data[key]
    return data


def _read_checkpoint(path: Path) -> Any:
    # A mapped file costs memory only for the tensors that are used; the old format cannot.
    mapped = is_zip(path)
    with torch.serialization.safe_globals(_allowed_types()):
        return torch.load(path, weights_only=True, map_location="cpu", mmap=mapped)


def _read_safetensors(path: Path) -> Any:
    from safetensors.torch import load_file

    return load_file(path, device="cpu")


def _read_array(path: Path) -> Any:
    # NumPy refuses arrays of objects, which would be unpickled, unless told otherwise.
    return _array(np.load(path))


def _read_arrays(path: Path) -> Any:
    with np.load(path) as arrays:
        return {name: _array(arrays[name]) for name in arrays.files}


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


_READERS: dict[str, Callable[[Path], Any]] = {
    ".safetensors": _read_safetensors,
    ".npy": _read_array,
    ".npz": _read_arrays,
    ".json": _read_json,
}


def _array(array: Any) -> Any:
    if array.dtype.kind in "biuf":
        return torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    return array.tolist()


def _plain(value: Any, path: Path) -> Any:
    """Turns what a checkpoint may hold into dictionaries, lists, numbers, strings and tensors."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner, path) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, path) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(inner, path) for inner in value)
    if isinstance(value, np.generic):
        return value.item()
    return value


def _shown(value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"a {type(value).__name__}"
    names = [repr(name) for name in value]
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"{', '.join(names[:_SHOWN_NAMES]) or 'nothing'}{more}"


def _shown_keys(keys: tuple[str, ...]) -> str:
    return f" [{' / '.join(keys)}]" if keys else ""
