"""Probability, by CTC, that a text begins with given tokens.

For every hypothesis the probabilities that its tokens have been said by the end of each frame are
kept, apart for frames that end with a blank and with the last token. The published recursions over
frames are linear, so that their sums have a closed form:

- how likely each token comes next is one product of matrices, for all tokens at once;
- the tables of a longer hypothesis are two cumulative sums, and only those are computed that the
  search goes on with.

Sums are in the logarithmic domain where they can get small, in float64: differences of cumulated
logarithms, thousands for long recordings, would lose their decimals in float32.

Sources: papers "Hybrid CTC/Attention Architecture for End-to-End Speech Recognition"
(10.1109/JSTSP.2017.2763455, algorithm 2) and "Vectorized Beam Search for CTC-Attention-Based Speech
Recognition" (10.21437/Interspeech.2019-2860); specification sheet of the family, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.asr.branchformer.config import BLANK

LOG_ZERO = -1e10
"""Stands for the logarithm of 0 (specification sheet, section 6)."""


@dataclass(frozen=True)
class PrefixState:
    """What has to be known of B utterances with K hypotheses of n tokens each.

    Before the frame of index n - 1 nothing of that length can have been said: tables begin there,
    and have N = T + 1 - n frames. Without tokens that is one in front of the first frame.

    Attributes:
        labelled: Logarithm of the probability that the tokens have been said by the end of a frame
            that the last one ends, float64 ``(B, K, N)``.
        blank: The same for frames that a blank ends.
        total: Logarithm of the probability that a text begins with the tokens, float64 ``(B, K)``.
        last: Last token, int64 ``(B, K)``; `BLANK` before the first.
        count: n.
    """

    labelled: Tensor
    blank: Tensor
    total: Tensor
    last: Tensor
    count: int

    def select(self, rows: Tensor) -> PrefixState:
        """Keeps the utterances ``rows``, int64 ``(B',)``."""
        return replace(
            self,
            labelled=self.labelled[rows],
            blank=self.blank[rows],
            total=self.total[rows],
            last=self.last[rows],
        )


@dataclass(frozen=True)
class CtcPrefixScorer:
    """CTC's probabilities of B utterances, prepared for the sums.

    Attributes:
        probability: Of each token in each frame, float64 ``(B, V, T)``, 0 in the padding.
        cumulated: Sums of their logarithms before each frame and behind the last, float64
            ``(B, V, T + 1)``.
        counts: Frames of each utterance, int64 ``(B,)``, at least 1.
    """

    probability: Tensor
    cumulated: Tensor
    counts: Tensor

    @classmethod
    def prepare(cls, log_probs: Tensor, counts: Tensor) -> CtcPrefixScorer:
        """Takes what the CTC output gives.

        Args:
            log_probs: Natural logarithms of the tokens' probabilities, ``(B, T, V)``. Padded frames
                do not matter.
            counts: Frames of each utterance, int64 ``(B,)``, at least 1.
        """
        padded = torch.arange(log_probs.shape[1], device=log_probs.device) >= counts[:, None]
        log_probs = log_probs.double().transpose(1, 2).masked_fill(padded[:, None], 0.0)
        probability = log_probs.exp().masked_fill(padded[:, None], 0.0)
        return cls(probability, F.pad(log_probs.cumsum(-1), (1, 0)), counts)

    def start(self, hypotheses: int) -> PrefixState:
        """Gives the state of ``hypotheses`` empty texts for each utterance."""
        blank = self.cumulated[:, BLANK, None].expand(-1, hypotheses, -1)
        return PrefixState(
            labelled=torch.full_like(blank, LOG_ZERO),
            blank=blank,
            total=torch.zeros_like(blank[..., 0]),
            last=torch.full_like(blank[..., 0], BLANK, dtype=torch.int64),
            count=0,
        )

    def totals(self, state: PrefixState) -> Tensor:
        """Tells how likely a text begins with the tokens and one more.

        Args:
            state: Of the tokens so far, fewer than T.

        Returns:
            Natural logarithms, float64 ``(B, K, V)``, not below `LOG_ZERO`: for the last token of
            the vocabulary, that the text ends here; for the blank `LOG_ZERO`.
        """
        either = torch.logaddexp(state.labelled, state.blank)
        probability = self.probability[..., state.count :]
        before = either[..., :-1]
        most = before.amax(-1, keepdim=True)
        totals = most + ((before - most).exp() @ probability.transpose(1, 2)).log()
        # The same token again needs a blank between.
        before = state.blank[..., :-1]
        most = before.amax(-1, keepdim=True)
        repeated = probability.gather(1, _rows(state.last, probability))
        again = most + ((before - most).exp() * repeated).sum(-1, keepdim=True).log()
        totals.scatter_(2, state.last[..., None], again)
        at_end = (self.counts - state.count)[:, None, None].expand(-1, either.shape[1], 1)
        totals[..., -1:] = either.gather(2, at_end)
        totals[..., BLANK] = LOG_ZERO
        return totals.clamp_min_(LOG_ZERO)

    def extend(
        self, state: PrefixState, parents: Tensor, tokens: Tensor, totals: Tensor
    ) -> PrefixState:
        """Writes one more token.

        Args:
            state: Of the tokens so far, fewer than T.
            parents: Which hypothesis of its utterance each new one continues, int64 ``(B, K')``.
            tokens: int64 ``(B, K')``. Where it is the end or the blank, the result has no meaning.
            totals: What `totals` told of these tokens, float64 ``(B, K')``.

        Returns:
            The state of the new hypotheses.
        """
        labelled, blank = (
            table.gather(1, _rows(parents, table))[..., :-1]
            for table in (state.labelled, state.blank)
        )
        again = (tokens == state.last.gather(1, parents))[..., None]
        before = torch.where(again, blank, torch.logaddexp(labelled, blank))
        cumulated = self.cumulated[..., state.count :]
        labelled = _recurrence(before, cumulated.gather(1, _rows(tokens, cumulated)))
        before = F.pad(labelled[..., :-1], (1, 0), value=LOG_ZERO)
        blank = _recurrence(before, cumulated[:, BLANK, None])
        return PrefixState(labelled, blank, totals, tokens, state.count + 1)

    def select(self, rows: Tensor) -> CtcPrefixScorer:
        """Keeps the utterances ``rows``, int64 ``(B',)``."""
        return replace(
            self,
            probability=self.probability[rows],
            cumulated=self.cumulated[rows],
            counts=self.counts[rows],
        )


def _rows(index: Tensor, table: Tensor) -> Tensor:
    """Makes an index ``(B, K)`` fit to gather rows of a table ``(B, R, N)``."""
    return index[..., None].expand(-1, -1, table.shape[-1])


def _recurrence(before: Tensor, cumulated: Tensor) -> Tensor:
    """Sums over the frame in which a token begins, which lasts until the frame in question.

    Solves ``x[t] = log(exp(x[t - 1]) + exp(before[t])) + log_prob[t]``.

    Args:
        before: Of what held one frame earlier, float64 ``(B, K, N)``.
        cumulated: Sums of ``log_prob`` before each frame and behind the last, ``(B, 1 or K,
            N + 1)``.

    Returns:
        x, ``(B, K, N)``.
    """
    return cumulated[..., 1:] + (before - cumulated[..., :-1]).logcumsumexp(-1)
