"""What a beam search has decided step by step, and the texts that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One text.

    Attributes:
        ids: Numbers of its tokens, with start and end.
        score: Weighed logarithm of its probability.
        ctc: Logarithm by CTC alone that this is said.
    """

    ids: tuple[int, ...]
    score: float
    ctc: float


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What was found for one utterance.

    Attributes:
        hypotheses: The best texts, best first.
        finished: Texts that came to an end during the search.
    """

    hypotheses: tuple[Hypothesis, ...]
    finished: int


@dataclass(frozen=True)
class Choice:
    """The best continuations of each utterance, best first.

    Attributes:
        parents: Hypothesis that each continues, int64 ``(B, K)``.
        tokens: Its new token, int64 ``(B, K)``.
        scores: float64 ``(B, K)``, minus infinity where there are fewer.
        ctc: Logarithm by CTC that a text begins with the tokens, float64 ``(B, K)``.
    """

    parents: Tensor
    tokens: Tensor
    scores: Tensor
    ctc: Tensor

    def select(self, rows: Tensor) -> Choice:
        """Keeps the utterances ``rows``."""
        return Choice(self.parents[rows], self.tokens[rows], self.scores[rows], self.ctc[rows])


class History:
    """The choices of all steps, on the device until the search is over."""

    def __init__(self, steps: int, batch: int, beam: int, end: int, device: torch.device) -> None:
        """Makes room.

        Args:
            steps: Most tokens of a text.
            batch: Utterances, B.
            beam: Hypotheses of each, K.
            end: Number of the token that begins and ends texts.
            device: Where the search runs.
        """
        self.end = end
        size = (steps, batch, beam)
        self._parents = torch.zeros(size, dtype=torch.int64, device=device)
        self._tokens = torch.zeros_like(self._parents)
        self._finished = torch.zeros(size, dtype=torch.bool, device=device)
        self._scores = torch.zeros(2, *size, dtype=torch.float64, device=device)

    def add(self, step: int, rows: Tensor, choice: Choice, finished: Tensor) -> None:
        """Takes what has been decided in a step.

        Args:
            step: From 0.
            rows: Utterances that are searched still, int64 ``(B',)``.
            choice: Their continuations.
            finished: Which of these end here, bool ``(B', K)``.
        """
        self._parents[step, rows] = choice.parents
        self._tokens[step, rows] = choice.tokens
        self._finished[step, rows] = finished
        self._scores[0, step, rows] = choice.scores
        self._scores[1, step, rows] = choice.ctc

    def results(self, limits: Sequence[int], best: int) -> list[SearchResult]:
        """Puts the texts together.

        Args:
            limits: Most tokens of each utterance's texts.
            best: How many texts of each to give.
        """
        parents, tokens, finished, (scores, ctc) = (
            table.cpu().numpy()
            for table in (self._parents, self._tokens, self._finished, self._scores)
        )
        results = []
        for row, limit in enumerate(limits):
            steps, beams = finished[:, row].nonzero()
            # Equal scores stay in the order in which they came up.
            order = np.argsort(-scores[steps, row, beams], kind="stable")[:best]
            found = []
            for step, beam in zip(steps[order].tolist(), beams[order].tolist(), strict=True):
                ids = self._walk(parents[:, row], tokens[:, row], step, beam)
                # At the limit an end is put behind every text, even behind an end.
                ids += [self.end] * (step + 1 == limit)
                score, alone = float(scores[step, row, beam]), float(ctc[step, row, beam])
                found.append(Hypothesis(ids=tuple(ids), score=score, ctc=alone))
            results.append(SearchResult(hypotheses=tuple(found), finished=len(steps)))
        return results

    def _walk(
        self, parents: NDArray[np.int64], tokens: NDArray[np.int64], step: int, beam: int
    ) -> list[int]:
        """Reads a text backwards from its last token; tables are ``(steps, K)``."""
        ids = []
        while step >= 0:
            ids.append(int(tokens[step, beam]))
            beam = int(parents[step, beam])
            step -= 1
        return [self.end, *reversed(ids)]
