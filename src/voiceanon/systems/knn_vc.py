"""kNN-VC: every frame of the source becomes the mean of the nearest frames of a target speaker.

Method: Baas, van Niekerk, Kamper 2023, "Voice Conversion With Just Nearest Neighbors",
arXiv:2305.18975; repository bshall/knn-vc, commit 848302a. As anonymization systems: T8-2 and
T19-1 (KNNS) of the VoicePrivacy Challenge 2024 (results paper, section 5).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.anonymizer import Anonymizer
from voiceanon.audio.level import LevelMeter
from voiceanon.audio.loudness import LoudnessMeter, loudness_gain, mean_loudness
from voiceanon.batching import unpad
from voiceanon.components.content.wavlm import WavLM
from voiceanon.components.content.wavlm_config import (
    HOP_SAMPLES,
    HUB_RENAMES,
    WavLMConfig,
    is_unused_entry,
)
from voiceanon.components.selection.neighbours import PreparedPool, match
from voiceanon.components.selection.targets import Rule, candidates, check_rule, draw_speaker
from voiceanon.components.vocoder.hifigan import HiFiGan, HiFiGanConfig
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError
from voiceanon.hub.convert import load_strict, rename
from voiceanon.hub.pool import Pool
from voiceanon.hub.read import part_of, read, state_of
from voiceanon.systems.pools import as_pool, check_pool, require_pool, run_in_batches
from voiceanon.systems.references import open_references
from voiceanon.types import SystemInfo, Target

VocoderFile = Literal["prematch_g_02500000.pt", "g_02500000.pt"]
PoolDtype = Literal["float32", "float16"]
EncoderFile = Literal["WavLM-Large.pt", "wavlm-large/pytorch_model.bin"]

ORIGINAL_ENCODER = "WavLM-Large.pt"
HUB_SETTINGS = "wavlm-large/config.json"

VOCODER_SETTINGS = "config_v1_wavlm.json"
"""Sizes of the vocoder, where they lie beside its weights (repository, folder hifigan)."""

OFFICIAL_VOCODER = HiFiGanConfig(
    input_width=1024, linear_width=512, strides=(10, 8, 2, 2), kernels=(20, 16, 4, 4)
)
"""`hifigan/config_v1_wavlm.json` of the repository."""

PREPARED_SPEAKERS = 64
"""Speakers whose frames stay on the device; 61 MB each at 5 minutes in float32."""


@dataclass(frozen=True, kw_only=True)
class KnnVCConfig:
    """Settings; the defaults are those of the repository's `hubconf.py` and `matcher.py`.

    Attributes:
        layer: WavLM layer whose output is compared and vocoded.
        neighbours: Frames that are averaged.
        encoder_file: The authors' file or the Hub's; both hold the same network.
        vocoder_file: Trained on prematched features, or on plain ones.
        loudness_lkfs: Loudness of the published level step, LKFS.
        selection: Which target speakers may be drawn; T8-2 and T19-1 draw from all.
        source_sexes: ``"f"`` or ``"m"`` of source speakers, for the other two rules.
        pool_seconds: Most reference speech per target, seconds (ours: the authors report little
            gain beyond 5 minutes); ``None`` for all, as T19-1.
        pool_dtype: In which the features of a pool are kept; ``"float16"`` takes half the memory
            and changes the neighbours of about 0.25 % of the frames.
        trim_level: Trigger level of the voice activity trim of references; 0 for no trim.
        encoder: Sizes of WavLM; ``None`` for what the weights say.
        vocoder: Sizes of the vocoder; ``None`` for what lies beside the weights, or the official.
    """

    layer: int = 6
    neighbours: int = 4
    encoder_file: EncoderFile = "WavLM-Large.pt"
    vocoder_file: VocoderFile = "prematch_g_02500000.pt"
    loudness_lkfs: float = -16.0
    selection: Rule = "random"
    source_sexes: Mapping[str, str] = field(default_factory=dict)
    pool_seconds: float | None = 300.0
    pool_dtype: PoolDtype = "float32"
    trim_level: float = 7.0
    encoder: WavLMConfig | None = None
    vocoder: HiFiGanConfig | None = None

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ConfigError: One does not fit.
        """
        check_rule(self.selection)
        for name, value in (("layer", self.layer), ("neighbours", self.neighbours)):
            if value < 1:
                raise ConfigError(f"{name}: {value} is too small; at least 1 is due.")
        for name, word, allowed in (
            ("encoder_file", self.encoder_file, get_args(EncoderFile)),
            ("vocoder_file", self.vocoder_file, get_args(VocoderFile)),
            ("pool_dtype", self.pool_dtype, get_args(PoolDtype)),
        ):
            if word not in allowed:
                raise ConfigError(f"{name}: {word!r} is not one of {', '.join(allowed)}.")
        if self.pool_seconds is not None and self.pool_seconds <= 0:
            raise ConfigError(f"pool_seconds: {self.pool_seconds} s; a positive time is due.")


