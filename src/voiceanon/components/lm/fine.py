"""Bark's fine model: from two codebooks of the codec to eight.

A Transformer without a mask sees 1024 frames at once and predicts one codebook after the other,
each for all frames, from the codebooks before it.

Source: specification sheet of the codec language model, sections 1.2, 2 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.lm.gpt import Gpt, GptConfig
from voiceanon.components.lm.prompts import Prompts
from voiceanon.components.lm.sampling import all_finite, check_temperature, choose
from voiceanon.components.lm.tokens import (
    COARSE_CODEBOOKS,
    CODE_PAD,
    CODEBOOK_SIZE,
    CODEBOOKS,
    FINE_HOP,
    FINE_WINDOW,
    fine_windows,
)
from voiceanon.errors import ConfigError, ConversionError, WeightsError

FINE_CONFIG = replace(GptConfig(), vocabulary=1056)
"""Sizes of the published model."""

PREDICTED = CODEBOOKS - COARSE_CODEBOOKS
"""Codebooks that are predicted."""


class FineModel(Gpt):
    """Codes of two codebooks to codes of eight.

    The head that predicts a codebook is that codebook's embedding; `untie` takes the second copy
    out of published entries.
    """

    def __init__(self, config: GptConfig = FINE_CONFIG) -> None:
        """Builds the model with untrained weights.

        Raises:
            ConfigError: There is no room for the codes or the frames.
        """
        if config.vocabulary <= CODE_PAD or config.context < FINE_WINDOW:
            raise ConfigError(
                f"Bark's fine model: {config.vocabulary} codes and {config.context} positions are "
                f"too few; more than {CODE_PAD} and at least {FINE_WINDOW} are due."
            )
        super().__init__(config, norm_bias=True)
        self.input_embeds_layers = nn.ModuleList(
            nn.Embedding(config.vocabulary, config.width) for _ in range(CODEBOOKS)
        )

    def forward(self, codes: Tensor, codebook: int) -> Tensor:
        """Predicts a codebook.

        Args:
            codes: int64 ``(B, 8, N)`` with N up to ``context``; `CODE_PAD` for what is not known.
                Codebooks 0 to ``codebook``, that one included, are looked at.
            codebook: 2 to 7.

        Returns:
            Logits ``(B, N, 1024)``.
        """
        embedded = self._embed(codes, 0)
        for number in range(1, codebook + 1):
            embedded = embedded + self._embed(codes, number)
        return self._head(self.whole(embedded), codebook)

    @torch.no_grad()
    def generate(
        self,
        coarse: Tensor,
        lengths: Tensor,
        prompts: Prompts,
        draws: Tensor | None = None,
        temperature: float | None = None,
    ) -> Tensor:
        """Makes codes of all codebooks; a padded batch gives what its items give one by one.

        Args:
            coarse: Codes int64 ``(B, 2, T)``, 0 to 1023. What is in the padding does not matter.
            lengths: Frames of each item, int64 ``(B,)``.
            prompts: One for each item.
            draws: Random numbers from 0 to 1, float32 ``(B, W, 6, 1024)``, with W at least the
                number of windows (`voiceanon.components.lm.tokens.fine_windows`): one for each
                frame of a window, predicted or not.
            temperature: See `voiceanon.components.lm.sampling.choose`; ``None`` takes the most
                likely code, and no draws.

        Returns:
            Codes int64 ``(B, 8, T)``, 0 to 1023, zeros in the padding.

        Raises:
            ConfigError: The temperature does not fit, or there are no draws for it.
            ConversionError: The network gave values that are not finite.
        """
        check_temperature("fine temperature", temperature)
        histories = prompts.lengths[:, 2]
        line = _line(coarse, lengths, prompts)
        facts = torch.stack([lengths, histories]).tolist()
        windows = [fine_windows(*pair) for pair in zip(*facts, strict=True)]
        sound = torch.ones((), dtype=torch.bool, device=coarse.device)
        for number in range(max(windows)):
            rows = [row for row, count in enumerate(windows) if count > number]
            places = torch.tensor(rows, device=coarse.device)
            starts, firsts = _spans((lengths + histories)[places], histories[places], number)
            frames = starts[:, None] + torch.arange(FINE_WINDOW, device=coarse.device)
            index = frames[:, None].expand(-1, CODEBOOKS, -1)
            codes = line[places].gather(2, index)
            chosen = None if draws is None else draws[places, number]
            sound &= self._predict(codes, firsts - starts, chosen, temperature)
            # Frames before the first to predict have kept their values.
            line[places] = line[places].scatter(2, index, codes)
        if not bool(sound):
            raise ConversionError(
                "Bark's fine model gave values that are not finite; use precision='float32'."
            )
        own = histories[:, None] + torch.arange(coarse.shape[2], device=coarse.device)
        result = line.gather(2, own[:, None].expand(-1, CODEBOOKS, -1))
        outside = own >= (histories + lengths)[:, None]
        return result.masked_fill(outside[:, None], 0)

    def _predict(
        self, codes: Tensor, firsts: Tensor, draws: Tensor | None, temperature: float | None
    ) -> Tensor:
        """Fills in codebooks 2 to 7 of whole windows ``(B, 8, 1024)``, in place.

        Args:
            codes: int64 ``(B, 8, 1024)``.
            firsts: First frame of each window that is predicted, int64 ``(B,)``.
            draws: As in `generate`, of these windows: ``(B, 6, 1024)``.
            temperature: As in `generate`.

        Returns:
            Whether all that was computed was finite.
        """
        wanted = torch.arange(FINE_WINDOW, device=codes.device) >= firsts[:, None]
        sound = torch.ones((), dtype=torch.bool, device=codes.device)
        known = self._embed(codes, 0)
        for number in range(1, COARSE_CODEBOOKS):
            known = known + self._embed(codes, number)
        for step, number in enumerate(range(COARSE_CODEBOOKS, CODEBOOKS)):
            logits = self._head(self.whole(known + self._embed(codes, number)), number)
            sound &= all_finite(logits)
            made = choose(logits, temperature, None if draws is None else draws[:, step])
            codes[:, number] = torch.where(wanted, made, codes[:, number])
            known = known + self._embed(codes, number)
        return sound

    def _embed(self, codes: Tensor, codebook: int) -> Tensor:
        """One codebook's part of the input, ``(B, N, D)``."""
        return cast(Tensor, self.input_embeds_layers[codebook](codes[:, codebook]))

    def _head(self, hidden: Tensor, codebook: int) -> Tensor:
        embedding = cast(nn.Embedding, self.input_embeds_layers[codebook])
        return F.linear(hidden, embedding.weight[:CODEBOOK_SIZE])


