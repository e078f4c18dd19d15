"""Packages of the extra ``eval``, imported where they are used."""

from __future__ import annotations

import importlib
from types import ModuleType

from voiceanon.errors import MissingDependencyError

INSTALLED_AS = {"sklearn": "scikit-learn"}
"""Packages that pip knows by another name."""


def required(module: str, purpose: str) -> ModuleType:
    """A module of another package; importing SciPy alone takes a quarter of a second.

    Args:
        module: Name to import.
        purpose: What needs it.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise missing(INSTALLED_AS.get(package, package), purpose) from error


def missing(package: str, purpose: str, *, options: str = "") -> MissingDependencyError:
    """The error that says how to get a package of the evaluation.

    Args:
        package: Name to install.
        purpose: What needs it.
        options: Of pip, where the package is wanted alone.
    """
    return MissingDependencyError(
        f"{purpose}: the package {package} is not installed; install it with 'pip install "
        f"\"voiceanon[eval]\"', or alone with 'pip install {options}{package}'."
    )
