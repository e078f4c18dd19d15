"""Published results: Table 9 of the results paper of the VoicePrivacy Challenge 2024.

``table9.csv`` holds its columns as printed, in percent, and a column ``kind``: ``original``,
``baseline``, ``submission`` or ``post_challenge``.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources

SOURCE = "results paper of the VoicePrivacy Challenge 2024, Table 9, test sets"

CONDITIONS = (
    "EER: AA-semi, ECAPA-TDNN trained on speech that the same system anonymized, mean of the "
    "female and the male list, LibriSpeech test-clean; WER: wav2vec2 recognizer trained on "
    "original speech, LibriSpeech test-clean; UAR: wav2vec2 classifiers trained on original "
    "speech, IEMOCAP. The row orig is original speech against original speech (OO, O)."
)
"""What all rows were measured under."""

ORIGINAL = "orig"

_FILE = "table9.csv"
_PREFIX = "vpc2024-"


@dataclass(frozen=True, kw_only=True)
class PublishedSystem:
    """A row of the table; rates are fractions, of the test sets.

    Attributes:
        system: Name in the table, such as ``B2``.
        kind: See above.
        eer_f: EER of the female list.
        eer_m: EER of the male list.
        eer: Their mean.
        wer: Word error rate.
        uar: Unweighted average recall.
    """

    system: str
    kind: str
    eer_f: float
    eer_m: float
    eer: float
    wer: float
    uar: float


def read_table9() -> tuple[PublishedSystem, ...]:
    """The table, in its order."""
    text = resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    return tuple(
        PublishedSystem(
            system=row["system"],
            kind=row["kind"],
            **{
                rate: float(row[f"test_{rate}"]) / 100
                for rate in ("eer_f", "eer_m", "eer", "wer", "uar")
            },
        )
        for row in csv.DictReader(text.splitlines())
    )


def published_name(system: str) -> str:
    """What the table would call a system with one of our ids: ``B2`` for ``vpc2024-b2``."""
    return system.lower().removeprefix(_PREFIX).upper()
