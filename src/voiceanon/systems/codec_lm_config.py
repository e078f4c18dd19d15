"""Settings of B4, the codec language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from voiceanon.components.codec.encodec import EncodecConfig
from voiceanon.components.content.hubert import HubertConfig
from voiceanon.components.content.semantic_quantiser import SemanticQuantiserConfig
from voiceanon.components.lm.gpt import GptConfig
from voiceanon.components.lm.sampling import check_temperature
from voiceanon.errors import ConfigError
from voiceanon.systems.codec_lm_files import HUB_BARK, BarkFile, PromptFiles, check_voices


@dataclass(frozen=True, kw_only=True)
class CodecLMConfig:
    """Settings; the defaults are those of the challenge's B4.

    Attributes:
        layer: HuBERT layer whose output is quantised.
        coarse_temperature: Of the coarse model's draws; ``None`` takes the most likely token.
        fine_temperature: Of the fine model's draws; ``None`` takes the most likely code.
        voices: Names of the voices that may be drawn; ``None`` for all 130.
        bark_file: The Hub's file, or the original ones, which hold the same networks.
        prompt_files: Prompts of the authors' repository, or of the Hub's; they are the same.
        rows: Most recordings, or pieces of them, that are generated at once (ours); each takes 0.2
            GB in float32.
        cached_pieces: Recordings, or pieces of them, whose semantic tokens are kept for another
            run, as with another voice (ours).
        hubert: Sizes; ``None`` for what the weights say.
        quantiser: Sizes; ``None`` for what the weights say.
        coarse: Sizes; ``None`` for what the weights say.
        fine: Sizes; ``None`` for what the weights say.
        codec: Sizes; ``None`` for what the weights say.
    """

    layer: int = 9
    coarse_temperature: float | None = 0.7
    fine_temperature: float | None = 0.5
    voices: tuple[str, ...] | None = None
    bark_file: BarkFile = HUB_BARK
    prompt_files: PromptFiles = "npz"
    rows: int = 32
    cached_pieces: int = 64
    hubert: HubertConfig | None = None
    quantiser: SemanticQuantiserConfig | None = None
    coarse: GptConfig | None = None
    fine: GptConfig | None = None
    codec: EncodecConfig | None = None

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ConfigError: One does not fit.
        """
        check_temperature("coarse_temperature", self.coarse_temperature)
        check_temperature("fine_temperature", self.fine_temperature)
        if self.voices is not None:
            check_voices(self.voices)
        for name, value, least in (
            ("layer", self.layer, 1),
            ("rows", self.rows, 1),
            ("cached_pieces", self.cached_pieces, 0),
        ):
            if value < least:
                raise ConfigError(f"{name}: {value} is too small; at least {least} is due.")
        for name, word, allowed in (
            ("bark_file", self.bark_file, get_args(BarkFile)),
            ("prompt_files", self.prompt_files, get_args(PromptFiles)),
        ):
            if word not in allowed:
                raise ConfigError(f"{name}: {word!r} is not one of {', '.join(allowed)}.")
