"""Recognition and synthesis: the words are written down, and spoken again by another voice.

As anonymization system: T8-1 of the VoicePrivacy Challenge 2024 (results paper, section 5;
arXiv:2409.08913): Whisper medium English, and a VITS trained on LibriTTS. Which VITS, how the
speaker was drawn and how Whisper was run is not published: this is a re-creation with public parts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
import torchaudio
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from voiceanon.anonymizer import Anonymizer
from voiceanon.components.asr.guards import transcribe_guarded
from voiceanon.components.asr.pocketsphinx import PocketSphinx
from voiceanon.components.asr.protocol import Recognizer, Segment, Transcript
from voiceanon.components.asr.vocabulary import Vocabulary, artificial_tokens
from voiceanon.components.asr.whisper import Whisper
from voiceanon.components.asr.whisper_config import WhisperConfig
from voiceanon.components.asr.whisper_recognizer import WhisperRecognizer
from voiceanon.components.selection.targets import draw_speaker
from voiceanon.components.text.normalisation import normalise_english, split_sentences
from voiceanon.components.text.phonemes import (
    NAMES,
    PhonemizerName,
    is_available,
    make_phonemizer,
)
from voiceanon.components.tts.protocol import Synthesizer
from voiceanon.components.tts.vits import Vits, VitsSynthesizer
from voiceanon.components.tts.vits_config import VitsConfig
from voiceanon.errors import ConfigError, ConversionError, MissingDependencyError
from voiceanon.systems import asr_tts_files as published
from voiceanon.systems.asr_tts_config import AsrTtsConfig
from voiceanon.types import SystemInfo, Target

SILENCE_RMS = 1e-4
"""Of the noise, -80 dBFS, that stands for a recording without words: some programs that follow
cannot bear constant input (specification sheet of the family, section 2)."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Piece:
    """A text that is spoken at once, and the silence in front of it in samples."""

    text: str
    gap: int


