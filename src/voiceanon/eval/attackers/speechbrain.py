"""SpeechBrain's modules, imported when they are needed and without its changes to the process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from voiceanon.eval.dependencies import required

_SWITCH = "SB_DISABLE_QUIRKS"
_QUIRKS = ("disable_cudnn_benchmarking", "disable_jit_profiling", "allow_tf32")
"""What SpeechBrain 1.1 sets in PyTorch for the whole process when it is imported
(`speechbrain/utils/quirks.py`), and the variable that tells it not to."""


def speechbrain_module(name: str) -> Any:
    """Imports a module of SpeechBrain.

    Args:
        name: Below the package, such as ``"nnet.losses"``.

    Raises:
        MissingDependencyError: SpeechBrain is not installed.
    """
    with _without_quirks():
        return required(f"speechbrain.{name}", "training of attackers")


@contextlib.contextmanager
def _without_quirks() -> Iterator[None]:
    before = os.environ.get(_SWITCH)
    os.environ[_SWITCH] = ",".join(filter(None, (before, *_QUIRKS)))
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SWITCH]
        else:
            os.environ[_SWITCH] = before
