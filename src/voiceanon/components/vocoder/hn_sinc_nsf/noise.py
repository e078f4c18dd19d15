"""The random numbers of the generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class NsfNoise:
    """Random numbers for a batch; what lies behind an item's end does not matter.

    They take 36 bytes per sample: 0.6 MB per second of audio.

    Attributes:
        phases: Phases at the start, in turns, float32 ``(B, 8)``, uniform from 0 to 1. That of the
            fundamental, the first, is drawn and not used.
        sine: Noise of each sine, float32 ``(B, L, 8)``, standard normal.
        branch: Signal of the noise branch, float32 ``(B, L, 1)``, standard normal.
    """

    phases: Tensor
    sine: Tensor
    branch: Tensor


def draw_noise(
    frames: Tensor,
    generators: Sequence[torch.Generator],
    *,
    hop_samples: int = 160,
    harmonics: int = 8,
) -> NsfNoise:
    """Draws for each item from its own generator: an item of a batch gets what it alone would.

    The order of an item's draws is that of the published program for a single recording: phases,
    noise of the sines, noise branch (specification sheet of B1, section 11).

    Args:
        frames: int64 ``(B,)``.
        generators: One for each item.
        hop_samples: Samples per frame.
        harmonics: Sines of the source.

    Returns:
        Tensors on the device of ``frames``, for the samples of the longest item; 0 behind others.
    """
    # Draws are as long as the item, which the host has to know.
    counts = [count * hop_samples for count in frames.tolist()]
    size, device = max(counts), generators[0].device
    noise = NsfNoise(
        *(
            torch.zeros(len(counts), *shape, dtype=torch.float32, device=device)
            for shape in ((harmonics,), (size, harmonics), (size, 1))
        )
    )
    rows = zip(noise.phases, noise.sine, noise.branch, counts, generators, strict=True)
    for phases, sine, branch, count, generator in rows:
        phases.uniform_(generator=generator)
        sine[:count].normal_(generator=generator)
        branch[:count].normal_(generator=generator)
    to = frames.device
    return NsfNoise(noise.phases.to(to), noise.sine.to(to), noise.branch.to(to))
