"""Phones, prosody and an artificial speaker: spoken anew by FastSpeech2 and HiFi-GAN.

Method: Meyer, Lux, Denisov, Koch, Tilli, Vu, "Speaker Anonymization with Phonetic Intermediate
Representations" (arXiv 2207.04834), "Anonymizing Speech with Generative Adversarial Networks to
Preserve Speaker Privacy" (arXiv 2210.07002), "Prosody Is Not Identity" (ICASSP 2023). As
anonymization systems: B3 of the VoicePrivacy Challenge 2024, and the variants T12-4 and T30-1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from voiceanon.anonymizer import Anonymizer
from voiceanon.components.acoustic.fastspeech2 import FastSpeech2, FastSpeech2Config
from voiceanon.components.alignment.aligner import WIDTH as ALIGNER_WIDTH
from voiceanon.components.alignment.aligner import Aligner
from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
from voiceanon.components.asr.branchformer.recognizer import PhoneRecognizer
from voiceanon.components.features.peak import peak_normalise
from voiceanon.components.features.slaney_log_mel import HOP_SAMPLES, LogMel
from voiceanon.components.kaiser_resampling import resample_48_to_16
from voiceanon.components.prosody.multipliers import multiply_prosody
from voiceanon.components.prosody.per_phone import prosody_per_phone
from voiceanon.components.speaker.style_tokens import STYLE_WIDTH, StyleTokens, style_window
from voiceanon.components.speaker.wgan import WganConfig, WganGenerator
from voiceanon.components.vad.segments import speech_bounds
from voiceanon.components.vad.silero import SileroVad
from voiceanon.components.vocoder.hifigan import HiFiGan
from voiceanon.devices import arithmetic
from voiceanon.errors import ConfigError, ConversionError, WeightsError
from voiceanon.hub.pool import Pool
from voiceanon.systems import gan_fastspeech2_files as published
from voiceanon.systems import gan_fastspeech2_stages as stages
from voiceanon.systems.gan_fastspeech2_config import OFFICIAL_VOCODER, GanFastSpeech2Config
from voiceanon.systems.gan_fastspeech2_stages import Cut, Phones
from voiceanon.systems.gan_fastspeech2_voices import (
    PoolVoices,
    StockVoices,
    draw_noise,
    window_of,
)
from voiceanon.systems.pools import as_pool, check_pool, require_pool, run_in_batches
from voiceanon.systems.references import open_references
from voiceanon.types import SystemInfo, Target

MIN_REFERENCE_SECONDS = 0.5
"""Shorter reference speech gives no vector (ours)."""

REFERENCE_WINDOW = 0.5
"""Where the window of a reference lies, as a share of what there is: in the middle (ours)."""

UPSAMPLING = 3
"""Samples of the vocoder for one of the source: 48 and 16 kHz."""


class GanFastSpeech2Components(NamedTuple):
    """Parts of the system, each usable alone; all take padded batches with lengths.

    Attributes:
        recognizer: `transcribe(wav (B, T) at 16 kHz, lengths (B,))` gives phones.
        vad: `(wav (B, T) at 16 kHz, lengths (B,)) -> (probabilities (B, N), blocks (B,))`.
        log_mel: `(wav (B, T) at 16 kHz, lengths (B,)) -> (mel (B, F, 80), frames (B,))`.
        style: `windows (B, 256, 80) -> vectors (B, 128)`.
        aligner: `(mel (B, F, 80), frames (B,)) -> outputs (B, F, 145)`; see also its `adapt`.
        gan: Its `vectors` turns noise ``(N, Z)`` into vectors ``(N, 128)``; ``None`` with a pool.
        acoustic: Symbols, prosody and vectors to mel; see `FastSpeech2.forward`.
        vocoder: `(mel (B, F, 80), frames (B,)) -> (wav (B, 768 F) at 48 kHz, lengths (B,))`.
    """

    recognizer: PhoneRecognizer
    vad: SileroVad
    log_mel: LogMel
    style: StyleTokens
    aligner: Aligner
    gan: WganGenerator | None
    acoustic: FastSpeech2
    vocoder: HiFiGan


class GanFastSpeech2(Anonymizer):
    """B3, T12-4 and T30-1; for the targets, see `StockVoices` and `PoolVoices`."""

    Config = GanFastSpeech2Config
    config: GanFastSpeech2Config
    recognizer: PhoneRecognizer
    vad: SileroVad
    style: StyleTokens
    aligner: Aligner
    acoustic: FastSpeech2
    vocoder: HiFiGan

    def __init__(self, config: GanFastSpeech2Config, info: SystemInfo) -> None:
        """Takes the settings; `build` and `load_weights` build the networks."""
        super().__init__(config, info)
        self.log_mel = LogMel()
        self.gan: WganGenerator | None = None
        self._voices: StockVoices | PoolVoices | None = None

    @property
    def components(self) -> GanFastSpeech2Components:
        """The parts, from recogniser to vocoder."""
        parts = (getattr(self, name) for name in GanFastSpeech2Components._fields)
        return GanFastSpeech2Components(*parts)

    # Weights.

    @property
    def weight_keys(self) -> tuple[str, ...]:
        """Files of the networks; the GAN's and its stock's for artificial speakers alone."""
        if self.config.embedding != "gan":
            return published.EVERYWHERE
        stock = () if self.config.stock_file is False else (published.STOCK,)
        return (*published.EVERYWHERE, published.GAN, *stock)

    def build(self) -> None:
        """Builds the networks, official where the settings leave sizes open."""
        config = self.config
        recognizer = config.recognizer or PhoneRecognizerConfig()
        artificial = config.embedding == "gan"
        config = self.config = replace(
            config,
            stock_file=bool(config.stock_file),
            tokens=config.tokens or published.artificial_tokens(recognizer.vocabulary),
            recognizer=recognizer,
            aligner_width=config.aligner_width or ALIGNER_WIDTH,
            gan=(config.gan or WganConfig()) if artificial else None,
            acoustic=config.acoustic or FastSpeech2Config(),
            vocoder=config.vocoder or OFFICIAL_VOCODER,
        )
        self.recognizer = PhoneRecognizer(recognizer, cast(Any, config.tokens), config.search)
        published.fill_mel_matrix(self.recognizer)
        self.vad = SileroVad()
        self.style = StyleTokens()
        self.aligner = Aligner(config.aligner_width or ALIGNER_WIDTH)
        self.acoustic = FastSpeech2(config.acoustic)
        self.vocoder = HiFiGan(config.vocoder or OFFICIAL_VOCODER)
        if artificial:
            self.gan = WganGenerator(config.gan)
        if artificial and config.stock_file:
            self.register_buffer("stock", torch.zeros(config.stock, STYLE_WIDTH))

    def load_weights(self, files: Mapping[str, Path]) -> None:
        """Builds the networks in the sizes that the files state, and fills them."""
        config = self.config
        self.recognizer = published.load_recognizer(
            files[published.RECOGNIZER], config.recognizer, config.tokens, config.search
        )
        self.vad = published.load_vad(files[published.VAD])
        self.style = published.load_style(files[published.STYLE])
        self.aligner = published.load_aligner(files[published.ALIGNER], config.aligner_width)
        self.acoustic = published.load_acoustic(files[published.ACOUSTIC], config.acoustic)
        self.vocoder = published.load_vocoder(files[published.VOCODER], config.vocoder)
        if config.embedding == "gan":
            self.gan = published.load_gan(files[published.GAN], config.gan)
            self._load_stock(files.get(published.STOCK))
        self.config = replace(
            self.config,
            stock_file=bool(self.config.stock_file),
            tokens=self.recognizer.tokens,
            recognizer=self.recognizer.config,
            aligner_width=self.aligner.rnn.hidden_size,
            gan=None if self.gan is None else self.gan.config,
            acoustic=self.acoustic.config,
            vocoder=self.vocoder.config,
        )

    def _load_stock(self, file: Path | None) -> None:
        stock = None if file is None else published.read_stock(file)
        if stock is None and self.config.stock_file:
            raise WeightsError(
                f"stock_file: the weights of {self.info.id} hold no stock of vectors; load with "
                "stock_file=None, and it is made from the generator."
            )
        if stock is not None:
            self.config = replace(self.config, stock=len(stock))
            self.register_buffer("stock", stock.clone())
        self.config = replace(self.config, stock_file=stock is not None)

    # Targets.

    @property
    def voices(self) -> StockVoices | PoolVoices:
        """What draws and settles targets.

        Raises:
            ConfigError: A pool is needed and not there.
        """
        if self._voices is None:
            if self.config.embedding == "gan":
                self._voices = StockVoices(self._stock(), self.config)
            else:
                self._voices = PoolVoices(require_pool(self), self.config)
        return self._voices

    @torch.inference_mode()
    def _stock(self) -> Tensor:
        """Artificial vectors, of the weights or made here, float32 ``(S, 128)`` on the CPU."""
        if self.config.stock_file:
            return self.get_buffer("stock").cpu()
        gan = cast(WganGenerator, self.gan)
        noise = draw_noise(self.config, gan.config.noise_width)
        with arithmetic("float32", self.device):
            return gan.vectors(noise.to(self.device)).cpu()

    def draw_target(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws what a voice leaves to chance; `settle_targets` completes it."""
        return self.voices.draw(generator, speaker)

    def parse_target(self, target: object) -> Target:
        """Accepts a voice in both forms, drawn and settled, the number of a vector, or a name."""
        return self.voices.parse(target)

    def settle_targets(
        self, batch: Tensor, lengths: Tensor, targets: Sequence[Target]
    ) -> list[Target]:
        """Compares with the source's own vector where a voice depends on it.

        Raises:
            ConversionError: That vector is not finite, so that nothing can be compared.
        """
        settled = list(targets)
        rows = [row for row, target in enumerate(targets) if window_of(target) is not None]
        if rows:
            fractions = batch.new_tensor([window_of(targets[row]) for row in rows])
            vectors = self.source_vectors(batch[rows], lengths[rows], fractions)
            if not bool(vectors.isfinite().all()):
                raise ConversionError(
                    f"{self.info.id}: the vector of a source is not finite; check the weights."
                )
            chosen = self.voices.settle(vectors, [targets[row] for row in rows])
            for row, target in zip(rows, chosen, strict=True):
                settled[row] = target
        return settled

    def source_vectors(self, batch: Tensor, lengths: Tensor, fractions: Tensor) -> Tensor:
        """Computes the style vector of each recording.

        Args:
            batch: float32 ``(B, T)`` at `sample_rate`.
            lengths: int64 ``(B,)``.
            fractions: Where the window of 4.1 s lies, ``(B,)``, from 0 up to but not 1.

        Returns:
            float32 ``(B, 128)``.
        """
        heard = self._cut(*stages.fill_up(batch, lengths))
        mel, frames = self.log_mel(heard.wav, heard.lengths)
        vectors: Tensor = self.style(style_window(mel, frames, fractions))
        return vectors

    # Pools.

    def use_pool(self, pool: object) -> None:
        """Takes target speakers; see `Anonymizer.use_pool`.

        Args:
            pool: A `Pool` with one vector per row, the path of one, or reference speech by speaker
                name.
        """
        if self.config.embedding == "gan":
            raise ConfigError(
                f"pool: {self.info.id} uses artificial speakers; leave pool out, or load with "
                "embedding='pool_random', 'pool_farthest_mean' or 'pool_farthest_mix'."
            )
        pool = as_pool(pool, self.make_pool)
        check_pool(pool, width=STYLE_WIDTH, made_with=self._made_with(), system=self.info.id)
        self.pool = pool
        self.weight_digests = {**self.weight_digests, "pool": pool.digest()}
        self._voices = None

    def _made_with(self) -> dict[str, str]:
        """What makes vectors comparable: the weights of the network of style vectors."""
        return {"embedding": self.weight_digests.get(published.STYLE, "not known")}

    def make_pool(
        self, references: Mapping[str, Any], *, sexes: Mapping[str, str] | None = None
    ) -> Pool:
        """Computes a style vector of each piece of reference speech.

        Args:
            references: By speaker name: a recording or a list of them, in any form that `anonymize`
                takes (arrays at `sample_rate`). Channels are averaged; long recordings are cut.
            sexes: ``"f"`` or ``"m"`` of the speakers, where known.

        Raises:
            AudioError: A recording is not usable as it is.
            ConfigError: A speaker has no recording of 0.5 s or longer.
        """
        vectors = {
            name: self._embed(open_references(
                name,
                recordings,
                rate=self.sample_rate,
                max_seconds=None,
                piece_seconds=self.info.chunk_seconds,
                trim_level=0.0,
                min_samples=int(MIN_REFERENCE_SECONDS * self.sample_rate),
            ))
            for name, recordings in references.items()
        }  # fmt: skip
        facts = {**self._made_with(), "system": self.info.id, "rows": "recordings"}
        return Pool(vectors, dict(sexes or {}), facts)

    def _embed(self, waves: Sequence[Tensor]) -> Tensor:
        """Style vectors ``(M, 128)`` on the CPU, one for each wave in its order."""

        def vectors_of(batch: Tensor, lengths: Tensor) -> list[Tensor]:
            fractions = batch.new_full((len(batch),), REFERENCE_WINDOW)
            return list(self.source_vectors(batch, lengths, fractions).cpu())

        return torch.stack(run_in_batches(self, waves, vectors_of))

    def _apply(self, fn: Any, recurse: bool = True) -> GanFastSpeech2:
        # Artificial vectors are made anew where the generator then lies.
        self._voices = None
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

        An item draws the dropout of the aligner's training, if there is any, and then the
        percentages of its energy and of its pitch.
        """
        settled = self.settle_targets(batch, lengths, targets)
        batch, lengths = stages.fill_up(batch, lengths)
        phones = stages.read_phones(self.recognizer.transcribe(batch, lengths), batch.device)
        heard = self._cut(batch, lengths)
        durations = self._align(heard, phones, generators)
        pitch, energy = prosody_per_phone(heard.wav, heard.lengths, durations, phones.vectors)
        percent = self.config.prosody_range
        pitch, energy = multiply_prosody(pitch, energy, phones.counts, generators, range=percent)
        speakers = self.voices.vectors(settled, batch.device)
        spoken = self.acoustic(phones.vectors, phones.counts, speakers, durations, pitch, energy)
        wav, samples = self.vocoder(spoken.mel, spoken.frames)
        return self._assemble(wav, samples, heard)

    def _cut(self, batch: Tensor, lengths: Tensor) -> Cut:
        """Brings recordings to a peak of 1 and cuts off the silence at their ends."""
        wav = peak_normalise(batch, lengths)
        probabilities, blocks = self.vad(wav, lengths)
        start, end, _ = speech_bounds(probabilities, blocks, lengths)
        return stages.cut(wav, lengths, start, end)

    def _align(self, heard: Cut, phones: Phones, generators: Sequence[torch.Generator]) -> Tensor:
        """Frames of each symbol, int64 ``(B, N)``."""
        mel, frames = self.log_mel(heard.wav, heard.lengths)
        if self.config.adapt:
            outputs = self.aligner.adapt(mel, frames, phones.ids, phones.id_counts, generators)
        else:
            outputs = self.aligner(mel, frames)
        return stages.durations_of(outputs, frames, phones)

    def _assemble(self, wav: Tensor, lengths: Tensor, heard: Cut) -> tuple[Tensor, Tensor]:
        """Puts silences around the vocoder's waveforms and resamples them to 16 kHz."""
        factor = UPSAMPLING if self.config.silences == "fixed" else 1
        before, after = heard.before * factor, heard.after * factor
        return resample_48_to_16(*stages.put_zeros_around(wav, lengths, before, after))
