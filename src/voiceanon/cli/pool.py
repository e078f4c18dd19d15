"""``voiceanon pool``: makes pools of target speakers, and shows them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voiceanon.cli.console import plain_warnings, say, show_table
from voiceanon.cli.loading import (
    Arithmetic,
    LocalFilesOnly,
    Settings,
    Speakers,
    Weights,
    load_system,
)
from voiceanon.cli.options import read_sexes, read_speakers

if TYPE_CHECKING:
    from voiceanon.hub.pool import Pool

app = typer.Typer(help="Make a pool of target speakers, or look at one.", no_args_is_help=True)

Source = Annotated[
    Path,
    typer.Argument(help="Folder with one folder per speaker, Kaldi folder, or list of paths."),
]
Destination = Annotated[Path, typer.Argument(help="Pool file to write (.safetensors).")]
System = Annotated[str, typer.Option("--system", help="Id or alias of the system to make it for.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:N, mps.")]
Sexes = Annotated[
    Path | None, typer.Option("--sexes", help="File with lines 'speaker sex' (f or m).")
]

_SEX_NAMES = {"f": "female", "m": "male", "": "not known"}


@app.command()
def build(
    src: Source,
    dst: Destination,
    system: System = "t8-2",
    speakers: Speakers = None,
    sexes: Sexes = None,
    device: Device = "auto",
    precision: Arithmetic = "float32",
    weights: Weights = None,
    local_files_only: LocalFilesOnly = False,
    settings: Settings = None,
) -> None:
    """Make a pool of the target speakers in SRC, out of their speech."""
    from voiceanon.cli.progress import PoolProgress
    from voiceanon.corpus import build_pool

    speaker_of, sex_of = read_speakers(speakers), read_sexes(sexes)
    anon = load_system(
        system,
        settings,
        device=device,
        precision=precision,
        weights=weights,
        local_files_only=local_files_only,
    )
    with plain_warnings(), PoolProgress() as progress:
        pool = build_pool(
            anon, src, dst, speakers=speaker_of, sexes=sex_of, on_speaker=progress.on_speaker
        )
    say(f"{dst}: {_sum_up(pool)}")


@app.command()
def info(file: Annotated[Path, typer.Argument(help="Pool file.")]) -> None:
    """Show what is in a pool."""
    from voiceanon.corpus.pools import pool_seconds
    from voiceanon.hub.pool import read_pool

    pool = read_pool(file)
    seconds = pool_seconds(pool)
    say(f"{file}: {_sum_up(pool)}")
    say("")
    facts = {name: text for name, text in pool.facts.items() if name != "seconds" or not seconds}
    show_table(("fact", "value"), [*facts.items(), ("digest", pool.digest())])
    say("")
    show_table(
        ("speaker", "sex", pool.facts.get("rows", "frames"), "seconds"),
        [
            (
                name,
                _SEX_NAMES[pool.sex(name)],
                str(len(pool.features[name])),
                f"{seconds[name]:.2f}" if name in seconds else "not stated",
            )
            for name in pool.names
        ],
    )


def _sum_up(pool: Pool) -> str:
    from voiceanon.corpus.pools import pool_seconds

    sexes = Counter(_SEX_NAMES[pool.sex(name)] for name in pool.names)
    shown = ", ".join(f"{sexes[name]} {name}" for name in _SEX_NAMES.values() if sexes[name])
    frames = sum(map(len, pool.features.values()))
    dtypes = sorted({str(each.dtype).removeprefix("torch.") for each in pool.features.values()})
    seconds = pool_seconds(pool)
    speech = f"{sum(seconds.values()):.1f} s of speech, " if seconds else ""
    return (
        f"{len(pool.names)} speakers (sex: {shown}), {speech}{frames} "
        f"{pool.facts.get('rows', 'frames')} of {pool.width} "
        f"{'/'.join(dtypes)} features"
    )
