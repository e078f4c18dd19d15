"""An attacker that is trained on anonymized speech, and the embeddings it gives.

The semi-informed attacker of the VoicePrivacy Challenge knows the system but not its draws: it
anonymizes speech of its own, and learns to tell speakers apart in spite of that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from voiceanon.devices import building, resolve_device
from voiceanon.errors import WeightsError
from voiceanon.eval.attackers.checkpoints import (
    digest_of_weights,
    read_weights,
)
from voiceanon.eval.attackers.config import AttackerConfig
from voiceanon.eval.attackers.data import TrainingData, reduce_utterances
from voiceanon.eval.attackers.facts import AttackerFacts, read_facts, write_facts
from voiceanon.eval.attackers.front_ends import LogMel, WavLMLayers, load_wavlm_layers
from voiceanon.eval.attackers.network import EmbeddingNetwork, FrontEnd, build_for_training
from voiceanon.eval.attackers.segments import Segments, find_segments
from voiceanon.eval.attackers.training import Report, Trainer
from voiceanon.eval.sources.base import Recording
from voiceanon.eval.sources.ecapa_embedder import BATCH_SECONDS, challenge_form
from voiceanon.eval.sources.waves import SAMPLE_RATE, embed_batches, open_waves

CHECKPOINT_SECONDS = 300.0
"""Time between saved states: what an interruption costs at most."""


class TrainedAttacker:
    """Gives speaker embeddings.

    Attributes:
        facts: What it was trained on, and how that went.
        identity: Names weights and features, for caches.
    """

    def __init__(
        self, network: EmbeddingNetwork, facts: AttackerFacts, device: torch.device
    ) -> None:
        """Takes a trained network."""
        self._network = network.to(device).eval().requires_grad_(False)
        self._device = device
        self.facts = facts
        wavlm = f" on WavLM {facts.wavlm}" if facts.wavlm else ""
        self.identity = f"attacker {digest_of_weights(network)}{wavlm}"

    @property
    def label(self) -> str:
        """Names the attacker in the words that stand beside its numbers."""
        return self.facts.label

    @property
    def training_data(self) -> str:
        """Names the speech that it was trained on."""
        return self.facts.training_data

    def embed(self, waves: Sequence[Recording]) -> npt.NDArray[np.float32]:
        """Computes embeddings.

        Args:
            waves: See `voiceanon.eval.sources.waves.open_wave`; they get the form that the
                challenge gives them (`voiceanon.eval.sources.ecapa_embedder.challenge_form`).

        Returns:
            float32 ``(n, D)``, not normalised: the mean over a speaker's utterances is taken of
            these. A recording's row does not depend on the other recordings.

        Raises:
            AudioError: A recording is silent, too short or not usable.
        """
        return embed_batches(
            self._network,
            open_waves(
                waves,
                min_seconds=self._network.front_end.min_samples / SAMPLE_RATE,
                label=self.label,
                form=challenge_form,
            ),
            width=self.facts.config.sizes.embedding,
            batch_seconds=BATCH_SECONDS,
            device=self._device,
        )


def train_attacker(
    data: TrainingData,
    config: AttackerConfig,
    folder: str | os.PathLike[str],
    *,
    device: str | torch.device = "auto",
    init: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
    progress: Report | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> TrainedAttacker:
    """Trains an attacker, or goes on where an interrupted training stopped.

    The weights of the epoch with the smallest validation error are kept. On a CPU, an interrupted
    training ends with the same weights, bit for bit, as one that ran through with as many threads
    of PyTorch.

    Args:
        data: Of `read_training_data`.
        config: Settings: ``AttackerConfig()`` is the challenge's, ``AttackerConfig.small()`` is for
            a CPU.
        folder: Gets the state of the training, the best weights and ``attacker.json``.
        device: As for `voiceanon.load`.
        init: Weights to start from: the folder of an attacker or of a checkpoint of the challenge,
            or its ``embedding_model.ckpt``. The classifier starts anew.
        weights: Folder with WavLM's published file, for the front end ``"wavlm"``; ``None`` for the
            cache.
        local_files_only: Never use the network.
        progress: Called after each step and each epoch. What it raises interrupts the training.
        checkpoint_seconds: Time between saved states.

    Raises:
        AudioError: A training file is not usable.
        ConfigError: There is too little speech, or the folder holds another training.
        MissingDependencyError: SpeechBrain is not installed.
        WeightsError: Weights are missing, damaged, or of another network.
    """
    where, place = resolve_device(device), Path(folder)
    utterances = data.utterances
    if config.utterances_per_speaker is not None:
        utterances = reduce_utterances(utterances, config.utterances_per_speaker, config.seed)
    front_end = _front_end(config, weights, local_files_only)
    segments = find_segments(utterances, config)
    network, loss = build_for_training(front_end, len(segments.speakers), config)
    start = None
    if init is not None:
        read_weights(Path(init), network)
        start = digest_of_weights(network)
    facts = _facts(data, segments, config, front_end, start)
    trainer = Trainer(
        network, loss, segments, config, place, identity=_identity(facts), device=where
    )
    facts["history"] = trainer.run(progress, checkpoint_seconds)
    write_facts(place, AttackerFacts(**facts))
    return load_attacker(place, device=where, weights=weights, local_files_only=local_files_only)


def load_attacker(
    folder: str | os.PathLike[str],
    *,
    device: str | torch.device = "auto",
    weights: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> TrainedAttacker:
    """Loads an attacker whose training has come to its end.

    Args:
        folder: As `train_attacker` filled it.
        device: As for `voiceanon.load`.
        weights: As for `train_attacker`.
        local_files_only: Never use the network.

    Raises:
        WeightsError: The folder holds no attacker, or not all of it.
    """
    where, place = resolve_device(device), Path(folder)
    facts = read_facts(place)
    front_end = _front_end(facts.config, weights, local_files_only)
    if isinstance(front_end, WavLMLayers) and front_end.digest != facts.wavlm:
        raise WeightsError(
            f"{place}: trained on the WavLM with SHA-256 {facts.wavlm}, but {front_end.digest} was "
            "found; give the folder of the former as weights=."
        )
    with building():
        network = EmbeddingNetwork(front_end, facts.config.sizes)
    read_weights(place, network)
    return TrainedAttacker(network, facts, where)


def _front_end(
    config: AttackerConfig, weights: str | os.PathLike[str] | None, local_files_only: bool
) -> FrontEnd:
    if config.front_end == "wavlm":
        folder = None if weights is None else Path(weights)
        return load_wavlm_layers(folder, local_files_only=local_files_only)
    with building():
        return LogMel()


def _facts(
    data: TrainingData,
    segments: Segments,
    config: AttackerConfig,
    front_end: FrontEnd,
    start: str | None,
) -> dict[str, Any]:
    """Fields of `AttackerFacts` but for the results."""
    return {
        "config": config,
        "system": data.system,
        "level": data.level,
        "utterances": int((~segments.held_out).sum()),
        "speakers": len(segments.speakers),
        "data": segments.digest,
        "start": start,
        "wavlm": front_end.digest if isinstance(front_end, WavLMLayers) else None,
    }


def _identity(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What two runs must share to be one training."""
    settings = asdict(facts["config"])
    rest = {name: value for name, value in facts.items() if name != "config"}
    return {**settings, **rest}
