"""Sizes of the recogniser, as ESPnet's `config.yaml` has them, and constants of its parts.

Sources: constructor defaults of `espnet` 202310 (`DefaultFrontend`, `BranchformerEncoder`,
`EBranchformerEncoder`, `TransformerDecoder`), which hold for what a `config.yaml` leaves out;
training recipe of the release (B3's `train_asr_branchformer.yaml`) for the defaults here.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeGuard

from voiceanon.errors import ConfigError

SAMPLE_RATE = 16_000
"""Of the recordings, Hz (`frontend_conf.fs`)."""

NORM_EPS = 1e-12
"""Epsilon of all LayerNorms (ESPnet's own `LayerNorm`)."""

FEWEST_FRAMES = 7
"""Mel frames that one encoder frame sees: the shortest input."""

BLANK = 0
"""Number of CTC's blank, the first of `token_list`."""

BLANK_TOKEN, END_TOKEN = "<blank>", "<sos/eos>"
"""First and last of `token_list`; the last one begins and ends every text."""

_RATE_NAMES = ("16k", "16000")

_ENCODER_FIXED = {
    "attention_layer_type": ("rel_selfattn", "rel_selfattn"),
    "pos_enc_layer_type": ("rel_pos", "rel_pos"),
    "rel_pos_type": ("latest", "latest"),
    "use_linear_after_conv": (False, False),
    "gate_activation": ("identity", "identity"),
    "input_layer": ("conv2d", "conv2d"),
    "zero_triu": (False, False),
}
"""Settings that both encoders know: what is built, and ESPnet's default."""

_BRANCHFORMER_FIXED = {
    "use_attn": (True, True),
    "use_cgmlp": (True, True),
    "merge_method": ("concat", "concat"),
}

_E_BRANCHFORMER_FIXED = {
    "use_ffn": (True, False),
    "macaron_ffn": (True, False),
    "ffn_activation_type": ("swish", "swish"),
    "positionwise_layer_type": ("linear", "linear"),
    "interctc_use_conditioning": (False, False),
}

_DECODER_FIXED = {
    "input_layer": ("embed", "embed"),
    "use_output_layer": (True, True),
    "normalize_before": (True, True),
    "concat_after": (False, False),
}

_FRONTEND_FIXED = {
    "win_length": (None, None),
    "window": ("hann", "hann"),
    "center": (True, True),
    "normalized": (False, False),
    "onesided": (True, True),
    "apply_stft": (True, True),
}

_NORMALIZE_FIXED = {
    "global_mvn": {"norm_means": (True, True), "norm_vars": (True, True)},
    "utterance_mvn": {"norm_means": (True, True), "norm_vars": (False, False)},
}


@dataclass(frozen=True, kw_only=True)
class PhoneRecognizerConfig:
    """Sizes of the network; the defaults are those of the release's training recipe.

    Attributes:
        vocabulary: Tokens, V; the last one is start and end (`token_list`).
        fft_samples: Samples in a window, 16 kHz (`frontend_conf.n_fft`).
        hop_samples: Samples between frames (`frontend_conf.hop_length`).
        mel_bins: Bands (`frontend_conf.n_mels`).
        normalize: ``"global_mvn"``, mean and deviation are entries of the checkpoint, or
            ``"utterance_mvn"``, an utterance's own mean is subtracted (`normalize`).
        encoder: ``"branchformer"`` or ``"e_branchformer"`` (`encoder`).
        width: Features of a frame, D (`encoder_conf.output_size`).
        heads: Attention heads of the encoder (`encoder_conf.attention_heads`).
        blocks: Of the encoder (`encoder_conf.num_blocks`).
        gated_units: Inner features of the gated branch, both halves (`cgmlp_linear_units`).
        gated_kernel: Frames that its convolution sees, odd (`cgmlp_conv_kernel`).
        ffn_units: Inner features of an E-Branchformer's feed-forward blocks (`linear_units`).
        merge_kernel: Frames that an E-Branchformer's merging convolution sees, odd
            (`merge_conv_kernel`).
        decoder_heads: Attention heads of the decoder (`decoder_conf.attention_heads`).
        decoder_ffn_units: Inner features of its feed-forward blocks (`decoder_conf.linear_units`).
        decoder_layers: Of the decoder (`decoder_conf.num_blocks`).
    """

    vocabulary: int = 100
    fft_samples: int = 512
    hop_samples: int = 160
    mel_bins: int = 80
    normalize: str = "global_mvn"
    encoder: str = "branchformer"
    width: int = 512
    heads: int = 8
    blocks: int = 18
    gated_units: int = 3072
    gated_kernel: int = 31
    ffn_units: int = 1024
    merge_kernel: int = 31
    decoder_heads: int = 8
    decoder_ffn_units: int = 2048
    decoder_layers: int = 6

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            ConfigError: A size that no network can have, or a kind that is not built.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not is_whole(value) or value < 1):
                raise ConfigError(
                    f"Recogniser: {field.name} is {value!r}; it must be a whole number of at least "
                    "1."
                )
        for name in ("gated_kernel", "merge_kernel"):
            if getattr(self, name) % 2 == 0:
                raise ConfigError(
                    f"Recogniser: {name} is {getattr(self, name)}; it must be odd, so that a frame "
                    "has as many neighbours before as behind."
                )
        for name in ("heads", "decoder_heads"):
            if self.width % getattr(self, name) or self.width % 2:
                raise ConfigError(
                    f"Recogniser: the width {self.width} must be even and a multiple of {name}, "
                    f"which is {getattr(self, name)}."
                )
        if self.gated_units % 2:
            raise ConfigError(
                f"Recogniser: gated_units is {self.gated_units}; it must be even: one half gates "
                "the other."
            )
        _one_of("encoder", self.encoder, ("branchformer", "e_branchformer"))
        _one_of("normalize", self.normalize, tuple(_NORMALIZE_FIXED))

    @property
    def end(self) -> int:
        """Number of the token that begins and ends every text."""
        return self.vocabulary - 1

    @classmethod
    def from_published(cls, settings: Mapping[str, Any]) -> PhoneRecognizerConfig:
        """Reads the settings beside published weights.

        Args:
            settings: What the archive's `config.yaml` holds; what it leaves out is as in ESPnet.

        Raises:
            ConfigError: The settings are those of a network, or of tokens, that is not built.
        """
        _one_of("frontend", settings.get("frontend", "default"), ("default",))
        _one_of("decoder", settings.get("decoder", "transformer"), ("transformer",))
        _one_of("token_type", settings.get("token_type", "bpe"), ("bpe",))
        for name in ("preencoder", "postencoder"):
            _one_of(name, settings.get(name), (None,))
        encoder = _one_of("encoder", settings.get("encoder"), ("branchformer", "e_branchformer"))
        normalize = _one_of("normalize", settings.get("normalize"), tuple(_NORMALIZE_FIXED))
        front = _section(settings, "frontend_conf", _FRONTEND_FIXED)
        if str(front.get("fs", SAMPLE_RATE)) not in _RATE_NAMES:
            raise ConfigError(
                f"Recogniser: frontend_conf.fs is {front['fs']!r}; only 16000 Hz is supported."
            )
        _section(settings, "normalize_conf", _NORMALIZE_FIXED[normalize])
        only = _BRANCHFORMER_FIXED if encoder == "branchformer" else _E_BRANCHFORMER_FIXED
        inner = _section(settings, "encoder_conf", {**_ENCODER_FIXED, **only})
        outer = _section(settings, "decoder_conf", _DECODER_FIXED)
        return cls(
            vocabulary=_vocabulary(settings.get("token_list")),
            fft_samples=front.get("n_fft", 512),
            hop_samples=front.get("hop_length", 128),
            mel_bins=front.get("n_mels", 80),
            normalize=normalize,
            encoder=encoder,
            width=inner.get("output_size", 256),
            heads=inner.get("attention_heads", 4),
            blocks=inner.get("num_blocks", 12),
            gated_units=inner.get("cgmlp_linear_units", 2048),
            gated_kernel=inner.get("cgmlp_conv_kernel", 31),
            ffn_units=inner.get("linear_units", 2048),
            merge_kernel=inner.get("merge_conv_kernel", 3),
            decoder_heads=outer.get("attention_heads", 4),
            decoder_ffn_units=outer.get("linear_units", 2048),
            decoder_layers=outer.get("num_blocks", 6),
        )


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, which True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """A setting in few words: YAML can say by references what takes gigabytes to show."""
    short = reprlib.Repr()
    short.maxlevel = 2
    return short.repr(value)


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        choice = " or ".join(repr(one) for one in allowed)
        raise ConfigError(
            f"Recogniser: the setting {name!r} is {_shown(value)}; only {choice} is "
            "supported. Use an archive with such a network."
        )
    return value


