"""Files of a published archive whose folders bear numbers that nobody states beforehand.

SpeechBrain writes checkpoints into folders such as ``CKPT+10``, and the archives of the
VoicePrivacy Challenge hold such folders (specification sheet of the evaluation, section 9).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from voiceanon.errors import WeightsError
from voiceanon.eval.sources.manifest import Access, SourceInfo, resolve_source
from voiceanon.hub.archives import list_files


def resolve_members(
    info: SourceInfo, patterns: Mapping[str, str], access: Access
) -> dict[str, Path]:
    """Finds files in a model's archive, as it is or unpacked in a folder of the user.

    Args:
        info: Facts of a model whose only file is an archive.
        patterns: Regular expression of the end of each wanted file's path, by a name for it.
        access: How the archive may be got.

    Returns:
        Verified path by name.

    Raises:
        WeightsError: As in `resolve_source`, or a pattern fits no file or several.
    """
    (archive,) = info.weights
    names = _unpacked_names(access.weights)
    if not all(_matches(pattern, names) for pattern in patterns.values()):
        # Not unpacked: the archive itself, or the error that says where it was looked for.
        names = list_files(resolve_source(info, access)[archive.name])
    members = {key: _only(info, pattern, names) for key, pattern in patterns.items()}
    chosen = replace(info, weights=(replace(archive, members=tuple(members.values())),))
    paths = resolve_source(chosen, access)
    return {key: paths[member] for key, member in members.items()}


def _unpacked_names(weights: str | Path | None) -> tuple[str, ...]:
    folder = None if weights is None else Path(weights).expanduser()
    if folder is None or not folder.is_dir():
        return ()
    files = (path for path in folder.rglob("*") if path.is_file())
    return tuple(sorted(path.relative_to(folder).as_posix() for path in files))


def _matches(pattern: str, names: Iterable[str]) -> list[str]:
    ending = re.compile(rf"(?:^|/)(?:{pattern})$")
    return [name for name in names if ending.search(name)]


def _only(info: SourceInfo, pattern: str, names: Iterable[str]) -> str:
    found = _matches(pattern, names)
    if len(found) != 1:
        shown = ", ".join(found) or "none"
        raise WeightsError(
            f"{info.id}: one file that ends with {pattern!r} is due, found {len(found)} ({shown}). "
            f"Take the published {info.weights[0].name}, or leave one checkpoint in the folder."
        )
    return found[0]
