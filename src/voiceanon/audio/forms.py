"""Same in, same out: what the caller passed, and how the result gets that form back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from voiceanon.audio import io
from voiceanon.audio.checks import as_channels, check_rate
from voiceanon.errors import AudioError


@dataclass(frozen=True)
class Opened:
    """A recording as the caller passed it, brought to one form.

    Attributes:
        samples: ``(C, T)`` of the caller's sample type.
        rate: Hz.
        form: What comes back: a tensor or an array.
        flat: Whether it was ``(T,)``.
        in_mapping: Whether it comes back in a dictionary, as dataset libraries use it.
        origin: File that it came from, if any, for messages.
    """

    samples: Tensor
    rate: int
    form: Literal["tensor", "array"]
    flat: bool
    in_mapping: bool = False
    origin: str | None = None

    def restore(self, wav: Tensor) -> Any:
        """Gives a float32 result ``(C, T)`` the caller's form."""
        if self.flat:
            wav = wav[0]
        result = wav if self.form == "tensor" else wav.cpu().numpy()
        return {"array": result, "sampling_rate": self.rate} if self.in_mapping else result


def open_audio(audio: object, sample_rate: int | None, model_rate: int) -> Opened:
    """Takes a tensor, an array, a path, or ``{"array", "sampling_rate"}``.

    Args:
        audio: See above. Files of one channel are ``(T,)``.
        sample_rate: Rate of a tensor or array in Hz; ``None`` for ``model_rate``. Files and
            dictionaries carry their own, and a different one here is an error.
        model_rate: Rate of the system in Hz.

    Raises:
        AudioError: The input is no audio, or its rate is impossible or contradicted.
    """
    if sample_rate is not None:
        check_rate(sample_rate)
    if isinstance(audio, str | os.PathLike):
        array, own_rate = io.read(audio)
        _check_same_rate(own_rate, sample_rate, str(audio))
        samples = torch.from_numpy(array)
        return Opened(samples, own_rate, "array", flat=len(array) == 1, origin=str(audio))
    if isinstance(audio, Mapping):
        if not {"array", "sampling_rate"} <= audio.keys():
            raise AudioError(
                f"audio: a dictionary needs 'array' and 'sampling_rate', got "
                f"{', '.join(map(repr, audio))}."
            )
        own_rate = check_rate(audio["sampling_rate"], "sampling_rate")
        _check_same_rate(own_rate, sample_rate, "the dictionary")
        return _open_samples(audio["array"], own_rate, in_mapping=True)
    return _open_samples(audio, model_rate if sample_rate is None else int(sample_rate))


def _open_samples(audio: Any, rate: int, *, in_mapping: bool = False) -> Opened:
    samples = as_channels(audio)
    form: Literal["tensor", "array"] = "tensor" if isinstance(audio, Tensor) else "array"
    return Opened(samples, rate, form, flat=audio.ndim == 1, in_mapping=in_mapping)


def _check_same_rate(own: int, given: int | None, what: str) -> None:
    if given is not None and given != own:
        raise AudioError(
            f"sample_rate: {given} Hz was passed, but {what} has {own} Hz; leave sample_rate out."
        )
