"""The tracker: waveforms to F0 contours."""

from __future__ import annotations

import torch
from torch import Tensor

from voiceanon.components.f0.praat.candidates import candidates
from voiceanon.components.f0.praat.correlation import autocorrelation
from voiceanon.components.f0.praat.frames import cut_frames, frame_count, frame_start, peaks
from voiceanon.components.f0.praat.path import best_path
from voiceanon.components.f0.praat.settings import Settings

CPU_BLOCK_FRAMES = 128
"""Frames that are worked on at once on a CPU: spectra of 2 MB."""

BLOCK_FRAMES = 2048
"""The same elsewhere: spectra of 34 MB, enough to keep a GPU busy."""


@torch.no_grad()
def praat_f0(
    wav: Tensor,
    lengths: Tensor,
    *,
    sample_rate: int = 16_000,
    step: float = 0.016,
    floor: float = 40.0,
    ceiling: float = 600.0,
) -> tuple[Tensor, Tensor]:
    """Tracks F0 as Praat's "To Pitch (ac)" does; the defaults are those of B3.

    What an item gives depends neither on the padding nor on the other items. A recording of
    constant value is unvoiced.

    Args:
        wav: float32 ``(B, T)``. What lies in the padding does not matter, nor does the level.
        lengths: int64 ``(B,)`` in samples.
        sample_rate: Hz.
        step: Seconds between frames.
        floor: Hz; the lowest F0. Frames have three of its periods.
        ceiling: Hz; the highest F0.

    Returns:
        F0 in Hz, 0 where unvoiced and behind each item, float64 (float32 on mps) ``(B, N)``; and
        the frames of each item, int64 ``(B,)``, 0 for one shorter than a window of 75 ms. The
        frames lie around the middle of the recording. Results have no gradient.

    Raises:
        ConfigError: ``floor``, ``ceiling`` and ``sample_rate`` do not fit one another, or ``step``
            is not positive.
    """
    settings = Settings(rate=sample_rate, step=step, floor=floor, ceiling=ceiling)
    if wav.device.type == "mps":
        # It has no float64.
        f0, frames = praat_f0(
            wav.cpu(),
            lengths.cpu(),
            sample_rate=sample_rate,
            step=step,
            floor=floor,
            ceiling=ceiling,
        )
        return f0.float().to(wav.device), frames.to(wav.device)
    with torch.autocast(wav.device.type, enabled=False):
        return _track(wav, lengths, settings)


def _track(wav: Tensor, lengths: Tensor, settings: Settings) -> tuple[Tensor, Tensor]:
    frames = frame_count(lengths, settings)
    longest = torch.tensor(wav.shape[1], device="cpu")
    most = int(frame_count(longest, settings))
    hertz = wav.new_zeros(len(wav), most, settings.voiced_candidates, dtype=torch.float64)
    if not hertz.numel():
        return hertz.sum(2), frames
    strength, intensity = torch.zeros_like(hertz), torch.zeros_like(hertz[..., 0])
    inside = torch.arange(wav.shape[1], device=wav.device) < lengths[:, None]
    peak = peaks(wav, inside)
    # A constant recording has a peak of 0, and is silent.
    peak = peak.where(peak > 0, torch.inf)
    # The host has to know how many frames there are, to launch the work for them.
    places = (torch.arange(most, device=wav.device) < frames[:, None]).nonzero()
    block = CPU_BLOCK_FRAMES if wav.device.type == "cpu" else BLOCK_FRAMES
    for begin in range(0, len(places), block):
        item, frame = places[begin : begin + block].unbind(1)
        rows, local = cut_frames(wav, item, frame_start(lengths[item], frame, settings), settings)
        found = candidates(autocorrelation(rows, settings), settings)
        hertz[item, frame], strength[item, frame] = found
        intensity[item, frame] = (local / peak[item]).clamp_max(1)
    return best_path(hertz, strength, intensity, frames, settings), frames
