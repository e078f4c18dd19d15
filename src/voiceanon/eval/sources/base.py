"""What a model must offer to be a source of scores, and what it must say about itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

Wave: TypeAlias = npt.NDArray[np.float32] | Tensor
"""float32 ``(T,)``, 16 kHz, full scale 1.0."""

Recording: TypeAlias = Wave | str | os.PathLike[str] | Mapping[str, Any]
"""A `Wave`, the path of a file, or ``{"array", "sampling_rate"}``."""

NOT_CHALLENGE = "not the challenge's"
"""End of the label of every model that is not the one of the VoicePrivacy Challenge."""


class ScoreSource(Protocol):
    """What every source says about itself.

    Attributes:
        label: What it is, for tables; ends with `NOT_CHALLENGE` where that is true.
        identity: Tells it from all other models, weights and settings; a key of caches.
        training_data: What it was trained on.
    """

    @property
    def label(self) -> str:
        """See the class."""

    @property
    def identity(self) -> str:
        """See the class."""

    @property
    def training_data(self) -> str:
        """See the class."""


class SpeakerEmbedder(ScoreSource, Protocol):
    """Turns speech into vectors whose cosine tells how similar two voices are."""

    def embed(self, waves: Sequence[npt.NDArray[np.float32]], /) -> npt.NDArray[np.float32]:
        """Gives float32 ``(n, d)``, not normalised, in the order of ``waves``."""


class Recognizer(ScoreSource, Protocol):
    """Writes down words."""

    def transcribe(self, waves: Sequence[npt.NDArray[np.float32]], /) -> list[str]:
        """Gives one text per recording, words separated by blanks; empty where none was heard."""

    def normalise(self, text: str, /) -> str:
        """Brings a reference text or a hypothesis to the form in which words are compared.

        Upper case, single blanks; what the metric does to references changes nothing in it.
        """


class EmotionClassifier(ScoreSource, Protocol):
    """Names emotions."""

    @property
    def emotions(self) -> tuple[str, ...]:
        """All names that it gives."""

    def classify(
        self, waves: Sequence[npt.NDArray[np.float32]], speakers: Sequence[str], /
    ) -> list[str]:
        """Gives one of `emotions` per recording.

        Args:
            waves: Recordings.
            speakers: Speaker of each: a model that was not trained on that speaker must judge it.
        """
