"""Memory that kNN-VC of official size takes to make a pool from 5 minutes of reference speech."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPEECH = Path(__file__).parents[1] / "golden" / "mcadams" / "mcadams.npz"

MOST_GIB = 2.0
"""Above the weights. Attention over 5 minutes at once would ask for 14 for its position bias."""

IN_A_PROCESS_OF_ITS_OWN = """
import json, pathlib, resource, sys, time, warnings
import numpy as np
from voiceanon import load

speech, clips, room = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
warnings.simplefilter("ignore")  # the one about random weights

def status(name):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 2**20

system = load("t8-2", device="cpu", weights="random")
wav = np.resize(np.load(speech)["input"], 300 * 16_000)
references = np.split(wav, clips)
# What is done once: threads, and the modules of the voice activity trim.
system.make_pool({"warm": wav[:16_000]})
before, peak = status("VmRSS"), status("VmHWM")
# Rather an error here than a machine without memory.
limit = int((status("VmSize") + room) * 2**30)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
start = time.perf_counter()
try:
    pool = system.make_pool({"target": references})
except RuntimeError as error:
    print(json.dumps({"error": str(error).splitlines()[0]}))
else:
    # Not getrusage: what it tells after an exec starts with the peak of the parent.
    print(json.dumps({
        "held": before,
        "highest_before": peak,
        "highest": status("VmHWM"),
        "frames": len(pool.features["target"]),
        "seconds": time.perf_counter() - start,
    }))
"""

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc"),
]


@pytest.mark.parametrize("clips", [30, 1], ids=["30-clips-of-10-s", "one-recording"])
def test_pool_of_5_minutes(clips):
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, SPEECH, str(clips), str(3 * MOST_GIB)],
        check=True,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    print("\n", told, sep="")
    assert "error" not in told, told["error"]
    # The peak of loading must not hide that of the pool, or the test would say nothing.
    assert told["highest"] > told["highest_before"]
    extra = told["highest"] - told["held"]
    print(f"{extra:.2f} GiB above {told['held']:.2f} GiB, {told['frames']} frames")
    assert told["frames"] > 10_000
    assert extra <= MOST_GIB
