"""Bark's coarse model: from semantic tokens to the first two codebooks of the codec.

A causal Transformer that continues, in windows of 60 tokens, the coarse tokens of a prompt and of
what it has made so far. Each window begins with the semantic tokens around that place.

Source: specification sheet of the codec language model, sections 1.2, 2 and 4.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.lm.gpt import Gpt, GptConfig
from voiceanon.components.lm.prompts import Prompts
from voiceanon.components.lm.sampling import all_finite, check_temperature, choose
from voiceanon.components.lm.tokens import (
    COARSE_CODEBOOKS,
    COARSE_INFER,
    COARSE_PER_SEMANTIC,
    CODEBOOK_SIZE,
    MAX_COARSE_HISTORY,
    MAX_SEMANTIC_HISTORY,
    SEMANTIC_PAD,
    SEMANTIC_TOKENS,
    coarse_tokens,
)
from voiceanon.errors import ConfigError, ConversionError

SEMANTIC_SLOTS = 256
"""Semantic tokens of a window, padding included."""

WINDOW = 60
"""Tokens that are made before the sequence is put together anew."""

LONGEST = SEMANTIC_SLOTS + 1 + MAX_COARSE_HISTORY + WINDOW
"""Places of a sequence that are needed at most."""

COARSE_CONFIG = GptConfig()
"""Sizes of the published model."""


class Window(NamedTuple):
    """The sequences with which a window begins.

    Attributes:
        tokens: int64 ``(B, T)``.
        lengths: How many of them count, int64 ``(B,)``; they stand first.
    """

    tokens: Tensor
    lengths: Tensor


class CoarseModel(Gpt):
    """Semantic tokens to codes of the first two codebooks."""

    def __init__(self, config: GptConfig = COARSE_CONFIG) -> None:
        """Builds the model with untrained weights.

        Raises:
            ConfigError: There is no room for the tokens or the sequences.
        """
        if config.vocabulary <= COARSE_INFER or config.context < LONGEST:
            raise ConfigError(
                f"Bark's coarse model: {config.vocabulary} tokens and {config.context} positions "
                f"are too few; more than {COARSE_INFER} and at least {LONGEST} are due."
            )
        super().__init__(config, norm_bias=False)
        self.input_embeds_layer = nn.Embedding(config.vocabulary, config.width)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)

    @torch.no_grad()
    def generate(
        self,
        semantic: Tensor,
        lengths: Tensor,
        prompts: Prompts,
        draws: Tensor | None = None,
        temperature: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Makes coarse codes; a padded batch gives what its items give one by one.

        Args:
            semantic: Tokens int64 ``(B, N)``, 0 to 9999. What is in the padding does not matter.
            lengths: Tokens of each item, int64 ``(B,)``, at least 1.
            prompts: One for each item.
            draws: Random numbers from 0 to 1, float32 ``(B, S)`` with S at least the number of
                tokens to make (`voiceanon.components.lm.tokens.coarse_tokens`); one for each.
            temperature: See `voiceanon.components.lm.sampling.choose`; ``None`` takes the most
                likely token, and no draws.

        Returns:
            Codes int64 ``(B, 2, T)``, 0 to 1023, zeros in the padding, and frames int64 ``(B,)``.

        Raises:
            ConfigError: The temperature does not fit, or there are no draws for it.
            ConversionError: The network gave values that are not finite.
        """
        check_temperature("coarse temperature", temperature)
        counts = coarse_tokens(lengths)
        # The host has to wait for these: they tell when to stop, and which rows are done.
        totals = counts.tolist()
        lines = _Lines.begin(semantic, lengths, prompts, max(totals))
        rows = torch.arange(len(totals), device=semantic.device)
        cache = self.new_cache(len(rows), min(LONGEST, lines.longest_window(max(totals))))
        sound = torch.ones((), dtype=torch.bool, device=semantic.device)
        for start in range(0, max(totals), WINDOW):
            busy = [row for row, total in enumerate(totals) if total > start]
            if len(busy) < len(rows):
                rows = torch.tensor(busy, device=semantic.device)
            stop = min(start + WINDOW, max(totals))
            sound &= self._continue(lines, rows, (start, stop), cache, draws, temperature)
        if not bool(sound):
            raise ConversionError(
                "Bark's coarse model gave values that are not finite; use precision='float32'."
            )
        return lines.codes(counts), counts // COARSE_CODEBOOKS

    def _continue(
        self,
        lines: _Lines,
        rows: Tensor,
        span: tuple[int, int],
        cache: Tensor,
        draws: Tensor | None,
        temperature: float | None,
    ) -> Tensor:
        """Makes the tokens of one window; tells whether all that it computed was finite."""
        start, stop = span
        window = lines.window(rows, start)
        cache = cache[:, :, : len(rows)]
        hidden = self.whole(self.input_embeds_layer(window.tokens), cache)
        last = hidden[torch.arange(len(rows), device=rows.device), window.lengths - 1]
        sound = torch.ones((), dtype=torch.bool, device=rows.device)
        for step in range(start, stop):
            logits = self.code_logits(last, step % COARSE_CODEBOOKS)
            sound &= all_finite(logits)
            tokens = choose(logits, temperature, None if draws is None else draws[rows, step])
            tokens = tokens + SEMANTIC_TOKENS + step % COARSE_CODEBOOKS * CODEBOOK_SIZE
            lines.append(rows, step, tokens)
            if step + 1 < stop:
                embedded = self.input_embeds_layer(tokens)
                last = self.step(embedded, window.lengths + (step - start), cache)
        return sound

    def code_logits(self, hidden: Tensor, codebook: int) -> Tensor:
        """Logits ``(..., 1024)`` of the codes of one codebook, 0 or 1, from ``(..., D)``."""
        first = SEMANTIC_TOKENS + CODEBOOK_SIZE * codebook
        return F.linear(hidden, self.lm_head.weight[first : first + CODEBOOK_SIZE])


