"""VITS: texts to waveforms, with exact batches.

Each text's noise comes from its own generator, and nothing of the padding reaches a text: what a
batch gives for a text is what the text gives alone. Text encoder and durations run in float32 also
under autocast, since a rounded duration moves all that follows.

Source: Kim et al. 2021, arXiv:2106.06103; held to transformers' `VitsModel` and, with the weights
of a Piper voice, to onnxruntime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from voiceanon.components.text.phonemes import Phonemizer
from voiceanon.components.tts.decoder import VitsDecoder
from voiceanon.components.tts.durations import (
    NOISE_CHANNELS,
    PlainDurations,
    StochasticDurations,
)
from voiceanon.components.tts.flow import Flow
from voiceanon.components.tts.text_encoder import TextEncoder
from voiceanon.components.tts.vits_config import VitsConfig
from voiceanon.errors import ConfigError

LONGEST_SYMBOL_SECONDS = 2.0
"""Cap on the duration of one symbol (ours): longer ones are a fault of the weights, and would take
any amount of memory."""

SYMBOLS_AT_ONCE = 20_000
"""Symbols in one batch of the text encoder, padding included."""

SECONDS_AT_ONCE = 120.0
"""Seconds in one batch of flow and decoder, padding included. On a CPU, which a single waveform
keeps busy, they run one by one: a batch there took three times as long as its texts alone."""


@dataclass
class _Plan:
    """What the text says about one waveform, and the noise that is drawn for it.

    Attributes:
        mean: Per symbol, ``(flow_width, L)``.
        log_spread: As ``mean``.
        frames: Of each symbol, int64 ``(L,)``.
        total: Their sum, at least 1.
    """

    mean: Tensor
    log_spread: Tensor
    frames: Tensor
    total: int


class Vits(nn.Module):
    """The networks of one voice, or of several in one file."""

    def __init__(self, config: VitsConfig) -> None:
        """Builds the networks with untrained weights.

        Args:
            config: Sizes.
        """
        super().__init__()
        self.config = config
        self.text_encoder = TextEncoder(config)
        durations = StochasticDurations if config.stochastic_durations else PlainDurations
        self.duration_predictor = durations(config)
        self.flow = Flow(config)
        self.decoder = VitsDecoder(config)
        self.embed_speaker: nn.Embedding | None = None
        if config.speaker_width:
            self.embed_speaker = nn.Embedding(len(config.speakers), config.speaker_width)

    @property
    def hop_samples(self) -> int:
        """Samples per frame."""
        return self.decoder.config.hop_samples

    def speaker(self, numbers: Sequence[int]) -> Tensor | None:
        """Vectors of voices, ``(B, speaker_width, 1)``; ``None`` where there is one voice."""
        if self.embed_speaker is None:
            return None
        weight = self.embed_speaker.weight
        index = torch.tensor(list(numbers), dtype=torch.int64, device=weight.device)
        return weight[index].unsqueeze(2)

    def read(
        self, symbols: Tensor, lengths: Tensor, speaker: Tensor | None, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Reads texts.

        Args:
            symbols: int64 ``(B, L)``; any valid numbers behind a text.
            lengths: int64 ``(B,)``.
            speaker: Of `speaker`.
            noise: For the durations, normal, ``(B, 2, L)``; scaled by the caller.

        Returns:
            Means and logarithms of the standard deviation ``(B, flow_width, L)`` each, and
            logarithms of the durations in frames, float32 ``(B, L)``.
        """
        inside = torch.arange(symbols.shape[1], device=symbols.device) < lengths[:, None]
        with torch.autocast(symbols.device.type, enabled=False):
            hidden, mean, log_spread = self.text_encoder(symbols, inside)
            mask = inside[:, None].to(hidden.dtype)
            durations = self.duration_predictor(hidden, mask, speaker, noise)
        return mean, log_spread, durations

    def speak(self, frames: Tensor, lengths: Tensor, speaker: Tensor | None) -> Tensor:
        """Turns drawn frames into waveforms.

        Args:
            frames: Of the prior, float32 ``(B, flow_width, N)``.
            lengths: int64 ``(B,)`` in frames.
            speaker: Of `speaker`.

        Returns:
            float32 ``(B, N * hop_samples)``, zeros behind each.
        """
        inside = torch.arange(frames.shape[2], device=frames.device) < lengths[:, None]
        mask = inside[:, None].to(frames.dtype)
        z = self.flow(frames * mask, mask, speaker) * mask
        condition = None if speaker is None else speaker[..., 0]
        return cast(Tensor, self.decoder(z.transpose(1, 2), lengths, condition)[0])