class KnnVC(Anonymizer):
    """kNN-VC; its target is ``{"speaker": name}``, a speaker of its pool."""

    Config = KnnVCConfig
    config: KnnVCConfig
    wavlm: WavLM
    vocoder: HiFiGan

    def __init__(self, config: KnnVCConfig, info: SystemInfo) -> None:
        """Takes the settings; `build` and `load_weights` build the networks."""
        super().__init__(config, info)
        self._prepared: OrderedDict[str, PreparedPool] = OrderedDict()

    # Weights.

    @property
    def weight_keys(self) -> tuple[str, ...]:
        """The encoder, with its settings if they are a file of their own, and the vocoder."""
        settings = () if self.config.encoder_file == ORIGINAL_ENCODER else (HUB_SETTINGS,)
        return (self.config.encoder_file, *settings, self.config.vocoder_file)

    def build(self) -> None:
        """Builds the networks, official where the settings leave sizes open."""
        self.config = replace(
            self.config,
            encoder=self.config.encoder or WavLMConfig(),
            vocoder=self.config.vocoder or OFFICIAL_VOCODER,
        )
        self.wavlm = WavLM(self.config.encoder, layers=self.config.layer)
        self.vocoder = HiFiGan(cast(HiFiGanConfig, self.config.vocoder))

    def load_weights(self, files: Mapping[str, Path]) -> None:
        """Builds the networks in the sizes that the files state, and fills them."""
        encoder, vocoder = files[self.config.encoder_file], files[self.config.vocoder_file]
        checkpoint = read(encoder)
        original = self.config.encoder_file == ORIGINAL_ENCODER
        if original:
            settings = part_of(checkpoint, "cfg", file=encoder)
        else:
            settings = _read_settings(files[HUB_SETTINGS])
        self.config = replace(
            self.config,
            encoder=self.config.encoder or WavLMConfig.from_published(settings),
            vocoder=self.config.vocoder
            or _vocoder_config(_read_settings(vocoder.with_name(VOCODER_SETTINGS))),
        )
        with torch.device("meta"):
            self.build()
        load_strict(
            self.wavlm,
            rename(
                state_of(checkpoint, *(("model",) if original else ()), file=encoder),
                () if original else HUB_RENAMES,
                file=encoder,
            ),
            file=encoder,
            unused=lambda name: is_unused_entry(name, layers=self.config.layer),
            fold=fold_entries,
        )
        state = state_of(read(vocoder), "generator", file=vocoder)
        load_strict(self.vocoder, state, file=vocoder, fold=fold_entries)

    # Targets.

    def use_pool(self, pool: object) -> None:
        """Takes target speakers; see `Anonymizer.use_pool`.

        Args:
            pool: A `Pool`, the path of one, or reference speech by speaker name.
        """
        pool = as_pool(pool, self.make_pool)
        check_pool(
            pool, width=self.wavlm.config.width, made_with=self._made_with(), system=self.info.id
        )
        self.pool = pool
        self.weight_digests = {**self.weight_digests, "pool": pool.digest()}
        self._prepared.clear()

    def _made_with(self) -> dict[str, str]:
        """What makes features comparable: the encoder's weights and the layer."""
        encoder = self.weight_digests.get(self.config.encoder_file, "not known")
        return {"encoder": encoder, "layer": str(self.config.layer)}

    def make_pool(
        self, references: Mapping[str, Any], *, sexes: Mapping[str, str] | None = None
    ) -> Pool:
        """Computes the features of reference speech.

        Args:
            references: By speaker name: a recording or a list of them, in any form that `anonymize`
                takes (arrays at `sample_rate`). Channels are averaged, voice activity is trimmed.
            sexes: ``"f"`` or ``"m"`` of the speakers, where known.

        Raises:
            AudioError: A recording is not usable as it is.
            ConfigError: A speaker has no recording of 0.025 s or longer.
        """
        features = {
            name: self._encode(open_references(
                name,
                recordings,
                rate=self.sample_rate,
                max_seconds=self.config.pool_seconds,
                piece_seconds=self.info.chunk_seconds,
                trim_level=self.config.trim_level,
                min_samples=int(self.info.min_seconds * self.sample_rate),
            ))
            for name, recordings in references.items()
        }  # fmt: skip
        facts = {
            **self._made_with(),
            "system": self.info.id,
            "trim_level": str(self.config.trim_level),
        }
        return Pool(features, dict(sexes or {}), facts)

    def _encode(self, waves: Sequence[Tensor]) -> Tensor:
        """Features of waves, one after the other, ``(M, D)`` on the CPU."""
        dtype: torch.dtype = getattr(torch, self.config.pool_dtype)

        def frames_of(batch: Tensor, lengths: Tensor) -> list[Tensor]:
            return [frames.to("cpu", dtype) for frames in unpad(*self.wavlm(batch, lengths))]

        return torch.cat(run_in_batches(self, waves, frames_of))

    def draw_target(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws a speaker of the pool with one number; all that the rule allows are as likely."""
        pool = require_pool(self)
        source_sex = None if speaker is None else self.config.source_sexes.get(speaker)
        sexes = {name: pool.sex(name) for name in pool.names}
        allowed = candidates(sexes, self.config.selection, source_sex)
        return {"speaker": draw_speaker(allowed, generator)}

    def parse_target(self, target: object) -> Target:
        """Accepts the name of a speaker of the pool, or ``{"speaker": name}``."""
        pool = require_pool(self)
        name = target.get("speaker") if isinstance(target, Mapping) else target
        if not isinstance(name, str) or name not in pool.features:
            raise ConfigError(
                f"target: {name!r} is no speaker of the pool; its speakers are "
                f"{', '.join(pool.names)}."
            )
        return {"speaker": name}

    def _prepare(self, speaker: str) -> PreparedPool:
        """Frames of a speaker on the device; the most recently used stay there."""
        prepared = self._prepared.get(speaker)
        if prepared is None or prepared.frames.device != self.device:
            frames = require_pool(self).features[speaker].to(self.device)
            prepared = PreparedPool.prepare(frames, dtype=frames.dtype)
        self._prepared[speaker] = prepared
        self._prepared.move_to_end(speaker)
        while len(self._prepared) > PREPARED_SPEAKERS:
            self._prepared.popitem(last=False)
        return prepared

    def _apply(self, fn: Any, recurse: bool = True) -> KnnVC:
        # Prepared speakers move when they are used next.
        self._prepared.clear()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    # Conversion.

    @property
    def hop_samples(self) -> int:
        """Samples between frames."""
        return HOP_SAMPLES

    def new_meter(self) -> LoudnessMeter:
        """Measures loudness."""
        return _VocoderLoudness(self.sample_rate)

    def published_gain(self, source: LevelMeter, results: Sequence[LoudnessMeter]) -> float:
        """Brings the recording to the published loudness; there is no limit on the peak."""
        level = mean_loudness([result.lkfs for result in results])
        return loudness_gain(level, self.config.loudness_lkfs)

    def convert(
        self,
        batch: Tensor,
        lengths: Tensor,
        targets: Sequence[Target],
        generators: Sequence[torch.Generator],
    ) -> tuple[Tensor, Tensor]:
        """Converts a padded batch; see `Anonymizer.convert`. Draws nothing.

        The vocoder gives 320 samples per frame, which ends 80 to 399 samples before the input does;
        zeros follow up to the input's length.
        """
        features, frames = self.wavlm(batch, lengths)
        pools = [self._prepare(target["speaker"]) for target in targets]
        matched = match(features, frames, pools, self.config.neighbours, coarse=_coarse(batch))
        wav, _ = self.vocoder(matched, frames)
        return F.pad(wav, (0, batch.shape[1] - wav.shape[1])), lengths


class _VocoderLoudness(LoudnessMeter):
    """Leaves out the zeros that end a recording: they are not the vocoder's."""

    def __init__(self, sample_rate: int) -> None:
        super().__init__(sample_rate)
        self._held = 0

    def add(self, block: Tensor) -> None:
        sounding = block.nonzero()
        end = int(sounding[-1]) + 1 if len(sounding) else 0
        if end:
            super().add(F.pad(block[:end], (self._held, 0)))
            self._held = 0
        self._held += len(block) - end


def _coarse(batch: Tensor) -> torch.dtype | None:
    """Type of the first pass over the pool: autocast's, if it is on."""
    kind = batch.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def _read_settings(path: Path) -> dict[str, Any]:
    """Settings of a JSON file, or none if it is not there."""
    settings: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return settings


def _vocoder_config(settings: Mapping[str, Any]) -> HiFiGanConfig:
    """Sizes from `config_v1_wavlm.json`; the official ones for what it leaves out."""
    official = OFFICIAL_VOCODER
    dilations = settings.get("resblock_dilation_sizes", [official.residual_dilations])
    return HiFiGanConfig(
        input_width=settings.get("hubert_dim", official.input_width),
        linear_width=settings.get("hifi_dim", official.linear_width),
        first_width=settings.get("upsample_initial_channel", official.first_width),
        strides=tuple(settings.get("upsample_rates", official.strides)),
        kernels=tuple(settings.get("upsample_kernel_sizes", official.kernels)),
        residual_kernels=tuple(settings.get("resblock_kernel_sizes", official.residual_kernels)),
        residual_dilations=tuple(dilations[0]),
    )
