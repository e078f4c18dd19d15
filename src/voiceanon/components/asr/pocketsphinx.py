"""pocketsphinx with the models of its own wheel: a small recogniser that needs no download.

With many errors on anything but clear speech it is for tests and for trying the chain offline.
It works on arrays in main memory, one recording after the other.

Sources: pocketsphinx 5.1.1 (BSD); specification sheet of the family, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from voiceanon.components.asr.activity import (
    FRAME_SAMPLES,
    FRAME_SECONDS,
    ActivityConfig,
    active_frames,
    pause_cuts,
)
from voiceanon.components.asr.protocol import Segment, Transcript

SAMPLE_RATE = 16_000

LONGEST_SECONDS = 30.0
"""Longest piece that is recognised at once (ours: as long as Whisper's window)."""

PAUSE_SECONDS = 0.5
"""Shortest pause at which a longer recording is cut (ours)."""

MARGIN_SECONDS = 0.2
"""What a piece gets of the pauses around it, so that it keeps quiet sounds at its ends (ours)."""

_FULL_SCALE = 32_768


class PocketSphinx(nn.Module):
    """Recogniser for American English; see `protocol.Recognizer`.

    Attributes:
        sample_rate: Rate that it takes, in Hz.
    """

    sample_rate = SAMPLE_RATE

    def __init__(self) -> None:
        """Loads nothing before the first use."""
        super().__init__()
        self._decoder: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Copies and other processes load a decoder of their own."""
        return {**self.__dict__, "_decoder": None}

    def transcribe(
        self, batch: Tensor, lengths: Tensor, generators: Sequence[torch.Generator]
    ) -> list[Transcript]:
        """Writes down recordings; see `protocol.Recognizer.transcribe`. Draws nothing."""
        active = active_frames(batch, lengths, ActivityConfig()).tolist()
        waves = to_pcm(batch).cpu().numpy()
        return [
            self._recognise(wave[:length], row)
            for wave, length, row in zip(waves, lengths.tolist(), active, strict=True)
        ]

    def _recognise(self, wave: Any, active: list[bool]) -> Transcript:
        longest = int(LONGEST_SECONDS / FRAME_SECONDS)
        pieces = [(0, len(active))]
        if len(wave) > LONGEST_SECONDS * SAMPLE_RATE:
            pieces = pause_cuts(active, longest, int(PAUSE_SECONDS / FRAME_SECONDS))
        margin = int(MARGIN_SECONDS / FRAME_SECONDS)
        segments = []
        for place, (first, end) in enumerate(pieces):
            earliest = pieces[place - 1][1] if place else 0
            latest = pieces[place + 1][0] if place + 1 < len(pieces) else len(active)
            start, stop = max(earliest, first - margin), min(latest, end + margin)
            piece = wave[start * FRAME_SAMPLES : stop * FRAME_SAMPLES]
            text = self._decode(piece.tobytes()).strip()
            if text:
                last = min(stop * FRAME_SAMPLES, len(wave)) / SAMPLE_RATE
                segments.append(Segment(start=start * FRAME_SECONDS, end=last, text=text))
        return Transcript(segments=tuple(segments))

    def _decode(self, pcm: bytes) -> str:
        if self._decoder is None:
            self._decoder = import_module("pocketsphinx").Decoder(loglevel="FATAL")
        return decode(self._decoder, pcm)


def to_pcm(wave: Tensor) -> Tensor:
    """Samples of full scale 1.0 as those of 16 bit, of any shape."""
    scaled = (wave * _FULL_SCALE).round().clamp(-_FULL_SCALE, _FULL_SCALE - 1)
    return scaled.to(torch.int16)


def decode(decoder: Any, pcm: bytes) -> str:
    """Recognises one recording with a `pocketsphinx.Decoder`, which remembers none before it.

    Args:
        decoder: Of the rate of the samples.
        pcm: Samples of 16 bit.
    """
    # Its estimate of the noise would go on from the recording before.
    decoder.reinit_feat()
    decoder.start_utt()
    # As a whole: its normalisation then sees this recording alone.
    decoder.process_raw(pcm, no_search=False, full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return "" if found is None else str(found.hypstr)
