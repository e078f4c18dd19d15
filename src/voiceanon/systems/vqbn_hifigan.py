"""Quantised bottleneck features, F0 and a one-hot speaker, turned into speech by HiFi-GAN.

Method and code: SA-toolkit, https://github.com/deep-privacy/SA-toolkit, commit 22c298e. As
anonymization systems: baselines B5 and B6 of the VoicePrivacy Challenge 2024, and T12-5 and T12-6
of team NTU-NPU (arXiv:2410.02371), which change the F0 of B5.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.anonymizer import Anonymizer
from voiceanon.components.content.bottleneck import (
    BottleneckConfig,
    BottleneckEncoder,
    FrontEnd,
    config_from_entries,
    is_unused_entry,
)
from voiceanon.components.f0.normalization import align_nearest, normalize_f0
from voiceanon.components.f0.yaapt import HOP_SAMPLES, Yaapt
from voiceanon.components.prosody.f0_modifiers import F0Modifier, modify, parse_modifiers
from voiceanon.components.selection.targets import draw_speaker
from voiceanon.components.vocoder.hifigan import HiFiGan, HiFiGanConfig
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.hub.convert import load_strict
from voiceanon.hub.read import part_of, read, state_of
from voiceanon.types import Target

WEIGHTS_FILE = "final.pt"

ENCODER_PREFIX = "bn_extractor."
VOCODER_PREFIX = "hifigan."

SPEAKERS = 247
"""Speakers of LibriTTS train-clean-100, by the challenge's results paper."""

F0_WIDTH = 1

_log = logging.getLogger(__name__)


def vocoder_config(input_width: int, first_width: int = 512) -> HiFiGanConfig:
    """Sizes of the vocoder, from `satools/hifigan/archi.py`.

    Args:
        input_width: Bottleneck, F0 and speakers.
        first_width: Channels behind the first convolution.
    """
    return HiFiGanConfig(
        input_width=input_width,
        first_width=first_width,
        strides=(5, 4, 4, 2, 2),
        kernels=(11, 8, 8, 4, 4),
        reflect_start=True,
    )


@dataclass(frozen=True, kw_only=True)
class VqBnHifiGanConfig:
    """Settings; the defaults are those of B5.

    Attributes:
        front_end: What the content encoder stands on: ``"wav2vec2"`` (B5) or ``"fbank"`` (B6).
        codes: Entries of the codebook, or ``None`` for a release without quantiser.
        voices: Whether the vocoder has a one-hot speaker input; the release with one voice has not.
        f0_modifiers: Applied in their order to the normalised F0; see
            `voiceanon.components.prosody.f0_modifiers.parse_modifiers` for what may stand here.
        speaker: The target speaker of all utterances; ``None`` draws one per voice, as in the
            challenge.
        speakers: Names of the target speakers in the order of the vocoder's input; ``None`` for
            what the weights say.
        encoder: Sizes of the content encoder; ``None`` for what the weights say.
        vocoder: Sizes of the vocoder; ``None`` for what the weights say.
    """

    front_end: FrontEnd = "wav2vec2"
    codes: int | None = 48
    voices: bool = True
    f0_modifiers: tuple[F0Modifier, ...] | str = ()
    speaker: str | None = None
    speakers: tuple[str, ...] | None = None
    encoder: BottleneckConfig | None = None
    vocoder: HiFiGanConfig | None = None

    def __post_init__(self) -> None:
        """Turns F0 modifiers into their typed form.

        Raises:
            ConfigError: One is no modifier.
        """
        object.__setattr__(self, "f0_modifiers", parse_modifiers(self.f0_modifiers))


class VqBnComponents(NamedTuple):
    """Parts of the system, each usable alone; all take padded batches at 16 kHz with lengths.

    Attributes:
        content: `(wav (B, T), lengths (B,)) -> Bottleneck`: vectors ``(B, N, 256)``, codes
            ``(B, N)`` where there is a quantiser, and frames ``(B,)``, one every 20 ms.
        f0: `(wav (B, T), lengths (B,)) -> (F0 (B, M), frames (B,))`: Hz, 0 = unvoiced, every 20 ms.
        vocoder: `(features (B, N, D), frames (B,)) -> (wav (B, T), lengths (B,))`; the features are
            the vectors, the normalised F0 and the one-hot speaker.
    """

    content: BottleneckEncoder
    f0: Yaapt
    vocoder: HiFiGan


