"""What a synthesiser takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Synthesizer(Protocol):
    """Speaks texts."""

    @property
    def sample_rate(self) -> int:
        """Rate of what it gives, in Hz."""
        ...

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names of its voices; at least one."""
        ...

    def synthesize(
        self,
        texts: Sequence[str],
        speakers: Sequence[str],
        generators: Sequence[torch.Generator],
    ) -> list[Tensor]:
        """Speaks texts.

        Args:
            texts: Normalised, each with a letter, as `text.normalisation` leaves them.
            speakers: One of `speakers` for each text.
            generators: A CPU generator for each text. Texts of one recording share theirs, in
                order; what it draws depends on these texts alone.

        Returns:
            float32 ``(T,)`` at `sample_rate` for each text, full scale 1.0, which does not depend
            on the texts of other generators.
        """
        ...
