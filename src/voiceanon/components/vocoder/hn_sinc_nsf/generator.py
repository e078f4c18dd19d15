"""The generator: features and F0 to waveform."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from voiceanon.components.vocoder.hn_sinc_nsf.condition import Condition, Conditions
from voiceanon.components.vocoder.hn_sinc_nsf.config import HnSincNsfConfig
from voiceanon.components.vocoder.hn_sinc_nsf.filter_blocks import FilterBlocks
from voiceanon.components.vocoder.hn_sinc_nsf.noise import NsfNoise, draw_noise
from voiceanon.components.vocoder.hn_sinc_nsf.sinc_filters import (
    ORDER,
    apply_half_filter,
    half_filters,
)
from voiceanon.components.vocoder.hn_sinc_nsf.source import Source
from voiceanon.errors import ConfigError

CPU_PIECE = 2**12
"""Samples of a batch that are filtered at once on a CPU: activations of 1 MiB, which stay in its
cache."""

CPU_LEAST_PIECE = 2**10
"""Samples of each item below which the past of the convolutions would outweigh the piece."""

PIECE = 2**20
"""Samples of a batch that are filtered at once elsewhere: activations of 256 MiB."""


class HnSincNsf(nn.Module):
    """Harmonic-plus-noise source-filter generator; entries bear the published names."""

    input_mean: Tensor
    input_std: Tensor
    output_mean: Tensor
    output_std: Tensor

    def __init__(self, config: HnSincNsfConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or HnSincNsfConfig()
        self.register_buffer("input_mean", torch.zeros(config.input_width))
        self.register_buffer("input_std", torch.ones(config.input_width))
        # Stored, but 0 and 1 (section 11): there is nothing to undo.
        self.register_buffer("output_mean", torch.zeros(1))
        self.register_buffer("output_std", torch.ones(1))
        self.m_cond = Condition(config)
        self.m_source = Source(config)
        self.m_filter = FilterBlocks(config)

    def draw_noise(self, frames: Tensor, generators: Sequence[torch.Generator]) -> NsfNoise:
        """Draws the random numbers of `forward`; see `noise.draw_noise`."""
        config = self.config
        return draw_noise(
            frames, generators, hop_samples=config.hop_samples, harmonics=config.harmonics
        )

    def forward(
        self, features: Tensor, f0: Tensor, frames: Tensor, noise: NsfNoise
    ) -> tuple[Tensor, Tensor]:
        """Generates waveforms; an item of a batch gives what it gives alone, but for rounding.

        At the published sizes memory grows by 2 MB per second of audio: noise, a copy of the
        features and signals. The filters work piece by piece and take a fixed amount.

        Args:
            features: float32 ``(B, F, D)``, not normalised; the last of them is F0 in Hz. What lies
                behind an item's end does not matter.
            f0: Hz, 0 where unvoiced, float32 ``(B, F)``.
            frames: int64 ``(B,)``, each at least 1.
            noise: See `draw_noise`.

        Returns:
            float32 ``(B, F * hop_samples)``, full scale 1.0, zero behind each item, about
            `sinc_filters.SIDE` samples late; and int64 lengths ``(B,)`` in samples.

        Raises:
            ConfigError: Features or noise of the wrong shape.
        """
        hop, size = self.config.hop_samples, features.shape[1]
        # The host has to know them: recurrence, memory and pieces go by the items' lengths.
        counts = frames.cpu()
        most = int(counts.max())
        self._check(features, noise, most)
        valid = torch.arange(most, device=frames.device) < frames[:, None]
        f0 = f0[:, :most].float().masked_fill(~valid, 0)
        with torch.autocast(features.device.type, enabled=False):
            normalised = (features[:, :most].float() - self.input_mean).div_(self.input_std)
            normalised.masked_fill_(~valid[..., None], 0)
            conditions = self.m_cond(normalised, f0, frames, counts)
        del normalised
        wav = f0.new_zeros(len(f0), size * hop)
        pieces, first = _Pieces(self, conditions, f0, noise), 0
        while first < most:
            items = (counts > first).nonzero()[:, 0]
            last = min(first + self._frames_at_once(len(items), wav.device), most)
            items = items.to(wav.device)
            wav[items, first * hop : last * hop] = pieces.next(first, last, items)
            first = last
        wav[:, : most * hop].masked_fill_(~valid.repeat_interleave(hop, 1), 0)
        return wav, frames * hop

    def _frames_at_once(self, items: int, device: torch.device) -> int:
        samples = PIECE // items
        if device.type == "cpu":
            samples = max(CPU_PIECE // items, CPU_LEAST_PIECE)
        return max(samples // self.config.hop_samples, 1)

    def _check(self, features: Tensor, noise: NsfNoise, frames: int) -> None:
        config = self.config
        if features.shape[2] != config.input_width:
            raise ConfigError(
                f"hn-sinc-NSF: {features.shape[2]} features per frame; these weights take "
                f"{config.input_width}, those of the speaker and F0 included."
            )
        samples = frames * config.hop_samples
        if noise.sine.shape[1] < samples or noise.branch.shape[1] < samples:
            raise ConfigError(
                f"hn-sinc-NSF: noise for {noise.sine.shape[1]} and {noise.branch.shape[1]} samples "
                f"where {samples} are due; draw_noise makes it for the same frames."
            )


class _Pieces:
    """A batch on its way through the filters, one piece after the other."""

    def __init__(
        self, model: HnSincNsf, conditions: Conditions, f0: Tensor, noise: NsfNoise
    ) -> None:
        self._model, self._conditions, self._f0, self._noise = model, conditions, f0, noise
        self._starts, self._steps = model.m_source.turns(f0, noise.phases)
        self._blocks = [*model.m_filter.l_har_blocks, *model.m_filter.l_noi_blocks]
        self._pasts = [block.start(f0) for block in self._blocks]
        self._ends = [f0.new_zeros(len(f0), ORDER - 1) for _ in range(2)]
        self._items = torch.arange(len(f0), device=f0.device)

    def next(self, first: int, last: int, items: Tensor) -> Tensor:
        """Waveforms of these frames of some items, ``(n, (last - first) * hop)``.

        Frames must come in order; an item that is left out has ended.
        """
        model = self._model
        frames = slice(first, last)
        samples = slice(first * model.config.hop_samples, last * model.config.hop_samples)
        self._keep(items)
        with torch.autocast(items.device.type, enabled=False):
            context = self._conditions.context(frames, items)
            sources = (x[items, frames] for x in (self._starts, self._steps, self._f0))
            noise = (x[items, samples] for x in (self._noise.sine, self._noise.branch))
            harmonic, branch = model.m_source(*sources, *noise)
        for block, past in zip(self._blocks[:-1], self._pasts[:-1], strict=True):
            harmonic = block(harmonic, context, past)
        branch = self._blocks[-1](branch, context, self._pasts[-1])
        with torch.autocast(items.device.type, enabled=False):
            filters = half_filters(self._conditions.cut_off[items, samples])
            wav = torch.zeros_like(harmonic)
            for i, (signal, taps) in enumerate(zip((harmonic, branch), filters, strict=True)):
                wav = wav + apply_half_filter(self._ends[i], signal, taps)
                self._ends[i] = torch.cat([self._ends[i], signal], 1)[:, 1 - ORDER :]
        return wav

    def _keep(self, items: Tensor) -> None:
        """Forgets the past of items that have ended."""
        if len(items) == len(self._items):
            return
        rows = torch.searchsorted(self._items, items)
        self._items = items
        self._pasts = [[x[rows] for x in past] for past in self._pasts]
        self._ends = [x[rows] for x in self._ends]
