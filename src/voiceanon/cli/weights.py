"""``voiceanon download`` and ``voiceanon cache``: weight files, fetched and looked after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voiceanon.cli.console import say, show_bytes, show_table

if TYPE_CHECKING:
    from voiceanon.hub.cache import CachedFile
    from voiceanon.types import SystemInfo

EXIT_FAULTY = 1

cache_app = typer.Typer(help="Look after the cached weight files.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Id or alias of a system.")]
MaybeName = Annotated[
    str | None,
    typer.Argument(help="Id or alias of a system; the default is all systems."),
]


def download(
    name: Name,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Folder for --weights; the default is to fill the cache."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also the files that only some settings need.")
    ] = False,
) -> None:
    """Fetch and check the weight files of a system."""
    from voiceanon import system_info
    from voiceanon.cli.progress import DownloadProgress
    from voiceanon.hub import resolve, verify

    facts = system_info(name)
    if not facts.weights:
        say(f"{facts.id} has no weight files; there is nothing to fetch.")
        return
    names = [file.key for file in facts.weights] if everything else None
    with DownloadProgress() as progress:
        if to is None:
            paths = resolve.resolve(facts, names=names, progress=progress.on_block)
        else:
            paths = resolve.download(facts, to, names=names, progress=progress.on_block)
    for path in paths.values():
        say(f"{path}: {show_bytes(path.stat().st_size)}, SHA-256 {verify.digest_of(path)}")
    if to is not None:
        say(f"Use them with --weights {to}, or load({name!r}, weights={str(to)!r}).")


@cache_app.command("list")
def list_files(name: MaybeName = None) -> None:
    """List the cached files: verified against a published digest, or as they were first found."""
    from voiceanon.hub import paths
    from voiceanon.hub.cache import list_cached

    entries = list_cached(_systems(name))
    users: dict[Path, list[CachedFile]] = {}
    for entry in entries:
        if entry.path is not None:
            users.setdefault(entry.path, []).append(entry)
    say(f"folders: {paths.cache_folder()}, {paths.hub_folder()}")
    if users:
        show_table(
            ("file", "systems", "size", "state", "sha256", "path"),
            [
                (
                    each[0].file.key,
                    ", ".join(entry.system for entry in each),
                    show_bytes(each[0].size),
                    each[0].state,
                    each[0].sha256,
                    str(path),
                )
                for path, each in users.items()
            ],
        )
    total = show_bytes(sum(each[0].size for each in users.values()))
    say(f"{len(users)} files, {total}")


@cache_app.command("verify")
def verify_files(name: MaybeName = None) -> None:
    """Hash all cached files anew and compare them with what is published or recorded."""
    from voiceanon.hub.cache import list_cached, verify_cached

    infos = _each_file_once(_systems(name))
    count = sum(entry.path is not None for entry in list_cached(infos))
    faults = verify_cached(infos)
    for fault in faults:
        say(f"failed: {fault.message}", "red")
    say(f"{count - len(faults)} files as they should be, {len(faults)} not")
    if faults:
        raise typer.Exit(EXIT_FAULTY)


@cache_app.command("remove")
def remove_files(
    name: MaybeName = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete cached files. Systems and programs that share a file must fetch it again."""
    from voiceanon.hub.cache import list_cached, remove_cached

    infos = _each_file_once(_systems(name))
    sizes = [entry.size for entry in list_cached(infos) if entry.path is not None]
    if sizes and name is None and not yes:
        total = show_bytes(sum(sizes))
        typer.confirm(f"Delete the {len(sizes)} cached files of all systems ({total})?", abort=True)
    say(f"{len(sizes)} files deleted, {show_bytes(remove_cached(infos))}")


def _systems(name: str | None) -> list[SystemInfo]:
    from voiceanon import list_systems, system_info

    return [system_info(each) for each in ([name] if name is not None else list_systems())]


def _each_file_once(infos: Sequence[SystemInfo]) -> list[SystemInfo]:
    """The systems, each without the files that one before it has, too."""
    seen: set[tuple[str, str]] = set()
    distinct = []
    for info in infos:
        files = tuple(file for file in info.weights if (file.address, file.revision) not in seen)
        seen |= {(file.address, file.revision) for file in files}
        distinct.append(replace(info, weights=files))
    return distinct
