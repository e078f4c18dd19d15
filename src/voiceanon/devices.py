"""Devices by name, and arithmetic that is set for our own calls only."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, get_args

import torch

from voiceanon.errors import ConfigError
from voiceanon.types import Precision

_log = logging.getLogger(__name__)

PRECISIONS: tuple[str, ...] = get_args(Precision)
_AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_device(name: str | torch.device) -> torch.device:
    """Turns ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"mps"`` into a device.

    ``"auto"`` is CUDA if there is any, else the CPU.

    Raises:
        ConfigError: The name is unknown, or this machine has no such device.
    """
    if name == "auto":
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        _log.info("device: %s", device)
        return device
    device = _parse(name)
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ConfigError(
            f"device: {name!r} was asked for, but this machine shows {count} CUDA devices; use "
            "'auto' to take what there is."
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError(
            f"device: {name!r} was asked for, but there is no Apple GPU here; use 'auto'."
        )
    _log.info("device: %s", device)
    return device


def _parse(name: str | torch.device) -> torch.device:
    cause = None
    try:
        device = torch.device(name)
        if device.type in ("cpu", "cuda", "mps"):
            return device
    except (RuntimeError, TypeError) as error:
        cause = error
    raise ConfigError(
        f"device: {name!r} is not 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'."
    ) from cause


def check_precision(precision: str) -> None:
    """Raises `ConfigError` where ``precision`` is none of `PRECISIONS`."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision: {precision!r} is not one of {', '.join(PRECISIONS)}.")


@contextlib.contextmanager
def arithmetic(precision: Precision, device: torch.device) -> Iterator[None]:
    """Runs a block in the wanted arithmetic and puts every flag back, also after an exception.

    Args:
        precision: ``"float32"`` switches TF32 off, ``"tf32"`` on; ``"bfloat16"`` and ``"float16"``
            use autocast.
        device: Where the block computes.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(plain_defaults())
        if device.type == "cuda":
            stack.enter_context(_tf32("tf32" if precision == "tf32" else "ieee"))
        if precision in _AUTOCAST:
            stack.enter_context(torch.autocast(device.type, _AUTOCAST[precision]))
        yield


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Runs a block that builds networks, without touching the program's own draws."""
    with torch.random.fork_rng(devices=[]), plain_defaults():
        yield


@contextlib.contextmanager
def plain_defaults() -> Iterator[None]:
    """Runs a block in which new tensors are float32 on the CPU, whatever the program prefers."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    # The mode slows down every call a little, so it is entered only where it matters.
    elsewhere = torch.get_default_device().type != "cpu"
    try:
        with torch.device("cpu") if elsewhere else contextlib.nullcontext():
            yield
    finally:
        torch.set_default_dtype(dtype)


@contextlib.contextmanager
def _tf32(setting: str) -> Iterator[None]:
    cudnn: Any = torch.backends.cudnn  # its stub lacks the settings per operator
    flags: tuple[Any, ...] = (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)
    before = [flag.fp32_precision for flag in flags]
    try:
        for flag in flags:
            flag.fp32_precision = setting
        yield
    finally:
        for flag, value in zip(flags, before, strict=True):
            flag.fp32_precision = value