class VqBnHifiGan(Anonymizer):
    """B5, B6 and their siblings; the target is ``{"speaker": name}``, or ``{}`` with one voice."""

    Config = VqBnHifiGanConfig
    config: VqBnHifiGanConfig
    content: BottleneckEncoder
    f0: Yaapt
    vocoder: HiFiGan

    @property
    def components(self) -> VqBnComponents:
        """The parts: content encoder, F0 extractor, vocoder."""
        return VqBnComponents(self.content, self.f0, self.vocoder)

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names of the target speakers; those of random weights are numbers from 0."""
        return self.config.speakers or ()

    # Weights.

    def build(self) -> None:
        """Builds the networks, official where the settings leave sizes open."""
        config = self.config
        speakers = config.speakers
        if speakers is None:
            speakers = tuple(sorted(str(number) for number in range(SPEAKERS * config.voices)))
        encoder = config.encoder or BottleneckConfig(
            front_end=config.front_end, codebook_size=config.codes
        )
        width = encoder.bottleneck + F0_WIDTH + len(speakers)
        vocoder = config.vocoder or vocoder_config(width)
        if vocoder.input_width != width:
            raise ConfigError(
                f"vocoder: it takes {vocoder.input_width} values per frame, but bottleneck, F0 and "
                f"{len(speakers)} speakers are {encoder.bottleneck} + {F0_WIDTH} + {len(speakers)}."
            )
        self.config = replace(config, speakers=speakers, encoder=encoder, vocoder=vocoder)
        self._check_speaker()
        self.content = BottleneckEncoder(encoder)
        self.f0 = Yaapt()
        self.vocoder = HiFiGan(vocoder)

    def load_weights(self, files: Mapping[str, Path]) -> None:
        """Builds the networks in the sizes that ``final.pt`` states, and fills them."""
        file = files[WEIGHTS_FILE]
        checkpoint = read(file)
        encoder, vocoder = _split(state_of(checkpoint, "base_model_state_dict", file=file), file)
        sizes = config_from_entries({name: tuple(t.shape) for name, t in encoder.items()})
        self._check_kind(sizes, file)
        self.config = replace(
            self.config,
            speakers=self.config.speakers or self._read_speakers(checkpoint, file),
            encoder=self.config.encoder or sizes,
            vocoder=self.config.vocoder or _vocoder_sizes(vocoder, file),
        )
        self._check_speakers(file)
        with torch.device("meta"):
            self.build()
        # It has no entries, but constants, which are to lie on a device.
        self.f0 = Yaapt()
        load_strict(
            self.content,
            encoder,
            file=file,
            renames=self.content.renames,
            unused=lambda name: is_unused_entry(name, sizes),
            fold=fold_entries,
        )
        load_strict(self.vocoder, vocoder, file=file, fold=fold_entries)

    def _check_kind(self, sizes: BottleneckConfig, file: Path) -> None:
        """All releases call their file ``final.pt``, so that one is easily taken for another."""
        config = self.config
        if sizes.front_end != config.front_end:
            raise WeightsError(
                f"{file}: its content encoder stands on {sizes.front_end}, that of {self.info.id} "
                f"on {config.front_end}; take {self._release()}."
            )
        if sizes.codebook_size != config.codes:
            raise WeightsError(
                f"{file}: its codebook has {sizes.codebook_size or 'no'} entries, that of "
                f"{self.info.id} {config.codes or 'none'}; take {self._release()}, or load with "
                f"codes={sizes.codebook_size}."
            )

    def _release(self) -> str:
        return f"the file of release {self.info.weights[0].revision}"

    def _read_speakers(self, checkpoint: Any, file: Path) -> tuple[str, ...]:
        """Distinct speakers of the training list, sorted as texts: the order of the one-hot."""
        if not self.config.voices:
            return ()
        listed = part_of(checkpoint, "base_model_params", "utt2spk", file=file)
        if not isinstance(listed, Mapping):
            raise WeightsError(
                f"{file}: expected speakers by utterance under 'utt2spk', found a "
                f"{type(listed).__name__}; take the published file."
            )
        return tuple(sorted({str(speaker) for speaker in listed.values()}))

    def _check_speakers(self, file: Path) -> None:
        """Says where the list of speakers is not the published one, or does not fit at all."""
        config = self.config
        speakers = cast(tuple[str, ...], config.speakers)
        encoder, vocoder = cast(BottleneckConfig, config.encoder), cast(Any, config.vocoder)
        inputs = vocoder.input_width - encoder.bottleneck - F0_WIDTH
        if inputs != len(speakers):
            raise WeightsError(
                f"{file}: its vocoder has inputs for {inputs} speakers, its list has "
                f"{len(speakers)}; take {self._release()}, or pass the names in their order as "
                "speakers=(...)."
            )
        if config.voices and len(speakers) != SPEAKERS:
            note = (
                f"The weights list {len(speakers)} target speakers; the challenge's paper says "
                f"{SPEAKERS}."
            )
            _log.warning("%s: %s", file, note)
            self.info = replace(self.info, notes=(*self.info.notes, note))

    # Targets.

    def _check_speaker(self) -> None:
        if self.config.speaker is not None:
            self.parse_target(self.config.speaker)

    def draw_target(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws one of the speakers, all as likely; whose voice the source has does not count."""
        if not self.speakers:
            return {}
        if self.config.speaker is not None:
            return {"speaker": self.config.speaker}
        return {"speaker": draw_speaker(list(self.speakers), generator)}

    def parse_target(self, target: object) -> Target:
        """Accepts a speaker's name, or ``{"speaker": name}``; with one voice, ``{}``."""
        if not self.speakers:
            if target == {}:
                return {}
            raise ConfigError(f"target: {self.info.id} has one voice; leave target out.")
        name = target.get("speaker") if isinstance(target, Mapping) else target
        if name not in self.speakers:
            raise ConfigError(
                f"target: {name!r} is no speaker of {self.info.id}; its speakers are "
                f"{', '.join(self.speakers)}."
            )
        return {"speaker": name}

    # Conversion.

    @property
    def hop_samples(self) -> int:
        """Samples between frames."""
        return HOP_SAMPLES

    def convert(
        self,
        batch: Tensor,
        lengths: Tensor,
        targets: Sequence[Target],
        generators: Sequence[torch.Generator],
    ) -> tuple[Tensor, Tensor]:
        """Converts a padded batch; see `Anonymizer.convert`. Only noise on F0 draws.

        The vocoder gives 320 samples per frame and one more, from 78 fewer than the input has to
        241 more. What is more is cut off at the end; zeros follow where it is less.
        """
        content = self.content(batch, lengths)
        f0 = self._input_f0(batch, lengths, content.lengths, generators)
        speakers = self._one_hot(targets, batch)[:, None].expand(-1, f0.shape[1], -1)
        features = torch.cat([content.vectors, f0[..., None], speakers], dim=2)
        wav, _ = self.vocoder(features, content.lengths)
        return F.pad(wav, (0, batch.shape[1] - wav.shape[1])), lengths

    def _input_f0(
        self, batch: Tensor, lengths: Tensor, wanted: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """Normalised and modified F0 in ``wanted`` frames, ``(B, N)``."""
        hertz, frames = self.f0(batch, lengths)
        normal = normalize_f0(hertz, frames)
        modifiers = cast(tuple[F0Modifier, ...], self.config.f0_modifiers)
        return align_nearest(modify(normal, frames, modifiers, generators), frames, wanted)

    def _one_hot(self, targets: Sequence[Target], batch: Tensor) -> Tensor:
        """``(B, speakers)`` of float32 on the batch's device."""
        if not self.speakers:
            return batch.new_zeros(len(targets), 0)
        places = [self.speakers.index(target["speaker"]) for target in targets]
        indices = torch.tensor(places, dtype=torch.int64, device=batch.device)
        return F.one_hot(indices, len(self.speakers)).to(batch.dtype)


def _split(
    entries: Mapping[str, Tensor], file: Path
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Entries of the content encoder and of the vocoder, without their prefixes."""
    parts: dict[str, dict[str, Tensor]] = {ENCODER_PREFIX: {}, VOCODER_PREFIX: {}}
    strangers = []
    for name, tensor in entries.items():
        for prefix, part in parts.items():
            if name.startswith(prefix):
                part[name.removeprefix(prefix)] = tensor
                break
        else:
            strangers.append(name)
    if strangers or not all(parts.values()):
        raise WeightsError(
            f"{file}: expected entries under {' and '.join(parts)} only, found "
            f"{', '.join(f'{len(part)} under {prefix}' for prefix, part in parts.items())} and "
            f"{len(strangers)} others ({', '.join(strangers[:3])}). A release whose name begins "
            "with hifigan_ has both; content encoders alone do not do."
        )
    return parts[ENCODER_PREFIX], parts[VOCODER_PREFIX]


def _vocoder_sizes(entries: Mapping[str, Tensor], file: Path) -> HiFiGanConfig:
    """Widths of the vocoder, by the shape of its first convolution."""
    for name in (
        "conv_pre.weight_v",
        "conv_pre.parametrizations.weight.original1",
        "conv_pre.weight",
    ):
        if name in entries:
            first_width, input_width, _ = entries[name].shape
            return vocoder_config(input_width, first_width)
    raise WeightsError(f"{file}: {VOCODER_PREFIX}conv_pre has no weight; take the published file.")
