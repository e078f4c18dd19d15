"""The page as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

from voiceanon._version import __version__
from voiceanon.eval.app.numbers import EER
from voiceanon.eval.app.published import CONDITIONS, SOURCE
from voiceanon.eval.app.report import sections, words
from voiceanon.eval.app.report.markup import Markup, figure, heading, paragraph, text
from voiceanon.eval.app.report.scatter import draw_scatter, measured_points
from voiceanon.eval.app.results import Results
from voiceanon.files import replacing

REPORT_NAME = "report.html"

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
$style
</style>
</head>
<body>
$body
</body>
</html>
""")


def write_report(path: Path, many: Sequence[tuple[Path, Results]]) -> None:
    """Writes a report that needs no other file and no network.

    Args:
        path: HTML file to write.
        many: Folder and results of each system, at least one.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    with replacing(path) as temporary:
        temporary.write_text(make_report(many), encoding="utf-8")


def make_report(many: Sequence[tuple[Path, Results]]) -> str:
    """The report as text; see `write_report`."""
    names = ", ".join(results.system for _, results in many)
    title = f"Evaluation of {names}"
    pieces = [heading(1, title), _origin(many), _reading([results for _, results in many])]
    for _, results in many:
        pieces.append(heading(2, f"{results.system}, level {results.level}"))
        pieces.append(sections.notes_section(results))
        pieces.append(sections.summary_section(results))
    pieces.append(_comparison([results for _, results in many]))
    for folder, results in many:
        pieces.append(heading(2, f"{results.system} in detail"))
        pieces.append(sections.privacy_section(results))
        pieces.append(sections.emotion_section(results))
        pieces.append(sections.clips_section(results, folder))
        pieces.append(sections.all_section(results))
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return _PAGE.substitute(title=text(title), style=style, body="\n".join(pieces))


def _origin(many: Sequence[tuple[Path, Results]]) -> Markup:
    dates = [part.date for _, results in many for part in results.parts.values()]
    measured = f"Measured {min(dates)} to {max(dates)} (UTC). " if dates else ""
    return paragraph(f"{measured}Written by voiceanon-eval {__version__}.", "quiet")


def _reading(many: Sequence[Results]) -> Markup:
    """How to read what follows: the conditions that occur, and what the numbers do not say."""
    found = {each.condition.name: each for results in many for each in results.measurements}
    pieces = []
    if any(each.metric == EER for results in many for each in results.measurements):
        pieces.append(paragraph(words.UPPER_BOUND, "bound"))
    if found.keys() & {"O", "A-lazy"}:
        pieces.append(paragraph(words.LIGHT_UTILITY, "bound"))
    terms = "".join(
        f"<dt>{text(name)}</dt><dd>{text(meaning)}</dd>"
        for name, meaning in words.CONDITION_WORDS.items()
        if name in found
    )
    return "".join(pieces) + f"<dl>{terms}</dl>"


def _comparison(many: Sequence[Results]) -> Markup:
    points = [point for results in many for point in measured_points(results)]
    if not any(point.wer or point.uar for point in points):
        return ""
    caption = (
        f"Grey: {SOURCE}. {CONDITIONS} Coloured: measured here, with 95 % intervals, under the "
        "conditions and with the attackers and models of the table above. Models and data differ, "
        "so the two kinds of points cannot be ranked against each other. Dashed: published "
        "baselines and submissions that no other one beats in both."
    )
    return heading(2, "Privacy against utility") + figure(
        draw_scatter(many),
        caption,
        "Scatter of EER against WER and against UAR, measured and published systems",
    )
