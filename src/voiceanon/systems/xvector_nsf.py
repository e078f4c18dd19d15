"""Content, F0 and the mean x-vector of distant speakers, turned into speech by hn-sinc-NSF.

Method: Fang et al. 2019, "Speaker Anonymization Using X-vector and Neural Waveform Models",
arXiv:1905.13561. As anonymization system: B1.b of the VoicePrivacy Challenge 2022, which is B1 of
that of 2024; repository Voice-Privacy-Challenge-2022, commit 2000eb5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon import seeding
from voiceanon.anonymizer import Anonymizer
from voiceanon.components.content import tdnnf_bottleneck
from voiceanon.components.speaker import ivector_config, tdnn_xvector
from voiceanon.components.speaker.ivector_config import IvectorConfig
from voiceanon.components.vocoder.hn_sinc_nsf import HnSincNsfConfig
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.hub.convert import load_strict
from voiceanon.hub.pool import Pool
from voiceanon.systems import xvector_nsf_files as published
from voiceanon.systems.pools import as_pool, check_pool, run_in_batches
from voiceanon.systems.references import open_references
from voiceanon.systems.xvector_nsf_config import XVectorNSFConfig
from voiceanon.systems.xvector_nsf_networks import (
    HOP_SAMPLES,
    Networks,
    XVectorNSFComponents,
    embedding_width,
    pool_width,
    target_width,
    truncate_to_16_bits,
    with_sizes,
)
from voiceanon.systems.xvector_nsf_selection import Backend, PreparedPool
from voiceanon.systems.xvector_nsf_targets import (
    candidate_sex,
    check_candidates,
    draw_ranks,
    is_settled,
    parse_target,
    published_ranks,
)
from voiceanon.types import Seed, SystemInfo, Target


class XVectorNSF(Anonymizer):
    """B1; for its voices see `voiceanon.systems.xvector_nsf_targets`."""

    Config = XVectorNSFConfig
    config: XVectorNSFConfig
    networks: Networks
    backend: Backend

    def __init__(self, config: XVectorNSFConfig, info: SystemInfo) -> None:
        """Takes the settings; `build` and `load_weights` build the networks."""
        super().__init__(config, info)
        self._prepared: PreparedPool | None = None

    @property
    def components(self) -> XVectorNSFComponents:
        """The parts: features, networks, F0 tracker, generator."""
        return self.networks.components

    # Weights.

    @property
    def weight_keys(self) -> tuple[str, ...]:
        """All files of Kaldi and the pool, and the generator."""
        return published.weight_keys(self.config.vectors)

    def build(self) -> None:
        """Builds the networks, official where the settings leave sizes open, and a pool of noise.

        What is no parameter of a network (i-vector extractor, PLDA, pool) is filled with noise.
        """
        self._make_networks()
        generator = published.random_generator("networks")
        sizes = cast(IvectorConfig, self.config.ivector)
        self.networks.ivector.load_state_dict(ivector_config.random_entries(sizes, generator))
        self.backend.fill_random(generator)
        self.pool = published.random_pool(pool_width(self.config))

    def _make_networks(self) -> None:
        """Builds the networks in the sizes of the settings, which it completes."""
        self.config = with_sizes(self.config, self.info.id)
        self.networks = Networks(self.config)
        self.backend = Backend(embedding_width(self.config), cast(int, self.config.backend_width))

    def load_weights(self, files: Mapping[str, Path]) -> None:
        """Builds the networks in the sizes that the files state, and fills them and the pool."""
        bottleneck_file = files[published.BOTTLENECK_FILE]
        xvector_file = files[published.XVECTOR_FILE]
        generator_file = files[published.GENERATOR_FILES[self.config.vectors]]
        bottleneck = published.read_bottleneck(bottleneck_file)
        xvector = published.read_xvector_network(xvector_file)
        ivector = published.read_ivector_extractor(files)
        generator = published.read_generator(generator_file)
        backend = published.read_backend(files)
        least, usual = published.read_chunk_sizes(files)
        config = self.config
        try:
            self.config = replace(
                config,
                chunk_frames=config.chunk_frames or usual,
                min_chunk_frames=config.min_chunk_frames or least,
                backend_width=config.backend_width or len(backend["spread"]),
                xvector=config.xvector or tdnn_xvector.config_from_entries(_shapes(xvector)),
                ivector=config.ivector or ivector_config.config_from_entries(_shapes(ivector)),
                bottleneck=config.bottleneck
                or tdnnf_bottleneck.config_from_entries(_shapes(bottleneck)),
                generator=config.generator or HnSincNsfConfig.from_entries(generator),
            )
            with torch.device("meta"):
                self._make_networks()
        except ConfigError as error:
            raise WeightsError(f"{bottleneck_file}, {generator_file}: {error}") from error
        networks, unused = self.networks, tdnn_xvector.is_unused_entry
        load_strict(networks.bottleneck, bottleneck, file=bottleneck_file)
        load_strict(networks.xvector, xvector, file=xvector_file, unused=unused)
        load_strict(networks.ivector, ivector, file=files[published.IVECTOR_FILE])
        load_strict(networks.vocoder, generator, file=generator_file)
        load_strict(self.backend, backend, file=files[published.PLDA_FILE])
        pool = published.read_pool(files, self.config.vectors)
        if pool.width != pool_width(self.config):
            raise WeightsError(
                f"{files[published.POOL_FILE]}: vectors of {pool.width} values, networks and "
                f"generator want {pool_width(self.config)}; take all files from one package."
            )
        self.pool = pool

    # Pool and targets.

    def use_pool(self, pool: object) -> None:
        """Takes other target speakers than the published ones; see `Anonymizer.use_pool`.

        Args:
            pool: A `Pool` with one row per speaker, the path of one, or reference speech by name.
        """
        pool = as_pool(pool, self.make_pool)
        check_pool(
            pool, width=pool_width(self.config), made_with=self._made_with(), system=self.info.id
        )
        if {len(row) for row in pool.features.values()} != {1}:
            raise ConfigError(
                f"pool: {self.info.id} takes one vector per speaker, this one has several; build "
                "the pool with this system."
            )
        self.pool = pool
        self.weight_digests = {**self.weight_digests, "pool": pool.digest()}
        self._prepared = None

    def _made_with(self) -> dict[str, str]:
        """What makes x-vectors comparable: the weights of their network, and its chunks."""
        network = self.weight_digests.get(published.XVECTOR_FILE, "not known")
        return {"xvector": network, "chunk_frames": str(self.config.chunk_frames)}

    def make_pool(
        self, references: Mapping[str, Any], *, sexes: Mapping[str, str] | None = None
    ) -> Pool:
        """Computes the mean x-vector of each speaker from reference speech.

        Args:
            references: By speaker name: a recording or a list of them, in any form that `anonymize`
                takes (arrays at `sample_rate`). Channels are averaged.
            sexes: ``"f"`` or ``"m"`` of the speakers; without it, only sources of unknown sex can
                be anonymized.

        Raises:
            AudioError: A recording is not usable as it is.
            ConfigError: A speaker has no recording of 0.025 s or longer, or the generator takes
                x-vectors that this system cannot compute.
        """
        if self.config.vectors == "sidekit":
            raise ConfigError(
                f"pool: {self.info.id} averages sidekit x-vectors, which are not computed here; "
                "use the published pool."
            )
        features = {
            name: self._mean_xvector(name, recordings)[None].cpu()
            for name, recordings in references.items()
        }
        facts = {**self._made_with(), "system": self.info.id, "rows": "x-vectors"}
        return Pool(features, dict(sexes or {}), facts)

    @torch.inference_mode()
    def _mean_xvector(self, name: str, recordings: Any) -> Tensor:
        """Mean of a speaker's x-vectors, one for each recording or piece of one, ``(S,)``."""
        waves = open_references(
            name,
            recordings,
            rate=self.sample_rate,
            max_seconds=None,
            piece_seconds=self.info.chunk_seconds,
            trim_level=0,
            min_samples=int(self.info.min_seconds * self.sample_rate),
        )
        vectors = run_in_batches(self, waves, lambda *batch: list(self.networks.xvectors(*batch)))
        return torch.stack(vectors).mean(0)

    def draw_target(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws which of the candidates are averaged; who they are, the source decides."""
        sex = candidate_sex(self.config, self.info.id, speaker)
        check_candidates(self.config, self._own_pool, sex)
        return {"ranks": draw_ranks(self.config, generator), "sex": sex}

    def parse_target(self, target: object) -> Target:
        """Accepts ``{"speakers": [...]}`` or ``{"ranks": [...], "sex": ...}``."""
        return parse_target(target, self.config, self._own_pool, self.info.id)

    def published_targets(self, seed: str, sexes: Sequence[str]) -> list[Target]:
        """Draws as the published program does.

        Args:
            seed: Of a set of data, such as ``"0"``; the published program takes it as a text.
            sexes: Sex of the source of each utterance, or of each speaker at speaker level, in the
                order of the published lists.

        Returns:
            For each of them what `anonymize` takes as ``target``.
        """
        kinds = [candidate_sex(self.config, self.info.id, None, sex) for sex in sexes]
        ranks = published_ranks(self.config, seed, len(kinds))
        return [{"ranks": own, "sex": kind} for own, kind in zip(ranks, kinds, strict=True)]

    def target_for_speaker(
        self,
        recordings: Any,
        *,
        sex: str | None = None,
        speaker: str | None = None,
        seed: Seed = None,
    ) -> Target:
        """One voice for all utterances of a speaker, chosen by the mean of their x-vectors.

        That is the published system at speaker level. ``anonymize(..., level="speaker")`` draws
        once per speaker, too, but takes the candidates from each recording by itself.

        Args:
            recordings: A recording or a list of them, in any form that `anonymize` takes.
            sex: Of the speaker; ``None`` for what the settings say.
            speaker: Name in the draw.
            seed: As in `anonymize`.

        Returns:
            What `anonymize` takes as ``target``.

        Raises:
            AudioError: A recording is not usable as it is.
            ConfigError: The sex is not known, or the pool has too few speakers.
        """
        (target,) = self.targets_for_speaker(
            recordings, [speaker or ""], sex=sex, speaker=speaker, seed=seed
        )
        return target

    def targets_for_speaker(
        self,
        recordings: Any,
        keys: Sequence[str],
        *,
        sex: str | None = None,
        speaker: str | None = None,
        seed: Seed = None,
    ) -> list[Target]:
        """A voice for each of a speaker's utterances, all from the same candidates.

        That is the published system at utterance level, where the candidates are those of the mean
        of the speaker's x-vectors.

        Args:
            recordings: As in `target_for_speaker`.
            keys: Names of the utterances in the draw.
            sex: As in `target_for_speaker`.
            speaker: As in `target_for_speaker`.
            seed: As in `target_for_speaker`.

        Returns:
            One for each key.

        Raises:
            VoiceanonError: As in `target_for_speaker`.
        """
        kind = candidate_sex(self.config, self.info.id, speaker, sex)
        vector = self._mean_xvector(speaker or "source", recordings)
        (names,) = self._pool_here().ranked(vector[None], [kind], self.config)
        secret = seeding.seed_secret(seed)
        targets: list[Target] = []
        for key in keys:
            draw = seeding.stream(secret, self.info.id, "target", "speaker", speaker or "", key)
            ranks = draw_ranks(self.config, seeding.generator(draw))
            targets.append({"speakers": [names[rank] for rank in ranks]})
        return targets

    def settle_targets(
        self, batch: Tensor, lengths: Tensor, targets: Sequence[Target]
    ) -> list[Target]:
        """Finds the speakers at the drawn ranks; see `Anonymizer.settle_targets`."""
        settled = list(targets)
        rows = [row for row, target in enumerate(targets) if not is_settled(target)]
        if rows:
            sources = self.networks.xvectors(batch[rows], lengths[rows])
            sexes = [targets[row]["sex"] for row in rows]
            ranked = self._pool_here().ranked(sources, sexes, self.config)
            for row, names in zip(rows, ranked, strict=True):
                settled[row] = {"speakers": [names[rank] for rank in targets[row]["ranks"]]}
        return settled

    @property
    def _own_pool(self) -> Pool:
        return cast(Pool, self.pool)

    def _pool_here(self) -> PreparedPool:
        """The pool on the device."""
        if self._prepared is None or self._prepared.vectors.device != self.device:
            backend = self.backend if self.config.distance == "plda" else None
            self._prepared = PreparedPool.prepare(
                self._own_pool,
                embedding_width(self.config),
                target_width(self.config),
                backend,
                self.device,
            )
        return self._prepared

    def _apply(self, fn: Any, recurse: bool = True) -> XVectorNSF:
        # The pool moves when it is used next.
        self._prepared = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

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
        """Converts a padded batch; see `Anonymizer.convert`.

        The generator gives 160 samples per frame, which are 240 to 399 fewer than the input has;
        zeros follow up to its length.
        """
        settled = self.settle_targets(batch, lengths, targets)
        vectors = self._pool_here().averages([target["speakers"] for target in settled])
        # First: how much dither is drawn depends on the other items.
        networks = self.networks
        noise = networks.vocoder.draw_noise(networks.content_mfcc.frame_count(lengths), generators)
        features, f0, frames = networks.generator_inputs(batch, lengths, vectors, generators)
        wav, _ = networks.vocoder(features, f0, frames, noise)
        if self.config.pcm16:
            wav = truncate_to_16_bits(wav)
        return F.pad(wav, (0, batch.shape[1] - wav.shape[1])), lengths


def _shapes(entries: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in entries.items()}
