"""A system for tests of the corpus: what it does to a recording depends on its first sample.

Lives in a module of its own, since worker processes import it by name.
"""

import os
from dataclasses import dataclass

import torch

from voiceanon import Anonymizer, SystemInfo

DEADLY = 0.75
"""Ends the process."""

DEADLY_IN_COMPANY = 0.625
"""Ends the process unless the recording is alone in its batch."""

BAD = 0.5
"""Raises an error."""


@dataclass(frozen=True)
class MarkedConfig:
    """Settings.

    Attributes:
        memory_seconds: Most seconds, padding included, before memory runs out.
        ready: Whether the system can be unpickled.
    """

    memory_seconds: float = float("inf")
    ready: bool = True


class Marked(Anonymizer):
    """Halves the signal, if the mark lets it."""

    Config = MarkedConfig
    info = SystemInfo(id="test-marked", summary="halves", sample_rate=16_000, batch_seconds=4.0)

    def draw_target(self, generator, speaker):
        return {"number": torch.rand((), generator=generator).item()}

    def convert(self, batch, lengths, targets, generators):
        marks = batch[:, 0]
        if bool((marks == DEADLY).any()):
            os._exit(3)
        if bool((marks == DEADLY_IN_COMPANY).any()) and len(batch) > 1:
            os._exit(3)
        if bool((marks == BAD).any()):
            raise RuntimeError("the mark is bad")
        if batch.numel() / self.sample_rate > self.config.memory_seconds:
            raise MemoryError(f"{batch.numel()} samples")
        return batch / 2, lengths

    def __setstate__(self, state):
        super().__setstate__(state)
        if not self.config.ready:
            raise RuntimeError("not ready")
