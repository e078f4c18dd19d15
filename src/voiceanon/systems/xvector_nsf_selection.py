"""Who is averaged: the pool on a device, compared with sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from voiceanon.components.f0.masked import exact
from voiceanon.components.selection.pool_average import allowed_speakers, candidates, cosine_scores
from voiceanon.components.speaker.plda import Plda, PldaPool
from voiceanon.errors import ConversionError
from voiceanon.hub.pool import Pool
from voiceanon.systems.xvector_nsf_config import XVectorNSFConfig

RANDOM_SPREAD = 10.0
"""Largest variance between speakers of a PLDA of noise; the published ones begin at 24."""


class Backend(nn.Module):
    """What compares x-vectors, as buffers; the names are those of `Plda`."""

    mean: Tensor
    transform: Tensor
    centre: Tensor
    matrix: Tensor
    spread: Tensor

    def __init__(self, width: int, inner: int) -> None:
        """Makes room for the entries.

        Args:
            width: Values of an x-vector.
            inner: Values behind the projection.
        """
        super().__init__()
        for name, shape in (
            ("mean", (width,)),
            ("transform", (inner, width + 1)),
            ("centre", (inner,)),
            ("matrix", (inner, inner)),
            ("spread", (inner,)),
        ):
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    def plda(self) -> Plda:
        """The PLDA of these entries."""
        return Plda(self.mean, self.transform, self.centre, self.matrix, self.spread)

    def fill_random(self, generator: torch.Generator) -> None:
        """Fills it with noise that keeps the size of vectors."""
        inner, width = self.transform.shape[0], self.mean.shape[0]
        for buffer, scale in ((self.transform, width), (self.matrix, inner)):
            noise = torch.randn(buffer.shape, generator=generator, dtype=torch.float64)
            buffer.copy_(noise / scale**0.5)
        self.spread.copy_(torch.linspace(RANDOM_SPREAD, 0.1, inner, dtype=torch.float64))


@dataclass(frozen=True, eq=False)
class PreparedPool:
    """The pool on a device.

    Attributes:
        names: Of the speakers, sorted.
        sexes: ``"f"``, ``"m"`` or ``""`` of each of them.
        vectors: What sources are compared with, float32 ``(P, S)``.
        targets: What is averaged, float64 ``(P, D)``.
        plda: The pool's side of PLDA scores; ``None`` where cosines are compared.
    """

    names: tuple[str, ...]
    sexes: tuple[str, ...]
    vectors: Tensor
    targets: Tensor
    plda: PldaPool | None

    @classmethod
    def prepare(
        cls,
        pool: Pool,
        width: int,
        target_width: int,
        backend: Backend | None,
        device: torch.device,
    ) -> PreparedPool:
        """Moves a pool to a device.

        Args:
            pool: One row per speaker.
            width: Values of an x-vector, which the row begins with.
            target_width: Values of what is averaged, which it ends with.
            backend: Compares vectors; ``None`` for cosines.
            device: Where to.
        """
        names = pool.names
        rows = torch.cat([pool.features[name] for name in names]).to(device)
        vectors = rows[:, :width].float()
        plda = None if backend is None else backend.plda().prepare(vectors)
        return cls(
            names,
            tuple(pool.sex(name) for name in names),
            vectors,
            exact(rows[:, -target_width:].float()),
            plda,
        )

    def ranked(
        self, sources: Tensor, sexes: Sequence[str], config: XVectorNSFConfig
    ) -> list[list[str]]:
        """Ranks the candidates of each source.

        Args:
            sources: x-vectors ``(B, S)``.
            sexes: ``"f"``, ``"m"`` or ``""`` (any) that the candidates of each source have.
            config: How many, and from which end.

        Returns:
            Names of the candidates of each source, the most extreme first.

        Raises:
            ConfigError: The pool has too few speakers of a sex.
            ConversionError: A score is not finite, so that nothing tells who is far.
        """
        if self.plda is None:
            scores = cosine_scores(sources, self.vectors)
        else:
            scores = self.plda.scores(sources)
        # Sorting would take it without a word.
        if not bool(scores.isfinite().all()):
            raise ConversionError(
                "x-vectors: their comparison with the pool gave values that are not finite, so "
                "that no speakers can be chosen. Weights or pool are damaged; take the published "
                "files."
            )
        allowed = allowed_speakers(self.sexes, sexes, sources.device)
        # The host has to know: a voice is a list of names.
        places = candidates(
            scores, allowed, count=config.candidates, proximity=config.proximity
        ).tolist()
        return [[self.names[place] for place in row] for row in places]

    def averages(self, speakers: Sequence[Sequence[str]]) -> Tensor:
        """Mean vectors of lists of speakers, added up in their order, float32 ``(B, D)``."""
        index = {name: place for place, name in enumerate(self.names)}
        sums = [
            self.targets[[index[name] for name in names]].cumsum(0)[-1] / len(names)
            for names in speakers
        ]
        return torch.stack(sums).float()
