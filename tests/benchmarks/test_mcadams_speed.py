"""`b2` against the plain loop over frames that the published code is, in one process.

What limits the library's version, by the printed shares: finding 20 roots per frame takes about
half of the time, the recursive filter a quarter, Burg's method a sixth; cutting and adding up
frames the rest.
"""

import time
from pathlib import Path

import librosa
import numpy as np
import pytest
import scipy.signal
import torch

from voiceanon import load
from voiceanon.components.lpc import compiled

SPEECH = np.load(Path(__file__).parents[1] / "golden" / "mcadams" / "mcadams.npz")["input"]
EPS = np.float32(2.0**-23)
RATE = 16000

pytestmark = pytest.mark.benchmark


def plain_loop(wav, alpha):
    """The method frame by frame with NumPy, SciPy and librosa."""
    wav = (wav + EPS).astype(np.float32)
    length, hop = RATE // 50, RATE // 100
    hann = np.hanning(length)
    window = np.sqrt(hann / (hann.sum() / hop))
    result = np.zeros(len(wav), np.float32)
    for start in range(0, len(wav) - length + 1, hop):
        frame = wav[start : start + length] * window
        whitening = librosa.lpc(frame + EPS, order=20)
        roots = np.roots(whitening)
        angle = np.angle(roots)
        moved = np.abs(roots) * np.exp(1j * np.sign(angle) * np.abs(angle) ** alpha)
        shaping = np.real(np.poly(np.where(roots.imag == 0, roots, moved)))
        residual = scipy.signal.lfilter(whitening, [1.0], frame)
        result[start : start + length] += scipy.signal.lfilter([1.0], shaping, residual) * window
    return result


def best_seconds(work, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.fixture(scope="module")
def system():
    system = load("b2", device="cpu", edges="reference")
    system.anonymize(SPEECH, seed=0)  # compiles
    plain_loop(SPEECH[:3200], 0.7)
    return system


@pytest.fixture(params=[1, torch.get_num_threads()], ids=lambda n: f"{n}-threads")
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def report(name, ratio, seconds, audio_seconds):
    print(f"\n{name}: {ratio:.1f} times the plain loop, {audio_seconds / seconds:.0f} x real time")


def test_one_utterance_of_10_s(system, threads):
    wav = np.tile(SPEECH, 5)
    result = system.anonymize(wav, target={"alpha": 0.7}, loudness="none")
    expected = plain_loop(wav, 0.7)
    assert np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()
    ours = best_seconds(lambda: system.anonymize(wav, target={"alpha": 0.7}), 9)
    plain = best_seconds(lambda: plain_loop(wav, 0.7), 3)
    report(f"10 s, {threads} threads", plain / ours, ours, 10)
    assert plain / ours >= 6


def test_batch_of_32_mixed_utterances(system, threads):
    seconds = np.random.default_rng(0).uniform(1, 12, 32)
    waves = [np.resize(SPEECH, int(s * RATE)) for s in seconds]
    targets = [{"alpha": float(alpha)} for alpha in np.linspace(0.5, 0.9, 32)]
    ours = best_seconds(lambda: system.anonymize_batch(waves, targets=targets), 5)
    plain = best_seconds(
        lambda: [plain_loop(w, t["alpha"]) for w, t in zip(waves, targets, strict=True)], 1
    )
    report(f"32 utterances, {threads} threads", plain / ours, ours, seconds.sum())
    assert plain / ours >= 8


def test_shares_of_the_steps(system):
    frames = np.random.default_rng(0).standard_normal((1000, 320)) * np.hanning(320)
    alphas = np.full(1000, 0.7)
    whitening = compiled.burg(frames, 20)
    shaping = compiled.warp(whitening, alphas)
    result = np.empty_like(frames)
    times = {
        "Burg": best_seconds(lambda: compiled.burg(frames, 20), 5),
        "roots and warp": best_seconds(lambda: compiled.warp(whitening, alphas), 5),
        "filters": best_seconds(
            lambda: compiled.refilter(frames, whitening, shaping, result), 5
        ),
    }  # fmt: skip
    total = sum(times.values())
    print("\n" + ", ".join(f"{name} {100 * t / total:.0f} %" for name, t in times.items()))
    assert times["roots and warp"] < 0.9 * total
