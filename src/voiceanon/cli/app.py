"""The table of commands, and what every command does with an error.

Exit status: 0 for success, 1 if some files failed, 2 for a wrong option or configuration.
"""

from __future__ import annotations

from typing import Annotated

import typer

from voiceanon._version import __version__
from voiceanon.cli import console, pool
from voiceanon.cli.anonymize import anonymize
from voiceanon.cli.demo import demo
from voiceanon.cli.info import info, systems
from voiceanon.cli.weights import cache_app, download
from voiceanon.errors import VoiceanonError

EXIT_ERROR = 2

app = typer.Typer(
    name="voiceanon",
    help="Anonymizes voices with published systems.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(anonymize)
app.command()(systems)
app.command()(info)
app.command()(download)
app.add_typer(cache_app, name="cache")
app.add_typer(pool.app, name="pool")
app.command()(demo)


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
        console.complain(f"error: {error}")
        raise SystemExit(EXIT_ERROR) from error
