"""Names of output files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from voiceanon.audio.io import WRITABLE
from voiceanon.corpus.items import Identity, Item, ItemResult
from voiceanon.errors import ConfigError

FALLBACK_ENDING = ".flac"
"""For sources whose own format is not written, such as MP3: nothing is lost."""


def place_outputs(items: Sequence[Item], dst: Path, file_format: str | None) -> list[PurePosixPath]:
    """Gives every utterance its output, as a path below ``dst``; see `name_outputs`.

    Raises:
        ConfigError: The format is not written, or an output would take the place of an input.
    """
    if file_format is not None and f".{file_format}" not in WRITABLE:
        allowed = ", ".join(repr(ending[1:]) for ending in WRITABLE)
        raise ConfigError(f"file_format: got {file_format!r}; writable are {allowed}, or None.")
    outputs = name_outputs([item.name for item in items], file_format)
    originals = {os.path.realpath(item.source) for item in items if item.source is not None}
    for output in outputs:
        if os.path.realpath(dst / output) in originals:
            raise ConfigError(
                f"dst: the output {dst / output} is one of the inputs; originals are never "
                "overwritten. Choose another output folder."
            )
    return outputs


def name_outputs(
    names: Sequence[PurePosixPath], file_format: str | None = None
) -> list[PurePosixPath]:
    """Gives every source its output below the output folder.

    The ending stays if it is writable. Where several sources would get the same output, such as
    ``a.mp3`` and ``a.flac``, each keeps its old ending as part of its name: ``a.mp3.flac`` and
    ``a.flac.flac``.

    Args:
        names: Mirrored paths of all sources, all different.
        file_format: ``"wav"``, ``"flac"`` or ``"ogg"`` for all outputs.
    """
    endings = [_ending(name, file_format) for name in names]
    outputs = [name.with_suffix(ending) for name, ending in zip(names, endings, strict=True)]
    renamed: set[int] = set()
    while True:
        uses = Counter(outputs)
        clashing = [i for i, output in enumerate(outputs) if uses[output] > 1 and i not in renamed]
        if not clashing:
            return outputs
        for i in clashing:
            outputs[i] = names[i].with_name(names[i].name + endings[i])
        renamed.update(clashing)


def _ending(name: PurePosixPath, file_format: str | None) -> str:
    if file_format is not None:
        return f".{file_format}"
    return name.suffix if name.suffix.lower() in WRITABLE else FALLBACK_ENDING


class StaleOutputs:
    """Removes outputs that no longer stand for their utterance."""

    def __init__(
        self,
        dst: Path,
        outputs: Mapping[Identity, PurePosixPath],
        earlier: Mapping[Identity, ItemResult],
    ) -> None:
        """Takes where outputs are or would be now, and where they were in earlier runs."""
        self._dst = dst
        self._outputs = outputs
        self._in_use = frozenset(outputs.values())
        self._earlier = earlier

    def remove(self, result: ItemResult) -> None:
        """Leaves no output of a failed utterance, and no second one of any other."""
        if result.status == "failed":
            self._delete(self._outputs[result.identity])
        earlier = self._earlier.get(result.identity)
        if earlier is not None and earlier.output is not None:
            old = PurePosixPath(earlier.output)
            if old not in self._in_use and not old.is_absolute() and ".." not in old.parts:
                self._delete(old)

    def _delete(self, output: PurePosixPath) -> None:
        path = self._dst / output
        if path.is_file() or path.is_symlink():
            path.unlink()
