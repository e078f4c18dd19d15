"""Options of the commands, apart from those that all measuring commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voiceanon.eval.app.models import ATTACKERS, CLASSIFIERS, RECOGNIZERS

DATA_PANEL, COPIES_PANEL, MODELS_PANEL = "Data", "Anonymized copies", "Models"
"""Headings of the help."""

Originals = Annotated[
    list[Path],
    typer.Argument(help="Folders of original recordings, or Kaldi folders.", metavar="ORIGINAL"),
]
Anonymized = Annotated[
    list[Path] | None,
    typer.Option(
        "--anonymized",
        help="Folder with the copies of an ORIGINAL, once for each; else they are made.",
        rich_help_panel=COPIES_PANEL,
    ),
]
EmotionData = Annotated[
    list[Path] | None,
    typer.Option(
        "--emotion-data",
        help="Folders of originals with emotions; else the ORIGINALs, if they have emotions.",
        rich_help_panel=DATA_PANEL,
    ),
]
EmotionAnonymized = Annotated[
    list[Path] | None,
    typer.Option(
        "--emotion-anonymized",
        help="Folder with the copies of an --emotion-data, once for each.",
        rich_help_panel=COPIES_PANEL,
    ),
]
Enrolment = Annotated[
    int,
    typer.Option(
        "--enrolment",
        min=1,
        help="Enrolment utterances per speaker, where there is no published list of trials.",
        rich_help_panel=DATA_PANEL,
    ),
]
AttackerName = Annotated[
    str,
    typer.Option(
        "--attacker", help=f"One of {', '.join(ATTACKERS)}.", rich_help_panel=MODELS_PANEL
    ),
]
SemiInformed = Annotated[
    Path | None,
    typer.Option(
        "--semi-informed",
        help="Folder of an attacker that was trained on speech of the same system: adds AA-semi.",
        rich_help_panel=MODELS_PANEL,
    ),
]
RecognizerName = Annotated[
    str,
    typer.Option(
        "--recognizer", help=f"One of {', '.join(RECOGNIZERS)}.", rich_help_panel=MODELS_PANEL
    ),
]
ClassifierName = Annotated[
    str,
    typer.Option(
        "--classifier", help=f"One of {', '.join(CLASSIFIERS)}.", rich_help_panel=MODELS_PANEL
    ),
]
