"""Options that say which system is loaded and how, and the loading itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from voiceanon.cli.console import plain_warnings
from voiceanon.cli.options import parse_settings
from voiceanon.errors import ConfigError
from voiceanon.types import Precision

if TYPE_CHECKING:
    from voiceanon.anonymizer import Anonymizer

Arithmetic = Annotated[
    str, typer.Option("--precision", help=f"Arithmetic: {', '.join(get_args(Precision))}.")
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        help="Folder with the published weight files; default: the cache. 'random' for noise in "
        "their place, for dry runs.",
    ),
]
LocalFilesOnly = Annotated[
    bool, typer.Option("--local-files-only", help="Never fetch weights from the network.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="name=value, a setting of the system; see 'voiceanon info'."),
]
Speakers = Annotated[Path | None, typer.Option("--speakers", help="File with lines 'key speaker'.")]

_SEXES_FIELD = "source_sexes"


def load_system(
    system: str,
    settings: Sequence[str] | None,
    *,
    device: str,
    precision: str,
    weights: str | None,
    local_files_only: bool,
    pool: Path | None = None,
    source_sexes: Mapping[str, str] | None = None,
) -> Anonymizer:
    """Loads a system as the options say; warnings become lines on stderr.

    Args:
        system: Id or alias.
        settings: Pairs ``name=value``.
        device: As in `voiceanon.load`.
        precision: As in `voiceanon.load`.
        weights: As in `voiceanon.load`.
        local_files_only: As in `voiceanon.load`.
        pool: File with target speakers.
        source_sexes: ``"f"`` or ``"m"`` of source speakers.

    Raises:
        ConfigError: An option does not fit, or the system does not ask for sexes.
    """
    from voiceanon import load
    from voiceanon.registry import system_config

    config = system_config(system)
    options = parse_settings(config, settings or [])
    if source_sexes is not None:
        if _SEXES_FIELD not in (field.name for field in fields(config)):
            raise ConfigError(
                f"--sexes: {system} does not choose voices by the sex of the source; leave it out."
            )
        options[_SEXES_FIELD] = source_sexes
    with plain_warnings(stderr=True):
        return load(
            system,
            device=device,
            precision=cast(Precision, precision),
            weights=weights,
            local_files_only=local_files_only,
            pool=pool,
            **options,
        )