class VitsSynthesizer(nn.Module):
    """Synthesiser; see `protocol.Synthesizer`.

    Attributes:
        network: The networks.
        phonemizer: For voices that read phonemes.
        noise_scale: Standard deviation of the acoustic noise, as a factor.
        duration_noise_scale: The same of the noise that durations are made from.
        speaking_rate: Durations are divided by it.
    """

    def __init__(self, network: Vits, phonemizer: Phonemizer | None) -> None:
        """Puts the parts together, with the scales of the voice.

        Args:
            network: The networks.
            phonemizer: For voices that read phonemes; else ``None``.

        Raises:
            ConfigError: The voice reads phonemes, and there is nothing that writes them.
        """
        super().__init__()
        if network.config.symbols.phonemes and phonemizer is None:
            raise ConfigError("VITS: this voice reads phonemes; give a phonemiser.")
        self.network = network
        self.phonemizer = phonemizer
        self.noise_scale = network.config.noise_scale
        self.duration_noise_scale = network.config.duration_noise_scale
        self.speaking_rate = network.config.speaking_rate

    @property
    def sample_rate(self) -> int:
        """Rate of the waveforms, in Hz."""
        return self.network.config.sample_rate

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names of the voices."""
        return self.network.config.speakers

    def encode(self, text: str) -> list[int]:
        """Gives the numbers of a normalised text's symbols."""
        table = self.network.config.symbols
        if table.phonemes and self.phonemizer is not None:
            text = self.phonemizer.phonemize(text)
        return table.encode(text)

    def synthesize(
        self,
        texts: Sequence[str],
        speakers: Sequence[str],
        generators: Sequence[torch.Generator],
    ) -> list[Tensor]:
        """Speaks texts; see `protocol.Synthesizer.synthesize`.

        Each text draws noise for its durations, ``(2, symbols)``; when all texts have done so, each
        draws acoustic noise, ``(flow_width, frames)``. A scale of 0 draws nothing. A text without a
        symbol of the voice gives an empty waveform.
        """
        numbers = [self.encode(text) for text in texts]
        names = [self.speakers.index(name) for name in speakers]
        # Boundaries and blanks alone are no text.
        empty = len(self.network.config.symbols.encode(""))
        spoken = [index for index, each in enumerate(numbers) if len(each) > empty]
        waves = [torch.zeros(0, dtype=torch.float32) for _ in texts]
        if not spoken:
            return waves
        results = self.speak_symbols(
            [numbers[index] for index in spoken],
            [names[index] for index in spoken],
            [generators[index] for index in spoken],
        )
        for index, wave in zip(spoken, results, strict=True):
            waves[index] = wave
        return waves

    def speak_symbols(
        self,
        symbols: Sequence[Sequence[int]],
        speakers: Sequence[int],
        generators: Sequence[torch.Generator],
    ) -> list[Tensor]:
        """Speaks texts that are numbers already.

        Args:
            symbols: Numbers of symbols, at least one for each text.
            speakers: Number of the voice of each.
            generators: As in `synthesize`.

        Returns:
            As `synthesize`.
        """
        device = self.network.text_encoder.embed_tokens.weight.device
        scale, channels = self.duration_noise_scale, NOISE_CHANNELS
        if not self.network.config.stochastic_durations:
            scale = 0.0
        noises = [
            _noise((channels, len(each)), scale, generator)
            for each, generator in zip(symbols, generators, strict=True)
        ]
        plans = self._read_all(symbols, speakers, noises, device)
        width = self.network.config.flow_width
        noises = [
            _noise((width, plan.total), self.noise_scale, generator)
            for plan, generator in zip(plans, generators, strict=True)
        ]
        return self._speak_all(plans, speakers, noises, device)

    def _read_all(
        self,
        symbols: Sequence[Sequence[int]],
        speakers: Sequence[int],
        noises: Sequence[Tensor],
        device: torch.device,
    ) -> list[_Plan]:
        network = self.network
        most = LONGEST_SYMBOL_SECONDS * self.sample_rate / network.hop_samples
        plans: list[_Plan] = [_Plan(Tensor(), Tensor(), Tensor(), 0)] * len(symbols)
        for group in _groups([len(each) for each in symbols], SYMBOLS_AT_ONCE):
            rows = [torch.tensor(symbols[index], dtype=torch.int64) for index in group]
            lengths = torch.tensor([len(row) for row in rows], device=device)
            padded = pad_sequence(rows, batch_first=True).to(device)
            mean, log_spread, durations = network.read(
                padded,
                lengths,
                network.speaker([speakers[index] for index in group]),
                _pad_last([noises[index] for index in group], device),
            )
            inside = torch.arange(padded.shape[1], device=device) < lengths[:, None]
            frames = (durations.exp() / self.speaking_rate).clamp(max=most).ceil()
            frames = torch.where(inside, frames, 0.0).long()
            # How long the waveforms get decides the shapes from here on: the host has to know.
            totals = frames.sum(1).clamp_min(1).tolist()
            for row, (index, total) in enumerate(zip(group, totals, strict=True)):
                length = len(rows[row])
                plans[index] = _Plan(
                    mean[row, :, :length], log_spread[row, :, :length], frames[row, :length], total
                )
        return plans

    def _speak_all(
        self,
        plans: Sequence[_Plan],
        speakers: Sequence[int],
        noises: Sequence[Tensor],
        device: torch.device,
    ) -> list[Tensor]:
        network = self.network
        seconds = 0.0 if device.type == "cpu" else SECONDS_AT_ONCE
        capacity = seconds * self.sample_rate / network.hop_samples
        waves = [Tensor()] * len(plans)
        for group in _groups([plan.total for plan in plans], capacity):
            chosen = [plans[index] for index in group]
            lengths = torch.tensor([plan.total for plan in chosen], device=device)
            frames = _draw_frames(chosen, _pad_last([noises[index] for index in group], device))
            speaker = network.speaker([speakers[index] for index in group])
            wav = network.speak(frames, lengths, speaker)
            for row, index in enumerate(group):
                # A copy, so that a short text does not keep its whole batch alive.
                waves[index] = wav[row, : plans[index].total * network.hop_samples].clone()
        return waves


