"""Numbers with their passports: what a list of scores, texts or emotions amounts to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from voiceanon.eval.app.copies import Subject
from voiceanon.eval.metrics import (
    EerInterval,
    GenderGap,
    LikelihoodRatioCost,
    LinkabilityDsys,
    MetricWarning,
    Zebra,
    equal_error_rate,
    gender_gap,
    likelihood_ratio_cost,
    linkability_dsys,
    mean_eer_interval,
    zebra,
)
from voiceanon.eval.protocol.condition import Condition, Side, UtilityName
from voiceanon.eval.protocol.measurement import (
    Interval,
    MeasuredLevel,
    Measurement,
    Sex,
    SpeechCounts,
    TrialCounts,
)

OVER_SPEAKERS = "95 %, bootstrap over speakers, percentiles"
"""How intervals are made."""

INTERVAL_SEED = 0
"""Of the draws of speakers: intervals are the same in every run."""

UTILITIES: dict[UtilityName, Side] = {"O": "original", "A-lazy": "anonymized"}
"""Conditions for recognizers and classifiers that were trained on original speech, and the speech
that they judge."""

EER, NEAREST = "EER", "nearest"
MEAN = "nearest, mean of f and m"
"""Variant of the ranking number of VoicePrivacy 2024: the plain mean of the lists of both sexes."""


@dataclass(frozen=True, kw_only=True)
class Passport:
    """What all numbers of one list share; fields as those of `Measurement`."""

    condition: Condition
    system: str
    level: MeasuredLevel
    data: str
    sex: Sex
    counts: TrialCounts | SpeechCounts

    def stamp(
        self, kind: Any, metric: str, variant: str, value: float, **facts: Any
    ) -> Measurement:
        """Makes a number.

        Args:
            kind: Class of the metric's result, which knows unit and direction.
            metric: Name.
            variant: Definition, or ``"-"``.
            value: In that unit.
            **facts: ``unit`` in place of the result's, and ``interval``.
        """
        return Measurement(
            metric=metric,
            variant=variant,
            value=value,
            unit=facts.get("unit", kind.unit),
            higher_is=kind.higher_is,
            condition=self.condition,
            system=self.system,
            level=self.level,
            data=self.data,
            sex=self.sex,
            counts=self.counts,
            interval=facts.get("interval"),
        )


def passport_of(
    subject: Subject, condition: Condition, sex: Sex, counts: TrialCounts | SpeechCounts
) -> Passport:
    """Passport of the numbers of a list; system and level stand only where speech was changed."""
    changed = any(side != "original" for side in condition.sides)
    return Passport(
        condition=condition,
        system=subject.system if changed else "none",
        level=subject.level if changed else "none",
        data=subject.corpus.name,
        sex=sex,
        counts=counts,
    )


def list_measurements(
    targets: npt.NDArray[np.float32],
    nontargets: npt.NDArray[np.float32],
    passport: Passport,
    interval: EerInterval | None,
) -> list[Measurement]:
    """All metrics of one list of trials: EER, Cllr_min, D_ECE, worst case, D_sys.

    D_sys is left out where it is not defined, as with fewer than 10 targets.

    Args:
        targets: Scores of pairs of the same speaker.
        nontargets: Scores of pairs of different speakers.
        passport: Of the list.
        interval: Of the EER, if there is one.
    """
    eer = equal_error_rate(targets, nontargets)
    cost = likelihood_ratio_cost(targets, nontargets)
    disclosure = zebra(targets, nontargets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetricWarning)
        linkability = linkability_dsys(targets, nontargets)
    found = [
        passport.stamp(type(eer), EER, NEAREST, eer.value, interval=_ends(interval)),
        passport.stamp(LikelihoodRatioCost, "Cllr_min", "ties pooled", cost.minimum),
        passport.stamp(Zebra, "D_ECE", "ZEBRA, expected", disclosure.expected, unit="bit"),
        passport.stamp(
            Zebra,
            "worst case",
            f"ZEBRA, category {disclosure.category}",
            disclosure.worst_case,
            unit="log10 likelihood ratio",
        ),
    ]
    if np.isfinite(linkability.value):
        found.append(passport.stamp(LinkabilityDsys, "D_sys", "linkability", linkability.value))
    return found


def mean_measurements(
    measurements: Sequence[Measurement], intervals: Mapping[Sex, EerInterval | None]
) -> list[Measurement]:
    """Mean of the EERs of both sexes, and how far they are apart.

    Args:
        measurements: Of all lists of one condition.
        intervals: Of the EER of each list, drawn one after another.

    Returns:
        Nothing where there is no list of one of the sexes.
    """
    eers = {each.sex: each for each in measurements if each.metric == EER}
    if not {"f", "m"} <= eers.keys():
        return []
    female, male = eers["f"], eers["m"]
    drawn = [each for each in (intervals["f"], intervals["m"]) if each is not None]
    both = replace(female, sex="both", counts=_sum(female.counts, male.counts), interval=None)
    gap = gender_gap(female.value, male.value)
    return [
        replace(
            both,
            variant=MEAN,
            value=(female.value + male.value) / 2,
            interval=_ends(mean_eer_interval(drawn)) if len(drawn) == 2 else None,
        ),
        replace(
            both,
            metric="mFDR",
            variant="2 |f - m| / (f + m) of the EERs",
            value=gap.value,
            unit=GenderGap.unit,
            higher_is=GenderGap.higher_is,
        ),
    ]


def _ends(interval: EerInterval | None) -> Interval | None:
    if interval is None:
        return None
    return Interval(low=interval.low, high=interval.high, method=OVER_SPEAKERS)


def _sum(one: Any, other: Any) -> TrialCounts:
    """Counts of two lists without common trials."""
    return TrialCounts(**{name: value + vars(other)[name] for name, value in vars(one).items()})
