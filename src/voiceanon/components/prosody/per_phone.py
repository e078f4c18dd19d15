"""Pitch and energy of each symbol of a text, relative to their means over the recording.

Source: specification sheet of B3, section 9.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.f0 import masked
from voiceanon.components.f0.praat import praat_f0
from voiceanon.components.features.slaney_log_mel import (
    FFT_SAMPLES,
    HOP_SAMPLES,
    frame_count,
    mirrored_frames,
)
from voiceanon.components.text.articulatory import PHONEME, VOICED

LEAST_ENERGY = 1e-10
"""Smallest square of a frame's energy."""


def prosody_per_phone(
    wav: Tensor, lengths: Tensor, durations: Tensor, vectors: Tensor
) -> tuple[Tensor, Tensor]:
    """Measures pitch and energy, the two that B3 changes and hands to the synthesis.

    Args:
        wav: float32 ``(B, T)``, 16 kHz, cut to the speech. The values in the padding do not matter.
        lengths: Samples of each recording, int64 ``(B,)``, at least 1.
        durations: Frames of each symbol, int64 ``(B, N)``, 0 behind the symbols of an item. Their
            sum is to be the recording's `slaney_log_mel.frame_count`.
        vectors: Articulatory features of each symbol, ``(B, N, 62)``; behind the symbols of an item
            they do not matter.

    Returns:
        Pitch and energy, float32 ``(B, N)``, not negative. Pitch is 0 for symbols that are not
        voiced, energy for those that are no phonemes, and both for those without frames. The mean
        of the values of an item that are not 0 is 1. An item without any is 0 all over, where the
        published code divides by nothing.
    """
    frames, most = frame_count(lengths), 1 + wav.shape[1] // HOP_SAMPLES
    f0 = centre_frames(*praat_f0(wav, lengths), frames, most)
    pitch = mean_per_symbol(f0, f0 > 0, durations)
    energies = energy_frames(wav, lengths)
    energy = mean_per_symbol(energies, torch.ones_like(energies, dtype=torch.bool), durations)
    pitch = pitch.where(vectors[..., VOICED] > 0, 0)
    energy = energy.where(vectors[..., PHONEME] > 0, 0)
    return divide_by_mean(pitch).float(), divide_by_mean(energy).float()


def energy_frames(wav: Tensor, lengths: Tensor) -> Tensor:
    """Norm of the spectrum of each frame of `slaney_log_mel.mirrored_frames`.

    Args:
        wav: float32 ``(B, T)``. The values in the padding do not matter.
        lengths: Samples of each recording, int64 ``(B,)``, at least 1.

    Returns:
        float32 ``(B, F)``, F as `mirrored_frames` has it. What lies behind a recording has no
        meaning.
    """
    window = torch.hann_window(FFT_SAMPLES, dtype=wav.dtype, device=wav.device)
    frames = mirrored_frames(wav, lengths) * window
    # Of the sum over all lines of a spectrum, which is that over the samples, the lines up to half
    # the rate have one half, and of the two that have no twin the other half.
    alternating = frames[..., ::2].sum(2) - frames[..., 1::2].sum(2)
    twinless = frames.sum(2).square() + alternating.square()
    squares = (FFT_SAMPLES * frames.square().sum(2) + twinless) / 2
    return squares.clamp_min(LEAST_ENERGY).sqrt()


def centre_frames(f0: Tensor, has: Tensor, wanted: Tensor, most: int) -> Tensor:
    """Brings each contour to as many frames as the spectrum has.

    Args:
        f0: ``(B, M)``.
        has: Frames of each item in ``f0``, int64 ``(B,)``.
        wanted: Frames of each item in the result, int64 ``(B,)``.
        most: Frames of the result.

    Returns:
        ``(B, most)``. Missing frames are 0, half of them on either side, an odd one on the left;
        superfluous ones are cut off at the end.
    """
    missing = (wanted - has).clamp_min(0)
    source = torch.arange(most, device=f0.device) - (missing - missing // 2)[:, None]
    inside = (source >= 0) & (source < torch.minimum(has, wanted)[:, None])
    if not f0.shape[1]:
        return f0.new_zeros(len(f0), most)
    return f0.gather(1, source.clamp(0, f0.shape[1] - 1)).where(inside, 0)


def mean_per_symbol(values: Tensor, counts: Tensor, durations: Tensor) -> Tensor:
    """Mean over the frames of each symbol.

    Args:
        values: ``(B, F)``.
        counts: Which of them count, bool ``(B, F)``.
        durations: Frames of each symbol, int64 ``(B, N)``.

    Returns:
        float64 ``(B, N)``, 0 where there is no value.
    """
    ends = durations.cumsum(1)
    starts = ends - durations

    def per_symbol(each: Tensor) -> Tensor:
        sums = F.pad(each.cumsum(1), (1, 0))
        # Durations that are too long end where the frames do.
        first, last = starts.clamp_max(each.shape[1]), ends.clamp_max(each.shape[1])
        return sums.gather(1, last) - sums.gather(1, first)

    number = per_symbol(counts.long())
    total = per_symbol(masked.exact(values).where(counts, 0))
    return torch.where(number > 0, total / number.clamp_min(1), 0)


def divide_by_mean(values: Tensor) -> Tensor:
    """Divides each row ``(B, N)`` by the mean of its values above 0, if it has any."""
    mean = masked.mean(values, values > 0)[:, None]
    return values / mean.where(mean > 0, 1)
