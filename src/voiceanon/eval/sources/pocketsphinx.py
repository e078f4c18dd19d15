"""The English model in the package `pocketsphinx`: needs no download, knows old acoustics.

It errs far more than the challenge's recognizer, and far more on voices that are unusual, so its
word error rates only compare recordings with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import torch
from torch import Tensor

from voiceanon.eval.dependencies import required
from voiceanon.eval.metrics.wer import normalise_reference
from voiceanon.eval.sources.base import NOT_CHALLENGE, Recording
from voiceanon.eval.sources.waves import SAMPLE_RATE, open_waves

PACKAGE = "pocketsphinx"

LABEL = f"English model of the package pocketsphinx; {NOT_CHALLENGE}"

TRAINING_DATA = "not stated; US English, original speech (CMU Sphinx, en-us)"

MIN_SECONDS = 0.1
"""Shortest recording, seconds (ours): no word is shorter."""

SPELLINGS = {"mr": "mister", "mrs": "missus", "dr": "doctor"}
"""Words of its dictionary that texts of LibriSpeech write out."""

_FULL_SCALE = 32768.0


class PocketsphinxRecognizer:
    """Transcribes one recording after the other on the CPU; no state passes between them.

    Attributes:
        label: See `ScoreSource`.
        identity: See `ScoreSource`.
        training_data: What the model was trained on.
    """

    def __init__(self) -> None:
        """Loads the model of the installed package.

        Raises:
            MissingDependencyError: The package is not installed.
        """
        package = required(PACKAGE, "recognizer")
        self.label = LABEL
        self.training_data = TRAINING_DATA
        self.identity = f"{PACKAGE} {version(PACKAGE)} en-us"
        self._decoder = package.Decoder(samprate=SAMPLE_RATE, loglevel="FATAL")

    def transcribe(self, recordings: Sequence[Recording]) -> list[str]:
        """Writes down words, in upper case.

        Args:
            recordings: See `waves.open_wave`.

        Returns:
            One text per recording.

        Raises:
            AudioError: A recording cannot be used as it is, or is shorter than `MIN_SECONDS`.
        """
        waves = open_waves(recordings, min_seconds=MIN_SECONDS, label=self.label)
        return [self._transcribe(wave) for wave in waves]

    def normalise(self, text: str) -> str:
        """Upper case and single blanks, without , ! ? . (VPC 2024); leaves hypotheses alone."""
        return normalise_reference(text)

    def _transcribe(self, wave: Tensor) -> str:
        scaled = (wave * _FULL_SCALE).round().clamp(-_FULL_SCALE, _FULL_SCALE - 1)
        # Its estimate of the noise would go on from the recording before.
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        # As a whole: its normalisation then sees this recording and none before it.
        self._decoder.process_raw(scaled.to(torch.int16).numpy().tobytes(), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        words = found.hypstr.split() if found is not None else []
        return " ".join(SPELLINGS.get(word, word) for word in words).upper()
