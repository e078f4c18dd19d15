"""ECAPA-TDNN as a source of scores: the challenge's attacker, and SpeechBrain's of VoxCeleb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from voiceanon.devices import building, resolve_device
from voiceanon.errors import AudioError
from voiceanon.eval.sources.base import Recording
from voiceanon.eval.sources.ecapa import MIN_FRAMES, EcapaConfig, EcapaTdnn
from voiceanon.eval.sources.fbank import HOP_SAMPLES, Fbank, subtract_mean
from voiceanon.eval.sources.manifest import (
    Access,
    SourceInfo,
    identity_of,
    read_source,
    resolve_source,
)
from voiceanon.eval.sources.releases import resolve_members
from voiceanon.eval.sources.waves import SAMPLE_RATE, embed_batches, open_waves
from voiceanon.hub.convert import load_strict
from voiceanon.hub.read import read_state

ASV_EVAL = "vpc2024-asv-eval"
"""The challenge's attacker on original speech, ASV_eval."""

ECAPA_VOXCELEB = "speechbrain-ecapa-voxceleb"
"""SpeechBrain's speaker verification model."""

EMBEDDING_FILE = "embedding_model.ckpt"
"""Published name of the network's entries in both."""

BATCH_SECONDS = 60.0
"""Most speech in one batch, padding included (ours: about 0.3 GB of activations)."""

CPU_BATCH_SECONDS = 0.0
"""On a CPU recordings go alone: 220 to 370 us per frame alone, 290 to 330 in batches."""

MIN_SECONDS = (MIN_FRAMES - 1) * HOP_SAMPLES / SAMPLE_RATE
"""Shortest recording, seconds."""


class EcapaEmbedder:
    """Embeds recordings, each as if it were alone.

    Attributes:
        label: See `ScoreSource`.
        identity: See `ScoreSource`.
        training_data: What the network was trained on.
    """

    def __init__(
        self,
        network: EcapaTdnn,
        *,
        label: str,
        identity: str,
        training_data: str,
        challenge_input: bool,
        device: str | torch.device = "auto",
    ) -> None:
        """Takes a filled network.

        Args:
            network: Moved to ``device``.
            label: What it is.
            identity: Of the weights.
            training_data: What it was trained on.
            challenge_input: Whether recordings are brought to a peak of 1 and zeros at their ends
                dropped, as in the VoicePrivacy Challenge 2024.
            device: As in `voiceanon.load`.
        """
        self.label = label
        self.identity = f"{identity} challenge_input={challenge_input}"
        self.training_data = training_data
        self._challenge_input = challenge_input
        self._device = resolve_device(device)
        with building():
            self._fbank = Fbank(network.config.bands).to(self._device)
        self._network = network.to(self._device).eval().requires_grad_(False)

    def embed(self, recordings: Sequence[Recording]) -> npt.NDArray[np.float32]:
        """Embeds recordings.

        Args:
            recordings: See `waves.open_wave`.

        Returns:
            float32 ``(n, d)``, not normalised.

        Raises:
            AudioError: A recording cannot be used as it is, is shorter than `MIN_SECONDS`, or is
                silent where the challenge's input is asked for.
        """
        form = challenge_form if self._challenge_input else None
        waves = open_waves(recordings, min_seconds=MIN_SECONDS, label=self.label, form=form)
        return embed_batches(
            self._forward,
            waves,
            width=self._network.config.embedding,
            batch_seconds=CPU_BATCH_SECONDS if self._device.type == "cpu" else BATCH_SECONDS,
            device=self._device,
        )

    def _forward(self, wav: Tensor, lengths: Tensor) -> Tensor:
        features, frames = self._fbank(wav, lengths)
        embeddings: Tensor = self._network(subtract_mean(features, frames), frames)
        return embeddings


def challenge_form(wave: Tensor) -> Tensor:
    """Brings a recording to a peak of 1, then drops exact zeros at both ends.

    Source: specification sheet of the evaluation, section 3.3, row "input". The published code also
    normalises the loudness before, which the division by the peak undoes.

    Args:
        wave: float32 ``(T,)``.

    Returns:
        float32 ``(T',)``, T' at most T.

    Raises:
        AudioError: It is silent.
    """
    sounding = wave.nonzero()[:, 0]
    if not len(sounding):
        raise AudioError(
            "audio: the recording is silent, which has no speaker; leave it out of the trials."
        )
    peak = wave.abs().max()
    return wave[int(sounding[0]) : int(sounding[-1]) + 1] / peak


def load_asv_eval(
    *,
    weights: str | Path | None = None,
    device: str | torch.device = "auto",
    local_files_only: bool = False,
    token: str | bool | None = None,
) -> EcapaEmbedder:
    """Loads the attacker of the VoicePrivacy Challenge 2024 on original speech.

    Args:
        weights: Folder with ``asv_orig.zip``, as it is or unpacked; ``None`` for the cache, which
            is filled from the published address.
        device: As in `voiceanon.load`.
        local_files_only: Never use the network.
        token: The Hub's access token.

    Raises:
        WeightsError: The file is missing, damaged, or holds another network.
    """
    info = read_source(ASV_EVAL)
    access = Access(weights=weights, local_files_only=local_files_only, token=token)
    paths = resolve_members(info, {EMBEDDING_FILE: EMBEDDING_FILE.replace(".", r"\.")}, access)
    return _load(info, paths, challenge_input=True, device=device)


def load_ecapa_voxceleb(
    *,
    weights: str | Path | None = None,
    device: str | torch.device = "auto",
    local_files_only: bool = False,
    token: str | bool | None = None,
) -> EcapaEmbedder:
    """Loads ``speechbrain/spkrec-ecapa-voxceleb``; arguments and errors as in `load_asv_eval`."""
    info = read_source(ECAPA_VOXCELEB)
    access = Access(weights=weights, local_files_only=local_files_only, token=token)
    paths = resolve_source(info, access)
    return _load(info, paths, challenge_input=False, device=device)


def _load(
    info: SourceInfo,
    paths: Mapping[str, Path],
    *,
    challenge_input: bool,
    device: str | torch.device,
) -> EcapaEmbedder:
    file = paths[EMBEDDING_FILE]
    entries = read_state(file)
    with building(), torch.device("meta"):
        network = EcapaTdnn(EcapaConfig.from_entries(entries))
    load_strict(network, entries, file=file)
    return EcapaEmbedder(
        network,
        label=info.label,
        identity=identity_of(info, paths),
        training_data=info.training_data,
        challenge_input=challenge_input,
        device=device,
    )
