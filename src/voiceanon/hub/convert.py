"""From published entries to a module: one way to rename, one strict way to load."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from voiceanon.errors import WeightsError

Renames: TypeAlias = Sequence[tuple[str, str]]
"""Ordered pairs of a regular expression and its replacement, as for `re.sub`."""

Fold: TypeAlias = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]
"""Turns several published entries into one, such as the halves of a weight norm."""

_SHOWN_ENTRIES = 10


def rename(tensors: Mapping[str, Tensor], renames: Renames, *, file: Path) -> dict[str, Tensor]:
    """Gives entries their new names.

    Args:
        tensors: By published name.
        renames: Each name passes through all pairs, in their order.
        file: Where they came from, for messages.

    Returns:
        The same tensors by new name, in the same order.

    Raises:
        WeightsError: Two entries would get the same name.
    """
    pairs = [(re.compile(pattern), replacement) for pattern, replacement in renames]
    renamed: dict[str, Tensor] = {}
    for old, tensor in tensors.items():
        name = old
        for pattern, replacement in pairs:
            name = pattern.sub(replacement, name)
        if name in renamed:
            raise WeightsError(
                f"{file}: {old!r} is one of two entries that stand for {name!r}; one is allowed. "
                "Take the published file."
            )
        renamed[name] = tensor
    return renamed


def load_strict(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    file: Path,
    renames: Renames = (),
    unused: Callable[[str], bool] | None = None,
    fold: Fold | None = None,
) -> None:
    """Fills every parameter and buffer of a module from a file, and leaves nothing over.

    The order is: drop, rename, fold, compare, copy. Values are copied into the module's own types
    and devices. A module on the device ``meta`` gets memory of its own on the CPU. Buffers that are
    not saved (``persistent=False``) are constants of the module and stay.

    Args:
        module: Filled only if everything fits.
        tensors: By published name.
        file: Where they came from, for messages.
        renames: See `rename`.
        unused: Tells by published name which entries the module has no use for.
        fold: Applied to all entries after renaming, such as
            `voiceanon.components.weight_norm.fold_entries`.

    Raises:
        WeightsError: Entries are missing or left over, have another shape or kind of numbers, or
            hold values that are not finite; the message lists them.
    """
    kept = {name: t for name, t in tensors.items() if unused is None or not unused(name)}
    given = rename(kept, renames, file=file)
    if fold is not None:
        given = fold(given)
    wanted = module.state_dict()
    faults = [
        *_list("missing from the file", sorted(wanted.keys() - given.keys())),
        *_list("of no use to the network", sorted(given.keys() - wanted.keys())),
        *_list("that do not fit (file, network)", list(_misfits(given, wanted))),
        *_list("with values that are not finite", list(_not_finite(given, wanted))),
    ]
    if faults:
        raise WeightsError(
            f"{file}: does not fit {type(module).__name__}.\n"
            + "\n".join(faults)
            + "\nTake the published file, or the settings that belong to it."
        )
    _copy(module, given, wanted)


def _misfits(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Iterable[str]:
    for name, target in wanted.items():
        if name not in given:
            continue
        source = given[name]
        if source.shape != target.shape:
            yield f"{name}: {tuple(source.shape)}, {tuple(target.shape)}"
        elif source.is_floating_point() != target.is_floating_point():
            yield f"{name}: {source.dtype}, {target.dtype}"


def _not_finite(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Iterable[str]:
    """Such values need not show in a result: a step that chooses something hides them."""
    for name in wanted:
        if name in given and not bool(given[name].isfinite().all()):
            yield name


def _list(what: str, entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    noun = "entry" if len(entries) == 1 else "entries"
    lines = [f"{len(entries)} {noun} {what}:", *(f"  {e}" for e in entries[:_SHOWN_ENTRIES])]
    if len(entries) > _SHOWN_ENTRIES:
        lines.append(f"  ... and {len(entries) - _SHOWN_ENTRIES} more")
    return lines


def _copy(module: nn.Module, given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    if not any(target.is_meta for target in wanted.values()):
        module.load_state_dict(dict(given), strict=True)
        return
    # What is on the meta device has no memory to copy into: it takes over the tensors instead,
    # copied, so that they do not keep a mapped file open.
    own = {
        name: torch.empty_like(target, device="cpu" if target.is_meta else target.device).copy_(
            given[name]
        )
        for name, target in wanted.items()
    }
    module.load_state_dict(own, strict=True, assign=True)
