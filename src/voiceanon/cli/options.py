"""What the command line says, turned into the library's values."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from voiceanon.errors import ConfigError
from voiceanon.types import Seed

_BOOLEANS = {"true": True, "false": False}


def parse_settings(config: Any, pairs: Sequence[str]) -> dict[str, Any]:
    """Parses ``name=value`` by the types of a system's ``Config``.

    Args:
        config: An instance of the ``Config``.
        pairs: As written on the command line.

    Raises:
        ConfigError: A pair has no ``=``, names no field, or its value does not fit the type.
    """
    hints = typing.get_type_hints(type(config))
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name not in hints:
            raise ConfigError(
                f"--set: got {pair!r}; write name=value, where name is one of {', '.join(hints)}."
            )
        try:
            settings[name] = parse_value(text, hints[name])
        except ValueError as error:
            raise ConfigError(
                f"--set: {text!r} is no value for {name}, which takes {type_name(hints[name])}."
            ) from error
    return settings


def parse_value(text: str, hint: Any) -> Any:
    """Parses the text of a value by its type hint.

    Raises:
        ValueError: The text does not fit the type.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _parse_first(text, sorted(arguments, key=lambda each: each is not type(None)))
    if origin is typing.Literal:
        return _choose(text, {str(value): value for value in arguments})
    if origin is tuple:
        return _parse_tuple(text, arguments)
    if hint is type(None):
        return _choose(text.lower(), {"none": None})
    if hint is bool:
        return _choose(text.lower(), _BOOLEANS)
    if hint in (int, float, str):
        return hint(text)
    raise ValueError(f"{type_name(hint)} cannot be written on the command line")


def type_name(hint: Any) -> str:
    """A type hint for people."""
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def read_seed(seed: int | None, secret_file: Path | None) -> Seed:
    """The seed of ``--seed`` or the secret of ``--secret-file``, whitespace at its end stripped.

    Raises:
        ConfigError: Both are given, or the secret is empty.
    """
    if secret_file is None:
        return seed
    if seed is not None:
        raise ConfigError("--seed and --secret-file are both given; leave one out.")
    secret = secret_file.read_bytes().rstrip()
    if not secret:
        raise ConfigError(f"--secret-file: {secret_file} is empty; write a secret into it.")
    return secret


def read_speakers(path: Path | None) -> dict[str, str] | None:
    """Reads lines of ``key speaker``; the key may hold blanks.

    Raises:
        ConfigError: A line has no speaker, or a key stands there twice.
    """
    return None if path is None else _read_pairs(path, "key", "speaker")


def read_sexes(path: Path | None) -> dict[str, str] | None:
    """Reads lines of ``speaker sex``; the speaker's name may hold blanks.

    Returns:
        ``"f"`` or ``"m"`` by speaker.

    Raises:
        ConfigError: A line has no sex or none that is known, or a speaker stands there twice.
    """
    if path is None:
        return None
    from voiceanon.corpus.pools import parse_sexes

    return parse_sexes(_read_pairs(path, "speaker", "sex"), str(path))


def _read_pairs(path: Path, first: str, second: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        words = line.rsplit(maxsplit=1)
        if not words:
            continue
        if len(words) < 2 or words[0].strip() in pairs:
            raise ConfigError(
                f"{path}, line {number}: got {line!r}; write '{first} {second}', each {first} once."
            )
        pairs[words[0].strip()] = words[1]
    return pairs


def _choose(text: str, values: Mapping[str, Any]) -> Any:
    if text not in values:
        raise ValueError(f"{text!r} is none of {', '.join(values)}")
    return values[text]


def _parse_first(text: str, hints: Sequence[Any]) -> Any:
    for hint in hints:
        try:
            return parse_value(text, hint)
        except ValueError:
            continue
    raise ValueError(f"{text!r} fits none of the types")


def _parse_tuple(text: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = text.split(",")
    hints = [arguments[0]] * len(parts) if arguments[-1] is Ellipsis else arguments
    return tuple(parse_value(part, hint) for part, hint in zip(parts, hints, strict=True))
