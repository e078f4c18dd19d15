"""Privacy against utility: measured numbers in front of the published table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from voiceanon.eval.app.numbers import EER, MEAN, NEAREST
from voiceanon.eval.app.published import ORIGINAL, PublishedSystem, published_name, read_table9
from voiceanon.eval.app.report.figures import COLOURS, canvas, to_svg
from voiceanon.eval.app.results import Results
from voiceanon.eval.metrics import pareto_front
from voiceanon.eval.protocol.measurement import Measurement

GREY, EDGE = "#B0B0B0", "#666666"

MARKERS = {"original": "*", "baseline": "s", "submission": "o", "post_challenge": "o"}
"""By kind of the published system."""

RANKED = ("baseline", "submission")
"""Kinds whose front is drawn, as in the text of the paper (specification sheet of the evaluation,
section 6)."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One condition of one system.

    Attributes:
        name: System and condition.
        condition: Of the EER.
        eer: Privacy.
        wer: Utility, if measured.
        uar: Utility, if measured.
    """

    name: str
    condition: str
    eer: Measurement
    wer: Measurement | None
    uar: Measurement | None


def measured_points(results: Results) -> list[Point]:
    """Conditions of a system, each EER with the utility of the speech that its trials are.

    The EER is the mean of both sexes where there is one, as in the published table, else that of
    all speakers.
    """
    points = []
    for name in COLOURS:
        eers = [m for m in results.measurements if (m.metric, m.condition.name) == (EER, name)]
        chosen = _first(eers, variant=MEAN) or _first(eers, variant=NEAREST, sex="both")
        if chosen is None:
            continue
        utility = "O" if name == "OO" else "A-lazy"
        own = [m for m in results.measurements if m.condition.name == utility]
        points.append(
            Point(
                name=name if name == "OO" else f"{published_name(results.system)} {name}",
                condition=name,
                eer=chosen,
                wer=_first(own, metric="WER", sex="both"),
                uar=_first(own, metric="UAR", sex="both"),
            )
        )
    return points


def draw_scatter(many: Sequence[Results]) -> str:
    """EER against WER, and EER against UAR, with intervals; published systems in grey."""
    published = read_table9()
    points = [point for results in many for point in measured_points(results)]
    names = {published_name(results.system) for results in many} | {ORIGINAL}
    with canvas(9.6, 4.4, columns=2) as (figure, axes):
        for place, rate in zip(axes, ("wer", "uar"), strict=True):
            _draw_published(place, published, rate, names)
            for point in points:
                _draw_point(place, point, getattr(point, rate))
            place.set_xlabel("EER / %, higher is more private")
            place.set_xlim(-2, 60)
            place.grid(color="#EEEEEE")
        axes[0].set_yscale("log")
        axes[0].set_yticks((2, 5, 10, 20, 50, 100), ("2", "5", "10", "20", "50", "100"))
        axes[0].set_ylabel("WER / %, lower is more useful")
        axes[0].invert_yaxis()
        axes[1].set_ylabel("UAR / %, higher is more useful")
        # A system of which only one utility was measured is in one of the panels alone.
        entries = {
            label: handle
            for place in axes
            for handle, label in zip(*place.get_legend_handles_labels(), strict=True)
        }
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4)
        return to_svg(figure)


def _draw_published(
    axes: Any, published: Sequence[PublishedSystem], rate: str, names: set[str]
) -> None:
    for kind, marker in MARKERS.items():
        own = [each for each in published if each.kind == kind]
        axes.scatter(
            [100 * each.eer for each in own],
            [100 * getattr(each, rate) for each in own],
            marker=marker,
            s=26,
            color=GREY,
            edgecolors=EDGE,
            linewidths=0.5,
            label=f"published: {kind.replace('_', '-')}",
        )
    ranked = [each for each in published if each.kind in RANKED]
    values = np.array([(each.eer, getattr(each, rate)) for each in ranked])
    front = values[pareto_front(values, higher_is_better=(True, rate == "uar"))]
    front = 100 * front[np.argsort(front[:, 0])]
    axes.plot(front[:, 0], front[:, 1], color=EDGE, lw=0.8, linestyle="--", label="their front")
    for each in published:
        if each.system in names:
            axes.annotate(
                each.system,
                (100 * each.eer, 100 * getattr(each, rate)),
                xytext=(5, 4),
                textcoords="offset points",
                color=EDGE,
                fontsize=8,
            )


def _draw_point(axes: Any, point: Point, utility: Measurement | None) -> None:
    if utility is None:
        return
    axes.errorbar(
        [100 * point.eer.value],
        [100 * utility.value],
        xerr=_reach(point.eer),
        yerr=_reach(utility),
        fmt="D",
        ms=7,
        capsize=3,
        color=COLOURS[point.condition],
        label=f"measured: {point.name}",
    )


def _reach(measurement: Measurement) -> Any:
    """How far the interval reaches below and above the value, in points of percent."""
    if measurement.interval is None:
        return None
    value, interval = measurement.value, measurement.interval
    return 100 * np.array([[max(0, value - interval.low)], [max(0, interval.high - value)]])


def _first(measurements: Sequence[Measurement], **facts: str) -> Measurement | None:
    """The first measurement with these facts."""
    for each in measurements:
        if all(getattr(each, name) == value for name, value in facts.items()):
            return each
    return None