def _section(
    settings: Mapping[str, Any], name: str, fixed: Mapping[str, tuple[Any, Any]]
) -> Mapping[str, Any]:
    """Gives one part of the settings, whose values for which there is no choice fit."""
    section = settings.get(name) or {}
    if not isinstance(section, Mapping):
        raise ConfigError(
            f"Recogniser: the setting {name!r} is {_shown(section)}; settings by name are "
            "due, as published archives have them."
        )
    for key, (built, default) in fixed.items():
        _one_of(f"{name}.{key}", section.get(key, default), (built,))
    return section


def _vocabulary(tokens: Any) -> int:
    """Counts the tokens.

    Raises:
        ConfigError: They are no list, or do not begin and end as the search needs them.
    """
    listed = isinstance(tokens, list | tuple) and bool(tokens)
    if not listed or not all(isinstance(token, str) for token in tokens):
        raise ConfigError(
            f"Recogniser: the setting 'token_list' is {_shown(tokens)}; a list of tokens is "
            "needed, each of them text, as published archives have it."
        )
    if tokens[0] != BLANK_TOKEN or tokens[-1] != END_TOKEN:
        raise ConfigError(
            f"Recogniser: the setting 'token_list' begins with {tokens[0]!r} and ends with "
            f"{tokens[-1]!r}; only {BLANK_TOKEN!r} and {END_TOKEN!r} are supported."
        )
    return len(tokens)
