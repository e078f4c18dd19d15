"""FastSpeech2 of IMS Toucan, with Conformer blocks and a speaker vector."""

from voiceanon.components.acoustic.fastspeech2.config import FastSpeech2Config
from voiceanon.components.acoustic.fastspeech2.model import FastSpeech2, Spoken

__all__ = ["FastSpeech2", "FastSpeech2Config", "Spoken"]
