"""F0 as Praat's "To Pitch (ac)" finds it, for one recording, frame by frame and lag by lag.

Written from section 9 of the specification sheet of B3, with nothing taken from the package. All is
float64. Maxima are refined by SciPy's bounded form of Brent's method.
"""

import math

import numpy as np
import scipy.optimize

RATE, STEP, FLOOR, CEILING = 16000, 0.016, 40.0, 600.0
DX = 1 / RATE
HALF = 1200 // 2 - 1
WINDOW = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1, 2 * HALF + 1) / (2 * HALF + 1))
LONGEST, HALF_PERIOD = 400, 201
FFT = 2048
LAST_LAG = 2 * HALF // 3 + 2
CANDIDATES = 15


def track(wav):
    """``(T,)`` at 16 kHz to F0 in Hz, float64 array with a value for every 16 ms."""
    x = np.asarray(wav, np.float64)
    frames = [candidates(*frame) for frame in windowed_frames(x)]
    return best_path(frames)


def centres(samples):
    """Times in seconds of the middles of the frames."""
    duration = samples * DX
    count = max(0, math.floor((duration - 0.075) / STEP) + 1)
    first = 0.5 * duration - 0.5 * (count * STEP) + 0.5 * STEP
    return [first + i * STEP for i in range(count)]


def windowed_frames(x):
    """Pairs of a windowed frame and its intensity, 0 to 1."""
    if not len(x):
        return
    x = x - x[0]
    peak = np.abs(x - x.mean()).max()
    for t in centres(len(x)):
        left = math.floor((t - 0.5 * DX) / DX) + 1
        right = left + 1
        mean = x[right - LONGEST - 1 : left + LONGEST].mean()
        frame = (x[right - HALF - 1 : left + HALF] - mean) * WINDOW
        local = np.abs(frame[HALF - HALF_PERIOD : HALF + HALF_PERIOD]).max()
        yield frame, min(1.0, local / peak) if peak else 0.0


def autocorrelation(frame):
    """Of lags 0 to `HALF`, normalised, without the window's own."""

    def raw(y):
        return np.fft.irfft(np.abs(np.fft.rfft(y, FFT)) ** 2)[: HALF + 1]

    own, window = raw(frame), raw(WINDOW)
    r = own / own[0] / (window / window[0])
    r[0] = 1
    return r


def candidates(frame, intensity):
    """Pairs of F0 (0: unvoiced) and strength; then the intensity."""
    found, lags = [(0.0, 0.0)], [0]
    if not frame.any():
        return found, intensity
    r = autocorrelation(frame)
    for k in range(2, LAST_LAG - 1 + 1):
        if k >= LAST_LAG or not (r[k] > 0.225 and r[k] > r[k - 1] and r[k] >= r[k + 1]):
            continue
        slope, bend = (r[k + 1] - r[k - 1]) / 2, 2 * r[k] - r[k - 1] - r[k + 1]
        hertz = RATE / (k + slope / bend)
        strength = folded(interpolated(r, RATE / hertz, 30))
        if len(found) < CANDIDATES:
            found.append((hertz, strength))
            lags.append(k)
            continue
        values = [s - 0.01 * math.log2(FLOOR / f) for f, s in found[1:]]
        weakest = int(np.argmin(values))
        if strength - 0.01 * math.log2(FLOOR / hertz) > values[weakest]:
            found[1 + weakest], lags[1 + weakest] = (hertz, strength), k
    for place in range(1, len(found)):
        found[place] = refined(r, lags[place], found[place][0])
    return found, intensity


def folded(strength):
    return 1 / strength if strength > 1 else strength


def refined(r, k, hertz):
    depth = 700 if hertz > 0.3 * RATE else 70
    result = scipy.optimize.minimize_scalar(
        lambda x: -interpolated(r, x, depth),
        bounds=(k - 1, k + 1),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return RATE / result.x, folded(-result.fun)


def interpolated(r, x, depth):
    """Value between two lags of the symmetric ``r``."""
    m = math.floor(x)
    if m == x:
        return r[m]
    depth = min(depth, HALF - m)
    left, right = np.arange(m, m - depth, -1), np.arange(m + 1, m + 1 + depth)
    total = 0.0
    for j, reach in ((left, x - (m - depth)), (right, m + depth + 1 - x)):
        window = 0.5 + 0.5 * np.cos(np.pi * (x - j) / reach)
        total += (r[np.abs(j)] * np.sinc(x - j) * window).sum()
    return total


def best_path(frames):
    """F0 of each frame."""
    if not frames:
        return np.zeros(0)
    scale = 0.01 / STEP
    voiced = [[0 < f <= CEILING for f, _ in found] for found, _ in frames]
    costs, pointers = [], []
    for t, (found, intensity) in enumerate(frames):
        unvoiced = 0.45 + max(0.0, 2 - intensity * 1.45 / 0.03)
        row, origin = [], []
        for (f, strength), is_voiced in zip(found, voiced[t], strict=True):
            value = strength - 0.01 * math.log2(CEILING / f) if is_voiced else unvoiced
            if t:
                totals = [
                    before - scale * change(g, f, was_voiced, is_voiced)
                    for before, (g, _), was_voiced in zip(
                        costs[-1], frames[t - 1][0], voiced[t - 1], strict=True
                    )
                ]
                origin.append(int(np.argmax(totals)))
                value += max(totals)
            row.append(value)
        costs.append(row)
        pointers.append(origin)
    state = int(np.argmax(costs[-1]))
    result = np.zeros(len(frames))
    for t in range(len(frames) - 1, -1, -1):
        result[t] = frames[t][0][state][0] if voiced[t][state] else 0.0
        state = pointers[t][state] if t else state
    return result


def change(f, g, f_voiced, g_voiced):
    if f_voiced != g_voiced:
        return 0.14
    return 0.35 * abs(math.log2(f / g)) if f_voiced else 0.0
