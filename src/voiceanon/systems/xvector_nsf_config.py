"""Settings of `XVectorNSF`, and the words that they take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from voiceanon.components.content.tdnnf_bottleneck import TdnnfBottleneckConfig
from voiceanon.components.selection.pool_average import AVERAGED, CANDIDATES, Proximity
from voiceanon.components.speaker.ivector_config import IvectorConfig
from voiceanon.components.speaker.tdnn_xvector import LOST_FRAMES, XVectorConfig
from voiceanon.components.vocoder.hn_sinc_nsf import HnSincNsfConfig
from voiceanon.errors import ConfigError

Vectors = Literal["kaldi", "sidekit"]
"""Whose x-vectors the generator takes; speakers are chosen by Kaldi's in either case."""

Distance = Literal["plda", "cosine"]
"""How x-vectors are compared."""

MissingSex = Literal["error", "any"]
"""What to do where the sex of the source is not known: fail, or take the whole pool."""

SEXES = ("f", "m")


@dataclass(frozen=True, kw_only=True)
class XVectorNSFConfig:
    """Settings; the defaults are those of `baseline/config.sh` of the challenge of 2022.

    Attributes:
        vectors: Which generator and which vectors of the pool: ``"kaldi"``, or those of the public
            tutorial, ``"sidekit"``.
        source_sex: ``"f"`` or ``"m"``: sex of all source speakers that ``source_sexes`` leaves out.
        source_sexes: ``"f"`` or ``"m"`` of source speakers by name.
        missing_sex: What to do where neither says it.
        cross_gender: Whether candidates are of the other sex.
        distance: How the source is compared with the pool.
        proximity: Whether candidates are the farthest speakers or the nearest.
        candidates: How many.
        averaged: How many of the candidates are drawn and averaged.
        dither: Standard deviation of the noise on the samples in front of the content features, in
            units of 16-bit samples (ours; Kaldi's default and the published value is 1).
        compress: Whether features pass through Kaldi's lossy compression, as in the published
            pipeline (ours is not to).
        pcm16: Whether samples are clipped and cut off to 16 bits, as in the published files.
        chunk_frames: Voiced frames of one chunk of the x-vector network; ``None`` for what lies
            beside its weights, 25 in the public package.
        min_chunk_frames: Frames that a shorter chunk is filled up to; ``None`` likewise.
        backend_width: Values behind the projection in front of PLDA; ``None`` for what the weights
            say.
        xvector: Sizes of the x-vector network; ``None`` for what the weights say.
        ivector: Sizes of the i-vector extractor; ``None`` for what the weights say.
        bottleneck: Sizes of the content network; ``None`` for what the weights say.
        generator: Sizes of the generator; ``None`` for what the weights say.
    """

    vectors: Vectors = "kaldi"
    source_sex: str | None = None
    source_sexes: Mapping[str, str] = field(default_factory=dict)
    missing_sex: MissingSex = "error"
    cross_gender: bool = False
    distance: Distance = "plda"
    proximity: Proximity = "farthest"
    candidates: int = CANDIDATES
    averaged: int = AVERAGED
    dither: float = 0.0
    compress: bool = False
    pcm16: bool = False
    chunk_frames: int | None = None
    min_chunk_frames: int | None = None
    backend_width: int | None = None
    xvector: XVectorConfig | None = None
    ivector: IvectorConfig | None = None
    bottleneck: TdnnfBottleneckConfig | None = None
    generator: HnSincNsfConfig | None = None

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ConfigError: One does not fit.
        """
        for name, word, allowed in (
            ("vectors", self.vectors, get_args(Vectors)),
            ("missing_sex", self.missing_sex, get_args(MissingSex)),
            ("distance", self.distance, get_args(Distance)),
            ("proximity", self.proximity, get_args(Proximity)),
            ("source_sex", self.source_sex, (*SEXES, None)),
        ):
            if word not in allowed:
                raise ConfigError(f"{name}: {word!r} is not one of {', '.join(map(str, allowed))}.")
        sexes = self.source_sexes
        if not isinstance(sexes, Mapping) or not all(sex in SEXES for sex in sexes.values()):
            raise ConfigError(
                f"source_sexes: expected 'f' or 'm' for each speaker, got {sexes!r:.200}."
            )
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name, number, least in (
            ("candidates", self.candidates, 1),
            # Its bounds follow below.
            ("averaged", self.averaged, 0),
            ("chunk_frames", self.chunk_frames, 1),
            # Less leaves no frame that sees all of its context.
            ("min_chunk_frames", self.min_chunk_frames, LOST_FRAMES + 1),
            ("backend_width", self.backend_width, 1),
        ):
            if number is not None and (type(number) is not int or number < least):
                raise ConfigError(f"{name}: {number!r}; a whole number from {least} on is due.")
        if not 1 <= self.averaged <= self.candidates:
            raise ConfigError(
                f"averaged: {self.averaged} of {self.candidates} candidates cannot be drawn; 1 to "
                f"{self.candidates} can."
            )
        if not isinstance(self.dither, float | int) or not 0 <= self.dither < math.inf:
            raise ConfigError(f"dither: {self.dither!r} is no standard deviation; 0 is none.")
        for name, choice in (
            ("cross_gender", self.cross_gender),
            ("compress", self.compress),
            ("pcm16", self.pcm16),
        ):
            if not isinstance(choice, bool):
                raise ConfigError(f"{name}: {choice!r} is neither True nor False.")
