"""Unweighted average recall of emotion recognition, and its mean over folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import IntArray, Meaning
from voiceanon.eval.metrics.names import first_seen

AveragedClasses = Literal["truth", "seen", "classes"]

FOLD_DECIMALS = 3
"""Decimals of percent to which VoicePrivacy 2024 rounds a fold before it averages (section 3.5)."""


@dataclass(frozen=True, eq=False)
class UnweightedAverageRecall:
    """Recall per class and its plain mean.

    Attributes:
        value: Fraction; chance is 1 / classes.
        recalls: By class; NaN for a class that the truth does not have, or one fold of several.
        confusion: int64 ``(classes, classes)``, truth by prediction; empty for a mean over folds.
        fold_count: 1, or the number of folds averaged.
    """

    unit: ClassVar[str] = "fraction"
    higher_is: ClassVar[Meaning] = "more useful"

    value: float
    recalls: dict[str, float]
    confusion: IntArray
    fold_count: int = 1

    @property
    def percent(self) -> float:
        """The value in percent, as in the tables of the VoicePrivacy Challenges."""
        return 100 * self.value


def unweighted_average_recall(
    truth: npt.ArrayLike,
    predicted: npt.ArrayLike,
    *,
    classes: Sequence[str | int] | None = None,
    average_over: AveragedClasses = "truth",
) -> UnweightedAverageRecall:
    """Mean of the classes' recalls, each class counting the same.

    Args:
        truth: Class of each recording, texts or whole numbers, ``(recordings,)``.
        predicted: Recognized class, ``(recordings,)``.
        classes: All classes, in the order of the report; those in the data, sorted, if not given.
        average_over: Classes in the ``truth``; or those ``seen`` in truth or prediction, as
            scikit-learn's macro recall does, where a class that is predicted and never true counts
            as recall 0; or all ``classes``, absent ones counting 0.

    Raises:
        ConfigError: No recording, lists of different lengths, a class that is not in ``classes``,
            or an unknown option.

    Source: specification sheet of the evaluation, section 3.5.
    """
    if average_over not in get_args(AveragedClasses):
        raise ConfigError(
            f"average_over: {average_over!r}; allowed are {', '.join(get_args(AveragedClasses))}."
        )
    names = _names(truth, predicted, classes)
    places = {name: place for place, name in enumerate(names)}
    rows, columns = (
        np.array([places[str(name)] for name in np.asarray(side)]) for side in (truth, predicted)
    )
    confusion = np.bincount(rows * len(names) + columns, minlength=len(names) ** 2)
    confusion = confusion.reshape(len(names), len(names))
    true_counts = confusion.sum(axis=1)
    recalls = np.diag(confusion) / np.maximum(true_counts, 1)
    averaged = {
        "truth": true_counts > 0,
        "seen": (true_counts + confusion.sum(axis=0)) > 0,
        "classes": np.ones(len(names), np.bool_),
    }[average_over]
    shown = np.where(true_counts > 0, recalls, np.nan)
    return UnweightedAverageRecall(
        value=float(recalls[averaged].mean()),
        recalls={name: float(value) for name, value in zip(names, shown, strict=True)},
        confusion=confusion,
    )


def mean_over_folds(
    folds: Sequence[UnweightedAverageRecall], *, rounded: bool = True
) -> UnweightedAverageRecall:
    """Plain mean over folds of the average recall and of each class's recall, not pooled.

    Args:
        folds: Results with the same classes.
        rounded: Whether each fold's numbers are rounded to 3 decimals of percent before, as in
            VoicePrivacy 2024.

    Raises:
        ConfigError: No fold, or folds with different classes.
    """
    if len({tuple(fold.recalls) for fold in folds}) != 1:
        raise ConfigError(
            f"folds: {len(folds)} with different classes or none at all; at least one is due, and "
            "all need the same classes. Name them with classes=."
        )

    def mean(values: Sequence[float]) -> float:
        kept = [round(100 * value, FOLD_DECIMALS) / 100 for value in values] if rounded else values
        return float(np.mean(kept))

    return UnweightedAverageRecall(
        value=mean([fold.value for fold in folds]),
        recalls={name: mean([fold.recalls[name] for fold in folds]) for name in folds[0].recalls},
        confusion=np.zeros((0, 0), np.int64),
        fold_count=len(folds),
    )


def _names(
    truth: npt.ArrayLike, predicted: npt.ArrayLike, classes: Sequence[str | int] | None
) -> list[str]:
    count = np.size(truth)
    seen = {name for side in (truth, predicted) for name in first_seen(side, count)[0]}
    if not count:
        raise ConfigError("emotions: no recording; at least one is due.")
    if classes is None:
        return sorted(seen)
    names = [str(name) for name in classes]
    unknown = sorted(seen - set(names))
    if unknown or len(set(names)) != len(names):
        raise ConfigError(
            f"classes: {', '.join(names)}; each once, and all that occur, are due (missing: "
            f"{', '.join(unknown) or 'none'}). Happiness and excitement are one class here."
        )
    return names
