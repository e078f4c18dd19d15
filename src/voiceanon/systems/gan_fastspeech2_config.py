"""Settings of B3 and of its variants, T12-4 and T30-1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from voiceanon.components.acoustic.fastspeech2 import FastSpeech2Config
from voiceanon.components.asr.branchformer.beam_search import SearchOptions
from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig, is_whole
from voiceanon.components.prosody.multipliers import PUBLISHED_RANGE
from voiceanon.components.selection.kmeans import CENTROIDS
from voiceanon.components.selection.rejection import SIMILARITY_THRESHOLD, TRIES
from voiceanon.components.selection.targets import OTHER_SEX, Rule, check_rule
from voiceanon.components.speaker.wgan import WganConfig
from voiceanon.components.vocoder.hifigan import HiFiGanConfig
from voiceanon.errors import ConfigError

Embedding = Literal["gan", "pool_random", "pool_farthest_mean", "pool_farthest_mix"]
"""Where speaker vectors come from."""

Silences = Literal["published", "fixed"]
"""How long the silences at both ends are."""

OFFICIAL_VOCODER = HiFiGanConfig(input_width=80, strides=(8, 6, 4, 4), kernels=(16, 12, 8, 8))
"""Sizes of `tts/HiFiGAN_combined/best.pt`: 16 kHz frames to 48 kHz (sheet of B3, section 12)."""


@dataclass(frozen=True, kw_only=True)
class GanFastSpeech2Config:
    """Settings; the defaults are those of the challenge's B3.

    Attributes:
        embedding: Where the speaker vector comes from. ``"gan"`` (B3): artificial vectors, tried
            until one is not like the source's. ``"pool_random"`` (T12-4): any vector of a pool.
            ``"pool_farthest_mix"`` (T30-1): the least like the source's, with some values of a
            centroid. ``"pool_farthest_mean"``: the mean of some of the least like.
        threshold: Cosine similarity to the source's vector from which on an artificial vector is
            refused (`gan_anon.py`: distance of 0.3).
        tries: Artificial vectors that are tried; the last one is taken in any case (`gan_anon.py`).
        stock: Artificial vectors that there are (`gan_anon.py`).
        stock_seed: Of the noise that they are made from, where the weights bring no stock (ours:
            published code draws them without a seed).
        stock_file: Whether the stock of the weights is used; ``None`` for whether there is one.
        selection: Which vectors of a pool may be taken, by the speaker's sex: T12-4 takes the other
            sex.
        source_sex: ``"f"`` or ``"m"``, of all sources, for the rules ``"same"`` and ``"other"``.
        source_sexes: The same by name of the source speaker; comes first.
        farthest: Vectors least like the source's from which some are drawn (T12-2: 200) ...
        averaged: ... and their number, for the mean (T12-2: 100).
        centroids: Of a pool, by k-means (T30-1: 500); as many as there are vectors, if these are
            fewer.
        mixed_share: Share of the values that are taken from a centroid (T30-1: not published).
        prosody_range: Percentages by which energy and pitch of each symbol are multiplied, the last
            one excluded (`ims_prosody_anonymization.py`: 60 to 139); ``None`` leaves them.
        adapt: Whether the aligner is trained on each utterance before it is used, as published.
        silences: ``"published"``: those at both ends come out three times too short. ``"fixed"``:
            as long as in the source.
        beam: Hypotheses of the recogniser (`ims_asr.py`).
        ctc_weight: Of its CTC scores; the decoder's have the rest (`ims_asr.py`).
        tokens: The recogniser's; ``None`` for what the weights say.
        recognizer: Sizes; ``None`` for what the weights say.
        aligner_width: Channels of the aligner; ``None`` for what the weights say.
        gan: Sizes; ``None`` for what the weights say.
        acoustic: Sizes; ``None`` for what the weights say.
        vocoder: Sizes; ``None`` for what the weights say.
    """

    embedding: Embedding = "gan"
    threshold: float = SIMILARITY_THRESHOLD
    tries: int = TRIES
    stock: int = 5000
    stock_seed: int = 0
    stock_file: bool | None = None
    selection: Rule = "random"
    source_sex: str | None = None
    source_sexes: Mapping[str, str] = field(default_factory=dict)
    farthest: int = 200
    averaged: int = 100
    centroids: int = CENTROIDS
    mixed_share: float = 0.5
    prosody_range: tuple[int, int] | None = PUBLISHED_RANGE
    adapt: bool = True
    silences: Silences = "published"
    beam: int = SearchOptions.beam
    ctc_weight: float = SearchOptions.ctc_weight
    tokens: tuple[str, ...] | None = None
    recognizer: PhoneRecognizerConfig | None = None
    aligner_width: int | None = None
    gan: WganConfig | None = None
    acoustic: FastSpeech2Config | None = None
    vocoder: HiFiGanConfig | None = None

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ConfigError: One does not fit.
        """
        check_rule(self.selection)
        for name, word, allowed in (
            ("embedding", self.embedding, get_args(Embedding)),
            ("silences", self.silences, get_args(Silences)),
            ("source_sex", self.source_sex, (None, *OTHER_SEX)),
            ("stock_file", self.stock_file, (None, True, False)),
            ("adapt", self.adapt, (True, False)),
        ):
            if word not in allowed:
                raise ConfigError(f"{name}: {word!r} is not one of {', '.join(map(str, allowed))}.")
        for name, value in (
            ("tries", self.tries),
            ("stock", self.stock),
            ("farthest", self.farthest),
            ("averaged", self.averaged),
            ("centroids", self.centroids),
            ("aligner_width", 1 if self.aligner_width is None else self.aligner_width),
        ):
            if not is_whole(value) or value < 1:
                raise ConfigError(f"{name}: {value!r}; a whole number of at least 1 is due.")
        if not is_whole(self.stock_seed):
            raise ConfigError(f"stock_seed: {self.stock_seed!r}; a whole number is due.")
        if self.farthest < self.averaged:
            raise ConfigError(
                f"farthest: {self.farthest} vectors, of which {self.averaged} are to be drawn; at "
                "least as many are due."
            )
        for name, number, least in (
            ("threshold", self.threshold, -1),
            ("mixed_share", self.mixed_share, 0),
        ):
            if not isinstance(number, float | int) or not least <= number <= 1:
                raise ConfigError(f"{name}: {number!r}; a number from {least} to 1 is due.")
        _ = self.search
        self._check_sexes()
        self._check_range()

    def _check_sexes(self) -> None:
        sexes = self.source_sexes
        known = tuple(OTHER_SEX)
        if not isinstance(sexes, Mapping) or not all(sex in known for sex in sexes.values()):
            raise ConfigError(
                f"source_sexes: {sexes!r}; a dictionary is due, with 'f' or 'm' for each speaker."
            )
        object.__setattr__(self, "source_sexes", dict(sexes))

    def _check_range(self) -> None:
        span = self.prosody_range
        if span is None:
            return
        pair = isinstance(span, tuple) and len(span) == 2 and all(map(is_whole, span))
        if not pair or not 0 <= span[0] < span[1]:
            raise ConfigError(
                f"prosody_range: {span!r}; two whole percentages are due, the second above the "
                "first, such as (60, 140), or None."
            )

    @property
    def search(self) -> SearchOptions:
        """How the recogniser searches; checks ``beam`` and ``ctc_weight``."""
        return SearchOptions(beam=self.beam, ctc_weight=self.ctc_weight)

    def sex_of(self, speaker: str | None) -> str | None:
        """``"f"`` or ``"m"`` of a source speaker, if it is known."""
        if speaker is not None and speaker in self.source_sexes:
            return self.source_sexes[speaker]
        return self.source_sex
