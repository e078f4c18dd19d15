"""What the VoicePrivacy Challenges derive from error rates: gaps, changes, ranks, fronts, averages.

Rates are fractions. Source: specification sheet of the evaluation, sections 4.7 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import BoolArray, Meaning

CATEGORY_EERS = (0.10, 0.20, 0.30, 0.40)
"""Least equal error rates of the privacy categories of VoicePrivacy 2024."""

VPC2022_WEIGHTS = {
    "libri_f": 0.25,
    "libri_m": 0.25,
    "vctk_f": 0.20,
    "vctk_m": 0.20,
    "vctk_f_common": 0.05,
    "vctk_m_common": 0.05,
}
"""Weights of VoicePrivacy 2022 for equal error rate, pitch correlation and G_VD. Word error rates
of LibriSpeech and VCTK weigh the same."""


@dataclass(frozen=True)
class SystemRates:
    """What a system is ranked by.

    Attributes:
        eer: Equal error rate of the semi-informed attacker, mean of the female and the male list,
            fraction.
        wer: Word error rate, fraction.
        uar: Unweighted average recall of emotions, fraction.
    """

    eer: float
    wer: float
    uar: float

    def __post_init__(self) -> None:
        """Checks the rates."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value < np.inf:
                raise ConfigError(
                    f"{field.name}: {value}; a fraction of 0 or more is due. Leave systems without "
                    "a result out."
                )


@dataclass(frozen=True)
class GenderGap:
    """Difference of the equal error rates of both genders relative to their mean (mFDR).

    Attributes:
        value: Fraction, from 0 (equal) to 2 (no protection of one gender).
    """

    unit: ClassVar[str] = "fraction"
    higher_is: ClassVar[Meaning] = "less fair"

    value: float

    @property
    def percent(self) -> float:
        """The value in percent, as published."""
        return 100 * self.value


@dataclass(frozen=True)
class RelativeChange:
    """Changes against original speech, fractions of the original's rate.

    Attributes:
        eer: Gain of the equal error rate; higher is more private.
        wer: Rise of the word error rate; higher is less useful.
        uar: Loss of the average recall; higher is less useful.
    """

    unit: ClassVar[str] = "fraction of the original's rate"
    higher_is: ClassVar[Meaning] = "no order"

    eer: float
    wer: float
    uar: float


@dataclass(frozen=True)
class PrivacyCategory:
    """Systems that reach a category, and their ranks in it.

    Attributes:
        least_eer: Fraction.
        systems: In the order given.
        wer_ranks: Rank by word error rate, ascending; equal rates share the better rank.
        uar_ranks: Rank by average recall, descending.
    """

    least_eer: float
    systems: tuple[str, ...]
    wer_ranks: dict[str, int]
    uar_ranks: dict[str, int]


@dataclass(frozen=True)
class CombinedScore:
    """Scores between the worst (0) and the best (1) of the systems compared.

    Attributes:
        system: Name.
        value: Mean of the three.
        eer: Of the gain of the equal error rate.
        wer: Of the rise of the word error rate, inverted.
        uar: Of the loss of the average recall, inverted.
    """

    unit: ClassVar[str] = "none, from 0 to 1"
    higher_is: ClassVar[Meaning] = "no order"

    system: str
    value: float
    eer: float
    wer: float
    uar: float


def gender_gap(female_eer: float, male_eer: float) -> GenderGap:
    """Gap mFDR = 2 |f - m| / (f + m) between genders; 0 if both rates are 0.

    Args:
        female_eer: Equal error rate of female speakers, any unit.
        male_eer: Of male speakers, in the same unit.

    Raises:
        ConfigError: A rate below 0 or not finite.
    """
    rates = (female_eer, male_eer)
    if not all(0 <= rate < np.inf for rate in rates):
        raise ConfigError(f"equal error rates: {rates}; two rates of 0 or more are due.")
    if not any(rates):
        return GenderGap(0.0)
    return GenderGap(2 * abs(female_eer - male_eer) / (female_eer + male_eer))


