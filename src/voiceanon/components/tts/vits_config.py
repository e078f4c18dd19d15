"""Sizes of a VITS voice, as its files state them.

Sources: `config.json` of kakao-enterprise/vits-vctk, kakao-enterprise/vits-ljs and
facebook/mms-tts-eng on the Hub; Kim, Kong, Son 2021, "Conditional Variational Autoencoder with
Adversarial Learning for End-to-End Text-to-Speech", arXiv:2106.06103.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voiceanon.components.tts.symbols import SymbolTable
from voiceanon.components.vocoder.hifigan import HiFiGanConfig
from voiceanon.errors import WeightsError

_PUNCTUATION = ';:,.!?¡¿—…"«»“” '
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_IPA = (
    "ɑɐɒæɓʙβɔɕçɗɖðʤəɘɚɛɜɝɞɟʄɡɠɢʛɦɧħɥʜɨɪʝɭɬɫɮʟɱɯɰŋɳɲɴøɵɸθœɶʘɹɺɾɻʀʁɽʂʃʈʧʉʊʋⱱʌɣɤʍχʎʏʑʐʒʔʡʕʢǀǁǂǃ"
    "ˈˌːˑʼʴʰʱʲʷˠˤ˞↓↑→↗↘'̩'ᵻ"
)
OFFICIAL_SYMBOLS = SymbolTable(symbols=tuple(f"_{_PUNCTUATION}{_LETTERS}{_IPA}"))
"""The table that the authors' LJSpeech and VCTK voices share, 178 symbols."""


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Sizes of the decoder, a HiFi-GAN.

    Attributes:
        first_width: Channels behind the first convolution.
        strides: Upsampling factor of each stage; their product is the samples per frame.
        kernels: Taps of each stage's transposed convolution.
        residual_kernels: Taps of the residual blocks of each stage.
        residual_dilations: Dilations of each residual block.
        paired: Whether each dilated convolution is followed by a plain one; not so in Piper's
            voices of medium and lower quality.
        slope: Of the leaky ReLUs, but for the last.
    """

    first_width: int = 512
    strides: tuple[int, ...] = (8, 8, 2, 2)
    kernels: tuple[int, ...] = (16, 16, 4, 4)
    residual_kernels: tuple[int, ...] = (3, 7, 11)
    residual_dilations: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    paired: bool = True
    slope: float = 0.1

    def __post_init__(self) -> None:
        """Makes tuples of what JSON knows as lists.

        Raises:
            WeightsError: Paired blocks have different dilations, which no published voice has.
        """
        dilations = tuple(map(tuple, self.residual_dilations))
        object.__setattr__(self, "residual_dilations", dilations)
        if self.paired and len(set(dilations)) != 1:
            raise WeightsError(
                f"VITS: residual dilations {dilations} differ between blocks; they are due to be "
                "equal. Take a published voice."
            )

    def hifigan(self, input_width: int, speaker_width: int) -> HiFiGanConfig:
        """The same as a configuration of the shared vocoder."""
        return HiFiGanConfig(
            input_width=input_width,
            first_width=self.first_width,
            strides=self.strides,
            kernels=self.kernels,
            residual_kernels=self.residual_kernels,
            residual_dilations=self.residual_dilations[0],
            condition_width=speaker_width or None,
            slope=self.slope,
            last_bias=False,
        )


@dataclass(frozen=True, kw_only=True)
class VitsConfig:
    """One voice, or several in one file; the defaults are those of kakao-enterprise/vits-vctk.

    Attributes:
        sample_rate: Of the waveform, in Hz.
        speakers: Names of the voices, by number.
        speaker_width: Values of a voice's vector; 0 where there is one voice.
        symbols: What texts are made of.
        embedded: Numbers that the symbols' embedding has room for.
        width: Of the text encoder.
        layers: Of the text encoder.
        heads: Attention heads.
        ffn: Width inside the feed-forward blocks.
        ffn_kernel: Taps of their convolutions.
        window: Largest distance at which positions are told apart.
        flow_width: Values per frame of the acoustic representation.
        flows: Coupling layers.
        wavenet_layers: Convolutions in each.
        wavenet_kernel: Their taps.
        wavenet_dilation: Their dilation grows by this factor from layer to layer.
        stochastic_durations: Whether durations are drawn, rather than predicted.
        duration_flows: Spline flows of the stochastic predictor.
        duration_kernel: Taps of the duration predictor's convolutions.
        duration_layers: Convolutions of each stack in the stochastic predictor.
        duration_width: Width of the plain predictor.
        duration_bins: Bins of the splines.
        duration_bound: Range of the splines.
        norm_eps: Of the text encoder's and the plain predictor's LayerNorms.
        decoder: Sizes of the decoder.
        noise_scale: Standard deviation of the acoustic noise, as a factor.
        duration_noise_scale: The same of the noise that durations are made from.
        speaking_rate: Durations are divided by it.
    """

    sample_rate: int = 22_050
    speakers: tuple[str, ...] = tuple(str(number) for number in range(109))
    speaker_width: int = 256
    symbols: SymbolTable = OFFICIAL_SYMBOLS
    embedded: int = 178
    width: int = 192
    layers: int = 6
    heads: int = 2
    ffn: int = 768
    ffn_kernel: int = 3
    window: int = 4
    flow_width: int = 192
    flows: int = 4
    wavenet_layers: int = 4
    wavenet_kernel: int = 5
    wavenet_dilation: int = 1
    stochastic_durations: bool = True
    duration_flows: int = 4
    duration_kernel: int = 3
    duration_layers: int = 3
    duration_width: int = 256
    duration_bins: int = 10
    duration_bound: float = 5.0
    norm_eps: float = 1e-5
    decoder: DecoderConfig = DecoderConfig()
    noise_scale: float = 0.667
    duration_noise_scale: float = 0.8
    speaking_rate: float = 1.0

    @classmethod
    def from_published(cls, settings: Mapping[str, Any], symbols: SymbolTable) -> VitsConfig:
        """Reads ``config.json`` of a voice in transformers' layout.

        Args:
            settings: ``config.json``.
            symbols: What texts are made of.

        Raises:
            WeightsError: A value is missing, or the network is of a kind that VITS is not.
        """
        if settings.get("hidden_act", "relu") != "relu" or not settings.get("use_bias", True):
            raise WeightsError(
                f"VITS: config.json asks for hidden_act {settings.get('hidden_act')!r} and "
                f"use_bias {settings.get('use_bias')!r}; 'relu' and True are due. Take a "
                "published voice."
            )
        try:
            return cls(
                sample_rate=settings["sampling_rate"],
                speakers=tuple(str(number) for number in range(settings["num_speakers"])),
                speaker_width=settings["speaker_embedding_size"],
                symbols=symbols,
                embedded=settings["vocab_size"],
                width=settings["hidden_size"],
                layers=settings["num_hidden_layers"],
                heads=settings["num_attention_heads"],
                ffn=settings["ffn_dim"],
                ffn_kernel=settings["ffn_kernel_size"],
                window=settings["window_size"],
                flow_width=settings["flow_size"],
                flows=settings["prior_encoder_num_flows"],
                wavenet_layers=settings["prior_encoder_num_wavenet_layers"],
                wavenet_kernel=settings["wavenet_kernel_size"],
                wavenet_dilation=settings["wavenet_dilation_rate"],
                stochastic_durations=settings["use_stochastic_duration_prediction"],
                duration_flows=settings["duration_predictor_num_flows"],
                duration_kernel=settings["duration_predictor_kernel_size"],
                duration_layers=settings["depth_separable_num_layers"],
                duration_width=settings["duration_predictor_filter_channels"],
                duration_bins=settings["duration_predictor_flow_bins"],
                duration_bound=settings["duration_predictor_tail_bound"],
                norm_eps=settings["layer_norm_eps"],
                decoder=DecoderConfig(
                    first_width=settings["upsample_initial_channel"],
                    strides=tuple(settings["upsample_rates"]),
                    kernels=tuple(settings["upsample_kernel_sizes"]),
                    residual_kernels=tuple(settings["resblock_kernel_sizes"]),
                    residual_dilations=tuple(settings["resblock_dilation_sizes"]),
                    slope=settings["leaky_relu_slope"],
                ),
                noise_scale=settings["noise_scale"],
                duration_noise_scale=settings["noise_scale_duration"],
                speaking_rate=settings["speaking_rate"],
            )
        except KeyError as error:
            raise WeightsError(
                f"VITS: config.json has no {error}; take it from the published repository."
            ) from error
