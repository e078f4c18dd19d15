"""Conditions: what the attacker knows, and which speech stands on which side of a comparison.

Names and sides: specification sheet of the evaluation, section 3.1, after the evaluation code of
the VoicePrivacy Challenge 2024. The first letter of a name is the enrolment side, the second the
trial side: O original, A anonymized, R resynthesized (the system run with the original voice).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from voiceanon.errors import ConfigError

Side: TypeAlias = Literal["original", "anonymized", "resynthesized"]
"""What was done to the speech of one side."""

AttackName: TypeAlias = Literal["OO", "OA", "AA-lazy", "AA-semi", "OR", "RR-lazy"]
"""Conditions of speaker verification."""

UtilityName: TypeAlias = Literal["O", "A-lazy", "A-semi", "R-lazy"]
"""Conditions of speech recognition and emotion classification."""

Knowledge: TypeAlias = Literal["unprotected", "ignorant", "lazy-informed", "semi-informed"]
"""What an attacker knows of the anonymization: nothing is protected; not that there is any; the
system, used on the enrolment; the system, used on the enrolment and on the training data."""

_ATTACKS: dict[str, tuple[Side, Side, Knowledge, Side]] = {
    "OO": ("original", "original", "unprotected", "original"),
    "OA": ("original", "anonymized", "ignorant", "original"),
    "AA-lazy": ("anonymized", "anonymized", "lazy-informed", "original"),
    "AA-semi": ("anonymized", "anonymized", "semi-informed", "anonymized"),
    "OR": ("original", "resynthesized", "ignorant", "original"),
    "RR-lazy": ("resynthesized", "resynthesized", "lazy-informed", "original"),
}
"""Enrolment side, trial side, knowledge, and the speech that the attacker's model learned from."""

_UTILITIES: dict[str, tuple[Side, Side]] = {
    "O": ("original", "original"),
    "A-lazy": ("anonymized", "original"),
    "A-semi": ("anonymized", "anonymized"),
    "R-lazy": ("resynthesized", "original"),
}
"""Speech that is judged, and the speech that the judging model learned from."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A condition of speaker verification, with the attacker that it was met by.

    Attributes:
        name: See `AttackName`.
        attacker: Label of the model that makes the scores.
        training_data: What that model was trained on.
        trained_on: Whether those recordings were original or anonymized.
    """

    name: AttackName
    attacker: str
    training_data: str
    trained_on: Side = "original"

    def __post_init__(self) -> None:
        """Checks the condition.

        Raises:
            ConfigError: The name is unknown, a text is empty, or the training data is of another
                kind than the condition says.
        """
        _check_name(self.name, get_args(AttackName))
        _check_texts(attacker=self.attacker, training_data=self.training_data)
        _check_training(self.name, self.trained_on, _ATTACKS[self.name][3])

    @property
    def enrolment(self) -> Side:
        """Speech that the attacker has of the speakers it looks for."""
        return _ATTACKS[self.name][0]

    @property
    def trial(self) -> Side:
        """Speech whose speaker it wants to know."""
        return _ATTACKS[self.name][1]

    @property
    def knowledge(self) -> Knowledge:
        """What it knows of the anonymization."""
        return _ATTACKS[self.name][2]

    @property
    def sides(self) -> tuple[Side, ...]:
        """Enrolment and trial side."""
        return self.enrolment, self.trial


@dataclass(frozen=True, kw_only=True)
class Utility:
    """A condition of speech recognition or emotion classification.

    Attributes:
        name: See `UtilityName`.
        model: Label of the recognizer or classifier.
        training_data: What it was trained on.
        trained_on: Whether those recordings were original or anonymized.
    """

    name: UtilityName
    model: str
    training_data: str
    trained_on: Side = "original"

    def __post_init__(self) -> None:
        """Checks the condition; errors as in `Attack`."""
        _check_name(self.name, get_args(UtilityName))
        _check_texts(model=self.model, training_data=self.training_data)
        _check_training(self.name, self.trained_on, _UTILITIES[self.name][1])

    @property
    def speech(self) -> Side:
        """Speech that is judged."""
        return _UTILITIES[self.name][0]

    @property
    def sides(self) -> tuple[Side, ...]:
        """The one side that there is."""
        return (self.speech,)


Condition: TypeAlias = Attack | Utility
"""What a number was measured under."""


def _check_name(name: str, allowed: tuple[str, ...]) -> None:
    if name not in allowed:
        raise ConfigError(f"condition: {name!r} is none of {', '.join(allowed)}.")


def _check_texts(**texts: str) -> None:
    for name, text in texts.items():
        if not text.strip():
            raise ConfigError(f"{name}: the text is empty; a number without it cannot be read.")


def _check_training(name: str, found: Side, due: Side) -> None:
    if found != due:
        raise ConfigError(
            f"condition {name}: a model trained on {due} speech is due, this one was trained on "
            f"{found} speech; take another model or name the condition that fits."
        )
