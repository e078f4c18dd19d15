"""Networks of an attacker: SpeechBrain's for training, the library's own for embeddings.

Both have the same entries, named as in the challenge's ``embedding_model.ckpt``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from voiceanon import seeding
from voiceanon.devices import building
from voiceanon.eval.attackers.config import AttackerConfig
from voiceanon.eval.attackers.front_ends import LogMel, WavLMLayers
from voiceanon.eval.attackers.speechbrain import speechbrain_module
from voiceanon.eval.sources.ecapa import EcapaConfig, EcapaTdnn

FrontEnd: TypeAlias = LogMel | WavLMLayers


class TrainingNetwork(nn.Module):
    """A front end and SpeechBrain's ECAPA-TDNN."""

    def __init__(self, front_end: FrontEnd, sizes: EcapaConfig) -> None:
        """Builds ECAPA-TDNN with what PyTorch's global generator draws.

        Raises:
            MissingDependencyError: SpeechBrain is not installed.
        """
        super().__init__()
        self.front_end = front_end
        ecapa = speechbrain_module("lobes.models.ECAPA_TDNN")
        blocks = len(EcapaTdnn.DILATIONS)
        self.encoder: nn.Module = ecapa.ECAPA_TDNN(
            front_end.width,
            lin_neurons=sizes.embedding,
            channels=[sizes.width] * (1 + blocks) + [sizes.pooled_width],
            kernel_sizes=[EcapaTdnn.KERNEL, *[EcapaTdnn.RES_KERNEL] * blocks, 1],
            dilations=[1, *EcapaTdnn.DILATIONS, 1],
            attention_channels=sizes.attention,
            res2net_scale=sizes.scale,
            se_channels=sizes.squeeze,
        )

    def forward(self, waves: Tensor) -> Tensor:
        """Computes embeddings.

        Args:
            waves: float32 ``(B, T)``, 16 kHz, full scale 1.0, none of them padded: SpeechBrain's
                network lets padding flow into the embeddings.

        Returns:
            float32 ``(B, D)``, not normalised.
        """
        lengths = torch.full((len(waves),), waves.shape[1], device=waves.device)
        features, _ = self.front_end(waves, lengths)
        return cast(Tensor, self.encoder(features))[:, 0]


class EmbeddingNetwork(nn.Module):
    """A front end and the library's ECAPA-TDNN, which is exact in padded batches."""

    def __init__(self, front_end: FrontEnd, sizes: EcapaConfig) -> None:
        super().__init__()
        self.front_end = front_end
        self.encoder = EcapaTdnn(replace(sizes, bands=front_end.width))

    def forward(self, waves: Tensor, lengths: Tensor) -> Tensor:
        """Computes embeddings.

        Args:
            waves: float32 ``(B, T)``, 16 kHz, full scale 1.0.
            lengths: Samples of each recording, int64 ``(B,)``, the front end's ``min_samples`` to
                T. The caller guarantees the lower bound.

        Returns:
            float32 ``(B, D)``, not normalised.
        """
        return cast(Tensor, self.encoder(*self.front_end(waves, lengths)))


class MarginLoss(nn.Module):
    """Cosine classifier with an additive angular margin; SpeechBrain's modules.

    The true speaker's angle grows by the margin. Where that would pass pi, its cosine falls by
    ``margin sin(margin)`` instead (the variant that is not "easy"; section 3.3).
    """

    def __init__(self, classes: int, config: AttackerConfig) -> None:
        """Builds the classifier with what PyTorch's global generator draws.

        Raises:
            MissingDependencyError: SpeechBrain is not installed.
        """
        super().__init__()
        ecapa = speechbrain_module("lobes.models.ECAPA_TDNN")
        losses = speechbrain_module("nnet.losses")
        self.classifier: nn.Module = ecapa.Classifier(config.sizes.embedding, out_neurons=classes)
        margin = losses.AdditiveAngularMargin(margin=config.margin, scale=config.scale)
        self.criterion: Any = losses.LogSoftmaxWrapper(margin)

    def forward(self, embeddings: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        """Compares embeddings with all speakers.

        Args:
            embeddings: float32 ``(B, D)``.
            classes: True classes, int64 ``(B,)``.

        Returns:
            Mean loss, a scalar, and whether another speaker is nearer than the true one, bool
            ``(B,)``.
        """
        cosines = self.classifier(embeddings[:, None])
        loss = self.criterion(cosines, classes[:, None])
        return loss, cosines[:, 0].argmax(dim=1) != classes


def build_for_training(
    front_end: FrontEnd, classes: int, config: AttackerConfig
) -> tuple[TrainingNetwork, MarginLoss]:
    """Builds network and loss; what they start from follows from ``config.seed``.

    SpeechBrain's modules draw from PyTorch's global generator, which comes back as it was.

    Args:
        front_end: On the CPU.
        classes: Number of speakers.
        config: Sizes, margin, scale and seed.

    Raises:
        MissingDependencyError: SpeechBrain is not installed.
    """
    secret = seeding.seed_secret(config.seed)
    start = seeding.generator(seeding.stream(secret, "attacker", "network"))
    with building():
        torch.set_rng_state(start.get_state())
        return TrainingNetwork(front_end, config.sizes), MarginLoss(classes, config)
