"""Writes the tokens of Whisper's windows: the rules for times, greedy choice, and its scores.

Sources: the original code's rules for time tokens (openai/whisper, `decoding.py`), as transformers
has them (`WhisperTimeStampLogitsProcessor` and its neighbours); held to transformers' `generate`
token by token.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from voiceanon.components.asr.whisper import Whisper
from voiceanon.components.asr.whisper_config import WhisperConfig

CHECK_EVERY = 16
"""Tokens after which the host asks whether all rows have ended: it has to wait for the answer."""


@dataclass(frozen=True)
class Written:
    """What was written for a batch of windows.

    Attributes:
        tokens: int64 ``(B, n)``, with ``end`` from where a row ended.
        counts: Tokens before ``end``, int64 ``(B,)``.
        log_probability: Mean over these tokens and ``end``, float32 ``(B,)``.
        no_speech: Probability that there is no speech, float32 ``(B,)``.
    """

    tokens: Tensor
    counts: Tensor
    log_probability: Tensor
    no_speech: Tensor


class TokenRules(nn.Module):
    """Which tokens may come next."""

    never: Tensor
    not_first: Tensor

    def __init__(self, config: WhisperConfig) -> None:
        """Prepares the tables of forbidden tokens."""
        super().__init__()
        self.config = config
        never = torch.zeros(config.vocabulary, dtype=torch.bool)
        never[list(config.suppressed)] = True
        never[config.no_timestamps] = True
        not_first = never.clone()
        not_first[list(config.suppressed_first)] = True
        not_first[: config.first_time] = True
        if config.latest_first_time is not None:
            not_first[config.first_time + config.latest_first_time + 1 :] = True
        self.register_buffer("never", never, persistent=False)
        self.register_buffer("not_first", not_first, persistent=False)

    def first(self, logits: Tensor) -> Tensor:
        """Scores of the first token: a time near 0."""
        return logits.masked_fill(self.not_first, -math.inf)

    def later(self, logits: Tensor, times: Times) -> Tensor:
        """Scores of a later token, ``(B, V)`` to the same.

        Times come in pairs: one that ends a segment, one that begins the next. They do not go back.
        Where all times together are more likely than any other token, a time is chosen.
        """
        first_time, end = self.config.first_time, self.config.end
        scores = logits.masked_fill(self.never, -math.inf)
        tokens = torch.arange(scores.shape[1], device=scores.device)
        is_time = tokens >= first_time
        begun = times.last & times.before
        ended = times.last & ~times.before
        earliest = times.latest + torch.where(ended, 0, 1)
        forbidden = (is_time & (begun[:, None] | (tokens < earliest[:, None]))) | (
            (tokens < end) & ended[:, None]
        )
        scores = scores.masked_fill(forbidden, -math.inf)
        all_times = scores[:, first_time:].logsumexp(1)
        best_other = scores[:, :first_time].amax(1)
        # Equal where both are impossible; then nothing is left to forbid.
        only_time = (all_times > best_other)[:, None] & ~is_time
        return scores.masked_fill(only_time, -math.inf)


@dataclass
class Times:
    """What the rules need to know of the tokens so far, per row.

    Attributes:
        last: Whether the last token is a time, bool ``(B,)``.
        before: The same of the one before it; true if there is none.
        latest: The latest time token, int64 ``(B,)``.
    """

    last: Tensor
    before: Tensor
    latest: Tensor

    def add(self, token: Tensor, first_time: int) -> None:
        """Takes the next tokens, int64 ``(B,)``."""
        self.before, self.last = self.last, token >= first_time
        self.latest = torch.where(self.last, token, self.latest)


def write(
    network: Whisper,
    rules: TokenRules,
    encoded: Tensor,
    *,
    temperature: float = 0.0,
    chances: Tensor | None = None,
) -> Written:
    """Writes the tokens of encoded windows.

    Args:
        network: Its decoder is used.
        rules: For its tokens.
        encoded: ``(B, S, D)``.
        temperature: 0 takes the best token each time; above, tokens are drawn.
        chances: Numbers between 0 and 1 for the draws, ``(B, most_tokens)``; needed above 0.

    Returns:
        Tokens and scores; a row does not depend on the others.
    """
    config = network.config
    batch = encoded.shape[0]
    memory = network.decoder.start(encoded)
    room = len(config.prompt) + config.most_tokens
    prompt = torch.tensor(config.prompt, dtype=torch.int64, device=encoded.device)
    hidden = network.decoder(prompt.expand(batch, -1), memory, room)
    heads = network.logits(hidden)
    no_speech = heads[:, 0].softmax(-1)[:, config.no_timestamps - 1]
    scores = rules.first(heads[:, -1])
    none = torch.zeros(batch, dtype=torch.bool, device=encoded.device)
    # As if a time had come before the first token, which therefore begins a segment.
    times = Times(~none, ~none, prompt.new_full((batch,), config.first_time - 1))
    ended = none
    tokens: list[Tensor] = []
    total = torch.zeros(batch, dtype=torch.float32, device=encoded.device)
    for step in range(config.most_tokens):
        chance = None if chances is None else chances[:, step]
        token = _choose(scores, temperature, chance)
        log_probability = scores.log_softmax(-1).gather(1, token[:, None])[:, 0]
        total = total + torch.where(ended, 0.0, log_probability)
        token = torch.where(ended, config.end, token)
        ended = ended | (token == config.end)
        tokens.append(token)
        times.add(token, config.first_time)
        last = step + 1 == config.most_tokens
        if last or ((step + 1) % CHECK_EVERY == 0 and bool(ended.all())):
            break
        hidden = network.decoder(token[:, None], memory, room)
        scores = rules.later(network.logits(hidden)[:, -1], times)
    written = torch.stack(tokens, 1)
    counts = (written != config.end).sum(1)
    return Written(written, counts, total / (counts + ended), no_speech)


def _choose(scores: Tensor, temperature: float, chance: Tensor | None) -> Tensor:
    """The best tokens, or those at the given points of the cumulative distribution, ``(B,)``."""
    if temperature == 0.0 or chance is None:
        return scores.argmax(-1)
    cumulative = (scores / temperature).softmax(-1).cumsum(-1)
    # The last value may lie a little below 1, and a token without probability is never meant.
    point = chance[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, point, right=True)[:, 0].clamp_max(scores.shape[1] - 1)


def compression_ratio(tokens: Sequence[int], vocabulary: int) -> float:
    """Bytes of the tokens over their bytes when compressed; large for repetitions.

    Args:
        tokens: Of one window.
        vocabulary: Number of tokens that there are, which tells the bytes of one.
    """
    size = int(math.log2(vocabulary) / 8) + 1
    data = b"".join(token.to_bytes(size, "little") for token in tokens)
    return len(data) / len(zlib.compress(data))
