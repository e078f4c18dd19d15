"""How far back the hypotheses of an utterance differ.

A search soon agrees on what was said a while ago. What the decoder keeps of tokens that all
hypotheses share is the same for all of them, and need not be moved when they change places. With
the published sizes and 300 tokens that would be 100 MB for every token of an utterance.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Ancestry:
    """Follows from which hypothesis each one has its tokens.

    Attributes:
        shared: First tokens that the hypotheses of every utterance have in common.
    """

    def __init__(self, batch: int, beam: int, device: torch.device) -> None:
        """Begins without tokens.

        Args:
            batch: Utterances, B.
            beam: Hypotheses of each, K.
            device: Where the search runs.
        """
        self.shared = 0
        self._own = torch.arange(beam, device=device)[:, None]
        # For each token after the shared ones, which hypothesis wrote it.
        self._writers = torch.empty(batch, beam, 0, dtype=torch.int64, device=device)

    def follow(self, parents: Tensor) -> None:
        """Goes on after each hypothesis has written one token.

        Args:
            parents: Which hypothesis each new one continues, int64 ``(B, K)``.
        """
        own = self._own.expand(*parents.shape, 1)
        writers = torch.cat((self._writers, own), dim=-1)
        self._writers = writers.gather(1, parents[..., None].expand_as(writers))

    def newly_shared(self) -> Tensor:
        """Counts on the device by how many tokens `shared` may grow, int64 of no dimension."""
        same = (self._writers == self._writers[:, :1]).flatten(0, 1).all(0)
        return same.cumprod(0).sum()

    def share(self, tokens: int) -> None:
        """Takes what `newly_shared` has told."""
        self.shared += tokens
        self._writers = self._writers[..., tokens:]

    def select(self, rows: Tensor) -> None:
        """Keeps the utterances ``rows``, int64 ``(B',)``."""
        self._writers = self._writers[rows]
