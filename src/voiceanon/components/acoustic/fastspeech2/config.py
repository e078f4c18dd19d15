"""Sizes of FastSpeech2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from voiceanon.errors import ConfigError, WeightsError

NORM_EPS = 1e-12
"""Of all LayerNorms (specification sheet of the family, section 11)."""

LAST_GROUPS = 20
"""Groups of the last layer of the post-net (section 11)."""


@dataclass(frozen=True, kw_only=True)
class FastSpeech2Config:
    """Sizes; the defaults are those of `prosody_cloning.pt`.

    Attributes:
        symbol_width: Features of a symbol.
        hidden_width: Between the two layers that embed a symbol.
        width: Of the encoder and of the decoder.
        heads: Of their attention.
        encoder_layers: Blocks of the encoder.
        decoder_layers: Blocks of the decoder.
        feed_forward: Inner width of the blocks.
        encoder_kernel: Taps of the depthwise convolutions.
        decoder_kernel: The same for the decoder.
        groups: Of the group norms, but for the last.
        speaker_width: Values of a speaker vector.
        bands: Mel bands of the result.
        predictor_width: Of the predictors of prosody.
        duration_layers: Convolutions of the duration predictor ...
        duration_kernel: ... and their taps.
        pitch_layers: Of the pitch predictor.
        pitch_kernel: Of the pitch predictor.
        energy_layers: Of the energy predictor.
        energy_kernel: Of the energy predictor.
        post_layers: Convolutions of the post-net.
        post_width: Between them.
        post_kernel: Their taps.

    Raises:
        ConfigError: The sizes do not fit together.
    """

    symbol_width: int = 62
    hidden_width: int = 100
    width: int = 384
    heads: int = 4
    encoder_layers: int = 6
    decoder_layers: int = 6
    feed_forward: int = 1536
    encoder_kernel: int = 7
    decoder_kernel: int = 31
    groups: int = 32
    speaker_width: int = 128
    bands: int = 80
    predictor_width: int = 256
    duration_layers: int = 2
    duration_kernel: int = 3
    pitch_layers: int = 5
    pitch_kernel: int = 5
    energy_layers: int = 2
    energy_kernel: int = 3
    post_layers: int = 5
    post_width: int = 256
    post_kernel: int = 5

    def __post_init__(self) -> None:
        """Checks what would fail inside torch."""
        kernels = (
            self.encoder_kernel,
            self.decoder_kernel,
            self.duration_kernel,
            self.pitch_kernel,
            self.energy_kernel,
            self.post_kernel,
        )
        if any(kernel % 2 == 0 for kernel in kernels):
            raise ConfigError(f"FastSpeech2: kernels {kernels}; all must be odd.")
        for name, value, divisor in (
            ("width", self.width, 2 * self.heads),
            ("width", self.width, self.groups),
            ("post_width", self.post_width, self.groups),
            ("bands", self.bands, LAST_GROUPS),
        ):
            if value % divisor:
                raise ConfigError(f"FastSpeech2: {name} {value}; a multiple of {divisor} is due.")

    @classmethod
    def from_entries(cls, shapes: Mapping[str, Sequence[int]]) -> FastSpeech2Config:
        """Reads the sizes off the shapes of a checkpoint's entries.

        Args:
            shapes: By published entry name.

        Raises:
            WeightsError: An entry that tells a size is not there, or has another number of sizes.
        """
        try:
            hidden, symbol = shapes["encoder.embed.0.weight"]
            width, speaker = shapes["encoder.embedding_expansion.weight"]
            post, bands, post_kernel = shapes["postnet.postnet.0.0.weight"]
            predictor, _, duration_kernel = shapes["duration_predictor.conv.0.0.weight"]
            return cls(
                symbol_width=symbol,
                hidden_width=hidden,
                width=width,
                heads=shapes["encoder.encoders.0.self_attn.pos_bias_u"][0],
                encoder_layers=_count(shapes, r"encoder\.encoders\.(\d+)\."),
                decoder_layers=_count(shapes, r"decoder\.encoders\.(\d+)\."),
                feed_forward=shapes["encoder.encoders.0.feed_forward.w_1.weight"][0],
                encoder_kernel=shapes["encoder.encoders.0.conv_module.depthwise_conv.weight"][2],
                decoder_kernel=shapes["decoder.encoders.0.conv_module.depthwise_conv.weight"][2],
                speaker_width=speaker,
                bands=bands,
                predictor_width=predictor,
                duration_layers=_count(shapes, r"duration_predictor\.conv\.(\d+)\."),
                duration_kernel=duration_kernel,
                pitch_layers=_count(shapes, r"pitch_predictor\.conv\.(\d+)\."),
                pitch_kernel=shapes["pitch_predictor.conv.0.0.weight"][2],
                energy_layers=_count(shapes, r"energy_predictor\.conv\.(\d+)\."),
                energy_kernel=shapes["energy_predictor.conv.0.0.weight"][2],
                post_layers=_count(shapes, r"postnet\.postnet\.(\d+)\."),
                post_width=post,
                post_kernel=post_kernel,
            )
        except KeyError as error:
            raise WeightsError(
                f"FastSpeech2: the entry {error} is missing; take the published file."
            ) from None
        except (IndexError, ValueError) as error:
            raise WeightsError(
                "FastSpeech2: an entry from which a size is read has another number of dimensions "
                f"than the published one ({error}); take the published file."
            ) from error


def _count(names: Iterable[str], pattern: str) -> int:
    """Layers whose numbers stand in the names."""
    found = (re.match(pattern, name) for name in names)
    return 1 + max((int(match[1]) for match in found if match), default=-1)