def relative_change(system: SystemRates, original: SystemRates) -> RelativeChange:
    """Changes of a system's rates against original speech.

    Raises:
        ConfigError: A rate of the original that is 0: nothing is relative to it.
    """
    if not (original.eer and original.wer and original.uar):
        raise ConfigError(f"original: {original}; rates above 0 are due, to be relative to.")
    return RelativeChange(
        eer=(system.eer - original.eer) / original.eer,
        wer=(system.wer - original.wer) / original.wer,
        uar=(original.uar - system.uar) / original.uar,
    )


def privacy_categories(
    systems: Mapping[str, SystemRates], *, least_eers: Sequence[float] = CATEGORY_EERS
) -> tuple[PrivacyCategory, ...]:
    """Categories by least equal error rate; a system is ranked in every one that it reaches.

    A rate on the border reaches the category. (The paper writes both ">=" and "greater"; no
    published system is on a border.)

    Args:
        systems: Rates by name.
        least_eers: Fractions.
    """
    categories = []
    for least in least_eers:
        reached = {name: rates for name, rates in systems.items() if rates.eer >= least}
        categories.append(
            PrivacyCategory(
                least,
                tuple(reached),
                _ranks({name: rates.wer for name, rates in reached.items()}),
                _ranks({name: -rates.uar for name, rates in reached.items()}),
            )
        )
    return tuple(categories)


def combined_scores(changes: Mapping[str, RelativeChange]) -> tuple[CombinedScore, ...]:
    """Mean of three changes, each scaled from its worst to its best system; best system first.

    The set of systems decides the result. The published figure does not say which it shows;
    submissions with baselines are the likely one. Where all systems are equal, a change counts one
    half.

    Args:
        changes: At least two systems.

    Raises:
        ConfigError: Fewer systems.
    """
    if len(changes) < 2:
        raise ConfigError(f"combined score: {len(changes)} systems; at least two are due.")
    eer, wer, uar = (
        _scaled([getattr(change, kind) for change in changes.values()])
        for kind in ("eer", "wer", "uar")
    )
    scores = [
        CombinedScore(
            name, float((e + (1 - w) + (1 - u)) / 3), float(e), float(1 - w), float(1 - u)
        )
        for name, e, w, u in zip(changes, eer, wer, uar, strict=True)
    ]
    return tuple(sorted(scores, key=lambda score: -score.value))


def pareto_front(points: npt.ArrayLike, *, higher_is_better: Sequence[bool]) -> BoolArray:
    """Which points no other point dominates: as good everywhere, and better somewhere.

    Args:
        points: ``(systems, objectives)``, finite.
        higher_is_better: By objective.

    Returns:
        bool ``(systems,)``. Equal points are both on the front.

    Raises:
        ConfigError: Shapes that do not fit, or points that are not finite.
    """
    values = np.asarray(points, np.float64)
    if values.ndim != 2 or values.shape[1] != len(higher_is_better):
        raise ConfigError(
            f"front: points of shape {values.shape} and {len(higher_is_better)} directions; "
            "(systems, objectives) and one direction per objective are due."
        )
    if not np.isfinite(values).all():
        raise ConfigError("front: a point is not finite. Leave systems without a result out.")
    costs = np.where(higher_is_better, -values, values)
    front = np.ones(len(costs), np.bool_)
    for index, cost in enumerate(costs):
        dominates = (costs <= cost).all(axis=1) & (costs < cost).any(axis=1)
        front[index] = not dominates.any()
    return front


def vpc2022_average(values: Mapping[str, float]) -> float:
    """Weighted average over the subsets of VoicePrivacy 2022.

    Args:
        values: By the names of `VPC2022_WEIGHTS`.

    Raises:
        ConfigError: Other names.
    """
    if set(values) != set(VPC2022_WEIGHTS):
        raise ConfigError(
            f"subsets: {', '.join(values)}; exactly {', '.join(VPC2022_WEIGHTS)} are due."
        )
    return sum(weight * values[name] for name, weight in VPC2022_WEIGHTS.items())


def _ranks(costs: Mapping[str, float]) -> dict[str, int]:
    """1 and the number of systems that cost less."""
    return {name: 1 + sum(other < cost for other in costs.values()) for name, cost in costs.items()}


def _scaled(values: Sequence[float]) -> npt.NDArray[np.float64]:
    array = np.array(values, np.float64)
    low, high = array.min(), array.max()
    return np.full(len(array), 0.5) if low == high else (array - low) / (high - low)
