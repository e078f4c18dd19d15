"""The tracker: waveforms to F0 contours."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from voiceanon.components.f0.yaapt import stock_correlation, stock_signals
from voiceanon.components.f0.yaapt.config import SA_TOOLKIT, YaaptConfig
from voiceanon.components.f0.yaapt.constants import MIN_FRAMES
from voiceanon.components.f0.yaapt.correlation import nccf_candidates
from voiceanon.components.f0.yaapt.energy import energy_and_mean, voicing_flag
from voiceanon.components.f0.yaapt.frames import within
from voiceanon.components.f0.yaapt.merge import choose, merge
from voiceanon.components.f0.yaapt.signals import band_limited
from voiceanon.components.f0.yaapt.spectral_track import spectral_candidates, spectral_track


class Yaapt(nn.Module):
    """F0 of a batch at once, by one of the programs of `config`; it has no parameters.

    The released vocoders were trained on just these values, so they are kept, down to exact ties.
    F0 depends on the level (see `peaks.LEAST_MAXIMUM`): give the waveform as it is.

    Where the published code fails, results are defined: a recording without voiced frames, such as
    silence, or with fewer than four frames is unvoiced; in the port, one with a single voiced frame
    has a spread of F0 of 7.5 Hz, as one with two.
    """

    def __init__(self, config: YaaptConfig = SA_TOOLKIT) -> None:
        super().__init__()
        self.config = config

    @torch.no_grad()
    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Tracks F0; what an item gives depends neither on the padding nor on the other items.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0; what lies in the padding does not
                matter.
            lengths: int64 ``(B,)`` in samples, each at least 1.

        Returns:
            F0 in Hz, 0 where unvoiced and behind each item, float32 ``(B, M)``; and the frames of
            each item, int64 ``(B,)``. Of the port there is a frame for each hop of T, begun ones
            included, and frame t is centred on sample ``t * hop_samples``; else
            `stock_signals.frame_counts` tells them, and the centre is 280 samples later. Results
            have no gradient.
        """
        if wav.device.type == "mps":
            # It has no float64, which sums need.
            f0, frames = self(wav.cpu(), lengths.cpu())
            return f0.to(wav.device), frames.to(wav.device)
        with torch.autocast(wav.device.type, enabled=False):
            size = torch.tensor(wav.shape[1], device="cpu")
            frames, most = self._frames(lengths), int(self._frames(size))
            return _track(wav.float(), lengths, frames, most, self.config).float(), frames

    def _frames(self, samples: Tensor) -> Tensor:
        if self.config.ported:
            return -(-samples // self.config.hop_samples)
        return stock_signals.frame_counts(samples, self.config)


def _track(wav: Tensor, lengths: Tensor, frames: Tensor, most: int, config: YaaptConfig) -> Tensor:
    """F0 in Hz, ``(B, most)``."""
    if most < MIN_FRAMES:
        return wav.new_zeros(len(wav), most)
    filters = band_limited if config.ported else stock_signals.band_limited
    find = nccf_candidates if config.ported else stock_correlation.nccf_candidates
    linear, squared = filters(wav, lengths)
    valid = within(frames, most)
    energy, _ = energy_and_mean(linear, valid, config)
    flagged = voicing_flag(energy)
    candidates = spectral_candidates(squared, flagged, config)
    track, spread, tracked = spectral_track(*candidates, frames, config)
    wanted = valid & tracked[:, None]
    hertz, merits = merge(
        find(linear, track, spread, wanted, config),
        find(squared, track, spread, wanted, config),
        track,
        energy,
        flagged,
    )
    return choose(hertz, merits, energy, valid, config).where(wanted, 0)
