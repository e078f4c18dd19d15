"""Memory that B5 of official size takes on a CPU, 332 million values of random weights."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPEECH = Path(__file__).parents[1] / "golden" / "mcadams" / "mcadams.npz"

MOST_GIB = 8.0
"""For all that the process holds: Python, torch, weights, and ten utterances of 5 to 14 s."""

IN_A_PROCESS_OF_ITS_OWN = """
import json, pathlib, sys, warnings
import numpy as np
from voiceanon import load

warnings.simplefilter("ignore")  # the one about random weights

def status(name):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 2**20

system = load("b5", device="cpu", weights="random")
held = status("VmRSS")
speech = np.load(sys.argv[1])["input"]
waves = [np.resize(np.roll(speech, -4001 * i), (5 + i) * 16_000) for i in range(10)]
results = system.anonymize_batch(waves, seed=1, keys=[str(i) for i in range(10)])
print(json.dumps({
    "held": held,
    "highest": status("VmHWM"),
    "lengths": [len(result) for result in results],
    "finite": bool(all(np.isfinite(result).all() and result.any() for result in results)),
}))
"""

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc"),
]


def test_ten_utterances():
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, SPEECH],
        check=True,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    print("\n", told, sep="")
    assert told["lengths"] == [(5 + i) * 16_000 for i in range(10)]
    assert told["finite"]
    assert told["held"] < told["highest"] <= MOST_GIB
