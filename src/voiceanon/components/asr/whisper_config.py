"""Sizes and special tokens of Whisper, as its files on the Hub state them.

Sources: `config.json` and `generation_config.json` of the repositories openai/whisper-*; Radford et
al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision", arXiv:2212.04356.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voiceanon.errors import WeightsError

SAMPLE_RATE = 16_000
HOP_SAMPLES = 160
"""Samples between mel frames (`preprocessor_config.json`)."""

FRAMES_PER_POSITION = 2
"""Mel frames per position of the encoder: the stride of its second convolution."""

LANGUAGE = "<|en|>"
TASK = "transcribe"
"""What a multilingual Whisper is told; the rest of the chain is English."""


@dataclass(frozen=True, kw_only=True)
class WhisperConfig:
    """One Whisper; the defaults are those of openai/whisper-medium.en.

    Attributes:
        mel_bins: Mel bands.
        width: Of the hidden states.
        encoder_layers: Number of layers.
        encoder_heads: Attention heads in each.
        encoder_ffn: Width inside the feed-forward blocks.
        decoder_layers: As for the encoder.
        decoder_heads: As for the encoder.
        decoder_ffn: As for the encoder.
        source_positions: Positions of one window, 20 ms each.
        target_positions: Most tokens of one window, prompt included.
        vocabulary: Tokens; those from ``end`` on are special, those behind ``no_timestamps`` are
            times in steps of 20 ms.
        prompt: Tokens that the decoder starts from.
        end: Token that ends a text.
        no_timestamps: Token that would forbid times; the one before it stands for no speech.
        suppressed: Tokens that are never chosen.
        suppressed_first: Tokens that are not chosen first.
        latest_first_time: Largest time that may be chosen first, in steps; ``None`` for any.
        text_bytes: Bytes of all tokens together; 0 for artificial words, where there are no files.
    """

    mel_bins: int = 80
    width: int = 1024
    encoder_layers: int = 24
    encoder_heads: int = 16
    encoder_ffn: int = 4096
    decoder_layers: int = 24
    decoder_heads: int = 16
    decoder_ffn: int = 4096
    source_positions: int = 1500
    target_positions: int = 448
    vocabulary: int = 51_864
    prompt: tuple[int, ...] = (50_257,)
    end: int = 50_256
    no_timestamps: int = 50_362
    suppressed: tuple[int, ...] = ()
    suppressed_first: tuple[int, ...] = (220, 50_256)
    latest_first_time: int | None = 50
    text_bytes: int = 0

    @property
    def window_frames(self) -> int:
        """Mel frames of one window."""
        return FRAMES_PER_POSITION * self.source_positions

    @property
    def window_samples(self) -> int:
        """Samples of one window."""
        return self.window_frames * HOP_SAMPLES

    @property
    def first_time(self) -> int:
        """Token of time 0."""
        return self.no_timestamps + 1

    @property
    def most_tokens(self) -> int:
        """Most tokens that are written for one window: half the positions, as in the original."""
        return self.target_positions // 2

    @classmethod
    def from_published(
        cls, settings: Mapping[str, Any], generation: Mapping[str, Any], text_bytes: int
    ) -> WhisperConfig:
        """Reads the Hub's files.

        Args:
            settings: ``config.json``.
            generation: ``generation_config.json``.
            text_bytes: As in the class.

        Raises:
            WeightsError: A value is missing, or the network is of a kind that Whisper is not.
        """
        if settings.get("activation_function", "gelu") != "gelu" or settings.get("scale_embedding"):
            raise WeightsError(
                "Whisper: config.json asks for activation_function "
                f"{settings.get('activation_function')!r} and scale_embedding "
                f"{settings.get('scale_embedding')!r}; 'gelu' and False are due. Take a Whisper "
                "of openai."
            )
        try:
            return cls(
                mel_bins=settings["num_mel_bins"],
                width=settings["d_model"],
                encoder_layers=settings["encoder_layers"],
                encoder_heads=settings["encoder_attention_heads"],
                encoder_ffn=settings["encoder_ffn_dim"],
                decoder_layers=settings["decoder_layers"],
                decoder_heads=settings["decoder_attention_heads"],
                decoder_ffn=settings["decoder_ffn_dim"],
                source_positions=settings["max_source_positions"],
                target_positions=settings["max_target_positions"],
                vocabulary=settings["vocab_size"],
                prompt=_prompt(generation),
                end=generation["eos_token_id"],
                no_timestamps=generation["no_timestamps_token_id"],
                suppressed=tuple(generation.get("suppress_tokens") or ()),
                suppressed_first=tuple(generation.get("begin_suppress_tokens") or ()),
                latest_first_time=generation.get("max_initial_timestamp_index"),
                text_bytes=text_bytes,
            )
        except KeyError as error:
            raise WeightsError(
                f"Whisper: config.json or generation_config.json has no {error}; take both from "
                "one published repository."
            ) from error


def _prompt(generation: Mapping[str, Any]) -> tuple[int, ...]:
    start = generation["decoder_start_token_id"]
    if not generation.get("lang_to_id"):
        return (start,)
    return (start, generation["lang_to_id"][LANGUAGE], generation["task_to_id"][TASK])
