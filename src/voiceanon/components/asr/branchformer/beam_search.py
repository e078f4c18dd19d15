"""Search for the most likely text by decoder and CTC together, for a batch of utterances.

Utterances and their hypotheses are one batch; what is decided of one does not depend on the others.
Those that are finished leave the batch. The host waits for the device once per token, to learn
which are.

Sources: `BatchBeamSearch`, `Speech2Text` and `end_detect` of `espnet` 202310 (order of decisions,
constants); specification sheet of the family, section 6 ("Beam search").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from voiceanon.components.asr.branchformer.ancestry import Ancestry
from voiceanon.components.asr.branchformer.config import BLANK, is_whole
from voiceanon.components.asr.branchformer.ctc_prefix import CtcPrefixScorer
from voiceanon.components.asr.branchformer.decoder import Decoder
from voiceanon.components.asr.branchformer.hypotheses import Choice, History, SearchResult
from voiceanon.errors import ConfigError

CANDIDATES_PER_HYPOTHESIS = 1.5
"""CTC scores so many tokens of each hypothesis, times the beam (`pre_beam_ratio`)."""

HOPELESS = 10.0
"""Texts are ended when those of late lengths are worse than the best by so much (`end_detect`)."""

LATE_LENGTHS = 3
"""So many lengths must have been that bad (`end_detect`)."""

_LATEST = 2
"""The longest of these lengths was finished so many steps ago: `end_detect` compares lengths that
count start and end with the number of a step."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How the search weighs, and how many texts it follows; the defaults are the published ones.

    Attributes:
        beam: Hypotheses of an utterance, K, at least 1.
        ctc_weight: Part of CTC's logarithms in a score, between 0 and 1; the rest is the decoder's.
    """

    beam: int = 15
    ctc_weight: float = 0.2

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ConfigError: One of them is out of range.
        """
        if not is_whole(self.beam) or self.beam < 1:
            raise ConfigError(
                f"Recogniser: the beam is {self.beam!r}; it must be a whole number of at least 1."
            )
        weight = self.ctc_weight
        if not isinstance(weight, float | int) or not 0.0 < weight < 1.0:
            raise ConfigError(
                f"Recogniser: the weight of CTC is {weight!r}; it must lie between 0 and 1."
            )


@torch.no_grad()
def beam_search(
    decoder: Decoder,
    encoded: Tensor,
    log_probs: Tensor,
    counts: Tensor,
    options: SearchOptions,
    *,
    best: int = 1,
) -> list[SearchResult]:
    """Searches, under autocast too in float32.

    Args:
        decoder: The attention's side.
        encoded: The encoder's frames, float32 ``(B, T, D)``. Padded ones do not matter.
        log_probs: Natural logarithms by the CTC output, ``(B, T, V)``; the first token is the
            blank, the last one begins and ends texts. Padded frames do not matter.
        counts: Frames of each utterance, int64 ``(B,)``, at least 1. A text has at most as many
            tokens.
        options: Beam and weight.
        best: How many texts of each utterance to give.

    Returns:
        What was found for each utterance.
    """
    with torch.autocast(encoded.device.type, enabled=False):
        history = _run(decoder, encoded.float(), log_probs, counts, options)
    return history.results(counts.tolist(), best)


