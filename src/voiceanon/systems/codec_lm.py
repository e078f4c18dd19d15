"""B4: HuBERT tokens, spoken anew by Bark's acoustic models with a synthetic voice, and EnCodec.

Method: Panariello, Nespoli, Todisco, Evans 2024, "Speaker anonymization using neural audio codec
language models", arXiv:2309.14129. As anonymization system: baseline B4 of the VoicePrivacy
Challenge 2024.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from voiceanon.anonymizer import Anonymizer
from voiceanon.components.codec import encodec
from voiceanon.components.codec.encodec import EncodecConfig, EncodecDecoder
from voiceanon.components.content import hubert
from voiceanon.components.content.hubert import Hubert, HubertConfig
from voiceanon.components.content.semantic_quantiser import (
    SemanticQuantiser,
    SemanticQuantiserConfig,
)
from voiceanon.components.lm import gpt
from voiceanon.components.lm.coarse import COARSE_CONFIG, CoarseModel
from voiceanon.components.lm.fine import FINE_CONFIG, PREDICTED, FineModel, untie
from voiceanon.components.lm.prompts import Prompts, Voice, VoicePrompts
from voiceanon.components.lm.tokens import (
    FINE_WINDOW,
    SEMANTIC_TOKENS,
    coarse_tokens,
    codec_frames,
    fine_windows,
)
from voiceanon.components.selection.targets import draw_speaker
from voiceanon.components.sinc_resampling import SOXR_HQ_2_3, resample, torchaudio_filter
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError
from voiceanon.hub.convert import load_strict
from voiceanon.hub.read import read, read_state
from voiceanon.systems.codec_lm_config import CodecLMConfig
from voiceanon.systems.codec_lm_files import (
    HUBERT_FILE,
    HUBERT_SETTINGS,
    QUANTISER_FILE,
    bark_keys,
    prompt_members,
    random_voices,
    read_bark,
    read_prompt_npy,
    read_prompt_npz,
    voice_digests,
)
from voiceanon.types import SystemInfo, Target

TO_CODEC_RATE = torchaudio_filter(3, 2)
"""16 to 24 kHz, the first of two published steps (section 3 of the sheet)."""

FROM_CODEC_RATE = torchaudio_filter(2, 3)
"""24 to 16 kHz, the second one."""


class CodecLMComponents(NamedTuple):
    """Parts of the system, each usable alone; all take padded batches with lengths.

    Attributes:
        content: `(wav (B, T) at 16 kHz, lengths (B,)) -> (features (B, N, 768), frames (B,))`.
        quantiser: `features (B, N, 768) -> semantic tokens (B, N)`.
        coarse: Its `generate` makes the first two codebooks, ``(B, 2, T)``.
        fine: Its `generate` makes all eight, ``(B, 8, T)``.
        codec: `(codes (B, 8, T), frames (B,)) -> (wav at 24 kHz (B, 320 T), lengths (B,))`.
        prompts: `rows (B,) -> Prompts`: those of the voices, in the order of `CodecLM.voices`.
    """

    content: Hubert
    quantiser: SemanticQuantiser
    coarse: CoarseModel
    fine: FineModel
    codec: EncodecDecoder
    prompts: VoicePrompts


class CodecLM(Anonymizer):
    """B4; its target is ``{"voice": name}``, or ``{"voice": None}`` for one that Bark makes up."""

    Config = CodecLMConfig
    config: CodecLMConfig
    content: Hubert
    quantiser: SemanticQuantiser
    coarse: CoarseModel
    fine: FineModel
    codec: EncodecDecoder
    prompts: VoicePrompts

    def __init__(self, config: CodecLMConfig, info: SystemInfo) -> None:
        """Takes the settings; `build` and `load_weights` build the networks."""
        super().__init__(config, info)
        self._cached: OrderedDict[tuple[bytes, str], Tensor] = OrderedDict()

    @property
    def components(self) -> CodecLMComponents:
        """The parts: HuBERT, quantiser, coarse and fine model, decoder, prompts."""
        return CodecLMComponents(
            self.content, self.quantiser, self.coarse, self.fine, self.codec, self.prompts
        )

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices that may be drawn, sorted."""
        return tuple(sorted(self.config.voices or voice_digests()))

    # Weights.

    @property
    def weight_keys(self) -> tuple[str, ...]:
        """HuBERT, quantiser, Bark, and the prompts of the voices that may be drawn."""
        networks = (HUBERT_FILE, HUBERT_SETTINGS, QUANTISER_FILE)
        return (*networks, *bark_keys(self.config.bark_file), *self._prompt_keys)

    @property
    def _prompt_keys(self) -> tuple[str, ...]:
        """Those of the Hub lie beside Bark, and are held to the published arrays alone."""
        if self.config.prompt_files == "npy":
            return ()
        members = prompt_members(self.info)
        return tuple(members[voice] for voice in self.voices)

    @property
    def weight_digests(self) -> dict[str, str]:
        """SHA-256 of the networks' files by name.

        Prompts are left out: their arrays are compared with the published ones when they are read,
        and hundreds of digests in each report would tell nothing more.
        """
        return self._digests

    @weight_digests.setter
    def weight_digests(self, value: dict[str, str]) -> None:
        prompts = set(self._prompt_keys)
        self._digests = {key: digest for key, digest in value.items() if key not in prompts}

    def build(self) -> None:
        """Builds the networks, official where the settings leave sizes open, with random voices."""
        self._build_networks()
        self.prompts = VoicePrompts.of(random_voices(len(self.voices)))

    def _build_networks(self) -> None:
        config = self.config = replace(
            self.config,
            voices=self.voices,
            hubert=self.config.hubert or HubertConfig(),
            quantiser=self.config.quantiser or SemanticQuantiserConfig(),
            coarse=self.config.coarse or COARSE_CONFIG,
            fine=self.config.fine or FINE_CONFIG,
            codec=self.config.codec or EncodecConfig(),
        )
        self.content = Hubert(config.hubert, layers=config.layer)
        self.quantiser = SemanticQuantiser(config.quantiser)
        width, expected = self.quantiser.config.input_width, self.content.config.width
        if width != expected or self.quantiser.config.tokens != SEMANTIC_TOKENS:
            raise ConfigError(
                f"quantiser: it makes {self.quantiser.config.tokens} tokens of {width} features; "
                f"{SEMANTIC_TOKENS} of HuBERT's {expected} are due."
            )
        self.coarse = CoarseModel(config.coarse or COARSE_CONFIG)
        self.fine = FineModel(config.fine or FINE_CONFIG)
        self.codec = EncodecDecoder(config.codec)

    def load_weights(self, files: Mapping[str, Path]) -> None:
        """Builds the networks in the sizes that the files state, and fills them."""
        config = self.config
        bark = read_bark(files, config.bark_file)
        quantiser = read_state(files[QUANTISER_FILE])
        shapes = {name: tuple(value.shape) for name, value in quantiser.items()}
        self.config = replace(
            config,
            hubert=config.hubert or HubertConfig.from_published(read(files[HUBERT_SETTINGS])),
            quantiser=config.quantiser or SemanticQuantiserConfig.from_entries(shapes),
            coarse=config.coarse or bark.coarse,
            fine=config.fine or bark.fine,
            codec=config.codec or bark.codec,
        )
        with torch.device("meta"):
            self._build_networks()
        load_strict(
            self.content,
            read_state(files[HUBERT_FILE]),
            file=files[HUBERT_FILE],
            unused=lambda name: hubert.is_unused_entry(name, layers=config.layer),
            fold=fold_entries,
        )
        load_strict(self.quantiser, quantiser, file=files[QUANTISER_FILE])
        for part, module, fold in (("coarse", self.coarse, None), ("fine", self.fine, untie)):
            load_strict(
                module,
                bark.entries[part],
                file=bark.files[part],
                renames=gpt.ORIGINAL_RENAMES,
                unused=gpt.is_unused_entry,
                fold=fold,
            )
        load_strict(
            self.codec,
            bark.entries["codec"],
            file=bark.files["codec"],
            renames=encodec.RENAMES,
            unused=encodec.is_unused_entry,
            fold=fold_entries,
        )
        self.prompts = VoicePrompts.of([self._read_voice(files, voice) for voice in self.voices])

    def _read_voice(self, files: Mapping[str, Path], voice: str) -> Voice:
        if self.config.prompt_files == "npz":
            return read_prompt_npz(files[prompt_members(self.info)[voice]], voice)
        return read_prompt_npy(files[bark_keys(self.config.bark_file)[0]].parent, voice)

    # Targets.

    def draw_target(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws a voice with one number; all are as likely, whatever the source's voice is."""
        return {"voice": draw_speaker(list(self.voices), generator)}

    def parse_target(self, target: object) -> Target:
        """Accepts a voice's name, or ``{"voice": name}``; in the latter also ``None``."""
        name = target.get("voice", "") if isinstance(target, Mapping) else target
        if (name is None and target is not None) or name in self.voices:
            return {"voice": name}
        raise ConfigError(
            f"target: {name!r} is no voice of {self.info.id}; its voices are "
            f"{', '.join(self.voices)}, and {{'voice': None}} for one that Bark makes up."
        )

    # Conversion.

    @property
    def hop_samples(self) -> int:
        """Samples between semantic tokens."""
        return hubert.HOP_SAMPLES

    def convert(
        self,
        batch: Tensor,
        lengths: Tensor,
        targets: Sequence[Target],
        generators: Sequence[torch.Generator],
    ) -> tuple[Tensor, Tensor]:
        """Converts a padded batch; see `Anonymizer.convert`.

        Each item draws one number for each coarse token, in their order, and then one for each
        window, codebook and frame of the fine model, in this order.
        """
        # What is left over at the end of chunks may be shorter than a frame.
        batch = F.pad(batch, (0, max(0, hubert.MIN_SAMPLES - batch.shape[1])))
        tokens = self.semantic_tokens(batch, lengths.clamp_min(hubert.MIN_SAMPLES))
        waves: list[Tensor] = []
        for start in range(0, len(tokens), self.config.rows):
            part = slice(start, start + self.config.rows)
            waves += self._speak(tokens[part], targets[part], generators[part])
        ends = torch.tensor([len(wave) for wave in waves], device=batch.device)
        return pad_sequence(waves, batch_first=True), ends

    def semantic_tokens(self, batch: Tensor, lengths: Tensor) -> list[Tensor]:
        """Semantic tokens of recordings, from the cache where they are there.

        Args:
            batch: float32 ``(B, T)`` at 16 kHz.
            lengths: int64 ``(B,)``, at least 400.

        Returns:
            int64 ``(N,)`` of each recording, on the batch's device.
        """
        if not self.config.cached_pieces:
            return self._encode(batch, lengths)
        # Content decides, wherever the samples lie: hashing takes them to the host.
        rows = zip(batch.cpu(), lengths.tolist(), strict=True)
        keys = [
            (hashlib.blake2b(row[:length].numpy()).digest(), self.precision) for row, length in rows
        ]
        found = {key: self._cached[key] for key in keys if key in self._cached}
        missing = [index for index, key in enumerate(keys) if key not in found]
        if missing:
            chosen = torch.tensor(missing, device=batch.device)
            encoded = self._encode(batch[chosen], lengths[chosen])
            found |= {keys[index]: line for index, line in zip(missing, encoded, strict=True)}
        for key in keys:
            self._cached[key] = found[key]
            self._cached.move_to_end(key)
        while len(self._cached) > self.config.cached_pieces:
            self._cached.popitem(last=False)
        return [found[key] for key in keys]

    def _encode(self, batch: Tensor, lengths: Tensor) -> list[Tensor]:
        """Semantic tokens without the cache."""
        for ratio in (TO_CODEC_RATE, FROM_CODEC_RATE):
            batch, lengths = resample(batch, lengths, ratio)
        features, frames = self.content(batch, lengths)
        tokens = self.quantiser(features)
        return [line[:count].clone() for line, count in zip(tokens, frames.tolist(), strict=True)]

    def _speak(
        self,
        tokens: Sequence[Tensor],
        targets: Sequence[Target],
        generators: Sequence[torch.Generator],
    ) -> list[Tensor]:
        """Waveforms at 16 kHz, float32 ``(T,)`` each."""
        device = tokens[0].device
        counts = [len(line) for line in tokens]
        lengths = torch.tensor(counts, device=device)
        prompts = self._prompts(targets, device)
        coarse_draws, fine_draws = self._draw(counts, prompts, generators)
        codes, frames = self.coarse.generate(
            pad_sequence(list(tokens), batch_first=True),
            lengths,
            prompts,
            coarse_draws,
            self.config.coarse_temperature,
        )
        codes = self.fine.generate(codes, frames, prompts, fine_draws, self.config.fine_temperature)
        wav, ends = self.codec(codes, frames)
        wav, ends = resample(wav, ends, SOXR_HQ_2_3)
        rows = zip(wav.float(), ends.tolist(), strict=True)
        return [row[:end] for row, end in rows]

    def _prompts(self, targets: Sequence[Target], device: torch.device) -> Prompts:
        places = [
            -1 if target["voice"] is None else self.voices.index(target["voice"])
            for target in targets
        ]
        prompts: Prompts = self.prompts(torch.tensor(places, device=device))
        return prompts

    def _draw(
        self, counts: Sequence[int], prompts: Prompts, generators: Sequence[torch.Generator]
    ) -> tuple[Tensor, Tensor]:
        """Random numbers for the coarse and the fine model, each item's from its generator."""
        histories = prompts.lengths[:, 2].tolist()
        coarse: list[Tensor] = []
        fine: list[Tensor] = []
        for count, history, generator in zip(counts, histories, generators, strict=True):
            windows = fine_windows(codec_frames(count), history)
            for draws, shape in (
                (coarse, (coarse_tokens(count),)),
                (fine, (windows, PREDICTED, FINE_WINDOW)),
            ):
                draws.append(
                    torch.rand(shape, generator=generator, dtype=torch.float32, device="cpu")
                )
        device = prompts.lengths.device
        return (
            pad_sequence(coarse, batch_first=True).to(device),
            pad_sequence(fine, batch_first=True).to(device),
        )

    def _apply(self, fn: Any, recurse: bool = True) -> CodecLM:
        # Tokens that are kept lie on the device that made them.
        self._cached.clear()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self
