"""``voiceanon-eval table`` and ``plot``: results that exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from voiceanon.cli.console import say, show_table
from voiceanon.eval.app.numbers import EER
from voiceanon.eval.app.published import CONDITIONS, SOURCE, published_name, read_table9
from voiceanon.eval.app.report.page import REPORT_NAME, write_report
from voiceanon.eval.app.report.scatter import Point, measured_points
from voiceanon.eval.app.report.words import show_interval, show_value
from voiceanon.eval.app.results import Results, read_results, write_rows
from voiceanon.eval.protocol.condition import Attack
from voiceanon.eval.protocol.measurement import Measurement

NOTHING = "not measured"


def table(
    results: Annotated[
        list[Path] | None, typer.Argument(help="Folders with results.", metavar="RESULTS")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="CSV file to write as well.")] = None,
) -> None:
    """Show published results, and measured ones next to those of the same system."""
    many = [read_results(folder) for folder in results or ()]
    rows = list(_rows(many))
    show_table(list(rows[0]), [list(row.values()) for row in rows])
    say("")
    say(f"published: {SOURCE}. {CONDITIONS}")
    if many:
        say(
            "measured: other attackers, models and data, so only rows of the same condition, "
            "attacker and data can be compared."
        )
    if out is not None:
        write_rows(out, rows)


def plot(
    results: Annotated[list[Path], typer.Argument(help="Folders with results.", metavar="RESULTS")],
    out: Annotated[
        Path | None,
        typer.Option("--out", help="HTML file; the default is report.html in the first folder."),
    ] = None,
) -> None:
    """Draw the report anew, of one system or of several."""
    path = out or results[0] / REPORT_NAME
    write_report(path, [(folder, read_results(folder)) for folder in results])
    say(str(path))


def _rows(many: Sequence[Results]) -> Iterator[dict[str, str]]:
    """Published systems in their order, each followed by what was measured; others at the end."""
    waiting = list(many)
    for each in read_table9():
        yield {
            "system": each.system,
            "origin": f"published, {each.kind.replace('_', '-')}",
            "condition": "OO" if each.kind == "original" else "AA-semi",
            "EER": f"{100 * each.eer:.2f} %",
            "EER f": f"{100 * each.eer_f:.2f} %",
            "EER m": f"{100 * each.eer_m:.2f} %",
            "WER": f"{100 * each.wer:.2f} %",
            "UAR": f"{100 * each.uar:.2f} %",
            "attacker": "the challenge's",
            "data": "LibriSpeech test-clean, IEMOCAP",
        }
        for results in [one for one in waiting if published_name(one.system) == each.system]:
            waiting.remove(results)
            yield from _measured(results)
    for results in waiting:
        yield from _measured(results)


def _measured(results: Results) -> Iterator[dict[str, str]]:
    for point in measured_points(results):
        sexes = {
            each.sex: each
            for each in results.measurements
            if each.metric == EER and each.condition == point.eer.condition and each.sex != "both"
        }
        yield {
            "system": published_name(results.system) if point.condition != "OO" else "original",
            "origin": "measured",
            "condition": point.condition,
            "EER": _show(point.eer),
            "EER f": _show(sexes.get("f")),
            "EER m": _show(sexes.get("m")),
            "WER": _show(point.wer),
            "UAR": _show(point.uar),
            "attacker": _attacker(point),
            "data": point.eer.data,
        }


def _attacker(point: Point) -> str:
    condition = point.eer.condition
    return condition.attacker if isinstance(condition, Attack) else NOTHING


def _show(measurement: Measurement | None) -> str:
    if measurement is None:
        return NOTHING
    return f"{show_value(measurement)} ({show_interval(measurement)})"
