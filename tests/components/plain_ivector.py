"""Online i-vectors one frame and one Gaussian at a time, in NumPy: what the batched form must give.

Written from the specification sheet of the x-vector family, section 6.
"""

from __future__ import annotations

import math

import numpy as np

from voiceanon.components.speaker.ivector_config import IvectorConfig


def conjugate_gradient(quadratic, linear, start, steps=15):
    """With the residual carried along and computed afresh only when it has moved a lot."""
    x = start.copy()
    residual = quadratic @ x - linear
    direction = -residual
    first = norm = mark = residual @ residual
    for _ in range(steps):
        if norm == 0:
            break
        product = quadratic @ direction
        alpha = -(direction @ residual) / (direction @ product)
        x = x + alpha * direction
        residual = residual + alpha * product
        following = residual @ residual
        if following < 1e-4 * mark or following > 1e4 * mark:
            residual = quadratic @ x - linear
            following = mark = residual @ residual
        direction = following / norm * direction - residual
        norm = following
    if norm > first + 1e-10 * (linear @ linear):
        values, vectors = np.linalg.eigh(quadratic)
        values = np.maximum(values, values.max() / 1e4)
        rest = linear - quadratic @ start
        return start + vectors @ ((vectors.T @ rest) / values), True
    return x, False


def posterior(entries, frame):
    """Gaussians of one normalised frame with their weights."""
    scores = entries["gconsts"] + entries["means_invvars"] @ frame
    scores = scores - 0.5 * entries["inv_vars"] @ frame**2
    kept = [g for g in range(len(scores)) if scores[g] > scores.max() + math.log(0.025)]
    kept = sorted(kept, key=lambda g: -scores[g])[:5]
    weights = [math.exp(scores[g] - scores.max()) for g in kept]
    total = sum(weights)
    while len(weights) > 1 and weights[-1] < 0.025 * total:
        weights.pop()
    return [(g, 0.1 * w / sum(weights)) for g, w in zip(kept, weights, strict=False)]


def spliced(x, projection, context):
    rows = []
    for t in range(len(x)):
        near = [x[min(max(t + o, 0), len(x) - 1)] for o in range(-context, context + 1)]
        rows.append(projection @ np.append(np.concatenate(near), 1.0))
    return np.array(rows)


def normalised(x, global_mean, older=None):
    """Mean of the last 600 frames, filled up by a speaker's ``(sum, count)`` and the global one."""
    rows = []
    for t in range(len(x)):
        window = x[max(0, t - 599) : t + 1]
        total, count = window.sum(0), float(len(window))
        if older is not None and count < 600:
            take = min(600 - count, 600, older[1])
            total, count = total + take / older[1] * older[0], count + take
        if count < 600:
            take = min(600 - count, 200)
            total, count = total + take * global_mean, count + take
        rows.append(x[t] - total / count)
    return np.array(rows)


def ivectors(config: IvectorConfig, entries, x, state=None):
    """I-vectors of one utterance, and the state for the speaker's next one."""
    offset = float(entries["prior_offset"])
    prior = np.zeros(config.ivector)
    prior[0] = offset
    if state is None:
        state = (prior, np.eye(config.ivector), 0.0, None)
    linear, quadratic, count, older = state
    raw = spliced(x, entries["projection"], config.context)
    clean = spliced(
        normalised(x, entries["global_mean"], older), entries["projection"], config.context
    )
    current, found = prior, []
    for t in range((len(x) - 1) // 10 * 10 + 1):
        for g, weight in posterior(entries, clean[t]):
            linear = linear + weight * entries["linear_terms"][g].T @ raw[t]
            quadratic = quadratic + weight * entries["quadratic_terms"][g]
            count += weight
        if t % 10 == 0:
            current, _ = conjugate_gradient(quadratic, linear, current)
            found.append(current - prior)
    if count > 100:
        share = 100 / count
        linear = share * linear + (1 - share) * prior
        quadratic = share * quadratic + (1 - share) * np.eye(config.ivector)
        count = 100.0
    total, frames = x.sum(0), float(len(x))
    if older is not None:
        total, frames = total + older[0], frames + older[1]
    if frames > 1000:
        total, frames = 1000 / frames * total, 1000.0
    return np.array(found), (linear, quadratic, count, (total, frames))
