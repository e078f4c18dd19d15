"""B3 of official size on one thread of the CPU: time by stage for five utterances.

Networks of random weights. Only the recogniser's search depends on what they are: with trained
weights a text ends long before the recording does, here it is as long as it may be. Time is that of
the thread, so that what else the machine does matters little.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import voiceanon

SECONDS = (2.0, 3.0, 4.0, 6.0, 9.0)
PATHS = (Path(voiceanon.__file__).parents[1], Path(__file__).parents[1])

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

IN_A_PROCESS_OF_ITS_OWN = """
import json, sys, time, warnings
import torch, signals
from voiceanon import load
from voiceanon.systems import gan_fastspeech2

warnings.simplefilter("ignore")  # the one about random weights
torch.set_num_threads(1)
start = time.thread_time()
system = load("b3", device="cpu", weights="random")
built = time.thread_time() - start
stages = {}

def timed(stage, owner, name):
    work = getattr(owner, name)
    def run(*arguments, **options):
        start = time.thread_time()
        result = work(*arguments, **options)
        stages[stage] = stages.get(stage, 0.0) + time.thread_time() - start
        return result
    setattr(owner, name, run)

timed("voice activity, twice", system.vad, "forward")
timed("style vector", system.style, "forward")
timed("recogniser, encoder", system.recognizer, "encode")
timed("recogniser, search", system.recognizer, "search")
timed("aligner, 3 steps", system.aligner, "adapt")
timed("prosody", gan_fastspeech2, "prosody_per_phone")
timed("acoustic model", system.acoustic, "forward")
timed("vocoder", system.vocoder, "forward")
timed("to 16 kHz", gan_fastspeech2, "resample_48_to_16")

system.voices  # made once
waves = [signals.speech(float(seconds), seed=i) for i, seconds in enumerate(sys.argv[1:])]
taken = []
for number, wav in enumerate(waves):
    start = time.thread_time()
    result = system.anonymize(wav, seed=1, key=str(number))
    taken.append(time.thread_time() - start)
    assert bool(torch.isfinite(result).all())
    assert len(result) > 0
print(json.dumps({
    "parameters": sum(p.numel() for p in system.parameters()),
    "built": built,
    "taken": taken,
    "stages": stages,
}))
"""


def test_five_utterances_end_to_end():
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, *map(str, SECONDS)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PATHS))},
    )
    told = json.loads(done.stdout)
    total, seconds = sum(told["taken"]), sum(SECONDS)
    print(f"\n{told['parameters'] / 1e6:.1f} million values, built in {told['built']:.1f} s")
    for stage, time in told["stages"].items():
        print(f"{stage:24} {time:7.2f} s {time / total:7.1%}")
    rest = total - sum(told["stages"].values())
    print(f"{'the rest':24} {rest:7.2f} s {rest / total:7.1%}")
    print(f"{total:.1f} s for {seconds:.0f} s of speech, real-time factor {total / seconds:.2f}")
    # No stage is left out, none counted twice.
    assert 0 <= rest < 0.1 * total
