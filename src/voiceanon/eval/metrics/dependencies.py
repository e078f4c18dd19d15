"""Packages of the extra ``eval``, imported where they are used."""

from __future__ import annotations

import importlib
from types import ModuleType

from voiceanon.errors import MissingDependencyError


def required(module: str, purpose: str) -> ModuleType:
    """A module of another package; importing SciPy alone takes a quarter of a second.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose}: the package {module.partition('.')[0]} is not installed; run pip install "
            "'voiceanon[eval]'."
        ) from error
