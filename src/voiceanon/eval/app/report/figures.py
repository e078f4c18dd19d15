"""Figures, drawn without a screen: SVG images as text."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from voiceanon.eval.app.curves import ScoreCurves, normal_deviate
from voiceanon.eval.dependencies import required

COLOURS = {
    "OO": "#555555",
    "OA": "#0072B2",
    "AA-lazy": "#D55E00",
    "AA-semi": "#009E73",
}
"""By condition: the palette of Okabe and Ito (2008), which colour-blind readers can tell apart."""

TARGET_COLOUR, NONTARGET_COLOUR = "#D55E00", "#0072B2"

DASHES = {"both": "-", "f": "--", "m": ":"}
"""By sex."""

DET_TICKS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95)
DET_RANGE = (0.0005, 0.98)
ROC_RANGE = (-0.01, 1.01)

_SETTINGS = {
    # Makes the names inside an image, and so the file, the same in every run.
    "svg.hashsalt": "voiceanon",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@contextmanager
def canvas(width: float, height: float, columns: int = 1) -> Iterator[tuple[Any, list[Any]]]:
    """A figure and its axes, side by side, with settings that are left as they were.

    Args:
        width: Inches.
        height: Inches.
        columns: Number of axes.
    """
    matplotlib = required("matplotlib", "report")
    figure_class = required("matplotlib.figure", "report").Figure
    with matplotlib.rc_context(_SETTINGS):
        figure = figure_class(figsize=(width, height), layout="constrained")
        many = list(np.atleast_1d(figure.subplots(1, columns)))
        for axes in many:
            axes.set_axisbelow(True)
        yield figure, many


def to_svg(figure: Any) -> str:
    """The image as text, without the date."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue().decode("utf-8")


def draw_error_curves(curves: Sequence[ScoreCurves]) -> str:
    """DET and ROC curves of lists of trials, with the line of equal errors."""
    with canvas(8.4, 4.0, columns=2) as (figure, (det, roc)):
        ticks = normal_deviate(DET_TICKS)
        limits = normal_deviate(DET_RANGE)
        for each in curves:
            style = {"color": COLOURS[each.condition], "linestyle": DASHES[each.sex], "lw": 1.6}
            low, high = DET_RANGE
            det.plot(
                normal_deviate(np.clip(each.false_alarms, low / 2, (1 + high) / 2)),
                normal_deviate(np.clip(each.misses, low / 2, (1 + high) / 2)),
                label=_label(each),
                **style,
            )
            roc.plot(each.false_alarms, 1 - np.array(each.misses), **style)
        det.plot(limits, limits, color="#BBBBBB", lw=0.8, zorder=0)
        roc.plot((0, 1), (1, 0), color="#BBBBBB", lw=0.8, zorder=0)
        roc.plot((0, 1), (0, 1), color="#BBBBBB", lw=0.8, linestyle="--", zorder=0)
        shown = [f"{100 * tick:g}" for tick in DET_TICKS]
        det.set(
            title="DET",
            xlabel="false alarms / %",
            ylabel="misses / %",
            xlim=limits,
            ylim=limits,
        )
        det.set_xticks(ticks, shown)
        det.set_yticks(ticks, shown)
        roc.set(
            title="ROC",
            xlabel="false alarms",
            ylabel="hits (1 - misses)",
            xlim=ROC_RANGE,
            ylim=ROC_RANGE,
        )
        for axes in (det, roc):
            axes.set_aspect("equal", adjustable="box")
            axes.grid(color="#EEEEEE")
        figure.legend(*det.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return to_svg(figure)


def draw_histograms(curves: Sequence[ScoreCurves]) -> str:
    """Scores of targets and non-targets, one pair of histograms for each list."""
    with canvas(2.8 * len(curves), 2.6, columns=len(curves)) as (figure, many):
        for axes, each in zip(many, curves, strict=True):
            for counts, colour, name in (
                (each.nontargets, NONTARGET_COLOUR, "different speakers"),
                (each.targets, TARGET_COLOUR, "same speaker"),
            ):
                shares = np.array(counts) / max(1, sum(counts))
                axes.stairs(shares, each.edges, fill=True, color=colour, alpha=0.45, label=name)
            axes.set(title=_label(each), xlabel="score (cosine)")
        many[0].set_ylabel("share of trials")
        figure.legend(*many[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return to_svg(figure)


def draw_entropies(curves: Sequence[ScoreCurves]) -> str:
    """ZEBRA's curve: cross-entropy over the prior, against that of the prior alone."""
    with canvas(5.6, 3.6) as (figure, (axes,)):
        first = curves[0]
        axes.plot(
            first.prior_log_odds,
            first.prior_entropy,
            color="black",
            lw=1.2,
            label="prior alone (perfect privacy)",
        )
        for each in curves:
            axes.plot(
                each.prior_log_odds,
                each.entropy,
                color=COLOURS[each.condition],
                linestyle=DASHES[each.sex],
                lw=1.6,
                label=_label(each),
            )
        axes.set(xlabel="prior log odds / nat", ylabel="cross-entropy / bit", xlim=(-10, 10))
        axes.set_ylim(0, 1.05)
        axes.grid(color="#EEEEEE")
        axes.legend(fontsize=8, frameon=False)
        return to_svg(figure)


def _label(curves: ScoreCurves) -> str:
    return curves.condition if curves.sex == "both" else f"{curves.condition}, {curves.sex}"
