"""What must be known about an attacker whenever its numbers are shown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from voiceanon._version import __version__
from voiceanon.errors import WeightsError
from voiceanon.eval.attackers.checkpoints import STATE_NAME
from voiceanon.eval.attackers.config import AttackerConfig
from voiceanon.eval.attackers.data import ORIGINAL
from voiceanon.eval.attackers.training import EpochResult
from voiceanon.eval.protocol.condition import Side
from voiceanon.files import replacing
from voiceanon.pretrained import parse_config

FACTS_NAME = "attacker.json"
"""File of the facts; written when a training has come to its end."""


@dataclass(frozen=True, kw_only=True)
class AttackerFacts:
    """Facts about a trained attacker.

    Attributes:
        config: Settings.
        system: Name of the system that anonymized the training speech, or `ORIGINAL`.
        level: What shared a pseudo-voice in it; ``None`` for original speech.
        utterances: Number that it was trained on, without those held out.
        speakers: Number of speakers it learnt to tell apart.
        data: Digest of names, speakers and samples.
        start: Digest of the weights it started from, ``None`` for a training from scratch.
        wavlm: Digest of the frozen WavLM, ``None`` without one.
        history: One result for each epoch.
        version: Version of this library.
    """

    config: AttackerConfig
    system: str
    level: str | None
    utterances: int
    speakers: int
    data: str
    start: str | None
    wavlm: str | None
    history: tuple[EpochResult, ...]
    version: str = __version__

    @property
    def trained_on(self) -> Side:
        """What was done to the training speech."""
        return "original" if self.system == ORIGINAL else "anonymized"

    @property
    def training_data(self) -> str:
        """Names the training speech in words."""
        if self.system == ORIGINAL:
            return f"{self.utterances} original utterances of {self.speakers} speakers"
        return (
            f"{self.utterances} utterances of {self.speakers} speakers anonymized by {self.system},"
            f" level {self.level}"
        )

    @property
    def label(self) -> str:
        """Names the attacker in words."""
        front_end = "WavLM and " if self.config.front_end == "wavlm" else ""
        how = "trained" if self.start is None else f"fine-tuned (from weights {self.start[:8]})"
        return f"{front_end}ECAPA-TDNN {how} on {self.training_data}, {self.config.label}"


def write_facts(folder: Path, facts: AttackerFacts) -> None:
    """Writes ``attacker.json``."""
    with replacing(folder / FACTS_NAME) as temporary:
        temporary.write_text(json.dumps(asdict(facts), indent=2) + "\n", encoding="utf-8")


def read_facts(folder: Path) -> AttackerFacts:
    """Reads ``attacker.json``.

    Raises:
        WeightsError: The folder holds no attacker, its training is not at its end, or the file is
            not one of ours.
    """
    path = folder / FACTS_NAME
    if not path.is_file():
        begun = (folder / STATE_NAME).is_file()
        what = "the training has not come to its end" if begun else "the folder holds no attacker"
        raise WeightsError(
            f"{path}: there is no such file: {what}. Run train_attacker with this folder."
        )
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        values["history"] = tuple(EpochResult(**result) for result in values["history"])
        facts: AttackerFacts = parse_config(AttackerFacts, values)
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsError(
            f"{path}: not written by train_attacker ({error!r}); take the folder of an attacker."
        ) from error
    return facts
