"""B6 of official size: a padded batch against one utterance at a time, on one thread of the CPU.

Both run through `convert`, with the same networks of random weights. Time is that of the thread, so
that what else the machine does matters little. On a CPU a batch saves nothing in the networks: the
vocoder takes most of the time and is as busy with one utterance. What can be saved is the walk of
the F0 tracker from frame to frame; what is lost is the padding and the caches. The library
therefore converts utterances one by one there (`cpu_batch_seconds`), and the test holds that this
is no slower than a batch.
"""

import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from gpu import Clock, marks, stage_seconds

from voiceanon import load
from voiceanon.batching import pad, unpad
from voiceanon.devices import arithmetic

SPEECH = np.load(Path(__file__).parents[1] / "golden" / "mcadams" / "mcadams.npz")["input"]
RATE = 16_000
UTTERANCES = 16

TOLERANCE = 1e-5
"""Of full scale, between the batch and single utterances."""

MOST_RATIO = 1.25
"""Single utterances may cost this much more than a batch."""

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("one_thread"),
]

now = time.thread_time


def convert(system, waves, targets, clock):
    """Converts one padded batch; gives results, seconds, and seconds by stage."""
    batch, lengths = pad(waves, system.device)
    draws = [torch.Generator() for _ in waves]
    start = now()
    with (
        torch.inference_mode(),
        arithmetic("float32", system.device),
        marks(system, clock) as listed,
    ):
        results = unpad(*system.convert(batch, lengths, targets, draws))
    return results, now() - start, stage_seconds(listed, clock)


def test_16_mixed_utterances():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the one about random weights
        system = load("b6", device="cpu", weights="random")
    seconds = np.random.default_rng(0).uniform(1, 6, UTTERANCES)
    waves = [
        torch.from_numpy(np.resize(np.roll(SPEECH, -4001 * i), int(s * RATE)))
        for i, s in enumerate(sorted(seconds))
    ]
    targets = [{"speaker": system.speakers[i]} for i in range(UTTERANCES)]
    clock = Clock(system.device, now)
    convert(system, waves[:1], targets[:1], clock)  # what is done once

    together, batch_seconds, stages = convert(system, waves, targets, clock)
    single_seconds, single_stages, worst = 0.0, dict.fromkeys(stages, 0.0), 0.0
    for wav, target, expected in zip(waves, targets, together, strict=True):
        (alone,), taken, by_stage = convert(system, [wav], [target], clock)
        single_seconds += taken
        for stage, part in by_stage.items():
            single_stages[stage] += part
        worst = max(worst, float((alone - expected).abs().max()))

    for name, total, parts in (
        ("batch of 16", batch_seconds, stages),
        ("one at a time", single_seconds, single_stages),
    ):
        shares = ", ".join(f"{stage} {part / total:.1%}" for stage, part in parts.items())
        print(f"\n{name}: {seconds.sum() / total:.2f} x real time; {shares}")
    print(f"one at a time takes {single_seconds / batch_seconds:.2f} of the batch's time")
    print(f"largest difference {worst:.1e}")
    assert worst <= TOLERANCE
    assert single_seconds / batch_seconds <= MOST_RATIO
