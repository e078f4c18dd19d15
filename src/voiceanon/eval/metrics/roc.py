"""Targets and non-targets in the order of the score: all that rank-based metrics need to know.

EER, convex hull, calibration, Cllr_min and D_ECE depend on the order of the scores alone. So the
smaller class is sorted, the larger one is streamed past it in blocks, and what is left are counts.

Source: specification sheet of the evaluation, sections 4.1, 4.2 and "Speed".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from voiceanon.eval.metrics.kinds import IntArray
from voiceanon.eval.metrics.scores import ScoreBlocks, Scores, read_all, read_blocks


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Counts per group, in ascending order of the score.

    A group is a score with all its ties, or a run of neighbouring scores of one class alone: inside
    such a run no metric of this kind tells the scores apart.

    Attributes:
        targets: int64 ``(groups,)``, 0 or more.
        nontargets: int64 ``(groups,)``; no group is empty in both.
    """

    targets: IntArray
    nontargets: IntArray

    @property
    def target_count(self) -> int:
        """Number of target scores."""
        return int(self.targets.sum())

    @property
    def nontarget_count(self) -> int:
        """Number of non-target scores."""
        return int(self.nontargets.sum())


def count_scores(targets: Scores, nontargets: Scores) -> ScoreCounts:
    """Sorts the smaller class and counts the larger one between and at its scores.

    Time is that of sorting blocks; memory is that of the smaller class and of one block. Scores of
    different floating types are compared by their exact values.

    Args:
        targets: Scores of pairs of the same speaker.
        nontargets: Scores of pairs of different speakers.

    Raises:
        ConfigError: An empty class, a score that is not finite, or an array that is no list of
            numbers.
    """
    if _size(targets) <= _size(nontargets):
        of_targets, of_nontargets = _count(targets, "target", nontargets, "non-target")
    else:
        of_nontargets, of_targets = _count(nontargets, "non-target", targets, "target")
    kept = (of_targets + of_nontargets) > 0
    return ScoreCounts(of_targets[kept], of_nontargets[kept])


def roc_points(counts: ScoreCounts) -> tuple[IntArray, IntArray]:
    """Errors at every threshold between two groups, from "accept all" to "reject all".

    Returns:
        Misses and false alarms, int64 ``(groups + 1,)`` each.
    """
    misses = np.concatenate([[0], np.cumsum(counts.targets)])
    rejected = np.concatenate([[0], np.cumsum(counts.nontargets)])
    return misses, rejected[-1] - rejected


def crossing_rate(misses: IntArray, false_alarms: IntArray) -> float:
    """Rate at which a curve of straight lines meets the diagonal of equal errors.

    Args:
        misses: int64 ``(points,)``, ascending from 0 to the number of targets.
        false_alarms: int64 ``(points,)``, descending from the number of non-targets to 0.
    """
    target_count, nontarget_count = int(misses[-1]), int(false_alarms[0])
    excess = misses * nontarget_count - false_alarms * target_count
    after = int(np.searchsorted(excess, 0))
    before = after - 1
    share = -excess[before] / (excess[after] - excess[before])
    miss = misses[before] + share * (misses[after] - misses[before])
    return float(miss / target_count)


def area_under_curve(targets: Scores, nontargets: Scores) -> float:
    """Probability that a target's score is above a non-target's, ties counting one half.

    Unit: probability; 0.5 says that the scores carry no information, 1 that they separate the
    speakers. Source: the Mann-Whitney statistic. Errors as in `count_scores`.
    """
    counts = count_scores(targets, nontargets)
    below = np.cumsum(counts.nontargets) - counts.nontargets
    wins = np.dot(counts.targets.astype(np.float64), below + 0.5 * counts.nontargets)
    return float(wins / counts.target_count / counts.nontarget_count)


def _size(scores: Scores) -> float:
    return np.inf if isinstance(scores, ScoreBlocks) else np.size(scores)


def _count(
    anchors: Scores, anchor_name: str, others: Scores, other_name: str
) -> tuple[IntArray, IntArray]:
    """Counts of both in the gaps before, at, between and after the unique anchors."""
    values, anchor_counts = np.unique(read_all(anchors, anchor_name), return_counts=True)
    edges = np.zeros(2 * len(values) + 2, np.int64)
    for block in read_blocks(others, other_name):
        ordered = np.sort(block)
        edges[1:-1:2] += np.searchsorted(ordered, values, side="left")
        edges[2:-1:2] += np.searchsorted(ordered, values, side="right")
        edges[-1] += len(block)
    counts = np.zeros(2 * len(values) + 1, np.int64)
    counts[1::2] = anchor_counts
    return counts, np.diff(edges)
