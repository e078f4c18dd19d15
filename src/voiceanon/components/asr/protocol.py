"""What a recogniser takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Words, and where they were said.

    Attributes:
        start: Seconds from the beginning of the recording.
        end: Seconds; not before ``start``.
        text: As the recogniser writes it, without spaces at the ends.
    """

    start: float
    end: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """What was said in a recording.

    Attributes:
        segments: In their order in time; none where nothing was recognised.
        rejected: Why words that the recogniser gave were thrown away, for people.
    """

    segments: tuple[Segment, ...] = ()
    rejected: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The words of all segments."""
        return " ".join(segment.text for segment in self.segments)


class Recognizer(Protocol):
    """Writes down speech."""

    @property
    def sample_rate(self) -> int:
        """Rate that it takes, in Hz."""
        ...

    def transcribe(
        self, batch: Tensor, lengths: Tensor, generators: Sequence[torch.Generator]
    ) -> list[Transcript]:
        """Writes down recordings.

        Args:
            batch: float32 ``(B, T)`` at `sample_rate`, full scale 1.0. What lies behind a length
                does not matter.
            lengths: int64 ``(B,)`` in samples, on the batch's device.
            generators: One CPU generator per recording, for recognisers that draw.

        Returns:
            A transcript per recording, which does not depend on the others.
        """
        ...
