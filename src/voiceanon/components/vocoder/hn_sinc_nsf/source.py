"""The source: sines at the multiples of F0, and noise."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from voiceanon.components.f0.masked import exact
from voiceanon.components.vocoder.hn_sinc_nsf.config import RATE, HnSincNsfConfig

SINE_AMPLITUDE = 0.1
"""Of each sine in voiced frames."""

VOICED_NOISE = 0.003
"""Standard deviation of the noise that is added to each sine in voiced frames."""

UNVOICED_NOISE = SINE_AMPLITUDE / 3
"""The same in unvoiced frames, where there is no sine; and that of the noise branch."""


class Source(nn.Module):
    """Excitation signals of both branches."""

    def __init__(self, config: HnSincNsfConfig) -> None:
        super().__init__()
        self._hop = config.hop_samples
        self.l_linear = nn.Linear(config.harmonics, 1)

    def turns(self, f0: Tensor, phases: Tensor) -> tuple[Tensor, Tensor]:
        """Phases at the start of each frame, and how far each sample goes on.

        The published sum over samples is in float32, with one turn taken off after each wrap; here
        it is over frames, in float64 (float32 on devices without it), so that it does not drift.

        Args:
            f0: Hz ``(B, F)``; what lies behind an item's end does not matter.
            phases: See `noise.NsfNoise`.

        Returns:
            In turns, ``(B, F, harmonics)`` each. The first sample of a frame already stands one
            step behind its start.
        """
        multiples = torch.arange(1, phases.shape[1] + 1, dtype=torch.float32, device=f0.device)
        # Rounded to float32, as published: over seconds the rounding adds up to an audible phase.
        steps = exact((f0[..., None] * multiples / RATE) % 1)
        frame = (steps * self._hop) % 1
        starts = frame.cumsum(1) - frame
        offsets = exact(phases).clone()
        offsets[:, 0] = 0
        return (starts + offsets[:, None]) % 1, steps

    def sines(self, starts: Tensor, steps: Tensor, voiced: Tensor, noise: Tensor) -> Tensor:
        """Noisy sines of some frames.

        Args:
            starts: Result of `turns` for these frames, ``(B, N, harmonics)``.
            steps: The same.
            voiced: float32 ``(B, N)``, 1 or 0.
            noise: Of these frames' samples, ``(B, N * hop, harmonics)``.

        Returns:
            float32 ``(B, N * hop, harmonics)``.
        """
        time = torch.arange(1, self._hop + 1, dtype=steps.dtype, device=steps.device)
        turns = (starts[:, :, None] + steps[:, :, None] * time[:, None]).frac()
        voiced = voiced[:, :, None, None]
        waves = SINE_AMPLITUDE * voiced * torch.sin(2 * math.pi * turns.float())
        level = VOICED_NOISE * voiced + UNVOICED_NOISE * (1 - voiced)
        return (waves + level * noise.view_as(waves)).flatten(1, 2)

    def forward(
        self, starts: Tensor, steps: Tensor, f0: Tensor, sine_noise: Tensor, branch_noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Sources of the harmonic and of the noise branch for some frames.

        Args:
            starts: Result of `turns` for these frames, ``(B, N, harmonics)``.
            steps: The same.
            f0: Hz ``(B, N)``.
            sine_noise: See `noise.NsfNoise`; of these frames' samples, ``(B, N * hop, harmonics)``.
            branch_noise: The same, ``(B, N * hop, 1)``.

        Returns:
            float32 ``(B, N * hop)`` each.
        """
        sines = self.sines(starts, steps, (f0 > 0).float(), sine_noise)
        harmonic = torch.tanh(self.l_linear(sines)[..., 0])
        return harmonic, UNVOICED_NOISE * branch_noise[..., 0]
