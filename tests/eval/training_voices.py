"""Speakers made in code, whose voices differ in pitch and vowels."""

from dataclasses import replace

import numpy as np
import signals

from voiceanon.eval.attackers import AttackerConfig, TrainingData, TrainingUtterance
from voiceanon.eval.sources.ecapa import EcapaConfig

TINY = AttackerConfig(
    sizes=EcapaConfig(width=16, pooled_width=24, scale=2, attention=8, squeeze=8, embedding=12),
    epochs=3,
    batch_size=16,
    segment_seconds=0.5,
    half_cycle=12,
)
"""A network and a training of a few seconds."""

SPEAKERS = ("ann", "bob", "cleo", "dan")


def voice(speaker, take, seconds=1.2):
    """float32 ``(T,)``: pieces of a vowel around the speaker's pitch."""
    number = SPEAKERS.index(speaker)
    pitch = 85.0 + 45.0 * number + 4.0 * (take % 3)
    wave = signals.vowel(seconds, name="aeio"[number], pitch=pitch, seed=100 * number + take)
    return wave.numpy().astype(np.float32)


def utterances(count=6, seconds=1.2):
    return tuple(
        TrainingUtterance(
            name=f"{speaker}-{take}",
            speaker=speaker,
            source=voice(speaker, take, seconds),
            chapter=str(take % 2),
        )
        for speaker in SPEAKERS
        for take in range(count)
    )


def training_data(count=6, **changes):
    facts = {"system": "vpc2024-b2", "level": "utterance", **changes}
    return TrainingData(utterances=utterances(count), **facts)


def tiny(**changes):
    return replace(TINY, **changes)
