"""A system in a folder of its own: settings as JSON, weights and pool as safetensors."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceanon._version import __version__
from voiceanon.errors import WeightsError
from voiceanon.files import replacing
from voiceanon.hub.pool import write_pool

if TYPE_CHECKING:
    from voiceanon.anonymizer import Anonymizer

CONFIG_NAME = "config.json"
MODEL_NAME = "model.safetensors"
POOL_NAME = "pool.safetensors"
_SYSTEM = "voiceanon_system"


def is_pretrained(folder: Path) -> bool:
    """Whether a path is a folder with a ``config.json``."""
    return (folder / CONFIG_NAME).is_file()


def write_pretrained(system: Anonymizer, folder: Path) -> None:
    """Writes a system; each file appears whole or not at all."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        _SYSTEM: system.info.id,
        "version": __version__,
        "config": dataclasses.asdict(system.config),
        "weights": system.weight_digests,
    }
    # The members of a mixture have folders of their own.
    entries = {} if system.members else system.state_dict()
    state = {name: value.contiguous() for name, value in entries.items()}
    if state:
        with replacing(folder / MODEL_NAME) as temporary:
            save_file(state, temporary)
    if system.pool is not None:
        write_pool(folder / POOL_NAME, system.pool)
    with replacing(folder / CONFIG_NAME) as temporary:
        temporary.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def read_settings(folder: Path) -> dict[str, Any]:
    """Reads ``config.json``: ``system``, ``config`` and ``weights``.

    Raises:
        WeightsError: The file is not one of ours.
    """
    path = folder / CONFIG_NAME
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        return {"system": settings[_SYSTEM], **{k: settings[k] for k in ("config", "weights")}}
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsError(
            f"{path}: not written by save_pretrained ({error!r}); pass the name of a system, and "
            "published files as weights=."
        ) from error


def parse_config(config: type[Any], values: dict[str, Any]) -> Any:
    """Makes a ``Config`` from JSON values, with its nested dataclasses and tuples."""
    hints = typing.get_type_hints(config)
    return config(**{name: _parse(hints.get(name, Any), value) for name, value in values.items()})


def _parse(hint: Any, value: Any) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        if dataclasses.is_dataclass(option) and isinstance(value, dict):
            return parse_config(typing.cast(type[Any], option), value)
        if typing.get_origin(option) is tuple and isinstance(value, list):
            return tuple(value)
    return value
