"""A number with its passport: what was measured, under which condition, on how much speech.

Numbers of anonymization are easily compared that do not belong together: another attacker, another
level, female and male trials in one list, originals against originals. So none travels alone.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from voiceanon.errors import ConfigError
from voiceanon.eval.metrics.kinds import Meaning, MetricWarning
from voiceanon.eval.protocol.condition import Attack, Condition

MeasuredLevel: TypeAlias = Literal["utterance", "speaker", "none"]
"""What shares one pseudo-voice; ``"none"`` where nothing was anonymized."""

Sex: TypeAlias = Literal["f", "m", "both"]
"""Speakers that the number is about; ``"both"`` is one pooled list, unless the variant says that it
is the mean of the numbers of two."""

LARGEST_ORIGINAL_EER = 0.15
"""EER of original against original speech above which the attacker is no attacker. Ours: on
LibriSpeech the challenge's attacker has 0.004 to 0.105 (specification sheet of the evaluation,
section 4.1), and one that was trained on other speech by mistake was seen to have 0.38."""


@dataclass(frozen=True, kw_only=True)
class TrialCounts:
    """How many comparisons, and of how much speech, a number of verification rests on.

    Attributes:
        targets: Trials of the same speaker.
        nontargets: Trials of different speakers.
        enrolment_speakers: Speakers that are looked for.
        enrolment_utterances: Their utterances.
        trial_speakers: Speakers of the trial utterances.
        trial_utterances: Utterances whose speaker is wanted.
    """

    targets: int
    nontargets: int
    enrolment_speakers: int
    enrolment_utterances: int
    trial_speakers: int
    trial_utterances: int

    def describe(self) -> str:
        """One line of text."""
        return (
            f"{self.targets} target and {self.nontargets} non-target trials; "
            f"{self.enrolment_utterances} utterances of {self.enrolment_speakers} enrolment "
            f"speakers, {self.trial_utterances} of {self.trial_speakers} trial speakers"
        )


@dataclass(frozen=True, kw_only=True)
class SpeechCounts:
    """How much speech a number of utility rests on.

    Attributes:
        utterances: Recordings.
        speakers: Their speakers.
        words: Words of the reference texts; ``None`` where there are no texts.
    """

    utterances: int
    speakers: int
    words: int | None = None

    def describe(self) -> str:
        """One line of text."""
        words = "" if self.words is None else f", {self.words} reference words"
        return f"{self.utterances} utterances of {self.speakers} speakers{words}"


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A confidence interval.

    Attributes:
        low: Lower end, in the unit of the value.
        high: Upper end.
        method: How it was computed, with its level, such as ``"95 %, bootstrap over speakers"``.
    """

    low: float
    high: float
    method: str


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One number and all that is needed to read it.

    Attributes:
        metric: Such as ``"EER"``.
        variant: Definition, where there are several, such as ``"nearest"``; else ``"-"``.
        value: In ``unit``.
        unit: Such as ``"fraction"`` or ``"bit"``.
        higher_is: What a higher value means.
        condition: Attack or utility, with the model that judged.
        system: Id of the anonymization system; ``"none"`` where there is none.
        level: What shares one pseudo-voice.
        data: Name of the test data.
        sex: Of the speakers.
        counts: What the number rests on.
        interval: Confidence interval, if there is one.
    """

    metric: str
    variant: str
    value: float
    unit: str
    higher_is: Meaning
    condition: Condition
    system: str
    level: MeasuredLevel
    data: str
    sex: Sex
    counts: TrialCounts | SpeechCounts
    interval: Interval | None = None

    def __post_init__(self) -> None:
        """Checks that the parts agree.

        Raises:
            ConfigError: A text is empty, a word unknown, or level, system and counts do not fit
                the condition.
        """
        for name in ("metric", "variant", "unit", "system", "data"):
            if not getattr(self, name).strip():
                raise ConfigError(f"{name}: the text is empty; write '-' or 'none' where it fits.")
        _check_word("sex", self.sex, get_args(Sex))
        _check_word("level", self.level, get_args(MeasuredLevel))
        changed = any(side != "original" for side in self.condition.sides)
        for name, text in (("system", self.system), ("level", self.level)):
            if (text != "none") != changed:
                due = "one is due" if changed else "'none' is due"
                raise ConfigError(
                    f"{name}: {text!r} does not fit the condition {self.condition.name}; {due}."
                )
        if isinstance(self.condition, Attack) != isinstance(self.counts, TrialCounts):
            raise ConfigError(
                f"counts: {type(self.counts).__name__} do not fit the condition "
                f"{self.condition.name}; trial counts belong to attacks, speech counts to utility."
            )

    def to_row(self) -> dict[str, str]:
        """All facts as texts, none of them empty: a row of a table."""
        interval = "not computed"
        if self.interval is not None:
            ends = f"{self.interval.low:.6g} to {self.interval.high:.6g}"
            interval = f"{ends} ({self.interval.method})"
        return {
            "metric": self.metric,
            "variant": self.variant,
            "value": f"{self.value:.6g}",
            "unit": self.unit,
            "higher is": self.higher_is,
            "interval": interval,
            **_condition_row(self.condition),
            "system": self.system,
            "level": self.level,
            "data": self.data,
            "sex": self.sex,
            "counts": self.counts.describe(),
        }


def warn_of_weak_attacker(original: Measurement) -> None:
    """Warns where an attacker does not even tell speakers of original speech apart.

    Args:
        original: EER under the condition OO, as a fraction.

    Raises:
        ConfigError: It is another metric or another condition.
    """
    if (original.metric, original.unit, original.condition.name) != ("EER", "fraction", "OO"):
        raise ConfigError(
            f"original: expected the EER, a fraction, under OO; got {original.metric} "
            f"({original.unit}) under {original.condition.name}."
        )
    if original.value > LARGEST_ORIGINAL_EER:
        warnings.warn(
            f"the EER of original against original speech is {100 * original.value:.1f} %, above "
            f"{100 * LARGEST_ORIGINAL_EER:g} %: this attacker is so weak that its other numbers "
            "say little about privacy. Check what it was trained on, and the trial list.",
            MetricWarning,
            stacklevel=2,
        )


def _condition_row(condition: Condition) -> dict[str, str]:
    if isinstance(condition, Attack):
        knowledge: str = condition.knowledge
        enrolment: str = condition.enrolment
        speech, model = condition.trial, condition.attacker
    else:
        knowledge = enrolment = "none"
        speech, model = condition.speech, condition.model
    return {
        "condition": condition.name,
        "knowledge": knowledge,
        "enrolment": enrolment,
        "speech": speech,
        "model": model,
        "training data": condition.training_data,
        "trained on": condition.trained_on,
    }


def _check_word(name: str, word: str, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        raise ConfigError(f"{name}: {word!r} is none of {', '.join(allowed)}.")
