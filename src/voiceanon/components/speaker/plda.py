"""Scores of Kaldi's PLDA between x-vectors: how likely two are of one speaker.

Source: specification sheet of B1, section 9, steps 1 to 3; Kaldi, `ivector/plda.cc` and the program
`ivector-plda-scoring`, commit 8c451e2; Ioffe, "Probabilistic linear discriminant analysis",
ECCV 2006.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from voiceanon.components.f0.masked import exact
from voiceanon.errors import WeightsError

PRINTED_DIGITS = 7
"""Significant digits of the scores as Kaldi prints them, for other programs to read. Section 9 says
6, but its stored scores, such as 24.37183, have 7."""


@dataclass(frozen=True, eq=False)
class Plda:
    """A PLDA and what comes in front of it, as the published files hold them.

    Attributes:
        mean: Subtracted from x-vectors (``mean.vec``), ``(D,)``.
        transform: Linear discriminants, the last column an offset (``transform.mat``),
            ``(d, D + 1)``.
        centre: Of the PLDA (``plda``, like what follows), ``(d,)``.
        matrix: It makes the covariance within speakers 1 and that between them diagonal,
            ``(d, d)``.
        spread: That diagonal, ``(d,)``.

    Raises:
        WeightsError: The sizes do not fit together.
    """

    mean: Tensor
    transform: Tensor
    centre: Tensor
    matrix: Tensor
    spread: Tensor

    def __post_init__(self) -> None:
        """Checks the sizes."""
        size, width = len(self.spread), len(self.mean)
        found = [tuple(x.shape) for x in (self.transform, self.centre, self.matrix)]
        due = [(size, width + 1), (size,), (size, size)]
        if found != due:
            raise WeightsError(
                f"PLDA: transform, centre and matrix have the shapes {found}; with vectors of "
                f"{width} values and a spread of {size} they must be {due}. Take all of them from "
                "the folder of one x-vector network."
            )

    def project(self, vectors: Tensor) -> Tensor:
        """Turns x-vectors into what the PLDA compares.

        Lengths are normalised twice, in front of the PLDA and, as for one vector per speaker, by
        the covariance that it expects.

        Args:
            vectors: ``(N, D)``, not normalised.

        Returns:
            float64 ``(N, d)``.
        """
        size = len(self.spread)
        transform, spread = exact(self.transform), exact(self.spread)
        x = (exact(vectors) - exact(self.mean)) @ transform[:, :-1].T + transform[:, -1]
        x = x * (math.sqrt(size) / torch.linalg.vector_norm(x, dim=1, keepdim=True))
        x = (x - exact(self.centre)) @ exact(self.matrix).T
        projected: Tensor = x * (size / (x.square() / (spread + 1)).sum(1, keepdim=True)).sqrt()
        return projected

    def prepare(self, pool: Tensor) -> PldaPool:
        """Computes what does not depend on the source.

        Args:
            pool: x-vectors of the pool's speakers, ``(P, D)``.
        """
        x, spread = self.project(pool), exact(self.spread)
        own = spread / (spread + 1)
        # The variance of a vector whose speaker is known from another one, and of any vector.
        known, any_one = 1 + own, 1 + spread
        determinants = (any_one.log() - known.log()).sum()
        offsets = (determinants + (x.square() * (1 / any_one - 1 / known)).sum(1)) / 2
        return PldaPool(self, x, offsets, own, own / known)


@dataclass(frozen=True, eq=False)
class PldaPool:
    """The pool's side of the scores; made by `Plda.prepare`.

    Attributes:
        plda: What made it.
        vectors: Result of `Plda.project`, float64 ``(P, d)``.
        offsets: What each speaker adds to any score, float64 ``(P,)``.
        shrinkage: Share of a vector that is kept as the mean of its speaker, float64 ``(d,)``.
        weights: Of the products of two vectors, float64 ``(d,)``.
    """

    plda: Plda
    vectors: Tensor
    offsets: Tensor
    shrinkage: Tensor
    weights: Tensor

    def scores(self, source: Tensor, *, digits: int | None = PRINTED_DIGITS) -> Tensor:
        """Log likelihood ratios of one speaker to two.

        Args:
            source: x-vectors ``(S, D)``.
            digits: Significant digits to round to, as published, which decides which scores are
                equal, and hides how sums were rounded; ``None`` for no rounding.

        Returns:
            float64 ``(S, P)``.
        """
        x = self.plda.project(source)
        # Of (pool - mean)^2 / variance, mean = shrinkage * source, the terms with the source.
        own = (x.square() * (self.weights * self.shrinkage)).sum(1, keepdim=True) / 2
        scores: Tensor = (x * self.weights) @ self.vectors.T + self.offsets - own
        return scores if digits is None else _rounded(scores, digits)


def _rounded(x: Tensor, digits: int) -> Tensor:
    """Rounds to significant digits."""
    magnitude = x.abs().log10().floor().masked_fill(x == 0, 0)
    # Powers of ten are exact only with positive exponents.
    places = digits - 1 - magnitude
    up, down = (10.0 ** exact(p.clamp_min(0)) for p in (places, -places))
    return (x * up / down).round() * down / up
