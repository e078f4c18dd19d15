"""Checks of audio at the public border: type, shape, range, finiteness, rate, duration."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import torch
from torch import Tensor

from voiceanon.errors import AudioError

MIN_RATE = 4_000
MAX_RATE = 384_000
MAX_FLOAT_PEAK = 8.0
"""Floats above this look like integers that were never divided by full scale."""

TRANSPOSED_CHANNELS = 8
TRANSPOSED_RATIO = 10
"""``(time, channel)`` is suspected at up to 8 columns with at least 10 times as many rows."""

PCM_SCALE: dict[torch.dtype, tuple[float, float]] = {
    torch.uint8: (128.0, 2.0**-7),
    torch.int16: (0.0, 2.0**-15),
    torch.int32: (0.0, 2.0**-31),
}
"""Offset to subtract and factor to multiply with, per integer PCM type."""

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_rate(rate: object, what: str = "sample_rate") -> int:
    """Returns ``rate`` as an ``int`` in Hz.

    Raises:
        AudioError: It is not a whole number between 4,000 and 384,000 Hz.
    """
    if isinstance(rate, bool) or not isinstance(rate, numbers.Integral):
        raise AudioError(f"{what}: a sample rate is a whole number in Hz, got {rate!r}.")
    rate = int(rate)
    if not MIN_RATE <= rate <= MAX_RATE:
        raise AudioError(
            f"{what}: the sample rate {rate} Hz is outside {MIN_RATE}...{MAX_RATE} Hz; "
            "if the audio is sound, pass its true rate."
        )
    return rate


def as_channels(audio: object) -> Tensor:
    """Views an array or tensor as ``(C, T)`` of its own type, without a copy where possible.

    Args:
        audio: NumPy array or tensor, ``(T,)`` or ``(C, T)``; float16, bfloat16, float32, float64,
            int16, int32 or uint8.

    Raises:
        AudioError: Another type or shape, or no samples.
    """
    if isinstance(audio, np.ndarray):
        tensor = _from_numpy(audio)
    elif isinstance(audio, Tensor):
        tensor = audio.detach().resolve_neg()
    else:
        raise AudioError(
            f"audio: expected a NumPy array, a tensor, a path or a dictionary with 'array' and "
            f"'sampling_rate', got {type(audio).__name__}."
        )
    if tensor.dtype not in PCM_SCALE and tensor.dtype not in _FLOATS:
        raise AudioError(
            f"audio: samples of type {tensor.dtype} are not audio; use float16, float32, float64, "
            "int16, int32 or uint8."
        )
    if tensor.ndim not in (1, 2):
        raise AudioError(
            f"audio: expected (time,) or (channel, time), got shape {tuple(tensor.shape)}; "
            "pass several recordings to anonymize_batch as a list."
        )
    if tensor.numel() == 0:
        raise AudioError(
            f"audio: 0 samples (shape {tuple(tensor.shape)}); leave empty recordings out."
        )
    rows, columns = tensor.shape if tensor.ndim == 2 else (1, len(tensor))
    if columns <= TRANSPOSED_CHANNELS and rows >= TRANSPOSED_RATIO * columns:
        raise AudioError(
            f"audio: shape {tuple(tensor.shape)} looks like (time, channel); transpose it to "
            "(channel, time)."
        )
    return tensor.reshape(rows, columns)


def _from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    if array.dtype.kind not in "fiu":
        raise AudioError(
            f"audio: samples of type {array.dtype} are not audio; use float16, float32, float64, "
            "int16, int32 or uint8."
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    if any(stride % array.itemsize for stride in array.strides):
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        raise AudioError(
            f"audio: samples of type {array.dtype} are not audio; use float16, float32, float64, "
            "int16, int32 or uint8."
        ) from error


def to_float(samples: Tensor) -> Tensor:
    """Converts samples of any accepted type to float32 with full scale 1.0."""
    if samples.dtype in PCM_SCALE:
        offset, factor = PCM_SCALE[samples.dtype]
        # float64 on the way, since float32 cannot hold every int32.
        return ((samples.to(torch.float64) - offset) * factor).to(torch.float32)
    return samples.to(torch.float32)


def all_finite(samples: Tensor) -> bool:
    """Whether no sample is NaN or infinite."""
    # A sum is several times cheaper, and finite only if all samples are; but it may overflow.
    return bool(torch.isfinite(samples.sum())) or bool(torch.isfinite(samples).all())


def describe_bad(count: int, channel: int, index: int) -> str:
    """The message about samples that are not finite."""
    return (
        f"audio: {count} samples are NaN or infinite, the first in channel {channel} at index "
        f"{index}; repair or drop this recording."
    )


def check_peak(peak: float) -> None:
    """Raises `AudioError` where floats are so large that they cannot have full scale 1.0."""
    if peak > MAX_FLOAT_PEAK:
        raise AudioError(
            f"audio: the peak is {peak:.6g}, but full scale is 1.0 and {MAX_FLOAT_PEAK:g} the "
            "limit; divide integer samples by full scale (32768 for 16 bit), or pass them as int16."
        )


def check_duration(samples: int, rate: int, min_seconds: float, system: str) -> None:
    """Raises `AudioError` where a recording is shorter than a system can take."""
    if samples < min_seconds * rate:
        raise AudioError(
            f"audio: {samples} samples ({samples / rate:.4f} s) are too short for {system}, which "
            f"needs at least {min_seconds:g} s; join shorter pieces before."
        )
