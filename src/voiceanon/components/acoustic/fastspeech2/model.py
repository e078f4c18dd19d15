"""FastSpeech2: symbols, prosody and a speaker vector to a mel spectrogram.

Published code: IMS-Toucan as it is part of VoicePrivacy Challenge 2024's B3 (Apache-2.0). Paper:
Ren et al., arXiv 2006.04558. Source: specification sheet of the family, section 11.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from voiceanon.components.acoustic.fastspeech2.config import FastSpeech2Config
from voiceanon.components.acoustic.fastspeech2.conformer import Conformer, Encoder
from voiceanon.components.acoustic.fastspeech2.post_net import PostNet
from voiceanon.components.acoustic.fastspeech2.predictors import Predictor
from voiceanon.components.rows import take_rows
from voiceanon.components.text.articulatory import VOICED


class Spoken(NamedTuple):
    """A spectrogram, and the prosody that it was made with.

    Attributes:
        mel: log10 magnitudes, float32 ``(B, F, bands)``, zero in the padding.
        frames: int64 ``(B,)``.
        durations: Frames per symbol, int64 ``(B, N)``.
        pitch: float32 ``(B, N)``, zero where the symbol is not voiced.
        energy: float32 ``(B, N)``.
    """

    mel: Tensor
    frames: Tensor
    durations: Tensor
    pitch: Tensor
    energy: Tensor


class FastSpeech2(nn.Module):
    """The network; entries bear the published names.

    Runs in float32 or under autocast; group norms and the result stay in float32.
    """

    def __init__(self, config: FastSpeech2Config | None = None) -> None:
        """Builds the network with untrained weights.

        Args:
            config: Sizes; those of the published file if left out.
        """
        super().__init__()
        config = self.config = config or FastSpeech2Config()
        width, inner = config.width, config.predictor_width
        self.encoder = Encoder(config)
        self.duration_predictor = Predictor(
            width, inner, layers=config.duration_layers, kernel=config.duration_kernel
        )
        self.pitch_predictor = Predictor(
            width, inner, layers=config.pitch_layers, kernel=config.pitch_kernel
        )
        # The published sequences hold a dropout behind the convolution.
        self.pitch_embed = nn.Sequential(nn.Conv1d(1, width, 1))
        self.energy_predictor = Predictor(
            width, inner, layers=config.energy_layers, kernel=config.energy_kernel
        )
        self.energy_embed = nn.Sequential(nn.Conv1d(1, width, 1))
        self.decoder = Conformer(config, layers=config.decoder_layers, kernel=config.decoder_kernel)
        self.feat_out = nn.Linear(width, config.bands)
        self.postnet = PostNet(config)

    def forward(
        self,
        vectors: Tensor,
        counts: Tensor,
        speaker: Tensor,
        durations: Tensor | None = None,
        pitch: Tensor | None = None,
        energy: Tensor | None = None,
    ) -> Spoken:
        """Speaks; a padded batch gives what its items give one by one.

        Args:
            vectors: Articulatory features of the symbols, float32 ``(B, N, 62)``. Values in the
                padding do not matter, nor do those of what follows.
            counts: Symbols of each item, int64 ``(B,)``, at least 1.
            speaker: float32 ``(B, 128)``.
            durations: Frames per symbol, int64 ``(B, N)``; ``None`` for predicted ones. An item
                whose durations are all 0 gets one frame per symbol.
            pitch: Relative to the item's mean, float32 ``(B, N)``; ``None`` for predicted values.
                It counts as 0 where a symbol is not voiced.
            energy: The same.

        Returns:
            A spectrogram per item.
        """
        valid = torch.arange(vectors.shape[1], device=vectors.device) < counts[:, None]
        hidden = self.encoder.encode(vectors, valid, speaker)
        if durations is None:
            frames_per_symbol = torch.exp(self.duration_predictor(hidden, valid)) - 1
            durations = frames_per_symbol.round().clamp_min(0).long()
        if pitch is None:
            pitch = self.pitch_predictor(hidden, valid)
        if energy is None:
            energy = self.energy_predictor(hidden, valid)
        durations = durations.masked_fill(~valid, 0)
        durations = torch.where(durations.sum(1, keepdim=True) > 0, durations, valid.long())
        pitch = pitch.masked_fill(~(valid & (vectors[..., VOICED] > 0)), 0.0)
        energy = energy.masked_fill(~valid, 0.0)
        for embed, values in ((self.energy_embed, energy), (self.pitch_embed, pitch)):
            hidden = hidden + embed(values[:, None]).transpose(1, 2)
        mel, frames = self._decode(*regulate(hidden, durations))
        return Spoken(mel, frames, durations, pitch, energy)

    def _decode(self, hidden: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        valid = torch.arange(hidden.shape[1], device=hidden.device) < frames[:, None]
        rough = self.feat_out(self.decoder(hidden, valid)).float()
        rough = cast(Tensor, rough.masked_fill(~valid[..., None], 0.0))
        return rough + self.postnet(rough, valid), frames


def regulate(hidden: Tensor, durations: Tensor) -> tuple[Tensor, Tensor]:
    """Repeats each symbol as many times as it has frames.

    Args:
        hidden: ``(B, N, D)``.
        durations: int64 ``(B, N)``, 0 in the padding.

    Returns:
        ``(B, F, D)``, without meaning in the padding, and frames int64 ``(B,)``.
    """
    ends = durations.cumsum(1)
    frames = ends[:, -1]
    # How many frames there are is known on the device alone: the one value the host waits for.
    steps = torch.arange(int(frames.max()), device=hidden.device)
    symbol = torch.searchsorted(ends, steps.expand(len(ends), -1).contiguous(), right=True)
    symbol = symbol.clamp_max(durations.shape[1] - 1)
    return take_rows(hidden, symbol), frames
