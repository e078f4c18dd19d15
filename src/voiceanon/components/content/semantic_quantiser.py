"""Semantic tokens from HuBERT features: a recurrent classifier.

Source: specification sheet of the codec language model, sections 1.1 and 2; entries of
``quantifier_hubert_base_ls960_14.pth``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from voiceanon.errors import WeightsError

LSTM_LAYERS = 2

_GATES = 4
"""Of an LSTM: its published matrices have four rows for each hidden unit."""


@dataclass(frozen=True, kw_only=True)
class SemanticQuantiserConfig:
    """Sizes; the defaults are those of the published file (section 2).

    Attributes:
        input_width: Features per frame, D.
        hidden: Units of each LSTM layer.
        tokens: Classes.
    """

    input_width: int = 768
    hidden: int = 1024
    tokens: int = 10_000

    @classmethod
    def from_entries(cls, shapes: Mapping[str, tuple[int, ...]]) -> SemanticQuantiserConfig:
        """Reads the sizes off the shapes of published entries.

        Raises:
            WeightsError: The entries are not those of a quantiser.
        """
        try:
            rows, width = shapes["lstm.weight_ih_l0"]
            (tokens,) = shapes["fc.bias"]
        except (KeyError, ValueError) as error:
            raise WeightsError(
                "semantic quantiser: 'lstm.weight_ih_l0' and 'fc.bias' are missing or have other "
                f"shapes; found {', '.join(shapes) or 'nothing'}. Take the published file."
            ) from error
        return cls(input_width=width, hidden=rows // _GATES, tokens=tokens)


class SemanticQuantiser(nn.Module):
    """HuBERT features to tokens; entries bear the published names.

    Computes in the type of its weights, under autocast too.
    """

    def __init__(self, config: SemanticQuantiserConfig | None = None) -> None:
        """Builds the network with untrained weights.

        Args:
            config: The published sizes if left out.
        """
        super().__init__()
        self.config = config = config or SemanticQuantiserConfig()
        self.lstm = nn.LSTM(config.input_width, config.hidden, LSTM_LAYERS, batch_first=True)
        self.fc = nn.Linear(config.hidden, config.tokens)

    def forward(self, features: Tensor) -> Tensor:
        """Turns features ``(B, N, D)`` into tokens int64 ``(B, N)``.

        A frame's token depends on the frames before it and on itself, so that padding at the end
        does no harm.
        """
        return self.scores(features).argmax(dim=-1)

    def scores(self, features: Tensor) -> Tensor:
        """Log-probabilities up to a constant per frame, ``(B, N, tokens)``."""
        with torch.autocast(features.device.type, enabled=False):
            hidden, _ = self.lstm(features)
            scores: Tensor = self.fc(hidden)
        return scores