def _line(coarse: Tensor, lengths: Tensor, prompts: Prompts) -> Tensor:
    """Prompts, then coarse codes and pads for what is to be predicted, then pads: ``(B, 8, T)``."""
    history = prompts.lengths[:, 2:, None]
    width = prompts.fine.shape[2]
    size = max(FINE_WINDOW, width + coarse.shape[2])
    places = torch.arange(size, device=coarse.device)
    own = (places - history).clamp(0, coarse.shape[2] - 1).expand(-1, COARSE_CODEBOOKS, -1)
    given = coarse.gather(2, own).masked_fill(places >= history + lengths[:, None, None], CODE_PAD)
    line = F.pad(given, (0, 0, 0, PREDICTED), value=CODE_PAD)
    return torch.where(places < history, F.pad(prompts.fine, (0, size - width)), line)


def _spans(ends: Tensor, histories: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Where window ``number`` starts and where its first frame to predict lies, int64 ``(B,)``."""
    ends = ends.clamp_min(FINE_WINDOW)
    starts = (ends - FINE_WINDOW).clamp_max(FINE_HOP * number)
    return starts, torch.minimum(histories + FINE_HOP * number, ends - FINE_HOP)


def untie(entries: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Drops the heads of published entries, each of which repeats an embedding.

    Args:
        entries: By name, as in the Hub's file without its prefix.

    Raises:
        WeightsError: A head is missing, is no copy, or has no embedding.
    """
    rest = dict(entries)
    for number in range(CODEBOOKS - 1):
        head, embedding = f"lm_heads.{number}.weight", f"input_embeds_layers.{number + 1}.weight"
        for name in (head, embedding):
            if name not in entries:
                raise WeightsError(f"Bark's fine model: the entry {name!r} is missing.")
        if not torch.equal(rest.pop(head), entries[embedding]):
            raise WeightsError(
                f"Bark's fine model: {head!r} and {embedding!r} must be equal, and are not. Take "
                "the published file."
            )
    return rest
