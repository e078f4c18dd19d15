"""Texts of many recordings, recognized once: kept by content of the audio and by recognizer."""

from __future__ import annotations

import hashlib
import os
import queue
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from voiceanon.errors import AudioError
from voiceanon.eval.app.data import Waves
from voiceanon.eval.sources.base import Recognizer
from voiceanon.files import replacing

BLOCK_RECORDINGS = 64
"""Recordings that a recognizer gets at once. A multiple of the challenge's batch of 8, so that its
batches are those of the whole set in order of length (specification sheet of the evaluation,
section 3.4)."""

_DIGITS = 16


class TextCache:
    """A folder of texts, one file each, named by what they were recognized from."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Uses a folder; it is made at the first `put`."""
        self._folder = Path(folder)

    def get(self, wave: npt.NDArray[np.float32], identity: str) -> str | None:
        """Gives a kept text, or ``None``.

        Args:
            wave: float32 ``(T,)``, 16 kHz.
            identity: Of the recognizer.
        """
        try:
            return self._path(wave, identity).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            # Not there, or damaged: it is recognized afresh.
            return None

    def put(self, wave: npt.NDArray[np.float32], identity: str, text: str) -> None:
        """Keeps a text; the file appears whole or not at all."""
        with replacing(self._path(wave, identity)) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def _path(self, wave: npt.NDArray[np.float32], identity: str) -> Path:
        model = hashlib.sha256(identity.encode()).hexdigest()[:_DIGITS]
        content = hashlib.sha256(wave.astype("<f4", copy=False).tobytes()).hexdigest()
        return self._folder / model / content[:2] / f"{content}.txt"


def transcribe_all(
    recognizers: Sequence[Recognizer],
    waves: Waves,
    cache: TextCache,
    *,
    on_done: Callable[[int, int], None] | None = None,
) -> dict[str, str]:
    """Recognizes recordings, the longest first.

    Args:
        recognizers: Equal ones. A single one gets blocks of recordings; several get one recording
            after the other, each in a thread of its own.
        waves: Recordings by utterance.
        cache: Where texts are looked for and kept.
        on_done: Called now and then with the number of recordings that are done and that of all.

    Returns:
        Text by utterance, in the order of ``waves``.

    Raises:
        AudioError: A recording cannot be used.
    """
    order = sorted(waves, key=waves.seconds, reverse=True)
    texts: dict[str, str] = {}
    waiting: dict[str, npt.NDArray[np.float32]] = {}
    for name in order:
        wave = waves[name]
        kept = cache.get(wave, recognizers[0].identity)
        if kept is None:
            waiting[name] = wave
        else:
            texts[name] = kept
        if len(waiting) == BLOCK_RECORDINGS or (name == order[-1] and waiting):
            _recognize(recognizers, waiting, cache, texts, lambda: _tell(on_done, texts, order))
            waiting = {}
    _tell(on_done, texts, order)
    return {name: texts[name] for name in waves}


def _tell(
    on_done: Callable[[int, int], None] | None, texts: Mapping[str, str], order: Sequence[str]
) -> None:
    if on_done is not None:
        on_done(len(texts), len(order))


def _recognize(
    recognizers: Sequence[Recognizer],
    waves: Mapping[str, npt.NDArray[np.float32]],
    cache: TextCache,
    texts: dict[str, str],
    tell: Callable[[], None],
) -> None:
    """Recognizes a block; each text is kept as soon as it is known."""
    if len(recognizers) == 1:
        found = recognizers[0].transcribe(list(waves.values()))
        for name, text in zip(waves, found, strict=True):
            cache.put(waves[name], recognizers[0].identity, text)
            texts[name] = text
        tell()
        return
    idle: queue.SimpleQueue[Recognizer] = queue.SimpleQueue()
    for recognizer in recognizers:
        idle.put(recognizer)

    def work(name: str) -> str:
        recognizer = idle.get()
        try:
            (text,) = recognizer.transcribe([waves[name]])
        except AudioError as error:
            raise AudioError(f"{name}: {error}") from error
        finally:
            idle.put(recognizer)
        cache.put(waves[name], recognizer.identity, text)
        return text

    threads = ThreadPoolExecutor(len(recognizers))
    try:
        for name, text in zip(waves, threads.map(work, waves), strict=True):
            texts[name] = text
            tell()
    finally:
        # An error or an interruption ends the block, not only its recording.
        threads.shutdown(cancel_futures=True)
