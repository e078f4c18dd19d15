"""F0 by SA-toolkit's YAAPT for one utterance, frame by frame: what the batched form must equal.

Written from section 6 of the specification sheet of B5 and B6, with nothing taken from the package.
All is float32, but for the sums of the time-domain candidates. Where the published code fails (no
voiced frame, fewer than four frames) all frames are unvoiced, and a single voiced frame has no
deviation.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
import torchaudio.functional as AF

RATE, HOP, FFT = 16000, 320, 8192
ZERO, ONE = np.float32(0), np.float32(1)


def track(wav):
    """float32 ``(T,)`` at 16 kHz to F0 in Hz, float32 array with a value for every 320 samples."""
    return stages(wav)["f0"]


def stages(wav):
    """All intermediate results by the names of the stored ones."""
    frames = math.ceil(len(wav) / HOP)
    linear, squared = band_limited(wav)
    result = {"linear": linear.numpy(), "squared": squared.numpy()}
    energy, mean = energy_and_mean(linear, frames)
    flags = energy > 0.75
    result |= {"energy": energy, "mean_energy": mean, "vuv": flags}
    silent = np.zeros(frames, np.float32)
    if frames < 4 or not flags.any():
        return result | {"f0": silent}
    candidates = spectral_candidates(squared, flags)
    if not any(candidate[0][0] > 0 for candidate in candidates):
        return result | {"f0": silent}
    spectral, spread = spectral_track(candidates)
    result |= {"spec_pitch": spectral, "pitch_std": spread}
    pitch1, merit1 = time_candidates(linear, spectral, spread)
    pitch2, merit2 = time_candidates(squared, spectral, spread)
    result |= {"time_pitch1": pitch1, "time_merit1": merit1}
    result |= {"time_pitch2": pitch2, "time_merit2": merit2}
    pitch, merit = merge(
        np.concatenate([pitch1, pitch2]), np.concatenate([merit1, merit2]), spectral, energy, flags
    )
    result |= {"ref_pitch": pitch, "ref_merit": merit}
    path = viterbi(1 - merit, transitions(pitch, energy))
    return result | {"f0": pitch[path, np.arange(frames)]}


def band_limited(wav):
    padded = F.pad(wav, (280, 280))
    return tuple(
        AF.highpass_biquad(AF.lowpass_biquad(x, RATE, 50.0), RATE, 1500.0)
        for x in (padded, padded**2)
    )


def magnitudes(frame):
    return torch.fft.rfft(frame, FFT).abs()


def energy_and_mean(linear, frames):
    window = torch.hann_window(562)[1:-1]
    energy = torch.zeros(frames)
    for t in range(frames):
        energy[t] = magnitudes(linear[HOP * t : HOP * t + 560] * window)[60:205].sum()
    mean = energy.mean()
    return (energy / mean if mean > 0 else energy).numpy(), mean.numpy()


# The spectral track.


def spectral_candidates(squared, flags):
    """For each frame its four candidates: F0 in Hz and merits, float32 ``(4,)`` each."""
    window = torch.kaiser_window(1120, periodic=True, beta=0.5)
    squared = F.pad(squared, (0, 1120))
    unvoiced = np.zeros(4, np.float32), np.ones(4, np.float32)
    result = []
    for t, flag in enumerate(flags):
        if not flag:
            result.append(unvoiced)
            continue
        frame = squared[HOP * t : HOP * t + 1120] * window
        correlation = harmonics_correlation(magnitudes(frame - frame.mean()).numpy())
        result.append(frame_candidates(correlation) or unvoiced)
    return result


def harmonics_correlation(spectrum):
    extended = np.concatenate([np.zeros(10, np.float32), spectrum])
    result = np.zeros(256, np.float32)
    for r in range(31, 257):
        product = extended[r : r + 21].copy()
        for h in range(2, 5):
            product *= extended[h * r : h * r + 21]
        result[r - 1] = product.sum()
    return result


def frame_candidates(height):
    """Four candidates, or None for an unvoiced frame."""
    highest = height[17:218].max()
    if highest > 1e-14:
        height = height / highest
    mean = height[17:218].mean()
    if mean > 0.2:
        return None
    peaks = [
        (height[n], n * RATE / FFT)
        for n in range(31, 205)
        if height[n - 1] < height[n] > height[n + 1]
        and height[n] > np.float32(1.25) * mean
        and height[n - 13 : n + 14].argmax() == 13
    ]
    peaks.sort(key=lambda peak: -peak[0])
    if not peaks or peaks[0][0] / mean < 5:
        return None
    best = peaks[0]
    other = best[1] / 2 if best[1] > 150 else 2 * best[1]
    peaks = [*peaks[:3], (np.float32(0.4), other)]
    peaks += [best] * (4 - len(peaks))
    merit, pitch = zip(*peaks, strict=True)
    return np.array(pitch, np.float32), np.array(merit, np.float32)


def median_filter(x, width):
    padded = np.pad(x, width // 2)
    return np.array([np.median(padded[n : n + width]) for n in range(len(x))], np.float32)


def deviation(x):
    return torch.from_numpy(x).std().numpy() if len(x) > 1 else ZERO


def spectral_track(candidates):
    frames = len(candidates)
    pitch, merit = (np.stack(rows, 1) for rows in zip(*candidates, strict=True))
    voiced = np.flatnonzero(pitch[0] > 0)
    pitch, merit = pitch[:, voiced], merit[:, voiced]
    values = np.full(len(voiced), 150, np.float32)
    if len(voiced) > 2:
        values = smooth_path(pitch, merit)
    average = values.mean()
    spread = max(deviation(values), np.float32(0.05) * average)
    result = np.zeros(frames, np.float32)
    result[voiced] = values
    for end in (0, -1):
        if result[end] < average / 2:
            result[end] = average
    spectral = stretch(result[result != 0], frames)
    spectral[0], spectral[1] = spectral[2], spectral[3]
    return spectral, spread


def smooth_path(pitch, merit):
    """Path through the candidates ``(4, V)`` of the voiced frames, in Hz."""
    everywhere = np.arange(pitch.shape[1])
    average = pitch[0].mean()
    weight = np.float32(11) * deviation(pitch[0]) / average
    nearest = (np.abs(pitch - np.float32(0.8) * average) * (3 - merit)).argmin(0)
    pitch[nearest, everywhere] = median_filter(pitch[nearest, everywhere], 5)
    costs = [None]
    for t in everywhere[1:]:
        change = np.abs(pitch[None, :, t] - pitch[:, None, t - 1]) / 60
        costs.append((np.float32(0.05) * change + change**2) * weight)
    return median_filter(pitch[viterbi(1 - merit, costs), everywhere], 5)


def stretch(values, frames):
    line = torch.from_numpy(values)[None, None]
    return F.interpolate(line, frames, mode="linear", align_corners=False)[0, 0].numpy()


# The time-domain candidates.


def time_candidates(signal, spectral, spread):
    """F0 in Hz and merits of three candidates per frame, the last two always 0: ``(3, frames)``."""
    changed, mean = signal.clone(), 0.0
    pitch, merit = np.zeros((2, 3, len(spectral)), np.float32)
    limit = np.float32(5) * spread
    for t, expected in enumerate(spectral):
        # In place, so that the next frame finds its beginning, a fifth of it, changed.
        mean = float(signal[HOP * t : HOP * t + 400].double().mean()) - 0.2 * mean
        frame = changed[HOP * t : HOP * t + 400].sub_(np.float32(mean))
        low = max(np.float32(60), expected - np.float32(2) * spread)
        high = min(np.float32(400), expected + np.float32(2) * spread)
        first = math.floor(ONE / high * np.float32(RATE)) - 2
        last = math.floor(ONE / low * np.float32(RATE)) + 2
        lag, height = first_peak(correlations(frame, first, last), first, last)
        if lag is None:
            continue
        pitch[0, t] = RATE / (lag + 1)
        off = abs(pitch[0, t] - expected)
        if off < limit:
            merit[0, t] = (np.float32(1.2) * min(height, ONE)) * (1 - off / limit)
    return pitch, merit


def correlations(frame, first, last):
    """Sums in float64, each then rounded: many lags of a smooth frame are equally good to within
    the rounding of float32, and the order of a sum would choose among them."""
    size = 400 - last
    exact = frame.double()
    beginning = exact[:size]
    others = exact[first:].unfold(0, size, 1)[: last - first]
    products, energies = (others @ beginning).float(), others.square().sum(1).float()
    own = beginning.square().sum().float()
    result = torch.zeros(400)
    result[first:last] = products / (energies * own).sqrt()
    return result.numpy()


def first_peak(height, first, last):
    """Lag and height of the first peak, or twice None."""
    for lag in range(first + 2, last - 1):
        if height[lag - 1] < height[lag] > height[lag + 1] and height[lag] > 0.25:
            if height.max() > 0.9 or height[lag - 2 : lag + 3].argmax() == 2:
                return lag, height[lag]
            break
    return None, None


# The final choice.


def merge(pitch, merit, spectral, energy, flags):
    """Sorts six candidates ``(6, frames)``, and writes others over some of them."""
    order = np.argsort(-merit, axis=0, kind="stable")
    pitch, merit = (np.take_along_axis(rows, order, 0) for rows in (pitch, merit))
    best = median_filter(pitch[0], 7) * flags
    for t, e in enumerate(energy):
        half = min(ONE, e / 2)
        if e <= np.float32(0.1):
            pitch[:, t], merit[:, t] = 0, 0.99
        elif pitch[0, t] > 0:
            empty = [row for row in range(1, 5) if pitch[row, t] == 0]
            pitch[5, t], merit[5, t] = 0, 1 - merit[0, t]
            merit[empty, t] = 0
        else:
            pitch[:, t], merit[:, t] = 0, 1 - half
            pitch[0, t], merit[0, t] = spectral[t], half
        pitch[4, t], merit[4, t] = best[t], merit[0, t] if best[t] > 0 else 1 - half
        pitch[3, t], merit[3, t] = spectral[t], e / 5
    return pitch, merit


def transitions(pitch, energy):
    """Costs from row i of the frame before to row j: a ``(6, 6)`` for each frame but the first."""
    smooth = pitch[4][pitch[4] > 0]
    # Not a number where there is none, which wins every comparison.
    average = smooth.mean() if len(smooth) else np.float32(np.nan)
    result = [None]
    for t in range(1, len(energy)):
        onset = np.float32(0.5) * (1 - min(ONE, abs(energy[t - 1] - energy[t])))
        cost = np.empty((6, 6), np.float32)
        for i, before in enumerate(pitch[:, t - 1]):
            for j, after in enumerate(pitch[:, t]):
                if before > 0 and after > 0:
                    cost[i, j] = np.float32(0.15) * (abs(after - before) / average)
                else:
                    cost[i, j] = onset if before > 0 or after > 0 else 0.1
        result.append(cost / np.float32(0.9))
    return result


def last_least(values):
    return len(values) - 1 - values[::-1].argmin()


def viterbi(local, costs):
    """States of least cost, with the published exchange of directions."""
    states, frames = local.shape
    total = local[:, 0]
    before = [None]
    for t in range(1, frames):
        chosen = [last_least(total + costs[t][j]) for j in range(states)]
        total = np.array(
            [total[i] + costs[t][i, j] + local[j, t] for j, i in enumerate(chosen)], np.float32
        )
        before.append(chosen)
    path = [last_least(total)]
    for chosen in before[:0:-1]:
        path.append(chosen[path[-1]])
    return path[::-1]
