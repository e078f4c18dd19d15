"""The tracker: waveforms to F0 contours."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from voiceanon.components.f0.yaapt.constants import HOP_SAMPLES, MIN_FRAMES
from voiceanon.components.f0.yaapt.correlation import nccf_candidates
from voiceanon.components.f0.yaapt.energy import energy_and_mean, voicing_flag
from voiceanon.components.f0.yaapt.frames import within
from voiceanon.components.f0.yaapt.merge import choose, merge
from voiceanon.components.f0.yaapt.signals import band_limited
from voiceanon.components.f0.yaapt.spectral_track import spectral_candidates, spectral_track


class Yaapt(nn.Module):
    """F0 every 20 ms, of a batch at once; it has neither parameters nor settings.

    The released vocoders were trained on just these values, so they are kept, down to exact ties
    and to arithmetic in float32. F0 depends on the level (see `peaks.LEAST_MAXIMUM`): give the
    waveform as it is.

    Where the published code fails, results are defined: a recording without voiced frames, such as
    silence, or with fewer than four frames is unvoiced; one with a single voiced frame has a
    spread of F0 of 7.5 Hz, as one with two.
    """

    @torch.no_grad()
    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Tracks F0; what an item gives depends neither on the padding nor on the other items.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0; what lies in the padding does not
                matter.
            lengths: int64 ``(B,)`` in samples, each at least 1.

        Returns:
            F0 in Hz, 0 where unvoiced and behind each item, float32 ``(B, M)`` with one frame for
            each `HOP_SAMPLES` samples of T, begun ones included; and the frames of each item, int64
            ``(B,)``. Frame t is centred on sample ``t * HOP_SAMPLES``. Results have no gradient.
        """
        if wav.device.type == "mps":
            # It has no float64, which sums need.
            f0, frames = self(wav.cpu(), lengths.cpu())
            return f0.to(wav.device), frames.to(wav.device)
        with torch.autocast(wav.device.type, enabled=False):
            frames = -(-lengths // HOP_SAMPLES)
            return _track(wav.float(), lengths, frames), frames


def _track(wav: Tensor, lengths: Tensor, frames: Tensor) -> Tensor:
    """F0 in Hz, float32 ``(B, M)``."""
    most = -(-wav.shape[1] // HOP_SAMPLES)
    if most < MIN_FRAMES:
        return wav.new_zeros(len(wav), most)
    linear, squared = band_limited(wav, lengths)
    valid = within(frames, most)
    energy, _ = energy_and_mean(linear, valid)
    flagged = voicing_flag(energy)
    track, spread, tracked = spectral_track(*spectral_candidates(squared, flagged), frames)
    wanted = valid & tracked[:, None]
    hertz, merits = merge(
        nccf_candidates(linear, track, spread, wanted),
        nccf_candidates(squared, track, spread, wanted),
        track,
        energy,
        flagged,
    )
    return choose(hertz, merits, energy, valid).where(wanted, 0)
