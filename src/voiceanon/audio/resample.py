"""The one resampler: soxr, quality HQ (linear phase), to an exact length.

soxr runs on the CPU for any pair of rates. Input at the model's rate never passes through it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

QUALITY = "HQ"


def resampled_length(samples: int, rate_in: int, rate_out: int) -> int:
    """Number of samples at ``rate_out`` that cover ``samples`` at ``rate_in`` (rounded up)."""
    return -(-samples * rate_out // rate_in)


class Resampling(Protocol):
    """Blocks of one signal at one rate in, blocks of it at another rate out."""

    def push(self, block: Tensor, last: bool) -> Tensor:
        """Takes the next float32 ``(T,)``, gives what is ready, float32 ``(T',)``."""


class Resampler:
    """Resamples one signal block by block, so that long audio needs little memory.

    The result is cut or padded with zeros to `resampled_length` of what was pushed, or to
    ``exact`` samples.
    """

    def __init__(self, rate_in: int, rate_out: int, exact: int | None = None) -> None:
        # Imported at first use, so that audio at the model's rate needs no resampler.
        import soxr

        self._rates = rate_in, rate_out
        self._exact = exact
        self._stream = soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32", quality=QUALITY)
        self._samples_in = 0
        self._samples_out = 0

    def push(self, block: Tensor, last: bool) -> Tensor:
        """Takes the next float32 ``(T,)``, gives what is ready, float32 ``(T',)`` on its device."""
        self._samples_in += len(block)
        ready = torch.from_numpy(
            np.asarray(self._stream.resample_chunk(block.cpu().numpy(), last=last))
        )
        if last:
            total = self._exact
            if total is None:
                total = resampled_length(self._samples_in, *self._rates)
            missing = total - self._samples_out - len(ready)
            ready = torch.nn.functional.pad(ready, (0, missing))
        self._samples_out += len(ready)
        return ready.to(block.device)


class SameRate:
    """Stands where a `Resampler` would, at equal rates: hands every block on untouched."""

    def push(self, block: Tensor, last: bool) -> Tensor:
        """Gives ``block`` back."""
        return block


def resampling(rate_in: int, rate_out: int, exact: int | None = None) -> Resampling:
    """A `Resampler`, or `SameRate` where there is nothing to do."""
    return SameRate() if rate_in == rate_out else Resampler(rate_in, rate_out, exact)


def resample(wav: Tensor, rate_in: int, rate_out: int, *, exact: int | None = None) -> Tensor:
    """Resamples a whole signal.

    Args:
        wav: float32 ``(T,)``.
        rate_in: Its rate in Hz.
        rate_out: The wanted rate in Hz.
        exact: Cut or pad to this many samples; ``None`` for `resampled_length`.

    Returns:
        float32 ``(T',)`` on the device of ``wav``.
    """
    return resampling(rate_in, rate_out, exact).push(wav, last=True)
