"""Settings of `XVectorNSF`, and the words that they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from voiceanon.components.content.tdnnf_bottleneck import TdnnfBottleneckConfig
from voiceanon.components.selection.pool_average import AVERAGED, CANDIDATES, Proximity
from voiceanon.components.speaker.ivector_config import IvectorConfig
from voiceanon.components.speaker.tdnn_xvector import XVectorConfig
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
        wrong = {name: sex for name, sex in self.source_sexes.items() if sex not in SEXES}
        if wrong:
            raise ConfigError(f"source_sexes: expected 'f' or 'm' for each speaker, got {wrong}.")
        if not 1 <= self.averaged <= self.candidates:
            raise ConfigError(
                f"averaged: {self.averaged} of {self.candidates} candidates cannot be drawn; 1 to "
                f"{self.candidates} can."
            )
        if not self.dither >= 0:
            raise ConfigError(f"dither: {self.dither} is no standard deviation; 0 is none.")
