"""`Anonymizer`: the interface, and the one order of steps that every system shares.

audio -> checks -> resample -> chunk -> batch -> [convert] -> unbatch -> join -> level -> resample
-> audio. A system is what stands inside the bracket; everything else is written here, once.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Unpack, cast

import torch
from torch import Tensor, nn

from voiceanon import seeding
from voiceanon._version import __version__
from voiceanon.audio import io
from voiceanon.audio.checks import check_duration
from voiceanon.audio.forms import open_audio
from voiceanon.audio.level import LevelMeter, Meter, decibels
from voiceanon.audio.source import Source
from voiceanon.devices import check_precision
from voiceanon.errors import AudioError, AudioWarning, ConfigError
from voiceanon.recording import AnonymizeOptions, ChunkSeconds, Recording, Voice, check_options
from voiceanon.runner import Runner
from voiceanon.types import Level, Loudness, Precision, Report, Seed, SystemInfo, Target

_warned_narrow_band: set[str] = set()


class Anonymizer(nn.Module, ABC):
    """A voice anonymization system.

    Implementations give `Config`, `info`, `draw_target` and `convert`, and where they need it
    `parse_target`, `published_gain` and `hop_samples`. Use `voiceanon.load` to get one.

    Attributes:
        Config: Frozen dataclass of settings; its defaults are the published system.
        info: Facts about the system.
        config: The settings in force.
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
        # Tells the device also where a system has no parameters.
        self.register_buffer("_anchor", torch.empty(0), persistent=False)

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
    def hop_samples(self) -> int:
        """Chunks of long audio begin on multiples of this."""
        return 1

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
        speakers: Sequence[str] | None = None,
        level: Level = "utterance",
        targets: Sequence[object] | None = None,
        loudness: Loudness = "published",
        mix_channels: bool = False,
        chunk_seconds: ChunkSeconds = "auto",
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
            speakers: One per recording.
            level: As in `anonymize`.
            targets: One per recording.
            loudness: As in `anonymize`.
            mix_channels: As in `anonymize`.
            chunk_seconds: As in `anonymize`.
            return_reports: Return ``(results, reports)``.

        Returns:
            A list of results, each in the form of its input.

        Raises:
            VoiceanonError: As in `anonymize`; the message names the item.
        """
        check_options(level, loudness)
        seeding.check_seed(seed)
        chunk_seconds = self._chunk_seconds(chunk_seconds)
        if seed is not None and keys is None and level == "utterance" and len(audios) > 1:
            warnings.warn(
                "a seed without keys gives every item the same voice; pass keys, one per item.",
                UserWarning,
                stacklevel=2,
            )
        names = zip(
            _one_per_item("keys", keys, len(audios)),
            _one_per_item("speakers", speakers, len(audios)),
            _one_per_item("targets", targets, len(audios)),
            strict=True,
        )
        # At speaker level, one call without a seed is one draw for each speaker.
        secret = seeding.seed_secret(seed) if seed is not None or level == "speaker" else None
        recordings = []
        for index, (audio, item) in enumerate(zip(audios, names, strict=True)):
            try:
                voice = self._choose_voice(secret, level, *item)
                recordings.append(self._open(audio, sample_rate, mix_channels, voice))
            except (AudioError, ConfigError) as error:
                if len(audios) == 1:
                    raise
                raise type(error)(f"item {index}: {error}") from error
        Runner(self, chunk_seconds).run(recordings, loudness)
        results = [recording.opened.restore(recording.result) for recording in recordings]
        if not return_reports:
            return results
        return results, [self._report(item, seed, level, loudness) for item in recordings]

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
        if os.path.exists(dst) and os.path.samefile(src, dst):
            raise AudioError(f"{dst}: source and destination are one file; choose another name.")
        subtype = io.read_facts(src).subtype
        result, report = self.anonymize(src, return_report=True, **options)
        io.write(dst, result, report.sample_rate, subtype)
        return cast(Report, report)

    # The steps.

    def _chunk_seconds(self, wanted: ChunkSeconds) -> float | None:
        if wanted == "auto":
            return self.info.chunk_seconds
        least = 2 * self.info.overlap_seconds
        if wanted is not None and wanted < least:
            raise ConfigError(
                f"chunk_seconds: {wanted} is too short for {self.info.id}; use at least {least:g}, "
                "or None to never cut."
            )
        return wanted

    def _choose_voice(
        self,
        secret: bytes | None,
        level: Level,
        key: str | None,
        speaker: str | None,
        given: object,
    ) -> Voice:
        secret = seeding.fresh_secret() if secret is None else secret
        if given is not None:
            return Voice(self.parse_target(given), secret, key, speaker)
        if level == "speaker" and speaker is None:
            raise ConfigError(
                "speaker: level='speaker' needs the name of the speaker; pass speaker=..., or use "
                "level='utterance'."
            )
        name = (speaker if level == "speaker" else key) or ""
        draw = seeding.generator(seeding.stream(secret, self.info.id, "target", level, name))
        return Voice(self.draw_target(draw, speaker), secret, key, speaker)

    def _open(
        self, audio: Any, sample_rate: int | None, mix_channels: bool, voice: Voice
    ) -> Recording:
        opened = open_audio(audio, sample_rate, self.sample_rate)
        samples = opened.samples.shape[1]
        check_duration(samples, opened.rate, self.info.min_seconds, self.info.id)
        self._warn_narrow_band(opened.rate)
        return Recording(opened, Source(opened.samples, opened.rate, mix=mix_channels), voice)

    def _warn_narrow_band(self, rate: int) -> None:
        trained = self.info.training_rate
        if trained is None or rate >= trained or self.info.id in _warned_narrow_band:
            return
        _warned_narrow_band.add(self.info.id)
        warnings.warn(
            f"{self.info.id}: audio at {rate} Hz; the published weights were trained on speech at "
            f"{trained} Hz, so the result may be worse than published. (Said once per process.)",
            AudioWarning,
            stacklevel=5,
        )

    def _report(self, recording: Recording, seed: Seed, level: Level, loudness: Loudness) -> Report:
        return Report(
            system=self.info.id,
            version=__version__,
            config=asdict(self.config),
            target=recording.voice.target,
            seed=seeding.describe(seed),
            key=recording.voice.key,
            speaker=recording.voice.speaker,
            level=level,
            loudness=loudness,
            gain_db=decibels(recording.gain),
            sample_rate=recording.opened.rate,
            model_rate=self.sample_rate,
            channels=recording.source.channels,
            samples=recording.result.shape[1],
            chunks=recording.chunks,
            silent_channels=recording.source.silent,
            device=str(self.device),
            precision=self.precision,
            weights={file.name: file.sha256 for file in self.info.weights},
        )


def _one_per_item(name: str, values: Sequence[Any] | None, count: int) -> Sequence[Any]:
    if values is None:
        return [None] * count
    if isinstance(values, str | bytes) or len(values) != count:
        raise ConfigError(f"{name}: {len(values)} given for {count} recordings; pass one for each.")
    return values
