"""Plain values that travel between layers: facts about a system, weight files, targets, reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Target: TypeAlias = Mapping[str, Any]
"""All random decisions that define a pseudo-voice, as JSON values, such as ``{"alpha": 0.7}``."""

Seed: TypeAlias = int | bytes | None
"""An integer, a secret, or ``None`` for draws from the operating system."""

Level: TypeAlias = Literal["utterance", "speaker"]
"""What shares one pseudo-voice: one utterance (as in VPC 2024) or all utterances of a speaker."""

Loudness: TypeAlias = Literal["published", "keep", "none"]
"""The published system's level step, the input's RMS, or what the system returns."""

Precision: TypeAlias = Literal["float32", "tf32", "bfloat16", "float16"]
"""Arithmetic of the networks inside our calls."""


@dataclass(frozen=True, kw_only=True)
class WeightFile:
    """One published file of weights and its passport.

    Attributes:
        name: Published file name; in a Hub repository, its path there.
        address: Public address of the file.
        revision: Pinned commit, tag or release.
        size: Bytes, or ``None`` if not published.
        sha256: Hex digest, or the plain word ``"unknown"``.
        licence: Licence of the weights, or ``"not stated"``.
        licence_source: Address where that licence stands.
        training_data: Corpora that the weights were trained on, or ``"not stated"``.
        repository: Hub repository such as ``"microsoft/wavlm-large"``; ``None`` for a file that
            lies elsewhere.
        folder: Folder that tells it from another published file of the same name, such as the
            repository's name; ``None`` where the name is enough.
        members: Files that are wanted from this archive; empty for a file that is used as it is. A
            bar stands between the places where a file may lie, best first, and behind the last one
            of a file that may be missing.
        other_digest: Another published digest: ``"md5:..."``, ``"git-blob:..."`` (Git's name of
            the content), ``"sha256-prefix:..."``, or ``"not stated"``.
        optional: Whether only some settings of the system need it.
        request: How to get a file that is not public, and under which address its owners keep it;
            ``None`` for one that can be fetched.
    """

    name: str
    address: str
    revision: str
    size: int | None
    sha256: str
    licence: str
    licence_source: str
    training_data: str
    repository: str | None = None
    folder: str | None = None
    members: tuple[str, ...] = ()
    other_digest: str = "not stated"
    optional: bool = False
    request: str | None = None

    @property
    def key(self) -> str:
        """Name that no other file of the system bears, and its path in a weights folder."""
        return self.name if self.folder is None else f"{self.folder}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class PublishedResult:
    """A number that the authors of a system or of a challenge published.

    Attributes:
        metric: For example ``"EER"``.
        value: In per cent.
        condition: Attacker, data and split.
        source: Paper or file, so that the number can be looked up.
    """

    metric: str
    value: float
    condition: str
    source: str


@dataclass(frozen=True, kw_only=True)
class SystemInfo:
    """Facts about a system that need neither its code nor its weights.

    Attributes:
        id: Canonical lower-case name, such as ``"vpc2024-b2"``.
        aliases: Other names under which `load` finds it, such as ``"b2"``.
        summary: One line.
        sample_rate: Rate of the model in Hz.
        min_seconds: Shortest input in seconds; 0 where one sample is enough.
        keeps_length: Whether the output has exactly the input's length.
        discrete: Whether indices (codes, neighbours, tokens) are chosen inside, so that a
            rounding difference can change them.
        level_step: What ``loudness="published"`` does, in words.
        chunk_seconds: Longest piece that is converted at once, or ``None`` for never cut.
        overlap_seconds: Context that each piece gets on both sides.
        batch_seconds: Most seconds, padding included, in one batch.
        cpu_batch_seconds: The same on a CPU, where large networks gain nothing from batches and
            lose the caches; ``None`` for no difference.
        training_rate: Rate in Hz of the speech that the weights were trained on, or ``None`` where
            there are no weights.
        speech: Language, age group and kind of speech that it was trained and measured on.
        paper: Citation and address.
        code: Address and commit of the published implementation.
        licence: Licence of the published implementation.
        published: Published results.
        weights: Weight files, empty for signal processing.
        notes: What a user must know, such as "not verified against published weights".
        guesses: Settings whose published values are not known, so that ours stand in.
    """

    id: str
    summary: str
    sample_rate: int
    aliases: tuple[str, ...] = ()
    min_seconds: float = 0.0
    keeps_length: bool = True
    discrete: bool = False
    level_step: str = "none"
    chunk_seconds: float | None = 30.0
    overlap_seconds: float = 1.0
    batch_seconds: float = 120.0
    cpu_batch_seconds: float | None = None
    training_rate: int | None = None
    speech: str = "not stated"
    paper: str = "not stated"
    code: str = "not stated"
    licence: str = "not stated"
    published: tuple[PublishedResult, ...] = ()
    weights: tuple[WeightFile, ...] = ()
    notes: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was done to one recording.

    A report holds the target. Who has the target can come close to undoing a signal-processing
    system such as B2: keep reports as private as the recordings.

    Attributes:
        system: Canonical id.
        version: Version of this library.
        config: Settings of the system.
        target: The pseudo-voice.
        seed: The integer, ``"secret"`` for bytes, or ``"drawn"`` for the operating system.
        key: Name of the utterance in the draw.
        speaker: Name of the speaker in the draw, if any.
        level: ``"utterance"`` or ``"speaker"``.
        loudness: Level step that was asked for.
        gain_db: Gain of the level step in dB.
        sample_rate: Of input and output, in Hz.
        model_rate: Of the system, in Hz.
        channels: Number of output channels.
        samples: Number of output samples per channel.
        chunks: Pieces that the longest channel was cut into; 0 if all channels were silent.
        silent_channels: Channels of zeros, returned as zeros without running the model.
        device: Where `convert` ran.
        precision: Arithmetic of the networks.
        weights: SHA-256 of each weight file by name, or that the weights are random.
        guesses: Settings whose published values are not known, so that ours stand in.
    """

    system: str
    version: str
    config: Mapping[str, Any]
    target: Target
    seed: int | str
    key: str | None
    speaker: str | None
    level: Level
    loudness: Loudness
    gain_db: float
    sample_rate: int
    model_rate: int
    channels: int
    samples: int
    chunks: int
    silent_channels: tuple[int, ...]
    device: str
    precision: Precision
    weights: Mapping[str, str]
    guesses: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as plain JSON values."""
        return asdict(self)
