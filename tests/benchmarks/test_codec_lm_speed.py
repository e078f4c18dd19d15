"""B4 of official size on one thread of the CPU: time by stage and memory of one utterance.

Networks of random weights; the times do not depend on what the weights are. Time is that of the
thread, so that what else the machine does matters little. Besides, the coarse model of official
width, with fewer layers, in a batch and one by one: on a CPU, batches speed up its single steps,
but neither the sequences with which its windows begin nor the fine model.
"""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon.components.lm.coarse import COARSE_CONFIG, CoarseModel
from voiceanon.components.lm.prompts import VoicePrompts
from voiceanon.components.random_weights import fill_random
from voiceanon.systems.codec_lm_files import random_voices

SPEECH = Path(__file__).parents[1] / "golden" / "mcadams" / "mcadams.npz"
SECONDS = 3.0
MOST_GIB = 0.5
"""Above the weights, which take 2.8 GiB."""

SHARE_OF_LAYERS = 6
"""The comparison has one layer for each of these."""

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(3600),
    pytest.mark.usefixtures("one_thread"),
]

IN_A_PROCESS_OF_ITS_OWN = """
import json, pathlib, sys, time, warnings
import numpy as np, torch
from voiceanon import load

speech, seconds = sys.argv[1], float(sys.argv[2])
warnings.simplefilter("ignore")  # the one about random weights
torch.set_num_threads(1)

def status(name):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 2**20

start = time.thread_time()
system = load("b4", device="cpu", weights="random")
built, held = time.thread_time() - start, status("VmRSS")
stages = {}

def timed(stage, owner, name):
    work = getattr(owner, name)
    def run(*arguments):
        start = time.thread_time()
        result = work(*arguments)
        stages[stage] = stages.get(stage, 0.0) + time.thread_time() - start
        return result
    setattr(owner, name, run)

timed("content", system.content, "forward")
timed("content", system.quantiser, "forward")
timed("coarse", system.coarse, "generate")
timed("coarse steps", system.coarse, "step")
timed("fine", system.fine, "generate")
timed("codec", system.codec, "forward")
wav = np.resize(np.load(speech)["input"], int(seconds * 16_000))
start, wall = time.thread_time(), time.perf_counter()
result = system.anonymize(wav, seed=1)
taken = time.thread_time() - start
print(json.dumps({
    "parameters": sum(p.numel() for p in system.parameters()),
    "built_seconds": built,
    "seconds": taken,
    "wall_seconds": time.perf_counter() - wall,
    "stages": stages,
    "samples": len(result),
    "peak": float(np.abs(result).max()),
    "finite": bool(np.isfinite(result).all()),
    "held": held,
    "highest": status("VmHWM"),
}))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_one_utterance_end_to_end():
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, SPEECH, str(SECONDS)],
        check=True,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    print("\n", told, sep="")
    parts = {name: part / told["seconds"] for name, part in told["stages"].items()}
    shares = ", ".join(f"{name} {part:.1%}" for name, part in parts.items())
    print(f"real-time factor {told['seconds'] / SECONDS:.1f}; {shares}")
    print(f"{told['highest'] - told['held']:.2f} GiB above {told['held']:.2f} GiB")
    # 149 semantic tokens, 223 codec frames.
    assert told["samples"] == -(-223 * 320 * 2 // 3)
    assert told["finite"]
    assert told["peak"] > 0
    assert told["highest"] - told["held"] <= MOST_GIB


@torch.inference_mode()
def test_the_coarse_model_in_a_batch_and_one_by_one():
    layers = COARSE_CONFIG.layers // SHARE_OF_LAYERS
    model = CoarseModel(replace(COARSE_CONFIG, layers=layers)).eval()
    fill_random(model, torch.Generator().manual_seed(0))
    prompts = VoicePrompts.of(random_voices(4))
    draws = torch.Generator().manual_seed(0)
    tokens = torch.randint(10_000, (4, 80), generator=draws)
    lengths, numbers = torch.full((4,), 80), torch.rand(4, 240, generator=draws)

    def run(rows):
        start = time.thread_time()
        codes, _ = model.generate(
            tokens[rows], lengths[rows], prompts(torch.tensor(rows)), numbers[rows], 0.7
        )
        return codes, time.thread_time() - start

    run([0])
    together, batch_seconds = run([0, 1, 2, 3])
    alone = [run([row]) for row in range(4)]
    single_seconds = sum(taken for _, taken in alone)
    equal = [
        float((codes[0] == row).double().mean())
        for (codes, _), row in zip(alone, together, strict=True)
    ]
    print(f"\n{layers} layers, 4 items")
    print(f"{batch_seconds:.1f} s together, {single_seconds:.1f} s alone")
    print(f"equal tokens of drawn ones, in float32: {np.round(equal, 3).tolist()}")
    assert together.shape == (4, 2, 120)
