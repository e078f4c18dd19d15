"""The recogniser: from a waveform to its text in phones.

Source: specification sheet of the family, section 6; `Speech2Text` of `espnet` 202310.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from voiceanon.components.asr.branchformer.beam_search import SearchOptions, beam_search
from voiceanon.components.asr.branchformer.config import (
    BLANK,
    FEWEST_FRAMES,
    SAMPLE_RATE,
    PhoneRecognizerConfig,
)
from voiceanon.components.asr.branchformer.decoder import Decoder
from voiceanon.components.asr.branchformer.encoder import Encoder
from voiceanon.components.asr.branchformer.front_end import (
    GlobalNormalization,
    MelFrontEnd,
    UtteranceNormalization,
)
from voiceanon.components.asr.branchformer.hypotheses import SearchResult
from voiceanon.errors import ConfigError

SPACE = "\u2581"
"""What SentencePiece writes for a space."""

UNKNOWN_TOKEN, UNKNOWN_TEXT = "<unk>", " \u2047 "
"""A piece outside the vocabulary, and what SentencePiece decodes it to."""


class PhoneRecognizer(nn.Module):
    """Front end, encoder, decoder, CTC output and search; entries have the published names.

    Attributes:
        sample_rate: Rate that it takes, in Hz.
        config: Sizes.
        tokens: Pieces of text by number.
        options: Of the search.
    """

    sample_rate = SAMPLE_RATE

    def __init__(
        self,
        config: PhoneRecognizerConfig,
        tokens: Sequence[str],
        options: SearchOptions | None = None,
    ) -> None:
        """Builds the recogniser with untrained weights.

        Args:
            config: Sizes.
            tokens: `token_list` of the published settings.
            options: Of the search; the published ones if left out.

        Raises:
            ConfigError: The number of tokens is not that of the network.
        """
        super().__init__()
        if len(tokens) != config.vocabulary:
            raise ConfigError(
                f"Recogniser: there are {len(tokens)} tokens; the network has "
                f"{config.vocabulary}. Use the token_list of the same settings."
            )
        self.config = config
        self.tokens = tuple(tokens)
        self.options = options or SearchOptions()
        self.frontend = MelFrontEnd(config.fft_samples, config.hop_samples, config.mel_bins)
        if config.normalize == "global_mvn":
            self.normalize: nn.Module = GlobalNormalization(config.mel_bins)
        else:
            self.normalize = UtteranceNormalization()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.ctc = CtcOutput(config)

    @property
    def fewest_samples(self) -> int:
        """Samples of the shortest recording in which something can be recognised."""
        return (FEWEST_FRAMES - 1) * self.config.hop_samples

    def transcribe(self, wav: Tensor, lengths: Tensor) -> list[str]:
        """Writes down recordings.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0, not normalised. What lies behind a
                length does not matter.
            lengths: Samples of each recording, int64 ``(B,)``.

        Returns:
            The text of each in IPA letters, stress marks, spaces and punctuation; empty where a
            recording is shorter than `fewest_samples`, for which the original has no result. It
            does not depend on the rest of the batch.
        """
        texts = [""] * len(wav)
        # Texts are put together on the host, and only where there is something to search.
        long = [row for row, n in enumerate(lengths.tolist()) if n >= self.fewest_samples]
        if not long:
            return texts
        rows = torch.tensor(long, device=wav.device)
        with torch.no_grad():
            found = self.search(*self.encode(wav[rows], lengths[rows]))
        for row, result in zip(long, found, strict=True):
            texts[row] = self.text(result.hypotheses[0].ids)
        return texts

    def encode(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the encoder's frames.

        Args:
            wav: As in `transcribe`.
            lengths: int64 ``(B,)``, at least `fewest_samples`.

        Returns:
            float32 ``(B, N, D)``, a frame for four hops, and the frames of each recording, int64
            ``(B,)``. Rows after those have no meaning.
        """
        frames, counts = self.frontend(wav, lengths)
        valid = torch.arange(frames.shape[1], device=wav.device) < counts[:, None]
        encoded: tuple[Tensor, Tensor] = self.encoder(self.normalize(frames, valid), counts)
        return encoded

    def search(self, encoded: Tensor, counts: Tensor, *, best: int = 1) -> list[SearchResult]:
        """Finds the most likely texts.

        With the published sizes each token of a recording takes 0.4 MB, until the longest text of
        the batch ends.

        Args:
            encoded: As from `encode`.
            counts: As from `encode`.
            best: How many texts of each recording to give.
        """
        with torch.autocast(encoded.device.type, enabled=False):
            log_probs = self.ctc(encoded)
        return beam_search(self.decoder, encoded, log_probs, counts, self.options, best=best)

    def text(self, ids: Sequence[int]) -> str:
        """Joins the pieces of a text.

        Args:
            ids: Numbers of tokens; blanks, starts and ends are left out. The original leaves an end
                inside, which it gives where a text is as long as the recording, and spells it.
        """
        pieces = [self.tokens[i] for i in ids if i not in (BLANK, self.config.end)]
        pieces = [UNKNOWN_TEXT if piece == UNKNOWN_TOKEN else piece for piece in pieces]
        return "".join(pieces).replace(SPACE, " ").removeprefix(" ")


class CtcOutput(nn.Module):
    """CTC's probabilities of the tokens in each encoder frame."""

    def __init__(self, config: PhoneRecognizerConfig) -> None:
        """Builds the linear map."""
        super().__init__()
        self.ctc_lo = nn.Linear(config.width, config.vocabulary)

    def forward(self, encoded: Tensor) -> Tensor:
        """Turns ``(B, N, D)`` into natural logarithms, float32 ``(B, N, V)``."""
        scores: Tensor = self.ctc_lo(encoded)
        return scores.float().log_softmax(-1)
