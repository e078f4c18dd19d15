"""The learning rate: a triangle that is run through again and again."""

from __future__ import annotations

from voiceanon.eval.attackers.config import AttackerConfig


def cyclic_rate(step: int, config: AttackerConfig) -> float:
    """Gives the learning rate of a training step.

    ``base + (max - base) (1 - abs(step / half - 2 c + 1))`` with ``c = floor(1 + step / (2 half))``
    (specification sheet of the evaluation, section 3.3; SpeechBrain's `CyclicLRScheduler`, mode
    "triangular", which is moved on before each step).

    Args:
        step: Number of the step in the whole training, from 1.
        config: ``base_rate``, ``max_rate`` and ``half_cycle``.

    Returns:
        A rate from ``base_rate`` to ``max_rate``.
    """
    cycle = 1 + step // (2 * config.half_cycle)
    distance = abs(step / config.half_cycle - 2 * cycle + 1)
    return config.base_rate + (config.max_rate - config.base_rate) * max(0.0, 1 - distance)
