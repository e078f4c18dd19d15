"""Sections of the report about one system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from voiceanon.eval.app.curves import ScoreCurves
from voiceanon.eval.app.report import words
from voiceanon.eval.app.report.figures import (
    draw_entropies,
    draw_error_curves,
    draw_histograms,
)
from voiceanon.eval.app.report.markup import (
    Markup,
    details,
    figure,
    heading,
    paragraph,
    player,
    table,
    text,
)
from voiceanon.eval.app.results import Results, measurement_row
from voiceanon.eval.protocol.condition import Attack
from voiceanon.eval.protocol.measurement import Measurement

HEADLINES = ("EER", "WER", "UAR")
"""Metrics of the first table."""


def summary_section(results: Results) -> Markup:
    """The three rates that the challenge reports: a table for each metric and model."""
    groups: dict[Sequence[str], list[Measurement]] = {}
    for each in results.measurements:
        if each.metric in HEADLINES:
            key = each.metric, words.model_of(each), each.condition.training_data, each.data
            groups.setdefault(key, []).append(each)
    return "".join(_headline_table(group) for group in groups.values())


def notes_section(results: Results) -> Markup:
    """Warnings of the measurements."""
    notes = dict.fromkeys(note for part in results.parts.values() for note in part.notes)
    return "".join(paragraph(note, "warning") for note in notes)


def privacy_section(results: Results) -> Markup:
    """Figures of the attacks."""
    part = results.parts.get("privacy")
    if part is None or not part.extras.get("curves"):
        return ""
    curves = [ScoreCurves.from_json(each) for each in part.extras["curves"]]
    whole = [each for each in curves if each.sex == "both"] or curves
    pieces = [
        heading(3, "Error curves"),
        figure(
            draw_error_curves(curves),
            "Left: detection error trade-off on scales of the normal deviate; right: receiver "
            "operating characteristic. The grey diagonal is where both errors are equal. A private "
            "system has curves far from the lower left (DET), near the dashed line (ROC). Dashed: "
            "female speakers, dotted: male.",
            "Detection error trade-off and receiver operating characteristic of each condition",
        ),
        heading(3, "Scores"),
        figure(
            draw_histograms(whole),
            "The more the two histograms overlap, the less the attacker knows.",
            "Histograms of the scores of same and different speakers for each condition",
        ),
        heading(3, "ZEBRA: disclosure at every prior"),
        figure(
            draw_entropies(whole),
            "Cross-entropy of the attacker after the best calibration. What lies between the "
            "black line and a curve is what the scores disclose; D_ECE is its area, over the "
            "prior probability.",
            "Empirical cross-entropy over the prior log odds for each condition",
        ),
    ]
    return "".join(pieces)


def emotion_section(results: Results) -> Markup:
    """Recall of each emotion, and what was taken for what."""
    part = results.parts.get("emotion")
    if part is None:
        return ""
    pieces = [heading(3, "Emotions")]
    recalls = [each for each in part.measurements if each.metric.startswith("recall of")]
    names = list(dict.fromkeys(each.metric for each in recalls))
    conditions = list(dict.fromkeys(each.condition.name for each in recalls))
    shown = {(each.metric, each.condition.name): _cell(each) for each in recalls}
    pieces.append(
        table(
            ("", *conditions),
            [
                (name, *(shown.get((name, each), _cell(None)) for each in conditions))
                for name in names
            ],
        )
    )
    for confusion in part.extras.get("confusions", ()):
        emotions = confusion["emotions"]
        rows = zip(emotions, confusion["counts"], strict=True)
        content = table(
            (f"{confusion['condition']}: true", *(f"taken for {name}" for name in emotions)),
            [(name, *counts) for name, counts in rows],
        )
        pieces.append(details(f"Confusions, {confusion['condition']}", content))
    return "".join(pieces)


def clips_section(results: Results, folder: Path) -> Markup:
    """Players for pairs of recordings, with their texts."""
    rows = list(_clip_rows(results, folder))
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("utterance", "original", "anonymized", "text"))
    return (
        heading(3, "Recordings")
        + paragraph(words.PRIVATE, "warning")
        + f'<div class="wide"><table class="clips"><thead><tr>{head}</tr></thead><tbody>'
        + "".join(rows)
        + "</tbody></table></div>"
    )


def all_section(results: Results) -> Markup:
    """Every number with every fact, as in the CSV file."""
    rows = [measurement_row(each) for each in results.measurements]
    if not rows:
        return ""
    content = table(list(rows[0]), [list(row.values()) for row in rows], "all")
    return details(f"All {len(rows)} numbers with all their facts", content)


def _headline_table(group: Sequence[Measurement]) -> Markup:
    """Conditions by lists of speakers; what all cells share stands above."""
    first = group[0]
    kind = "attacker" if isinstance(first.condition, Attack) else "model"
    methods = sorted({each.interval.method for each in group if each.interval is not None})
    caption = (
        f"Test data: {first.data}. {kind.capitalize()}: {words.model_of(first)}. It was trained "
        f"on: {first.condition.training_data}. A higher value is {first.higher_is}. In brackets: "
        f"interval ({', '.join(methods) or 'not computed'})."
    )
    columns = list(dict.fromkeys(_column(each) for each in group))
    rows = list(dict.fromkeys((each.condition.name, _speech(each)) for each in group))
    cells = {(each.condition.name, _column(each)): each for each in group}
    shown = [["", "rests on", *(counts for _, counts in columns)]]
    for name, speech in rows:
        found = [cells.get((name, column)) for column in columns]
        shown.append([name, speech, *(_cell(each) for each in found)])
    heads = [title for title, _ in columns]
    return (
        heading(3, f"{first.metric} in %")
        + paragraph(caption)
        + table(("condition", "speech", *heads), shown, "rates")
    )


def _column(measurement: Measurement) -> tuple[str, str]:
    """Speakers with the variant of the metric, and what the numbers below rest on."""
    speakers = words.SEX_WORDS[measurement.sex]
    return f"{speakers} speakers, {measurement.variant}", measurement.counts.describe()


def _speech(measurement: Measurement) -> str:
    if measurement.system == "none":
        return "original"
    return f"{measurement.system}, level {measurement.level}"


def _cell(measurement: Measurement | None) -> str:
    if measurement is None:
        return "not measured"
    return f"{words.show_value(measurement)} ({words.show_interval(measurement)})"


def _clip_rows(results: Results, folder: Path) -> Iterator[Markup]:
    texts = {
        each["utterance"]: each
        for part in results.parts.values()
        for each in part.extras.get("transcripts", ())
    }
    seen = set()
    for part in results.parts.values():
        for pair in part.extras.get("pairs", ()):
            paths = {side: folder / pair[side] for side in ("original", "anonymized")}
            if pair["utterance"] in seen or not all(path.is_file() for path in paths.values()):
                continue
            seen.add(pair["utterance"])
            players = "".join(
                f"<td>{player(path.read_bytes(), side + ' ' + pair['utterance'])}</td>"
                for side, path in paths.items()
            )
            name = f"{pair['utterance']}, speaker {pair['speaker']}"
            found = _texts(texts.get(pair["utterance"]))
            yield f"<tr><td>{text(name)}</td>{players}<td>{found}</td></tr>\n"


def _texts(found: Mapping[str, Any] | None) -> Markup:
    if found is None:
        return "not recognized"
    names = [name for name in found if name != "utterance"]
    return "".join(f"<div><b>{text(name)}</b> {text(found[name])}</div>" for name in names)
