"""What the report says about conditions and attackers, and how it writes numbers."""

from __future__ import annotations

from voiceanon.eval.protocol.condition import Attack
from voiceanon.eval.protocol.measurement import Measurement

CONDITION_WORDS = {
    "OO": "original speech is looked for in original speech: a check of the attacker, not of the "
    "system. Its EER should be near 0 %.",
    "OA": "the attacker has original speech of the speakers and does not know that the trial "
    "speech was anonymized (ignorant).",
    "AA-lazy": "the attacker anonymizes its enrolment speech with the same system, but its model "
    "learned from original speech (lazy-informed).",
    "AA-semi": "the attacker anonymizes its enrolment speech, and its model learned from speech "
    "that the same system anonymized (semi-informed); the ranking condition of VoicePrivacy 2024.",
    "O": "original speech is recognized: what the model reaches at best.",
    "A-lazy": "anonymized speech is recognized by a model that learned from original speech.",
}
"""By name."""

UPPER_BOUND = (
    "An EER says how well this attacker does, not how well any attacker could do. A stronger one, "
    "such as one trained on speech that the same system anonymized, finds more: every EER here is "
    "an upper bound on the privacy that the system gives. A light attacker can miss nearly all "
    "that a strong one finds; B2, for one, has a published EER of 4.5 % under AA-semi."
)

LIGHT_UTILITY = (
    "A weak recognizer or classifier suffers more from an unusual voice than a strong one. Its "
    "rates compare systems under the same model; they are not the challenge's rates."
)

PRIVATE = (
    "The recordings below are part of this file, originals included. Keep the file as private as "
    "the recordings themselves, or make it anew without them (--clips 0)."
)

SEX_WORDS = {"f": "female", "m": "male", "both": "all"}


def show_value(measurement: Measurement) -> str:
    """Value and unit: rates in percent."""
    if measurement.unit == "fraction":
        return f"{100 * measurement.value:.1f} %"
    unit = "" if measurement.unit.startswith("none") else f" {measurement.unit}"
    return f"{measurement.value:.3f}{unit}"


def show_interval(measurement: Measurement) -> str:
    """Ends of the interval, or that there is none."""
    interval = measurement.interval
    if interval is None:
        return "not computed"
    if measurement.unit == "fraction":
        return f"{100 * interval.low:.1f} to {100 * interval.high:.1f} %"
    return f"{interval.low:.3f} to {interval.high:.3f}"


def model_of(measurement: Measurement) -> str:
    """Label of attacker, recognizer or classifier."""
    condition = measurement.condition
    return condition.attacker if isinstance(condition, Attack) else condition.model
