"""Settings of an attacker that is trained on anonymized speech."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from voiceanon.errors import ConfigError
from voiceanon.eval.sources.base import NOT_CHALLENGE
from voiceanon.eval.sources.ecapa import EcapaConfig
from voiceanon.eval.sources.waves import SAMPLE_RATE

FrontEndName: TypeAlias = Literal["fbank", "wavlm"]
"""What the network sees: 80 log-mel bands, or a weighted sum over the layers of a frozen WavLM."""

CHALLENGE_SIZES = EcapaConfig()
CHALLENGE_SEED = 1986


@dataclass(frozen=True, kw_only=True)
class AttackerConfig:
    """Settings of network and training.

    The defaults are ASV_eval^anon of the VoicePrivacy Challenge 2024 (specification sheet of the
    evaluation, section 3.3, from the challenge's configuration of its ECAPA-TDNN).

    Attributes:
        front_end: ``"fbank"`` is the challenge's.
        sizes: Of ECAPA-TDNN; its ``bands`` are those of the front end, whatever stands there.
        epochs: Passes over the training segments.
        batch_size: Segments in a step.
        segment_seconds: Length of a training segment.
        min_level: Least mean of the absolute sample values for which a segment counts.
        validation_share: Share of the utterances that is held out.
        base_rate: Learning rate at the ends of a cycle.
        max_rate: Learning rate in the middle of a cycle.
        half_cycle: Steps from one to the other.
        weight_decay: Of Adam, added to the gradient.
        margin: Angle in radians that is added to the true speaker's.
        scale: Factor of the cosines.
        utterances_per_speaker: Most utterances of a speaker, for training with reduced data
            (VoicePAT, section 3.2.3 of its paper, takes 50 when fine-tuning); ``None`` for all.
        seed: Decides all draws of the training.
    """

    front_end: FrontEndName = "fbank"
    sizes: EcapaConfig = CHALLENGE_SIZES
    epochs: int = 10
    batch_size: int = 256
    segment_seconds: float = 3.0
    min_level: float = 5e-4
    validation_share: float = 0.1
    base_rate: float = 1e-8
    max_rate: float = 0.01
    half_cycle: int = 65_000
    weight_decay: float = 2e-6
    margin: float = 0.2
    scale: float = 30.0
    utterances_per_speaker: int | None = None
    seed: int = CHALLENGE_SEED

    def __post_init__(self) -> None:
        """Checks the settings."""
        if self.front_end not in get_args(FrontEndName):
            raise ConfigError(
                f"front_end: {self.front_end!r} is not one of {', '.join(get_args(FrontEndName))}."
            )
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name}: {value} given; it must be above 0.")
        if self.margin < 0:
            raise ConfigError(f"margin: {self.margin} given; an angle of 0 or more is due.")
        if self.sizes.width % self.sizes.scale:
            raise ConfigError(
                f"sizes: width: {self.sizes.width} given; a multiple of scale, {self.sizes.scale}, "
                "is due."
            )
        if self.batch_size < 2:
            raise ConfigError("batch_size: 1 given; batch normalisation needs at least 2.")
        if not 0 < self.validation_share < 1:
            raise ConfigError(
                f"validation_share: {self.validation_share} given; it must lie between 0 and 1."
            )

    @classmethod
    def small(cls) -> AttackerConfig:
        """Settings for a CPU and some minutes of training (ours).

        The network has an eighth of the channels, and the learning rate runs through a whole cycle.
        """
        return cls(
            sizes=EcapaConfig(width=64, pooled_width=192, attention=32, squeeze=32),
            epochs=30,
            batch_size=32,
            half_cycle=300,
        )

    @property
    def segment_samples(self) -> int:
        """Samples of a training segment at 16 kHz."""
        return round(self.segment_seconds * SAMPLE_RATE)

    @property
    def label(self) -> str:
        """Names the configuration, in the words that stand beside results."""
        plain = replace(self, seed=CHALLENGE_SEED, utterances_per_speaker=None)
        if plain == AttackerConfig():
            return "challenge configuration"
        kind = "small" if plain == AttackerConfig.small() else "changed"
        return f"{kind} configuration: {NOT_CHALLENGE}"


_POSITIVE = (
    "epochs",
    "batch_size",
    "segment_seconds",
    "base_rate",
    "max_rate",
    "half_cycle",
    "scale",
    "utterances_per_speaker",
)
"""Settings that must be above 0, where they are given."""
