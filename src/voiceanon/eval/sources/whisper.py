"""Whisper as a recognizer, through Transformers.

Paper: "Robust Speech Recognition via Large-Scale Weak Supervision" (arXiv 2212.04356). It writes
punctuation, digits and its own spellings: bring its texts and the reference texts to one form with
`WhisperRecognizer.normalise` before words are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from voiceanon.devices import arithmetic, building, resolve_device
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.eval.sources.base import Recording
from voiceanon.eval.sources.manifest import (
    Access,
    SourceInfo,
    identity_of,
    list_sources,
    read_source,
    resolve_source,
)
from voiceanon.eval.sources.waves import SAMPLE_RATE, open_waves

ID_START = "openai-whisper-"
"""Ids of the manifests begin so; the size follows."""

DEFAULT_SIZE = "medium.en"

BATCH_SIZE = 16
"""Recordings per batch (ours)."""

WINDOW_SECONDS = 30.0
"""What the network sees at once; longer recordings are walked through, one after the other."""

MIN_SECONDS = 0.1
"""Shortest recording, seconds (ours): no word is shorter."""


class WhisperRecognizer:
    """Transcribes English without sampling and without a beam.

    Attributes:
        label: See `ScoreSource`.
        identity: See `ScoreSource`.
        training_data: What the network was trained on.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        label: str,
        identity: str,
        training_data: str,
        device: str | torch.device = "auto",
    ) -> None:
        """Reads a model from a folder in the layout of the Hub.

        Args:
            folder: With ``model.safetensors``, ``config.json`` and the files of the tokenizer.
            label: What it is.
            identity: Of the weights.
            training_data: What it was trained on.
            device: As in `voiceanon.load`.

        Raises:
            WeightsError: The files do not make a model.
        """
        from transformers import (
            WhisperFeatureExtractor,
            WhisperForConditionalGeneration,
            WhisperTokenizer,
        )

        self.label = label
        self.identity = identity
        self.training_data = training_data
        self._device = resolve_device(device)
        try:
            with building():
                model: Any = WhisperForConditionalGeneration.from_pretrained(
                    folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
                )
            self._features: Any = WhisperFeatureExtractor.from_pretrained(folder)
            self._tokenizer: Any = WhisperTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise WeightsError(
                f"{folder}: cannot be read as a Whisper model ({error}); take the published files."
            ) from error
        self._model = model.to(self._device).eval().requires_grad_(False)
        self._language = (
            {"language": "en", "task": "transcribe"}
            if getattr(model.generation_config, "is_multilingual", False)
            else {}
        )

    def transcribe(self, recordings: Sequence[Recording]) -> list[str]:
        """Writes down what is said, as Whisper spells it.

        Args:
            recordings: See `waves.open_wave`.

        Returns:
            One text per recording.

        Raises:
            AudioError: A recording cannot be used as it is, or is shorter than `MIN_SECONDS`.
        """
        waves = open_waves(recordings, min_seconds=MIN_SECONDS, label=self.label)
        texts = [""] * len(waves)
        window = int(WINDOW_SECONDS * SAMPLE_RATE)
        short = [i for i, wave in enumerate(waves) if len(wave) <= window]
        batches = [short[i : i + BATCH_SIZE] for i in range(0, len(short), BATCH_SIZE)]
        batches += [[i] for i, wave in enumerate(waves) if len(wave) > window]
        for batch in batches:
            found = self._transcribe([waves[i] for i in batch])
            for i, text in zip(batch, found, strict=True):
                texts[i] = text
        return texts

    def normalise(self, text: str) -> str:
        """Brings a text to the form in which Whisper's authors count errors, here in upper case.

        No punctuation and hesitations; numbers as digits, one spelling of English, contractions
        written out. For hypotheses and reference texts alike.
        """
        return str(self._tokenizer.normalize(text)).upper()

    def _transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        long = any(len(wave) > WINDOW_SECONDS * SAMPLE_RATE for wave in waves)
        inputs = self._features(
            [wave.numpy() for wave in waves],
            sampling_rate=SAMPLE_RATE,
            return_tensors="pt",
            return_attention_mask=True,
            truncation=not long,
            padding="longest" if long else "max_length",
        )
        with torch.inference_mode(), arithmetic("float32", self._device):
            tokens = self._model.generate(
                inputs.input_features.to(self._device),
                attention_mask=inputs.attention_mask.to(self._device),
                do_sample=False,
                num_beams=1,
                return_timestamps=long,
                **self._language,
            )
        texts = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return [str(text).strip() for text in texts]


def load_whisper(
    size: str = DEFAULT_SIZE,
    *,
    weights: str | Path | None = None,
    device: str | torch.device = "auto",
    local_files_only: bool = False,
    token: str | bool | None = None,
) -> WhisperRecognizer:
    """Loads a published Whisper model.

    Args:
        size: Such as ``"medium.en"``; see `whisper_sizes`.
        weights: Folder with the published files, or with a folder of them named as on the Hub;
            ``None`` for the cache, which is filled from the published address.
        device: As in `voiceanon.load`.
        local_files_only: Never use the network.
        token: The Hub's access token.

    Raises:
        ConfigError: The size is unknown.
        WeightsError: A file is missing or damaged, or the files lie in different folders.
    """
    if size not in whisper_sizes():
        raise ConfigError(f"size: {size!r} is none of {', '.join(whisper_sizes())}.")
    info = read_source(ID_START + size)
    access = Access(weights=weights, local_files_only=local_files_only, token=token)
    paths = resolve_source(info, access)
    return WhisperRecognizer(
        _common_folder(info, list(paths.values())),
        label=info.label,
        identity=identity_of(info, paths),
        training_data=info.training_data,
        device=device,
    )


def whisper_sizes() -> tuple[str, ...]:
    """Sizes that have a manifest."""
    ids = (name for name in list_sources() if name.startswith(ID_START))
    return tuple(name.removeprefix(ID_START) for name in ids)


def _common_folder(info: SourceInfo, paths: Sequence[Path]) -> Path:
    folders = {path.parent for path in paths}
    if len(folders) != 1:
        raise WeightsError(
            f"{info.id}: its files lie in {len(folders)} folders "
            f"({', '.join(sorted(map(str, folders)))}); put them into one."
        )
    return folders.pop()