def _run(
    decoder: Decoder, encoded: Tensor, ctc: Tensor, counts: Tensor, options: SearchOptions
) -> History:
    """Writes token after token until all utterances are finished."""
    (batch, frames, vocabulary), device = ctc.shape, ctc.device
    end = vocabulary - 1
    history = History(frames, batch, options.beam, end, device)
    heard = torch.arange(frames, device=device) < counts[:, None]
    written = decoder.start(encoded, heard, options.beam)
    scorer = CtcPrefixScorer.prepare(ctc, counts)
    said = scorer.start(options.beam)
    tokens = torch.full((batch, options.beam), end, device=device)
    # All begin with one hypothesis; the others do not exist yet.
    scores = torch.full(tokens.shape, -math.inf, dtype=torch.float64, device=device)
    scores[:, 0] = 0.0
    every = rows = torch.arange(batch, device=device)
    ending = Ending(batch, device)
    ancestry = Ancestry(batch, options.beam, device)
    for step in range(frames):
        log_probs, written = decoder.step(tokens, written)
        choice = choose(log_probs, scorer.totals(said), said.total, scores, options)
        at_limit = (scorer.counts == step + 1)[:, None]
        exists = choice.scores > -math.inf
        finished = exists & ((choice.tokens == end) | at_limit)
        history.add(step, rows, choice, finished)
        running = ~ending.update(choice.scores, finished) & (exists & ~finished).any(1)
        # The one point at which the host waits.
        shared, *goes_on = torch.cat((ancestry.newly_shared()[None], running)).tolist()
        if not any(goes_on):
            break
        scores = choice.scores.masked_fill(finished, -math.inf)
        ancestry.share(shared)
        kept = every[: len(rows)]
        if not all(goes_on):
            kept = torch.tensor([row for row, on in enumerate(goes_on) if on], device=device)
            rows, scores, choice = rows[kept], scores[kept], choice.select(kept)
            scorer, said = scorer.select(kept), said.select(kept)
            ending.select(kept)
            ancestry.select(kept)
        tokens = choice.tokens
        said = scorer.extend(said, choice.parents, tokens, choice.ctc)
        written = written.select(kept, choice.parents, ancestry.shared)
        ancestry.follow(choice.parents)
    return history


def choose(
    log_probs: Tensor, totals: Tensor, before: Tensor, scores: Tensor, options: SearchOptions
) -> Choice:
    """Finds the best continuations.

    Args:
        log_probs: The decoder's logarithms of the next token, float32 ``(B, K, V)``.
        totals: `CtcPrefixScorer.totals`, ``(B, K, V)``.
        before: The hypotheses' own totals, ``(B, K)``.
        scores: Their scores, ``(B, K)``.
        options: Beam and weight.
    """
    end = log_probs.shape[-1] - 1
    # Only the decoder's best are candidates, but the end always is.
    count = min(int(CANDIDATES_PER_HYPOTHESIS * options.beam), end + 1)
    candidates = log_probs.topk(count).indices
    impossible = (candidates == end) | (candidates == BLANK)
    candidates = torch.cat((candidates, torch.full_like(candidates[..., :1], end)), dim=-1)
    decoder = log_probs.double().gather(2, candidates)
    ctc = totals.gather(2, candidates)
    weight = options.ctc_weight
    joint = (1.0 - weight) * decoder + weight * (ctc - before[..., None]) + scores[..., None]
    joint[..., :count].masked_fill_(impossible, -math.inf)
    top = joint.flatten(1).topk(options.beam)
    tokens, ctc = (table.flatten(1).gather(1, top.indices) for table in (candidates, ctc))
    return Choice(top.indices // (count + 1), tokens, top.values, ctc)


class Ending:
    """Tells which utterances will find nothing better (`end_detect`)."""

    def __init__(self, batch: int, device: torch.device) -> None:
        """Begins for ``batch`` utterances."""
        self.best = torch.full((batch,), -math.inf, dtype=torch.float64, device=device)
        # The best score of each of the last steps, newest last.
        self.recent = self.best.expand(_LATEST + LATE_LENGTHS, -1)

    def update(self, scores: Tensor, finished: Tensor) -> Tensor:
        """Takes the scores of a step's continuations, and which end; gives bool ``(B,)``."""
        now = scores.masked_fill(~finished, -math.inf).amax(1)
        self.best = torch.maximum(self.best, now)
        self.recent = torch.cat((self.recent[1:], now[None]))
        late = self.recent[:LATE_LENGTHS]
        return ((late > -math.inf) & (self.best - late > HOPELESS)).all(0)

    def select(self, rows: Tensor) -> None:
        """Keeps the utterances ``rows``."""
        self.best, self.recent = self.best[rows], self.recent[:, rows]