class AsrTts(Anonymizer):
    """Recogniser, text, synthesiser; the target is ``{"speaker": name}``, a voice of the latter.

    Attributes:
        recognizer: What writes the words down; see `plug_in`.
        synthesizer: What speaks them; see `plug_in`.
    """

    Config = AsrTtsConfig
    config: AsrTtsConfig
    recognizer: Recognizer
    synthesizer: Synthesizer

    def __init__(self, config: AsrTtsConfig, info: SystemInfo) -> None:
        """Takes the settings; `build` and `load_weights` build the networks."""
        files = published.with_files_of(info.weights, config.recognizer, config.synthesizer)
        super().__init__(config, replace(info, weights=files))

    # Weights.

    @property
    def weight_keys(self) -> tuple[str, ...]:
        """The files of the recogniser and of the voice; pocketsphinx has its own."""
        parts = (self.config.recognizer, self.config.synthesizer)
        return tuple(key for part in parts for key in published.keys_of(self.info.weights, part))

    def build(self) -> None:
        """Builds the networks, official where the settings leave sizes open."""
        config = self.config
        whisper = None
        if config.recognizer != published.POCKETSPHINX:
            whisper = config.whisper or WhisperConfig()
        self.config = replace(config, whisper=whisper, voice=config.voice or VitsConfig())
        if whisper is not None:
            tokens = artificial_tokens(whisper.end, whisper.text_bytes)
            self._take_recognizer(Whisper(whisper), Vocabulary(tokens))
        else:
            self._take_pocketsphinx()
        self._take_voice(Vits(cast(VitsConfig, self.config.voice)), rules_will_do=True)

    def load_weights(self, files: Mapping[str, Path]) -> None:
        """Builds the networks in the sizes that the files state, and fills them."""
        config = self.config
        if config.recognizer == published.POCKETSPHINX:
            self._take_pocketsphinx()
        else:
            keys = published.keys_of(self.info.weights, config.recognizer)
            self._take_recognizer(*published.read_whisper(files, keys, config.whisper))
        keys = published.keys_of(self.info.weights, config.synthesizer)
        piper = config.synthesizer.startswith(published.PIPER)
        read = published.read_piper if piper else published.read_voice
        self._take_voice(read(files, keys, config.voice), rules_will_do=False)

    def _take_pocketsphinx(self) -> None:
        if not is_available("dictionary"):
            raise MissingDependencyError(
                "recognizer: 'pocketsphinx' needs the package of this name, which is not "
                "installed; install voiceanon[offline-tts], or use a Whisper."
            )
        self.recognizer = PocketSphinx()

    def _take_recognizer(self, network: Whisper, vocabulary: Vocabulary) -> None:
        self.config = replace(self.config, whisper=network.config)
        self.recognizer = WhisperRecognizer(network, vocabulary, self.config.checks)

    def _take_voice(self, network: Vits, *, rules_will_do: bool) -> None:
        self.config = replace(self.config, voice=network.config)
        phonemizer = None
        if network.config.symbols.phonemes:
            name = self._phonemizer(rules_will_do=rules_will_do)
            self.config = replace(self.config, phonemizer=name)
            phonemizer = make_phonemizer(name, published.read_dictionary)
        config = self.config
        synthesizer = VitsSynthesizer(network, phonemizer)
        if config.noise_scale is not None:
            synthesizer.noise_scale = config.noise_scale
        if config.duration_noise_scale is not None:
            synthesizer.duration_noise_scale = config.duration_noise_scale
        if config.speaking_rate is not None:
            synthesizer.speaking_rate = config.speaking_rate
        self.synthesizer = synthesizer
        if config.speaker is not None:
            self.parse_target(config.speaker)

    def _phonemizer(self, *, rules_will_do: bool) -> PhonemizerName:
        """The best that is there, unless the settings say which."""
        if self.config.phonemizer != "auto":
            return self.config.phonemizer
        found = next(name for name in NAMES if is_available(name))
        if found == "rules" and not rules_will_do:
            raise MissingDependencyError(
                f"phonemizer: the voice {self.config.synthesizer} reads phonemes, and nothing that "
                "writes them well is installed. Install voiceanon[offline-tts] (gruut, MIT), or "
                "voiceanon[text] with the library espeak-ng; or load with phonemizer='rules', "
                "which mispronounces many words."
            )
        return found

    def plug_in(
        self, *, recognizer: Recognizer | None = None, synthesizer: Synthesizer | None = None
    ) -> None:
        """Puts parts of other kinds into place.

        They are not part of the settings: reports and saved folders know nothing of them.

        Args:
            recognizer: Any `voiceanon.components.asr.protocol.Recognizer` at `sample_rate`.
            synthesizer: Any `voiceanon.components.tts.protocol.Synthesizer`.

        Raises:
            ConfigError: The recogniser takes another rate.
        """
        if recognizer is not None and recognizer.sample_rate != self.sample_rate:
            raise ConfigError(
                f"recognizer: it takes {recognizer.sample_rate} Hz; {self.sample_rate} Hz are due."
            )
        for name, part in (("recognizer", recognizer), ("synthesizer", synthesizer)):
            if part is not None:
                # Networks are registered by name, and give way to networks only.
                delattr(self, name)
                setattr(self, name, part)

    # Targets.

    def draw_target(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws a voice of the synthesiser with one number, all as likely."""
        if self.config.speaker is not None:
            return {"speaker": self.config.speaker}
        return {"speaker": draw_speaker(list(self.synthesizer.speakers), generator)}

    def parse_target(self, target: object) -> Target:
        """Accepts the name of a voice, or ``{"speaker": name}``."""
        name = target.get("speaker") if isinstance(target, Mapping) else target
        if name not in self.synthesizer.speakers:
            raise ConfigError(
                f"target: {name!r} is no voice of {self.config.synthesizer}; its voices are "
                f"{', '.join(self.synthesizer.speakers)}."
            )
        return {"speaker": name}

    # Conversion.

    def transcribe(
        self, batch: Tensor, lengths: Tensor, generators: Sequence[torch.Generator]
    ) -> list[Transcript]:
        """Gives the words that `convert` speaks.

        Args:
            batch: As for `convert`.
            lengths: As for `convert`.
            generators: As for `convert`.

        Returns:
            A transcript per recording, as far as the guards let it pass.
        """
        guards = self.config.guards
        return transcribe_guarded(self.recognizer, batch, lengths, generators, guards)

    def convert(
        self,
        batch: Tensor,
        lengths: Tensor,
        targets: Sequence[Target],
        generators: Sequence[torch.Generator],
    ) -> tuple[Tensor, Tensor]:
        """Converts a padded batch; see `Anonymizer.convert`.

        What an item draws: numbers for Whisper's temperatures above 0, if it comes to that; then
        the synthesiser's noise for its texts, or without words the noise of its silence.
        """
        transcripts = self.transcribe(batch, lengths, generators)
        samples = lengths.tolist()
        pieces = [
            self._pieces(transcript, length)
            for transcript, length in zip(transcripts, samples, strict=True)
        ]
        waves = iter(self._speak(pieces, targets, generators))
        results = []
        for index, (row, length) in enumerate(zip(pieces, samples, strict=True)):
            spoken = [(piece.gap, next(waves)) for piece in row if piece.text]
            if any(len(wave) for _, wave in spoken):
                end = sum(piece.gap for piece in row if not piece.text)
                results.append(_join(spoken, end, batch))
            else:
                self._note_empty(index, transcripts[index])
                results.append(_silence(length, generators[index], batch))
        counts = torch.tensor([len(result) for result in results], device=batch.device)
        return pad_sequence(results, batch_first=True), counts

    def _pieces(self, transcript: Transcript, length: int) -> list[_Piece]:
        """Texts to speak with the silences between them; a piece without text is the last one."""
        config, rate = self.config, self.sample_rate
        seconds = length / rate
        keep = config.pauses_from_seconds is not None and seconds > config.pauses_from_seconds
        groups = [list(transcript.segments)]
        if keep:
            groups = _between_pauses(transcript.segments, config.least_pause_seconds)
        join = round(config.join_seconds * rate)
        pieces: list[_Piece] = []
        before = 0.0
        for group in groups:
            text = normalise_english(" ".join(segment.text for segment in group))
            for place, sentence in enumerate(split_sentences(text, config.max_characters)):
                gap = join if pieces else 0
                if keep and place == 0:
                    gap = round((group[0].start - before) * rate)
                pieces.append(_Piece(sentence, gap))
                before = group[-1].end
        if keep and pieces:
            pieces.append(_Piece("", max(0, round((seconds - before) * rate))))
        return pieces

    def _speak(
        self,
        pieces: Sequence[Sequence[_Piece]],
        targets: Sequence[Target],
        generators: Sequence[torch.Generator],
    ) -> list[Tensor]:
        """Waveforms of all texts at `sample_rate`."""
        owners = [index for index, row in enumerate(pieces) for piece in row if piece.text]
        if not owners:
            return []
        texts = [piece.text for row in pieces for piece in row if piece.text]
        speakers = [targets[index]["speaker"] for index in owners]
        waves = self.synthesizer.synthesize(
            texts, speakers, [generators[index] for index in owners]
        )
        return _resample(waves, self.synthesizer.sample_rate, self.sample_rate)

    def _note_empty(self, index: int, transcript: Transcript) -> None:
        reasons = ", ".join(transcript.rejected) or "nothing recognised"
        if self.config.on_empty == "error":
            raise ConversionError(
                f"{self.info.id}: no words in recording {index} of the batch ({reasons}); leave it "
                "out, or load with on_empty='silence'."
            )
        _log.info("%s: no words in a recording (%s); it becomes silence.", self.info.id, reasons)


def _between_pauses(segments: Sequence[Segment], least: float) -> list[list[Segment]]:
    """Groups segments without a pause of ``least`` seconds between them."""
    groups: list[list[Segment]] = []
    for segment in segments:
        if groups and segment.start - groups[-1][-1].end < least:
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _resample(waves: Sequence[Tensor], rate: int, wanted: int) -> list[Tensor]:
    """Brings waveforms to another rate, all at once: what follows a shorter one is silence."""
    if rate == wanted:
        return list(waves)
    padded = pad_sequence(list(waves), batch_first=True)
    if not padded.shape[1]:
        return list(waves)
    with torch.autocast(padded.device.type, enabled=False):
        resampled = torchaudio.functional.resample(padded, rate, wanted)
    counts = [-(-len(wave) * wanted // rate) for wave in waves]
    return [wave[:count] for wave, count in zip(resampled, counts, strict=True)]


def _join(spoken: Sequence[tuple[int, Tensor]], end: int, like: Tensor) -> Tensor:
    parts = [part for gap, wave in spoken for part in (like.new_zeros(gap), wave.to(like))]
    return torch.cat([*parts, like.new_zeros(end)])


def _silence(length: int, generator: torch.Generator, like: Tensor) -> Tensor:
    noise = torch.randn(length, generator=generator, dtype=torch.float32)
    return SILENCE_RMS * noise.to(like.device)
