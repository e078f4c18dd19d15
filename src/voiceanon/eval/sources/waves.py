"""Recordings brought to the one form that all models take: 16 kHz, one channel, float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from voiceanon.audio.checks import check_duration
from voiceanon.audio.forms import open_audio
from voiceanon.audio.resample import resample
from voiceanon.audio.source import Source
from voiceanon.batching import pad, plan_batches
from voiceanon.devices import arithmetic
from voiceanon.errors import AudioError
from voiceanon.eval.sources.base import Recording

SAMPLE_RATE = 16_000
"""Rate of all models of the evaluation, Hz."""


def open_wave(recording: Recording) -> Tensor:
    """Opens a recording.

    Args:
        recording: An array or tensor ``(T,)`` or ``(C, T)`` at 16 kHz, a path, or a dictionary with
            ``array`` and ``sampling_rate``. Other rates are resampled, channels averaged.

    Returns:
        float32 ``(T,)``, 16 kHz, on the CPU.

    Raises:
        AudioError: It cannot be used as it is.
    """
    opened = open_audio(recording, None, SAMPLE_RATE)
    source = Source(opened.samples, opened.rate, mix=True)
    wave = source.read(0, 0, source.samples).cpu()
    return resample(wave, opened.rate, SAMPLE_RATE)


def open_waves(
    recordings: Sequence[Recording],
    *,
    min_seconds: float,
    label: str,
    form: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """Opens recordings, as `open_wave` does.

    Args:
        recordings: Any number.
        min_seconds: Shortest that the model takes.
        label: Of the model, for messages.
        form: What the model does to each, float32 ``(T,)`` to float32 ``(T',)``.

    Raises:
        AudioError: One cannot be used as it is, or is too short; the message says which.
    """
    waves = []
    for number, recording in enumerate(recordings):
        try:
            wave = open_wave(recording)
            wave = wave if form is None else form(wave)
            check_duration(len(wave), SAMPLE_RATE, min_seconds, label)
        except AudioError as error:
            raise AudioError(f"recording {number}: {error}") from error
        waves.append(wave)
    return waves


def embed_batches(
    network: Callable[[Tensor, Tensor], Tensor],
    waves: Sequence[Tensor],
    *,
    width: int,
    batch_seconds: float,
    device: torch.device,
) -> npt.NDArray[np.float32]:
    """Runs a network on batches of similar length, in float32 arithmetic.

    Args:
        network: Takes float32 ``(B, T)`` and int64 lengths ``(B,)``, gives float32 ``(B, d)``.
        waves: float32 ``(T,)`` each.
        width: d.
        batch_seconds: Most speech in one batch, padding included.
        device: Where the network is.

    Returns:
        float32 ``(n, d)``, in the order of ``waves``.
    """
    result = np.empty((len(waves), width), np.float32)
    capacity = batch_seconds * SAMPLE_RATE
    for batch in plan_batches([len(wave) for wave in waves], capacity):
        with torch.inference_mode(), arithmetic("float32", device):
            rows = network(*pad([waves[i] for i in batch], device))
        result[batch] = rows.cpu().numpy()
    return result
