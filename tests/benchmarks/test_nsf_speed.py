"""The hn-sinc-NSF generator against its plain form, on one thread, and its memory.

The plain form has everything at sample rate: two averages of 160 taps on 64 channels, one shifted
copy of the signal per tap of the filters, activations as long as the recording. Time is that of the
thread, so that what else the machine does matters little.

What limits the batched form, under a profiler: two thirds of its time are the 55 convolutions, 22
GFLOP per second of audio, which run at the processor's peak for matrix products (107 of 96 to 107
GFLOP/s measured), and which the plain form computes as well. So the ratio has a bound: it grows
with the length of the recordings, as the plain form's activations leave the cache.
"""

import json
import subprocess
import sys
import time

import pytest
import torch
from components import plain_nsf

from voiceanon.components.random_weights import fill_random
from voiceanon.components.vocoder.hn_sinc_nsf import HnSincNsf

LEAST_RATIO = {"short": 1.15, "long": 1.4}
FRAMES = {"short": (80, 120, 150, 200), "long": (1000,)}

MOST_MIB = 60
"""At any length: pieces of the filters, and the past of each convolution."""

MOST_MIB_PER_SECOND = 2.2
"""Noise takes 0.55, normalised features, with a copy in the order of the recurrence, 0.6; the
features themselves are not counted."""

IN_A_PROCESS_OF_ITS_OWN = """
import json, pathlib, sys, torch
from voiceanon.components.random_weights import fill_random
from voiceanon.components.vocoder.hn_sinc_nsf import HnSincNsf

def status(name):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 2**10

torch.set_num_threads(1)
model, draw = HnSincNsf().eval(), torch.Generator().manual_seed(0)
fill_random(model, draw)

@torch.inference_mode()
def run(seconds):
    frames = torch.tensor([100 * seconds])
    features, f0 = torch.zeros(1, int(frames), 769), torch.full((1, int(frames)), 120.0)
    before = status("VmRSS")
    wav, _ = model(features, f0, frames, model.draw_noise(frames, [draw]))
    assert wav.abs().max() > 0
    return before

run(1)
before = run(int(sys.argv[1]))
print(json.dumps(status("VmHWM") - before))
"""

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(before)


def seconds_of(work):
    start = time.thread_time()
    result = work()
    return time.thread_time() - start, result


@pytest.mark.parametrize("kind", list(FRAMES))
def test_ratio(kind):
    draw = torch.Generator().manual_seed(0)
    model = HnSincNsf().eval()
    fill_random(model, draw)
    entries, frames = model.state_dict(), torch.tensor(FRAMES[kind])
    f0 = 80 + 120 * torch.rand(len(frames), int(frames.max()), generator=draw)
    f0[:, ::5] = 0
    features = torch.randn(*f0.shape, 769, generator=draw)
    features[..., -1] = f0 / 100
    noise = model.draw_noise(frames, [draw] * len(frames))

    def plain():
        results = []
        for i, count in enumerate(frames.tolist()):
            size = 160 * count
            random = (noise.phases[i], noise.sine[i, :size], noise.branch[i, :size, 0])
            stages = plain_nsf.stages(entries, features[i, :count], f0[i, :count], *random)
            results.append(stages["wav"])
        return results

    times = {"plain": [], "ours": []}
    for _ in range(3):
        seconds, (wav, lengths) = seconds_of(lambda: model(features, f0, frames, noise))
        times["ours"].append(seconds)
        seconds, expected = seconds_of(plain)
        times["plain"].append(seconds)
    for row, length, alone in zip(wav, lengths.tolist(), expected, strict=True):
        torch.testing.assert_close(row[:length], alone, rtol=0, atol=1e-4)
    ratio, audio = min(times["plain"]) / min(times["ours"]), float(lengths.sum()) / 16_000
    print(
        f"\n{len(frames)} recordings, {audio:.1f} s: {ratio:.2f} times the plain form, "
        f"{min(times['ours']) / audio:.2f} s per second of audio"
    )
    assert ratio >= LEAST_RATIO[kind]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_memory_grows_only_with_the_signals():
    needed = {}
    for seconds in (10, 60):
        command = [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, str(seconds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        needed[seconds] = json.loads(done.stdout)
    slope = (needed[60] - needed[10]) / 50
    print(f"\n{needed[10]:.0f} MiB for 10 s, {needed[60]:.0f} for 60 s: {slope:.2f} MiB per second")
    assert slope <= MOST_MIB_PER_SECOND
    assert needed[10] - 10 * slope <= MOST_MIB
