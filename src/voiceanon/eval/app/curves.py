"""What the figures of the report need of many scores: counts, error rates and cross-entropies."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from voiceanon.eval.dependencies import required
from voiceanon.eval.metrics.kinds import BoolArray
from voiceanon.eval.metrics.roc import count_scores, roc_points
from voiceanon.eval.metrics.zebra import ece_curve
from voiceanon.eval.protocol.measurement import Sex

BINS = 40
"""Of a histogram."""

CURVE_STEP = 0.02
"""Points of a curve of error rates that fall into one square of this side, in units of the normal
deviate that such curves are drawn in, count as one: finer than a line is wide."""

PRIOR_STEP = 2
"""Every so many of the priors of the published grid are kept."""


@dataclass(frozen=True, kw_only=True)
class ScoreCurves:
    """Distributions and curves of one list of trials.

    Attributes:
        condition: Name of the attack.
        attacker: Label.
        sex: Of the speakers.
        edges: Of the bins of both histograms, scores.
        targets: Count by bin.
        nontargets: Count by bin.
        false_alarms: Share of non-targets above a threshold, descending.
        misses: Share of targets at or below it, ascending.
        prior_log_odds: Natural logarithm.
        entropy: Cross-entropy after the best calibration at each prior, bit.
        prior_entropy: That of the prior alone.
    """

    condition: str
    attacker: str
    sex: Sex
    edges: tuple[float, ...]
    targets: tuple[int, ...]
    nontargets: tuple[int, ...]
    false_alarms: tuple[float, ...]
    misses: tuple[float, ...]
    prior_log_odds: tuple[float, ...]
    entropy: tuple[float, ...]
    prior_entropy: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ScoreCurves:
        """Takes back what `to_json` gave."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**fields)


def score_curves(
    scores: npt.NDArray[np.float32],
    is_target: BoolArray,
    *,
    condition: str,
    attacker: str,
    sex: Sex,
) -> ScoreCurves:
    """Makes the curves of a list.

    Args:
        scores: float32 ``(trials,)``.
        is_target: bool ``(trials,)``.
        condition: Name of the attack.
        attacker: Label.
        sex: Of the speakers.
    """
    targets, nontargets = scores[is_target], scores[~is_target]
    edges = np.histogram_bin_edges(scores, BINS)
    false_alarms, misses = _error_rates(targets, nontargets)
    ece = ece_curve(targets, nontargets)
    return ScoreCurves(
        condition=condition,
        attacker=attacker,
        sex=sex,
        edges=_floats(edges),
        targets=tuple(np.histogram(targets, edges)[0].tolist()),
        nontargets=tuple(np.histogram(nontargets, edges)[0].tolist()),
        false_alarms=_floats(false_alarms),
        misses=_floats(misses),
        prior_log_odds=_floats(ece.prior_log_odds[::PRIOR_STEP]),
        entropy=_floats(ece.minimum[::PRIOR_STEP]),
        prior_entropy=_floats(ece.without_scores[::PRIOR_STEP]),
    )


def normal_deviate(rates: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Standard deviations at which a normal distribution has these shares below; infinite at 0, 1.

    Args:
        rates: Fractions.
    """
    deviates = required("scipy.special", "error curves").ndtri(np.asarray(rates, np.float64))
    return np.asarray(deviates, np.float64)


def _error_rates(
    targets: npt.NDArray[np.float32], nontargets: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    missed, passed = roc_points(count_scores(targets, nontargets))
    misses, false_alarms = missed / len(targets), passed / len(nontargets)
    places = np.stack([normal_deviate(misses), normal_deviate(false_alarms)])
    cells = np.round(np.clip(places, -10, 10) / CURVE_STEP)
    kept = np.concatenate([[True], (np.diff(cells, axis=1) != 0).any(axis=0)])
    kept[-1] = True
    return false_alarms[kept], misses[kept]


def _floats(values: npt.ArrayLike) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in np.asarray(values, np.float64))
