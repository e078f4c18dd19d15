"""`Anonymizer`: the interface, and the one order of steps that every system shares.

audio -> checks -> resample -> chunk -> batch -> [convert] -> unbatch -> join -> level -> resample
-> audio. A system is what stands inside the bracket; everything else is written here, once.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Unpack, cast

import torch
from torch import Tensor, nn

from voiceanon import seeding
from voiceanon.audio import io
from voiceanon.audio.level import LevelMeter, Meter
from voiceanon.devices import check_precision, plain_defaults
from voiceanon.errors import AudioError, ConfigError
from voiceanon.hub.pool import Pool
from voiceanon.pretrained import write_pretrained
from voiceanon.recording import (
    AnonymizeOptions,
    ChunkSeconds,
    check_options,
    make_report,
    names_of_items,
    open_recordings,
)
from voiceanon.runner import Runner, chunk_limit
from voiceanon.types import Level, Loudness, Precision, Report, Seed, SystemInfo, Target


class Anonymizer(nn.Module, ABC):
    """A voice anonymization system.

    Implementations give `Config`, `info`, `draw_target` and `convert`, and where they need it
    `parse_target`, `published_gain` and `hop_samples`. Use `voiceanon.load` to get one.

    Attributes:
        Config: Frozen dataclass of settings; its defaults are the published system.
        info: Facts about the system.
        config: The settings in force.
        weight_digests: SHA-256 of each weight file by name, once loaded.
        pool: Target speakers, for systems that have them.
    """

    Config: ClassVar[type[Any]]
    info: SystemInfo

    def __init__(self, config: Any = None, info: SystemInfo | None = None) -> None:
        """Builds the system on the CPU.

        Args:
            config: An instance of `Config`; ``None`` for the defaults.
            info: Facts, where they do not stand in the class.
        """
        super().__init__()
        self.config = self.Config() if config is None else config
        if info is not None:
            self.info = info
        self.precision = "float32"
        self.weight_digests: dict[str, str] = {}
        self.pool: Pool | None = None
        # Tells the device also where a system has no parameters.
        self.register_buffer("_anchor", torch.empty(0, dtype=torch.float32), persistent=False)

    # What an implementation gives.

    @abstractmethod
    def draw_target(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Makes all random decisions that define the voice.

        Args:
            generator: On the CPU; the only source of randomness.
            speaker: Name of the source speaker, if the caller gave one.

        Returns:
            A small dictionary of JSON values, which goes into the report.
        """

    @abstractmethod
    def convert(
        self,
        batch: Tensor,
        lengths: Tensor,
        targets: Sequence[Target],
        generators: Sequence[torch.Generator],
    ) -> tuple[Tensor, Tensor]:
        """Converts a padded batch; the hot path.

        Args:
            batch: float32 ``(B, T)`` at `sample_rate`, full scale 1.0, zeros behind each length.
            lengths: int64 ``(B,)`` in samples, on the batch's device.
            targets: One voice per item.
            generators: One CPU generator per item, for noise that does not define the voice.

        Returns:
            float32 ``(B, T')`` and int64 lengths ``(B,)``; the same lengths if `info` says so. Item
            ``i`` must not depend on the other items or on the padding.
        """

    def parse_target(self, target: object) -> Target:
        """Checks a target that the caller passed.

        Raises:
            ConfigError: It is no dictionary, or not one that this system understands.
        """
        if not isinstance(target, Mapping):
            raise ConfigError(
                f"target: {self.info.id} takes a dictionary as in its reports, got {target!r}."
            )
        return dict(target)

    def settle_targets(
        self, batch: Tensor, lengths: Tensor, targets: Sequence[Target]
    ) -> list[Target]:
        """Completes targets that depend on the source, from the first chunk of each recording.

        Args:
            batch: As in `convert`.
            lengths: As in `convert`.
            targets: One per item; a complete one comes back as it is.

        Returns:
            What `convert` gets for all chunks and channels, and what the report holds.
        """
        return list(targets)

    def new_meter(self) -> Meter:
        """What the level step needs to know of a converted channel, measured while it passes."""
        return LevelMeter()

    def published_gain(self, source: LevelMeter, results: Sequence[Any]) -> float:
        """Gain of the published system's level step, one for all channels.

        Args:
            source: Peak and RMS of the recording, all channels, at its own rate.
            results: The `new_meter` of each channel that was converted, at `sample_rate`.
        """
        return 1.0

    @property
    def members(self) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Systems that this one is made of: name and options of `load` by role."""
        return {}

    def use_members(self, members: Mapping[str, Anonymizer]) -> None:
        """Takes the loaded `members`."""
        raise NotImplementedError(f"{self.info.id} is not made of other systems")

    def level_step_of(self, target: Target) -> Anonymizer:
        """The system whose level step a voice gets; another one for a mixture of systems."""
        return self

    @property
    def hop_samples(self) -> int:
        """Chunks of long audio begin on multiples of this."""
        return 1

    @property
    def weight_keys(self) -> tuple[str, ...]:
        """Weight files of `info` that these settings need, by `WeightFile.key`."""
        return tuple(file.key for file in self.info.weights if not file.optional)

    def build(self) -> None:
        """Builds the networks in the sizes of `config`, official where it leaves them open."""
        raise NotImplementedError(f"{self.info.id} has weight files but builds no networks")

    def load_weights(self, files: Mapping[str, Path]) -> None:
        """Builds the networks in the sizes that the files state, and fills them, strictly.

        Args:
            files: Verified files by `weight_keys`. Sizes go into `config`.

        Raises:
            WeightsError: A file does not hold what is due.
        """
        raise NotImplementedError(f"{self.info.id} has weight files but does not load them")

    def use_pool(self, pool: object) -> None:
        """Takes the target speakers from which voices are drawn.

        Args:
            pool: A pool, its path, or reference speech by speaker name.

        Raises:
            ConfigError: The system has no target speakers, or the pool does not fit.
        """
        raise ConfigError(f"pool: {self.info.id} has no target speakers; leave pool out.")

    def make_pool(
        self, references: Mapping[str, Any], *, sexes: Mapping[str, str] | None = None
    ) -> Any:
        """Makes a pool of target speakers, for `use_pool`.

        Args:
            references: By speaker name: a recording or a list of them, in any form of `anonymize`.
            sexes: ``"f"`` or ``"m"`` of the speakers, where known.

        Raises:
            AudioError: A recording is not usable as it is.
            ConfigError: The system has no target speakers, or one of them has too little speech.
        """
        raise ConfigError(f"pool: {self.info.id} has no target speakers; use a system that does.")

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes settings, weights and pool into a folder that `voiceanon.load` reads.

        Args:
            folder: Made if need be; gets ``config.json``, and ``model.safetensors`` and
                ``pool.safetensors`` where there are weights and a pool.
        """
        write_pretrained(self, Path(folder))

    # Facts.

    @property
    def sample_rate(self) -> int:
        """Rate of the model in Hz; what ``sample_rate=None`` means for arrays."""
        return self.info.sample_rate

    @property
    def device(self) -> torch.device:
        """Where `convert` runs."""
        return self.get_buffer("_anchor").device

    @property
    def batch_seconds(self) -> float:
        """Most seconds, padding included, in one batch on this device."""
        on_cpu = self.info.cpu_batch_seconds if self.device.type == "cpu" else None
        return self.info.batch_seconds if on_cpu is None else on_cpu

    @property
    def precision(self) -> Precision:
        """Arithmetic of the networks inside our calls."""
        return self._precision

    @precision.setter
    def precision(self, value: Precision) -> None:
        check_precision(value)
        self._precision: Precision = value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The same as `anonymize`."""
        return self.anonymize(*args, **kwargs)

    # The public verbs.

    def anonymize(
        self,
        audio: Any,
        sample_rate: int | None = None,
        *,
        seed: Seed = None,
        key: str | None = None,
        speaker: str | None = None,
        level: Level = "utterance",
        target: object = None,
        loudness: Loudness = "published",
        mix_channels: bool = False,
        chunk_seconds: ChunkSeconds = "auto",
        match_length: bool = False,
        return_report: bool = False,
    ) -> Any:
        """Anonymizes one recording; a bare array or tensor is taken to be at `sample_rate` Hz.

        Args:
            audio: Tensor or NumPy array ``(T,)`` or ``(C, T)`` (float with full scale 1.0, int16,
                int32, uint8), a path, or ``{"array", "sampling_rate"}``.
            sample_rate: Rate of ``audio`` in Hz. ``None``: an array is already at the rate of the
                system; files and dictionaries carry their own.
            seed: ``None`` draws a new voice from the operating system at every call. With an
                integer or a secret (bytes), the voice depends on seed, system and ``key`` alone.
            key: Name of this utterance in the draw. Without it, one seed gives one voice.
            speaker: Name of the source speaker; needed where ``level="speaker"``.
            level: What shares a voice: the utterance, or all utterances of ``speaker``.
            target: A voice instead of a draw, as it stands in a report.
            loudness: ``"published"`` keeps the level step of the published system, ``"keep"``
                restores the input's RMS, ``"none"`` returns what the system gives.
            mix_channels: Average the channels first and return one.
            chunk_seconds: Longest piece that is converted at once; ``"auto"`` for the system's own,
                ``None`` for never cut.
            match_length: Cut or fill with zeros to the input's length, for systems that do not keep
                it.
            return_report: Return ``(result, Report)``.

        Returns:
            float32 audio of the input's form, shape, rate, device and, for systems that keep time,
            length. For a path: a NumPy array at the file's rate.

        Raises:
            AudioError: The audio cannot be anonymized as it is.
            ConfigError: An option does not fit.
            ConversionError: The system gave values that are not finite.
        """
        results, reports = self.anonymize_batch(
            [audio],
            sample_rate,
            seed=seed,
            keys=None if key is None else [key],
            speakers=None if speaker is None else [speaker],
            level=level,
            targets=None if target is None else [target],
            loudness=loudness,
            mix_channels=mix_channels,
            chunk_seconds=chunk_seconds,
            match_length=match_length,
            return_reports=True,
        )
        return (results[0], reports[0]) if return_report else results[0]

    def anonymize_batch(
        self,
        audios: Sequence[Any],
        sample_rate: int | None = None,
        *,
        seed: Seed = None,
        keys: Sequence[str] | None = None,
        speakers: Sequence[str | None] | None = None,
        level: Level = "utterance",
        targets: Sequence[object] | None = None,
        loudness: Loudness = "published",
        mix_channels: bool = False,
        chunk_seconds: ChunkSeconds = "auto",
        match_length: bool = False,
        return_reports: bool = False,
    ) -> Any:
        """Anonymizes recordings of any lengths; item ``i`` is what `anonymize` gives for it.

        Args:
            audios: As in `anonymize`, in any mixture.
            sample_rate: As in `anonymize`, for all arrays and tensors of the list.
            seed: As in `anonymize`. With ``seed=None`` and ``level="speaker"``, the voices are
                drawn anew at every call, one per speaker.
            keys: One per recording. A seed without keys gives all of them one voice, with a
                warning.
            speakers: One per recording, ``None`` where it is not known.
            level: As in `anonymize`.
            targets: One per recording.
            loudness: As in `anonymize`.
            mix_channels: As in `anonymize`.
            chunk_seconds: As in `anonymize`.
            match_length: As in `anonymize`.
            return_reports: Return ``(results, reports)``.

        Returns:
            A list of results, each in the form of its input.

        Raises:
            VoiceanonError: As in `anonymize`; the message names the item.
        """
        check_options(level, loudness)
        seeding.check_seed(seed)
        limit = chunk_limit(self.info, chunk_seconds)
        if seed is not None and keys is None and level == "utterance" and len(audios) > 1:
            warnings.warn(
                "a seed without keys gives every item the same voice; pass keys, one per item.",
                UserWarning,
                stacklevel=2,
            )
        # At speaker level, one call without a seed is one draw for each speaker.
        secret = seeding.seed_secret(seed) if seed is not None or level == "speaker" else None
        names = names_of_items(len(audios), keys, speakers, targets)
        with plain_defaults():
            items = open_recordings(self, audios, sample_rate, mix_channels, secret, level, names)
            Runner(self, limit).run(items, loudness, match_length)
            results = [item.opened.restore(item.result) for item in items]
        if not return_reports:
            return results
        return results, [make_report(self, item, seed, level, loudness) for item in items]

    def anonymize_file(
        self,
        src: str | os.PathLike[str],
        dst: str | os.PathLike[str],
        **options: Unpack[AnonymizeOptions],
    ) -> Report:
        """Anonymizes a file into another, atomically; metadata tags are not carried over.

        Args:
            src: A file that libsndfile reads (WAV, FLAC, OGG, MP3, NIST SPHERE, ...).
            dst: ``.wav``, ``.flac`` or ``.ogg``; the sample format of ``src`` is kept where the
                container has it.
            **options: Keyword options of `anonymize`.

        Raises:
            AudioError: A file cannot be read or written, or both are the same.
        """
        io.check_writable(dst)
        subtype = io.read_facts(src).subtype
        if os.path.exists(dst) and os.path.samefile(src, dst):
            raise AudioError(f"{dst}: source and destination are one file; choose another name.")
        result, report = self.anonymize(src, return_report=True, **options)
        io.write(dst, result, report.sample_rate, subtype)
        return cast(Report, report)
