"""Signals made in code, the same in every run: float32 tensors ``(T,)``, full scale 1.0."""

import math
from functools import cache

import numpy as np
import scipy.signal
import torch

RATE = 16_000
FORMANTS = {
    "a": (730, 1090, 2440),
    "e": (530, 1840, 2480),
    "i": (270, 2290, 3010),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
}
"""First three formants in Hz (Peterson and Barney 1952, men)."""

FORMANT_WIDTH = 100.0
"""Hz."""

BREATH = 0.01
"""Noise beside the pulses, as a share of the peak: no signal of a microphone lacks it."""


def count(seconds, rate=RATE):
    return max(1, round(seconds * rate))


def times(seconds, rate=RATE):
    return torch.arange(count(seconds, rate), dtype=torch.float64) / rate


@cache
def _vowel(samples, rate, name, pitch, seed):
    draws = np.random.default_rng(seed)
    wav = BREATH * draws.standard_normal(samples)
    glide = pitch * (1 + 0.05 * np.sin(2 * np.pi * 3 * np.arange(samples) / rate))
    wav[np.flatnonzero(np.diff(np.floor(np.cumsum(glide) / rate), prepend=-1.0))] += 1
    for formant in FORMANTS[name]:
        size, angle = math.exp(-math.pi * FORMANT_WIDTH / rate), 2 * math.pi * formant / rate
        poles = [1, -2 * size * math.cos(angle), size**2]
        wav = scipy.signal.lfilter([sum(poles)], poles, wav)
    return wav / np.abs(wav).max()


def vowel(seconds=1.0, rate=RATE, *, name="a", pitch=120.0, peak=0.3, seed=0):
    """Pulses that glide around ``pitch`` (Hz) and some noise, through the formants of a vowel."""
    wav = _vowel(count(seconds, rate), rate, name, pitch, seed)
    return torch.from_numpy(peak * wav).to(torch.float32)


def speech(seconds=1.0, rate=RATE, *, peak=0.3, seed=0):
    """Vowels of changing pitch, with short pauses of faint noise between them."""
    draws = np.random.default_rng(seed)
    samples = count(seconds, rate)
    pieces, made = [], 0
    while made < samples:
        name = "aeiou"[draws.integers(5)]
        pitch, length = float(draws.uniform(90, 210)), float(draws.uniform(0.12, 0.32))
        piece = vowel(length, rate, name=name, pitch=pitch, peak=peak)
        pieces += [piece * fade(len(piece), rate), torch.zeros(count(0.03, rate))]
        made += len(pieces[-1]) + len(pieces[-2])
    return torch.cat(pieces)[:samples] + noise(seconds, rate, peak=BREATH * peak, seed=seed)


def fade(samples, rate=RATE, seconds=0.01):
    """A window that rises and falls within ``seconds``."""
    edge = torch.arange(samples) / (seconds * rate)
    return torch.minimum(edge, edge.flip(0)).clamp_max(1.0)


def noise(seconds=1.0, rate=RATE, *, peak=0.1, seed=0):
    """White noise, uniform."""
    generator = torch.Generator().manual_seed(seed)
    return peak * (2 * torch.rand(count(seconds, rate), generator=generator) - 1)


def tone(seconds=1.0, rate=RATE, *, frequency=440.0, peak=0.5):
    return (peak * torch.sin(2 * math.pi * frequency * times(seconds, rate))).to(torch.float32)


def sweep(seconds=1.0, rate=RATE, *, low=100.0, high=3600.0, peak=0.5):
    """A sine whose frequency rises evenly; faded, so that its band ends where it should."""
    t = times(seconds, rate)
    phase = 2 * math.pi * (low * t + (high - low) * t**2 / (2 * seconds))
    return (peak * torch.sin(phase)).to(torch.float32) * fade(len(t), rate, 0.1 * seconds)


def pulses(seconds=1.0, rate=RATE, *, pitch=100.0, peak=0.8):
    """One sample per period."""
    wav = torch.zeros(count(seconds, rate))
    wav[:: max(1, round(rate / pitch))] = peak
    return wav


def square(seconds=1.0, rate=RATE, *, frequency=150.0, peak=0.999):
    phase = torch.sin(2 * math.pi * frequency * times(seconds, rate) + 0.1)
    return torch.where(phase >= 0, peak, -peak).to(torch.float32)


def constant(value, seconds=1.0, rate=RATE):
    return torch.full((count(seconds, rate),), value, dtype=torch.float32)


def silence(seconds=1.0, rate=RATE):
    return torch.zeros(count(seconds, rate))
