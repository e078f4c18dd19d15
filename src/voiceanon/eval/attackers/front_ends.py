"""What an attacker's network sees: the challenge's log-mel bands, or a frozen WavLM.

The WavLM front end is a sum over all hidden states whose weights are learnt, as in the speaker
verification experiments of the WavLM paper (arXiv 2110.13900). The VoicePrivacy Challenge 2026 has
an attacker of this kind (specification sheet of the evaluation, section 3.6); its settings are not
known here, so that this is not the challenge's.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from voiceanon.batching import length_mask
from voiceanon.components.content.wavlm import WavLM
from voiceanon.components.content.wavlm_config import (
    HOP_SAMPLES,
    MIN_SAMPLES,
    WavLMConfig,
    is_unused_entry,
)
from voiceanon.components.weight_norm import fold_entries
from voiceanon.devices import building
from voiceanon.eval.sources import fbank
from voiceanon.eval.sources.ecapa import MIN_FRAMES
from voiceanon.hub.convert import load_strict
from voiceanon.hub.manifest import read_manifest
from voiceanon.hub.read import part_of, read, state_of
from voiceanon.hub.resolve import resolve
from voiceanon.hub.verify import digest_of

BANDS = 80
"""Mel bands (section 3.3)."""

WAVLM_OWNER = "vpc2024-t8-2"
"""System whose manifest lists the file."""

WAVLM_FILE = "WavLM-Large.pt"

VARIANCE_FLOOR = 1e-5
"""Added to variances (ours; the epsilon of WavLM's own norms)."""


class LogMel(nn.Module):
    """Mel bands in dB; each has mean 0 over the recording."""

    width = BANDS
    min_samples = (MIN_FRAMES - 1) * fbank.HOP_SAMPLES

    def __init__(self) -> None:
        super().__init__()
        self.fbank = fbank.Fbank(BANDS)

    def forward(self, waves: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Computes features.

        Args:
            waves: float32 ``(B, T)``, 16 kHz.
            lengths: Samples of each recording, int64 ``(B,)``, `min_samples` to T.

        Returns:
            float32 ``(B, N, 80)``, 0 in the padding, and frames, int64 ``(B,)``.
        """
        levels, frames = self.fbank(waves, lengths)
        return fbank.subtract_mean(levels, frames), frames


class WavLMLayers(nn.Module):
    """A frozen WavLM, and one weight for each of its hidden states."""

    min_samples = MIN_SAMPLES + (MIN_FRAMES - 1) * HOP_SAMPLES

    def __init__(self, wavlm: WavLM, digest: str) -> None:
        """Takes the encoder; all hidden states weigh the same at first.

        Args:
            wavlm: With its weights.
            digest: SHA-256 of the file that they came from.
        """
        super().__init__()
        self.wavlm = wavlm.requires_grad_(False)
        self.digest = digest
        self.width = wavlm.config.width
        self.layer_weights = nn.Parameter(torch.zeros(wavlm.layers + 1))

    def forward(self, waves: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Computes features.

        Args:
            waves: float32 ``(B, T)``, 16 kHz. They are brought to mean 0 and variance 1, as
                WavLM-Large was trained.
            lengths: Samples of each recording, int64 ``(B,)``, `min_samples` to T.

        Returns:
            float32 ``(B, N, D)``, where every feature has mean 0 and variance 1 over the recording
            (ours: the features differ much in size), and frames, int64 ``(B,)``.
        """
        with torch.no_grad():
            normal = standardise(waves[..., None], lengths)[..., 0]
            wanted = range(self.wavlm.layers + 1)
            states, frames = self.wavlm.hidden_states(normal, lengths, wanted)
        mixed = torch.zeros_like(states[0])
        for share, state in zip(self.layer_weights.softmax(0), states, strict=True):
            mixed = mixed + share * state
        return standardise(mixed, frames), frames


def standardise(x: Tensor, lengths: Tensor) -> Tensor:
    """Gives each recording mean 0 and variance 1 over time.

    Args:
        x: float32 ``(B, N, D)``. The values in the padding do not matter.
        lengths: int64 ``(B,)``.

    Returns:
        float32 ``(B, N, D)``, 0 in the padding.
    """
    outside = ~length_mask(lengths, x.shape[1])[..., None]
    counts = lengths[:, None, None]
    centred = x - x.masked_fill(outside, 0.0).sum(1, keepdim=True) / counts
    centred = centred.masked_fill(outside, 0.0)
    variance = centred.square().sum(1, keepdim=True) / counts
    return centred * (variance + VARIANCE_FLOOR).rsqrt()


def load_wavlm_layers(
    weights: str | Path | None = None, *, local_files_only: bool = False
) -> WavLMLayers:
    """Loads WavLM in the way of all published weights.

    Args:
        weights: Folder with the published file; ``None`` for the cache, which is filled.
        local_files_only: Never use the network.

    Raises:
        WeightsError: The file is missing, damaged or not the published one.
    """
    path = resolve(
        read_manifest(WAVLM_OWNER),
        weights=weights,
        local_files_only=local_files_only,
        names=(WAVLM_FILE,),
    )[WAVLM_FILE]
    checkpoint = read(path)
    config = WavLMConfig.from_published(part_of(checkpoint, "cfg", file=path))
    with building():
        with torch.device("meta"):
            wavlm = WavLM(config)
        load_strict(
            wavlm,
            state_of(checkpoint, "model", file=path),
            file=path,
            unused=lambda name: is_unused_entry(name, layers=config.layers),
            fold=fold_entries,
        )
        return WavLMLayers(wavlm, digest_of(path))
