"""Loudness in LKFS, measured while audio passes, and the gain that follows from it.

ITU-R BS.1770-4 for one channel as `torchaudio.functional.loudness` computes it: with its two
filters, which differ a little from the recommendation's, with the clamp to full scale behind each
of them, and with its gates. Source: specification sheet of kNN-VC, section 5.1.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

SHELF_HZ = 1500.0
"""Middle of the high shelf that stands for the head."""

SHELF_DB = 4.0
SHELF_Q = 1 / math.sqrt(2)

HIGH_PASS_HZ = 38.0
HIGH_PASS_Q = 0.5

GATE_SECONDS = 0.4
"""Length of a block; recordings without a complete one have no loudness."""

GATE_STEP = 0.25
"""Distance of neighbouring blocks, as a share of their length."""

OFFSET = -0.691
"""LKFS of a mean square of 1."""

ABSOLUTE_GATE = -70.0
"""Blocks that are not above this, in LKFS, do not count."""

RELATIVE_GATE = -10.0
"""Nor do blocks that are not above the loudness of those that passed the first gate by this."""

_PIECE_SAMPLES = 65536
"""Samples that are filtered at once, which bounds the memory for long blocks."""


class LoudnessMeter:
    """Running loudness of one channel; 80 bytes a second are kept.

    Blocks may be of any sizes: they give the same loudness as the whole at once.
    """

    def __init__(self, sample_rate: int) -> None:
        """Starts at silence.

        Args:
            sample_rate: In Hz.
        """
        self._sections = k_weighting(sample_rate)
        self._state = np.zeros((len(self._sections), 2))
        self._gate = round(GATE_SECONDS * sample_rate)
        self._step = round(self._gate * GATE_STEP)
        self._squares = np.empty(0)
        self._energies = array("d")

    def add(self, block: Tensor) -> None:
        """Takes the next float32 samples ``(T,)``, full scale 1.0, on any device."""
        for piece in torch.split(block.detach().cpu(), _PIECE_SAMPLES):
            self._add(piece.contiguous().numpy())

    def _add(self, samples: npt.NDArray[np.float32]) -> None:
        if not len(samples):
            return
        # Imported here, since numba costs as much to import as all the rest but torch.
        from voiceanon.audio.biquads import filter_clamped

        weighted = filter_clamped(samples, self._sections, self._state)
        squares = np.concatenate([self._squares, weighted * weighted])
        if len(squares) >= self._gate:
            blocks = np.lib.stride_tricks.sliding_window_view(squares, self._gate)[:: self._step]
            self._energies.extend(blocks.mean(axis=1))
            squares = squares[len(blocks) * self._step :]
        self._squares = squares

    @property
    def lkfs(self) -> float | None:
        """Gated loudness so far; ``None`` where there is none.

        That is: less than one block, silence, nothing above the absolute gate, or samples that are
        not finite.
        """
        energies = np.array(self._energies)
        if not np.isfinite(energies).all():
            return None
        loud = energies[energies > _energy(ABSOLUTE_GATE)]
        if not len(loud):
            return None
        # At least the loudest passes: the threshold lies below the mean.
        louder = loud[loud > _energy(_loudness(loud.mean()) + RELATIVE_GATE)]
        return _loudness(louder.mean())


def k_weighting(sample_rate: int) -> npt.NDArray[np.float64]:
    """High shelf and high pass: b0, b1, b2, a1, a2 of each, with a0 = 1, ``(2, 5)``.

    Forms of R. Bristow-Johnson's audio EQ cookbook, the shelf's slope given by its Q.

    Args:
        sample_rate: In Hz.
    """
    angle = 2 * math.pi * SHELF_HZ / sample_rate
    root = 10 ** (SHELF_DB / 40)
    cosine = math.cos(angle)
    side = math.sqrt(root) * math.sin(angle) / SHELF_Q
    up, down = root + 1, root - 1
    shelf = (
        root * (up + down * cosine + side),
        -2 * root * (down + up * cosine),
        root * (up + down * cosine - side),
        up - down * cosine + side,
        2 * (down - up * cosine),
        up - down * cosine - side,
    )
    angle = 2 * math.pi * HIGH_PASS_HZ / sample_rate
    cosine = math.cos(angle)
    side = math.sin(angle) / (2 * HIGH_PASS_Q)
    half = (1 + cosine) / 2
    high_pass = (half, -2 * half, half, 1 + side, -2 * cosine, 1 - side)
    sections = np.array([shelf, high_pass])
    normalised: npt.NDArray[np.float64] = sections[:, [0, 1, 2, 4, 5]] / sections[:, 3:4]
    return normalised


def loudness_gain(lkfs: float | None, target: float) -> float:
    """Factor that brings a loudness to ``target``, both in LKFS; 1 where there is no loudness.

    There is no limiter: samples may pass full scale, and since the filters clamp, the loudness
    behind the gain may then miss the target by some hundredths.
    """
    return 1.0 if lkfs is None else float(10 ** ((target - lkfs) / 20))


def mean_loudness(levels: Sequence[float | None]) -> float | None:
    """Loudness of channels together: that of their mean energy; ``None`` if none has any.

    Equal channels are as loud as one of them.
    """
    energies = [_energy(level) for level in levels if level is not None]
    return _loudness(sum(energies) / len(energies)) if energies else None


def _loudness(energy: float) -> float:
    return OFFSET + 10 * math.log10(energy)


def _energy(lkfs: float) -> float:
    return float(10 ** ((lkfs - OFFSET) / 10))
