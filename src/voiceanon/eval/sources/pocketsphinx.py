"""The English model in the package `pocketsphinx`: needs no download, knows old acoustics.

It errs far more than the challenge's recognizer, and far more on voices that are unusual, so its
word error rates only compare recordings with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from torch import Tensor

from voiceanon.components.asr.pocketsphinx import decode, to_pcm
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

SEARCH = {"fwdflat": False, "maxhmmpf": 3000, "maxwpf": 10}
"""Settings of the decoder: one pass, and fewer hypotheses than it would follow by itself. On nine
utterances of LibriSpeech (61 s) that is 2.2 times as fast for originals, and 7 times for B2's
output, with word error rates of 37.8 instead of 39.0 % and 94.8 instead of 95.3 %."""


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
        self.identity = f"{PACKAGE} {version(PACKAGE)} en-us {SEARCH}"
        self._decoder = package.Decoder(samprate=SAMPLE_RATE, loglevel="FATAL", **SEARCH)

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
        words = decode(self._decoder, to_pcm(wave).numpy().tobytes()).split()
        return " ".join(SPELLINGS.get(word, word) for word in words).upper()
