"""The table of commands, and what every command does with an error.

Exit status: 0 for success, 2 for a wrong option, configuration or recording.
"""

from __future__ import annotations

from typing import Annotated

import typer

from voiceanon._version import __version__
from voiceanon.cli.console import complain
from voiceanon.errors import VoiceanonError
from voiceanon.eval.app.measure import content, emotion, everything, privacy
from voiceanon.eval.app.show import plot, table

EXIT_ERROR = 2

app = typer.Typer(
    name="voiceanon-eval",
    help="Measures how private and how useful anonymized speech is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(privacy)
app.command()(content)
app.command()(emotion)
app.command("all")(everything)
app.command()(table)
app.command()(plot)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"voiceanon {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command; what the library or the file system refuses becomes one line."""
    try:
        app()
    except (VoiceanonError, OSError) as error:
        complain(f"error: {error}")
        raise SystemExit(EXIT_ERROR) from error