def _draw_frames(plans: Sequence[_Plan], noise: Tensor) -> Tensor:
    """Repeats what each symbol says over its frames and adds noise, ``(B, flow_width, N)``."""
    mean, log_spread = (
        pad_sequence([part.T for part in parts], batch_first=True).transpose(1, 2)
        for parts in ([plan.mean for plan in plans], [plan.log_spread for plan in plans])
    )
    frames = pad_sequence([plan.frames for plan in plans], batch_first=True)
    places = torch.arange(noise.shape[2], device=noise.device).expand(len(plans), -1)
    symbol = torch.searchsorted(frames.cumsum(1), places, right=True)
    # Behind a text, where values do not matter.
    symbol = symbol.clamp_max(frames.shape[1] - 1)[:, None].expand(-1, mean.shape[1], -1)
    return mean.gather(2, symbol) + noise * log_spread.gather(2, symbol).exp()


def _noise(size: tuple[int, int], scale: float, generator: torch.Generator) -> Tensor:
    """Normal noise on the CPU, so that all devices get the same."""
    if scale == 0:
        return torch.zeros(size, dtype=torch.float32)
    return scale * torch.randn(size, generator=generator, dtype=torch.float32)


def _pad_last(rows: Sequence[Tensor], device: torch.device) -> Tensor:
    """``(C, n)`` each to ``(B, C, n)`` with zeros."""
    return pad_sequence([row.T for row in rows], batch_first=True).transpose(1, 2).to(device)


def _groups(lengths: Sequence[int], capacity: float) -> Iterator[list[int]]:
    """Batches of similar lengths, the longest first, of up to ``capacity`` with padding."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if group and lengths[group[0]] * (len(group) + 1) > capacity:
            yield group
            group = []
        group.append(index)
    if group:
        yield group