class _Lines:
    """All tokens of a batch, prompts first: semantic ones, and coarse ones as they are made."""

    def __init__(self, semantic: Tensor, coarse: Tensor, prompt_lengths: Tensor) -> None:
        self._semantic = semantic
        self._coarse = coarse
        self._semantic_history = prompt_lengths[:, 0]
        self._coarse_history = prompt_lengths[:, 1]
        # Without a prompt, windows are short at first.
        self._longest_history = int(self._coarse_history.max())

    @classmethod
    def begin(cls, semantic: Tensor, lengths: Tensor, prompts: Prompts, count: int) -> _Lines:
        """Lines with prompts and semantic tokens, and room for ``count`` coarse tokens."""
        history = prompts.lengths[:, :1]
        width = prompts.semantic.shape[1]
        size = width + semantic.shape[1] + SEMANTIC_SLOTS
        places = torch.arange(size, device=semantic.device)
        own = (places - history).clamp(0, semantic.shape[1] - 1)
        line = torch.where(
            places < history,
            F.pad(prompts.semantic, (0, size - width)),
            semantic.gather(1, own),
        )
        line = line.masked_fill(places >= history + lengths[:, None], SEMANTIC_PAD)
        return cls(line, F.pad(prompts.coarse, (0, count)), prompts.lengths)

    def longest_window(self, count: int) -> int:
        """Most places that a window needs if ``count`` coarse tokens are made."""
        return SEMANTIC_SLOTS + 1 + self._longest_history + count

    def window(self, rows: Tensor, start: int) -> Window:
        """Puts together the sequences of some rows from which coarse token ``start`` is made."""
        middle = self._semantic_history[rows] + round(start / COARSE_PER_SEMANTIC)
        first = (middle - MAX_SEMANTIC_HISTORY).clamp_min(0)
        slots = torch.arange(SEMANTIC_SLOTS, device=rows.device)
        semantic = self._semantic[rows[:, None], first[:, None] + slots]
        ends = self._coarse_history[rows] + start
        sizes = ends.clamp_max(MAX_COARSE_HISTORY)
        places = torch.arange(
            min(MAX_COARSE_HISTORY, self._longest_history + start), device=rows.device
        )
        column = ((ends - sizes)[:, None] + places).clamp_max(self._coarse.shape[1] - 1)
        coarse = self._coarse[rows[:, None], column]
        infer = coarse.new_full((len(rows), 1), COARSE_INFER)
        return Window(torch.cat([semantic, infer, coarse], dim=1), SEMANTIC_SLOTS + 1 + sizes)

    def append(self, rows: Tensor, step: int, tokens: Tensor) -> None:
        """Notes coarse token ``step`` of some rows."""
        self._coarse[rows, self._coarse_history[rows] + step] = tokens

    def codes(self, counts: Tensor) -> Tensor:
        """What was made, as codes ``(B, 2, T)``."""
        steps = torch.arange(int(counts.max()), device=counts.device)
        made = self._coarse.gather(1, self._coarse_history[:, None] + steps)
        codes = (made - SEMANTIC_TOKENS) % CODEBOOK_SIZE
        codes = codes.masked_fill(steps >= counts[:, None], 0)
        return codes.view(len(codes), -1, COARSE_CODEBOOKS).transpose(1, 2)
