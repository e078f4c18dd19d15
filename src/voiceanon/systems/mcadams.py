"""McAdams coefficient: poles of the speech spectrum turned by a power of their angle (B2).

Method: Patino et al. 2021, "Speaker anonymisation using the McAdams coefficient",
arXiv:2011.01130. Numbers: repository Voice-Privacy-Challenge/Voice-Privacy-Challenge-2024, commit
400de3a8, `anonymization/modules/mcadams` and `configs/anon_mcadams.yaml`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.anonymizer import Anonymizer
from voiceanon.audio.checks import check_rate
from voiceanon.audio.level import LevelMeter, peak_gain
from voiceanon.batching import length_mask
from voiceanon.components.lpc.framing import analysis_window, overlap_add, split
from voiceanon.components.lpc.poles import warp_poles
from voiceanon.errors import ConfigError
from voiceanon.types import SystemInfo, Target

FLOAT32_EPS = 2.0**-23
"""Added to the signal and again to each analysed frame, so that silence stays defined."""

FULL_SCALE_PEAK = 32766 / 32768
"""Peak of the published level step."""

LEVEL_FLOOR = 1e-3
"""Ours: below -60 dBFS the level step leaves a recording alone, lest silence become noise."""


@dataclass(frozen=True)
class McAdamsConfig:
    """Settings; the defaults are those of the VoicePrivacy Challenge 2024.

    Attributes:
        sample_rate: Rate at which the method runs, Hz.
        alpha_min: Least McAdams coefficient that is drawn (configs/anon_mcadams.yaml).
        alpha_max: Largest McAdams coefficient that is drawn.
        order: Coefficients of the linear prediction.
        window_seconds: Length of a frame, rounded down to samples.
        hop_seconds: Distance of frames, rounded down to samples.
        edges: ``"padded"`` (ours) treats the first and last 20 ms like the rest. ``"reference"``
            uses complete frames only, as published: the first and last 10 ms fade, and up to one
            hop at the end is silent.
    """

    sample_rate: int = 16_000
    alpha_min: float = 0.5
    alpha_max: float = 0.9
    order: int = 20
    window_seconds: float = 0.020
    hop_seconds: float = 0.010
    edges: Literal["padded", "reference"] = "padded"

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            AudioError: The rate is impossible.
            ConfigError: Another setting is.
        """
        check_rate(self.sample_rate)
        if not 0 < self.alpha_min <= self.alpha_max or not math.isfinite(self.alpha_max):
            raise ConfigError(
                f"alpha_min, alpha_max: {self.alpha_min} and {self.alpha_max} are no range of "
                "positive numbers."
            )
        if not 0 < self.hop <= self.window:
            raise ConfigError(
                f"hop_seconds: {self.hop_seconds} s at {self.sample_rate} Hz is {self.hop} "
                f"samples; it must be at least one and no more than the window ({self.window})."
            )
        if not 0 < self.order < self.window:
            raise ConfigError(
                f"order: {self.order} is not between 1 and the window of {self.window} samples."
            )
        if self.edges not in ("padded", "reference"):
            raise ConfigError(f"edges: {self.edges!r} is not 'padded' or 'reference'.")

    @property
    def window(self) -> int:
        """Samples of a frame."""
        return int(self.window_seconds * self.sample_rate)

    @property
    def hop(self) -> int:
        """Samples between frames."""
        return int(self.hop_seconds * self.sample_rate)


class McAdams(Anonymizer):
    """The McAdams system; its target is ``{"alpha": float}``. It computes in float64."""

    Config = McAdamsConfig
    config: McAdamsConfig

    def __init__(self, config: McAdamsConfig, info: SystemInfo) -> None:
        """Builds the system; see `Anonymizer`."""
        super().__init__(config, replace(info, sample_rate=config.sample_rate))
        window = analysis_window(config.window, config.hop)
        self.register_buffer("window", window, persistent=False)

    def draw_target(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws ``alpha`` uniformly from the configured range, with one number."""
        draw = torch.rand((), generator=generator, dtype=torch.float64).item()
        low, high = self.config.alpha_min, self.config.alpha_max
        return {"alpha": low + (high - low) * draw}

    def parse_target(self, target: object) -> Target:
        """Accepts ``{"alpha": positive number}``."""
        alpha: Any = target.get("alpha") if isinstance(target, Mapping) else None
        number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
        if not number or not 0 < alpha < math.inf or len(target) != 1:  # type: ignore[arg-type]
            raise ConfigError(
                f"target: {self.info.id} takes {{'alpha': a}} with a positive number a (published: "
                f"0.5 to 0.9), got {target!r}."
            )
        return {"alpha": float(alpha)}

    def published_gain(self, source: LevelMeter, results: Sequence[LevelMeter]) -> float:
        """Brings the peak of the recording to full scale, as the published code writes files."""
        if source.peak < LEVEL_FLOOR:
            return 1.0
        return peak_gain(max((result.peak for result in results), default=0.0), FULL_SCALE_PEAK)

    @property
    def hop_samples(self) -> int:
        """The hop, so that frames of chunks are frames of the whole."""
        return self.config.hop

    def convert(
        self,
        batch: Tensor,
        lengths: Tensor,
        targets: Sequence[Target],
        generators: Sequence[torch.Generator],
    ) -> tuple[Tensor, Tensor]:
        """Converts a padded batch; see `Anonymizer.convert`. Draws nothing."""
        if batch.device.type == "mps":
            raise ConfigError(
                f"device: {self.info.id} computes in float64, which Apple GPUs lack; use 'cpu'."
            )
        window, hop = self.config.window, self.config.hop
        size = batch.shape[1]
        front = window - hop if self.config.edges == "padded" else 0
        counts = self._frame_counts(lengths)
        most = int(counts.max())
        total = (most - 1) * hop + window
        mask = length_mask(lengths, size)
        padded = F.pad(batch * mask, (front, max(0, total - front - size)))[:, :total]
        used = length_mask(counts, most)
        frames = split(padded + FLOAT32_EPS, window, hop)[used] * self.get_buffer("window")
        alphas = torch.tensor(
            [target["alpha"] for target in targets], dtype=torch.float64, device=batch.device
        )
        moved = warp_poles(frames, alphas.repeat_interleave(counts), self.config.order, FLOAT32_EPS)
        warped = frames.new_zeros(len(batch), most, window)
        warped[used] = moved.mul_(self.get_buffer("window"))
        result = overlap_add(warped, hop)[:, front : front + size].to(torch.float32)
        return F.pad(result, (0, size - result.shape[1])) * mask, lengths

    def _frame_counts(self, lengths: Tensor) -> Tensor:
        window, hop = self.config.window, self.config.hop
        if self.config.edges == "padded":
            return (window - hop + lengths - 1) // hop + 1
        return 1 + (lengths - window).clamp_min(0) // hop
