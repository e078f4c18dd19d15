"""Linkability D_sys (Gomez-Barrero et al., 2017; Maouche et al., 2020), from two histograms.

Not to be confused with `voiceanon.eval.metrics.legal.legal_linkability`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import Float64Array, IntArray, Meaning, MetricWarning
from voiceanon.eval.metrics.scores import Scores, read_blocks

TARGETS_PER_BIN = 10
"""Targets per bin on the mean; with fewer targets than that there is no bin."""

MOST_BINS = 100


@dataclass(frozen=True, eq=False)
class LinkabilityDsys:
    """System linkability and what it is the integral of.

    Attributes:
        value: D_sys in [0, 1]; NaN if there are fewer than 10 targets, or all scores are equal.
        local: Linkability of a score in each bin, float64 ``(bins,)``.
        edges: Of the bins, float64 ``(bins + 1,)``; empty if there are no bins.
        target_count: Number of target scores.
        nontarget_count: Number of non-target scores.
    """

    unit: ClassVar[str] = "none, from 0 to 1"
    higher_is: ClassVar[Meaning] = "less private"

    value: float
    local: Float64Array
    edges: Float64Array
    target_count: int
    nontarget_count: int


def linkability_dsys(
    targets: Scores, nontargets: Scores, *, prior_ratio: float = 1.0
) -> LinkabilityDsys:
    """How far the score tells, on the mean over targets, that both recordings have one speaker.

    With min(targets // 10, 100) equal bins from the least to the greatest score, densities y1 of
    targets and y2 of non-targets, and r = ``prior_ratio`` y1 / y2: the local linkability is
    2 r / (1 + r) - 1, 0 where r <= 1, and 1 where there are targets alone (0 where a bin is empty
    and ``prior_ratio`` <= 1, as published). D_sys is the trapezoid rule of local linkability times
    y1 over the centres of bins.

    The value depends on the number of targets: half of each outermost bin is lost, so that full
    separation gives 0.994 with 500 targets and 0.865 with 100, and no information gives 0.02 with
    5,000 and 0.07 with 100. Compare it between equal trial lists alone.

    Args:
        targets: Scores of pairs of the same speaker; higher means more similar.
        nontargets: Scores of pairs of different speakers.
        prior_ratio: Probability that two recordings have one speaker over that they have not.

    Returns:
        NaN with a `MetricWarning` for fewer than 10 targets, where published code returns 0.0, and
        for scores that are all equal.

    Raises:
        ConfigError: As in `count_scores`, or a ratio that is not positive.

    Source: specification sheet of the evaluation, section 4.4.
    """
    if not 0 < prior_ratio < np.inf:
        raise ConfigError(f"prior_ratio: {prior_ratio}; a finite number above 0 is due.")
    low_target, high_target, target_count = _span(targets, "target")
    low_other, high_other, nontarget_count = _span(nontargets, "non-target")
    low, high = min(low_target, low_other), max(high_target, high_other)
    bins = min(target_count // TARGETS_PER_BIN, MOST_BINS)
    if bins == 0 or low == high:
        why = f"{target_count} targets are fewer than 10" if bins == 0 else "all scores are equal"
        warnings.warn(f"linkability: {why}; the value is NaN.", MetricWarning, stacklevel=2)
        return LinkabilityDsys(
            float("nan"), np.zeros(0), np.zeros(0), target_count, nontarget_count
        )
    edges = np.linspace(low, high, bins + 1)
    width = (high - low) / bins
    of_targets = _histogram(targets, "target", edges) / (target_count * width)
    of_nontargets = _histogram(nontargets, "non-target", edges) / (nontarget_count * width)
    local = _local_linkability(of_targets, of_nontargets, prior_ratio)
    heights = local * of_targets
    value = width * (heights.sum() - (heights[0] + heights[-1]) / 2)
    return LinkabilityDsys(float(value), local, edges, target_count, nontarget_count)


def _local_linkability(
    of_targets: Float64Array, of_nontargets: Float64Array, prior_ratio: float
) -> Float64Array:
    nowhere = of_nontargets == 0
    ratio = prior_ratio * np.where(nowhere, 1, of_targets / np.where(nowhere, 1, of_nontargets))
    local = np.where(ratio <= 1, 0, 2 * ratio / (1 + ratio) - 1)
    return np.where(nowhere & (of_targets > 0), 1, local)


def _span(scores: Scores, name: str) -> tuple[float, float, int]:
    low, high, count = np.inf, -np.inf, 0
    for block in read_blocks(scores, name):
        low, high = min(low, float(block.min())), max(high, float(block.max()))
        count += len(block)
    return low, high, count


def _histogram(scores: Scores, name: str, edges: Float64Array) -> IntArray:
    """Counts per bin, the last one closed on both sides."""
    counts = np.zeros(len(edges) - 1, np.int64)
    for block in read_blocks(scores, name):
        counts += np.histogram(block, bins=len(counts), range=(edges[0], edges[-1]))[0]
    return counts
