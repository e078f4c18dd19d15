"""Joins the candidates of both signals and the spectral track, and chooses among them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from voiceanon.components.f0 import masked
from voiceanon.components.f0.yaapt.config import SA_TOOLKIT, YaaptConfig
from voiceanon.components.f0.yaapt.viterbi import best_path

MEDIAN_FRAMES = 7
"""Width of the median filter over the best candidates."""

SILENT_ENERGY = 0.1
"""Normalised energy up to which a frame is unvoiced."""

SILENT_MERIT = 0.99
"""Merit of the unvoiced candidates of such a frame."""

CHANGE_WEIGHT = 0.15
"""Cost of a change of F0 by its mean."""

ONSET_WEIGHT = 0.5
"""Cost of a change between voiced and unvoiced where the energy stays the same."""

TRACK_MERIT = 5.0
"""Normalised energy at which the spectral track has merit 1."""

SMOOTH_ROW = 4
"""Candidate that is the smoothed best one."""

UNVOICED_COST = 0.1
"""Cost of staying unvoiced."""

TRANSITION_SCALE = 0.9
"""All costs of transitions are divided by this."""


def merge(
    linear: tuple[Tensor, Tensor],
    squared: tuple[Tensor, Tensor],
    track: Tensor,
    energy: Tensor,
    flagged: Tensor,
) -> tuple[Tensor, Tensor]:
    """Makes six candidates for each frame.

    Args:
        linear: F0 in Hz and merits of the linear signal, from `correlation.nccf_candidates`
            ``(B, M)`` or `stock_correlation.nccf_candidates` ``(B, M, 3)``; 0 behind each item.
        squared: The same for the squared signal.
        track: Spectral track in Hz, ``(B, M)``.
        energy: Normalised energy, ``(B, M)``.
        flagged: Voicing flag, bool ``(B, M)``.

    Returns:
        F0 in Hz, 0 for an unvoiced candidate, and merits, ``(B, M, 6)``. The fourth is the
        spectral track, the fifth the smoothed best candidate.
    """
    hertz, merits = (
        torch.cat([_three(part) for part in parts], -1)
        for parts in zip(linear, squared, strict=True)
    )
    merits, order = merits.sort(dim=-1, descending=True, stable=True)
    hertz = hertz.gather(-1, order)
    smooth = masked.median_filter(hertz[..., 0], MEDIAN_FRAMES) * flagged

    loud = energy > SILENT_ENERGY
    voiced = loud & (hertz[..., 0] > 0)

    def cases(if_voiced: Tensor, if_unsure: Tensor, if_silent: float) -> Tensor:
        return torch.where(voiced, if_voiced, if_unsure.where(loud, if_silent))

    sure = (energy / 2).clamp_max(1)
    unvoiced = torch.zeros_like(track)
    kept = merits.where(hertz > 0, 0)
    first_merit = cases(merits[..., 0], sure, SILENT_MERIT)
    # Without a candidate of its own, a frame may follow the spectral track, or be unvoiced.
    rows = [
        (cases(hertz[..., 0], track, 0.0), first_merit),
        (cases(hertz[..., 1], unvoiced, 0.0), cases(kept[..., 1], 1 - sure, SILENT_MERIT)),
        (cases(hertz[..., 2], unvoiced, 0.0), cases(kept[..., 2], 1 - sure, SILENT_MERIT)),
        (track, energy / TRACK_MERIT),
        (smooth, torch.where(smooth > 0, first_merit, 1 - sure)),
        (unvoiced, cases(1 - merits[..., 0], 1 - sure, SILENT_MERIT)),
    ]
    return torch.stack([row[0] for row in rows], -1), torch.stack([row[1] for row in rows], -1)


def _three(part: Tensor) -> Tensor:
    """Three candidates ``(B, M, 3)``; the port leaves room for as many, and fills one."""
    return F.pad(part[..., None], (0, 2)) if part.ndim == 2 else part


def transitions(hertz: Tensor, energy: Tensor, valid: Tensor) -> Tensor:
    """Costs of going from one candidate to another.

    Args:
        hertz: Result of `merge`, ``(B, M, 6)``.
        energy: Normalised energy, ``(B, M)``.
        valid: Frames of the recordings, bool ``(B, M)``.

    Returns:
        ``[b, t, i, j]``: from candidate i of frame t to candidate j of the next, float32
        ``(B, M - 1, 6, 6)``.
    """
    smooth = hertz[..., SMOOTH_ROW]
    mean = masked.mean(smooth, valid & (smooth > 0)).to(hertz.dtype)[:, None, None, None]
    before, after = hertz[:, :-1, :, None], hertz[:, 1:, None, :]
    change = CHANGE_WEIGHT * ((after - before).abs() / mean)
    # In the published code that mean of nothing makes costs that are no numbers, which its search
    # takes for the least.
    change = change.where(mean > 0, -torch.inf)
    onset = ONSET_WEIGHT * (1 - (energy[:, :-1] - energy[:, 1:]).abs().clamp_max(1))
    from_voiced, to_voiced = before > 0, after > 0
    costs = torch.where(from_voiced == to_voiced, UNVOICED_COST, onset[..., None, None])
    return torch.where(from_voiced & to_voiced, change, costs) / TRANSITION_SCALE


def choose(
    hertz: Tensor,
    merits: Tensor,
    energy: Tensor,
    valid: Tensor,
    config: YaaptConfig = SA_TOOLKIT,
) -> Tensor:
    """Chooses a candidate for each frame.

    Args:
        hertz: F0 of the candidates, from `merge`, ``(B, M, 6)``.
        merits: Their merits, of the same shape.
        energy: Normalised energy, ``(B, M)``.
        valid: Frames of the recordings, bool ``(B, M)``.
        config: See `YaaptConfig`.

    Returns:
        F0 in Hz, 0 where unvoiced, ``(B, M)``.
    """
    costs = transitions(hertz, energy, valid)
    path = best_path(1 - merits, costs, valid.sum(1), ported=config.ported)
    return hertz.gather(-1, path[..., None])[..., 0]
