"""What there is to anonymize: a file, a folder, a list of files or a Kaldi folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from voiceanon.audio.io import READABLE, UNREADABLE
from voiceanon.corpus import kaldi
from voiceanon.corpus.items import Item
from voiceanon.errors import ConfigError

LISTS = frozenset((".txt", ".lst", ".list"))
"""Endings of text files that list one path a line."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """All utterances of a corpus.

    Attributes:
        items: In no particular order.
        not_audio: Number of files that are not audio by their ending.
        kaldi_folder: The Kaldi folder that names the utterances, if it is one.
    """

    items: tuple[Item, ...]
    not_audio: int = 0
    kaldi_folder: Path | None = None


def find_sources(
    src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], dst: Path
) -> Sources:
    """Finds the utterances of a corpus; opens no audio file.

    Args:
        src: Audio file; folder; text file with one path a line, relative to its own folder;
            sequence of paths; or Kaldi folder (it has a ``wav.scp``).
        dst: Output folder; left out where it lies inside ``src``.

    Raises:
        ConfigError: There is no such file or folder, it holds no audio, is the output folder, or
            its tables or lists are malformed.
    """
    if not isinstance(src, (str, os.PathLike)):
        return Sources(items=_listed([os.fspath(path) for path in src], Path(), "src"))
    path = Path(src)
    if path.is_dir():
        if path.resolve() == dst.resolve():
            raise ConfigError(
                f"dst: {dst} is the input folder itself; choose another output folder."
            )
        if (path / kaldi.WAV_SCP).is_file():
            return Sources(items=kaldi.read_items(path), kaldi_folder=path)
        return _in_folder(path, dst)
    if not path.is_file():
        raise ConfigError(f"src: there is no file or folder {path}.")
    if path.suffix.lower() in LISTS:
        lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").split("\n")
        return Sources(items=_listed([line.strip() for line in lines], path.parent, str(path)))
    if is_audio(path):
        return Sources(items=(_make_item(path, PurePosixPath(path.name)),))
    raise ConfigError(
        f"src: {path} is neither audio nor a list of paths; lists end in "
        f"{', '.join(sorted(LISTS))}, audio in {', '.join(sorted(READABLE))}."
    )


def is_audio(path: PurePath) -> bool:
    """Whether a file is audio by its ending, readable or not."""
    return path.suffix.lower() in READABLE | UNREADABLE


def _in_folder(folder: Path, dst: Path) -> Sources:
    items = []
    not_audio = 0
    for path in _walk(folder, (), dst.resolve()):
        if not is_audio(path):
            not_audio += 1
            continue
        name = PurePosixPath(path.relative_to(folder).as_posix())
        speaker = name.parts[0] if len(name.parts) > 1 else None
        items.append(_make_item(path, name, speaker))
    if not items:
        raise ConfigError(
            f"src: no audio in {folder} ({not_audio} other files); audio files end in "
            f"{', '.join(sorted(READABLE))}."
        )
    return Sources(items=tuple(items), not_audio=not_audio)


def _walk(folder: Path, parents: tuple[Path, ...], left_out: Path) -> Iterator[Path]:
    """All files that are not hidden; links to folders are followed unless they lead back up."""
    real = folder.resolve()
    if real == left_out or real in parents:
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _walk(path, (*parents, real), left_out)
        else:
            yield path


def _listed(paths: Sequence[str], base: Path, origin: str) -> tuple[Item, ...]:
    items: dict[PurePosixPath, Item] = {}
    for text in paths:
        if not text:
            continue
        written = PurePath(text)
        name = PurePosixPath(written.relative_to(written.anchor).as_posix())
        if ".." in name.parts or not name.name:
            raise ConfigError(
                f"{origin}: {text!r} leads upwards or names no file, so its output would not lie "
                "below the output folder; list files below one folder, or absolute paths."
            )
        if name in items:
            raise ConfigError(f"{origin}: {text} is listed twice; list every file once.")
        items[name] = _make_item(base / written, name)
    if not items:
        raise ConfigError(f"{origin}: the list is empty; list one path a line.")
    return tuple(items.values())


def _make_item(source: Path, name: PurePosixPath, speaker: str | None = None) -> Item:
    return Item(key=str(name.with_suffix("")), source=source, name=name, speaker=speaker)
