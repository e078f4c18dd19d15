"""How sure an average recall is: bootstrap over speakers.

Recordings of a speaker depend on each other, so speakers are drawn with replacement, each with all
recordings. The VoicePrivacy Challenges publish no interval for the average recall.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import Float64Array, Generator, draw_indices
from voiceanon.eval.metrics.names import first_seen

REPLICATES = 1000
"""As for the equal error rate."""

PERCENTILES = (2.5, 97.5)


@dataclass(frozen=True)
class UarInterval:
    """95 % percentile intervals, fractions.

    Attributes:
        average: Of the unweighted average recall: lower and upper end.
        recalls: Of the recall of each class.
    """

    average: tuple[float, float]
    recalls: dict[str, tuple[float, float]]


def uar_interval(
    truth: npt.ArrayLike,
    predicted: npt.ArrayLike,
    speakers: npt.ArrayLike,
    *,
    generator: Generator,
    replicates: int = REPLICATES,
) -> UarInterval:
    """Intervals of the average recall and of its parts.

    A replicate averages over the classes that its recordings have.

    Args:
        truth: Class of each recording, ``(recordings,)``.
        predicted: Recognized class.
        speakers: Speaker of each recording.
        generator: One draw of as many speakers as there are per replicate.
        replicates: Number of draws.

    Raises:
        ConfigError: Lists of different lengths, or a single speaker.
    """
    count = np.size(truth)
    classes, true_class = first_seen(truth, count)
    names, owner = first_seen(speakers, count)
    first_seen(predicted, count)
    if len(names) < 2:
        raise ConfigError(
            f"speakers: {len(names)}; an interval over speakers needs at least two of them."
        )
    correct = np.asarray(truth).astype(str) == np.asarray(predicted).astype(str)
    cell = owner * len(classes) + true_class
    shape = (len(names), len(classes))
    totals = np.bincount(cell, minlength=len(names) * len(classes)).reshape(shape)
    hits = np.bincount(cell, correct, minlength=len(names) * len(classes)).reshape(shape)
    drawn = draw_indices(generator, len(names), (replicates, len(names)))
    rows = np.repeat(np.arange(replicates), len(names)) * len(names) + drawn.ravel()
    weights = np.bincount(rows, minlength=drawn.size).reshape(replicates, len(names))
    seen = weights @ totals
    with np.errstate(invalid="ignore"):
        recalls = (weights @ hits) / seen
    average = np.nansum(recalls, axis=1) / (seen > 0).sum(axis=1)
    return UarInterval(
        average=_ends(average),
        recalls={
            name: _ends(recalls[seen[:, place] > 0, place]) for place, name in enumerate(classes)
        },
    )


def _ends(values: Float64Array) -> tuple[float, float]:
    low, high = np.percentile(values, PERCENTILES)
    return float(low), float(high)
