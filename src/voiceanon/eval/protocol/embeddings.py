"""Embeddings of many recordings, computed once: kept by content of the audio and by extractor."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from voiceanon.errors import AudioError
from voiceanon.eval.sources.base import Recording, SpeakerEmbedder
from voiceanon.eval.sources.waves import SAMPLE_RATE, open_wave
from voiceanon.files import replacing

BLOCK_SECONDS = 600.0
"""Speech that is held in memory at once, seconds: 38 MB."""

_DIGITS = 16


class EmbeddingCache:
    """A folder of embeddings, one file each, named by what they were computed from.

    The same recording under another name, or in another lossless format, is found again; another
    model, or other weights, never is.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Uses a folder; it is made at the first `put`."""
        self._folder = Path(folder)

    def get(self, wave: npt.NDArray[np.float32], identity: str) -> npt.NDArray[np.float32] | None:
        """Gives a kept embedding, float32 ``(d,)``, or ``None``.

        Args:
            wave: float32 ``(T,)``, 16 kHz.
            identity: Of the extractor.
        """
        path = self._path(wave, identity)
        try:
            kept = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            # Not there, or damaged: it is computed afresh.
            return None
        sound = kept.ndim == 1 and kept.dtype == np.float32 and bool(np.isfinite(kept).all())
        return kept if sound else None

    def put(
        self,
        wave: npt.NDArray[np.float32],
        identity: str,
        embedding: npt.NDArray[np.float32],
    ) -> None:
        """Keeps an embedding; the file appears whole or not at all.

        Args:
            wave: As in `get`.
            identity: As in `get`.
            embedding: float32 ``(d,)``.
        """
        with replacing(self._path(wave, identity)) as temporary, temporary.open("wb") as stream:
            np.save(stream, embedding.astype(np.float32, copy=False), allow_pickle=False)

    def _path(self, wave: npt.NDArray[np.float32], identity: str) -> Path:
        extractor = hashlib.sha256(identity.encode()).hexdigest()[:_DIGITS]
        content = hashlib.sha256(wave.astype("<f4", copy=False).tobytes()).hexdigest()
        return self._folder / extractor / content[:2] / f"{content}.npy"


def embed_all(
    embedder: SpeakerEmbedder,
    recordings: Mapping[str, Recording],
    *,
    cache: EmbeddingCache | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> dict[str, npt.NDArray[np.float32]]:
    """Embeds recordings, a few minutes of them at a time.

    Args:
        embedder: The model.
        recordings: By utterance.
        cache: Where embeddings are looked for and kept.
        on_done: Called now and then, and at the end, with the number of recordings that are done
            and that of all.

    Returns:
        float32 ``(d,)`` by utterance, in the order of ``recordings``.

    Raises:
        AudioError: A recording cannot be used; the message names the utterance.
    """
    found: dict[str, npt.NDArray[np.float32]] = {}
    waiting: dict[str, npt.NDArray[np.float32]] = {}
    samples = 0
    for name, recording in recordings.items():
        try:
            wave = open_wave(recording).numpy()
        except AudioError as error:
            raise AudioError(f"{name}: {error}") from error
        kept = None if cache is None else cache.get(wave, embedder.identity)
        if kept is not None:
            found[name] = kept
            continue
        waiting[name] = wave
        samples += len(wave)
        if samples >= BLOCK_SECONDS * SAMPLE_RATE:
            found |= _embed(embedder, waiting, cache)
            waiting, samples = {}, 0
            if on_done is not None:
                on_done(len(found), len(recordings))
    found |= _embed(embedder, waiting, cache)
    if on_done is not None:
        on_done(len(found), len(recordings))
    return {name: found[name] for name in recordings}


def _embed(
    embedder: SpeakerEmbedder,
    waves: Mapping[str, npt.NDArray[np.float32]],
    cache: EmbeddingCache | None,
) -> dict[str, npt.NDArray[np.float32]]:
    if not waves:
        return {}
    try:
        embeddings = embedder.embed(list(waves.values()))
    except AudioError:
        _name_culprit(embedder, waves)
        raise
    result = dict(zip(waves, embeddings, strict=True))
    if cache is not None:
        for name, embedding in result.items():
            cache.put(waves[name], embedder.identity, embedding)
    return result


def _name_culprit(embedder: SpeakerEmbedder, waves: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """Raises the error of the first recording that an embedder refuses, with its name."""
    for name, wave in waves.items():
        try:
            embedder.embed([wave])
        except AudioError as error:
            raise AudioError(f"{name}: {error}") from error
