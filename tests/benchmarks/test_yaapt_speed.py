"""F0 of a batch against the plain form, frame by frame, in one process on one thread.

The plain form works on whole frames at a time: its loops are those over frames, over candidates
and over the states of the dynamic programming. Time is that of the thread, so that what else the
machine does matters little.

What limits the batched form, under a profiler: the filters, which go from sample to sample, take
about a third of the time, spectra and their peaks another, the correlations most of the rest. The
dynamic programming, which goes from frame to frame for all items at once, takes 5 %, so that a
compiled form of it would not pay; alone, an utterance takes nearly twice as long.
"""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
import signals
import torch
from components import plain_yaapt

from voiceanon.components.f0.yaapt import Yaapt

UTTERANCES = 16
LEAST_RATIO = 5.0

MOST_MIB = 350
"""For a batch of 16 minutes: the filtered signals are 120, filtering one of them takes 50 more."""

IN_A_PROCESS_OF_ITS_OWN = """
import json, pathlib, torch
from voiceanon.components.f0.yaapt import Yaapt

def status(name):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 2**10

torch.set_num_threads(1)
time = torch.arange(60 * 16_000) / 16_000
wav = 0.3 * torch.sin(2 * torch.pi * 3 * time) * ((120 * time).frac() < 0.02) + 0.01
batch = torch.stack([torch.roll(wav, 997 * n) for n in range(16)])
tracker, lengths = Yaapt(), torch.full((16,), len(wav))
tracker(batch[:, :16_000].contiguous(), lengths.clamp_max(16_000))
held = status("VmRSS")
f0, _ = tracker(batch, lengths)
print(json.dumps({"extra": status("VmHWM") - held, "voiced": float((f0 > 0).float().mean())}))
"""

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("one_thread"),
]


def best_seconds(work, repeats):
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.parametrize("longest", [4.0, 12.0])
def test_16_mixed_utterances(longest):
    seconds = np.random.default_rng(0).uniform(1, longest, UTTERANCES)
    waves = [signals.speech(s, seed=n) for n, s in enumerate(seconds)]
    lengths = torch.tensor([len(wav) for wav in waves])
    batch = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True)
    tracker = Yaapt()
    f0, frames = tracker(batch, lengths)
    for row, count, wav in zip(f0, frames.tolist(), waves, strict=True):
        np.testing.assert_array_equal(row[:count].numpy(), plain_yaapt.track(wav))

    ours = best_seconds(lambda: tracker(batch, lengths), 3)
    plain = best_seconds(lambda: [plain_yaapt.track(wav) for wav in waves], 1)
    single = best_seconds(
        lambda: [tracker(wav[None], size[None]) for wav, size in zip(waves, lengths, strict=True)],
        1,
    )
    print(
        f"\n{UTTERANCES} utterances, {seconds.sum():.0f} s: {plain / ours:.1f} times the plain "
        f"form, {seconds.sum() / ours:.0f} x real time; one by one {plain / single:.1f} times"
    )
    assert plain / ours >= LEAST_RATIO


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_memory_for_16_minutes():
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN], check=True, capture_output=True, text=True
    )
    told = json.loads(done.stdout)
    print(f"\n{told['extra']:.0f} MiB above the input, {told['voiced']:.0%} voiced")
    assert told["voiced"] > 0.3
    assert told["extra"] <= MOST_MIB
