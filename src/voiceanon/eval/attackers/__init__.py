"""Attackers that are trained on anonymized speech.

::

    from voiceanon.eval.attackers import AttackerConfig, read_training_data, train_attacker

    data = read_training_data("train-clean-360-anonymized/")
    attacker = train_attacker(data, AttackerConfig(), "attacker/")
    embeddings = attacker.embed(["a.flac", "b.flac"])
"""

from voiceanon.eval.attackers.attacker import TrainedAttacker, load_attacker, train_attacker
from voiceanon.eval.attackers.config import AttackerConfig
from voiceanon.eval.attackers.data import (
    ORIGINAL,
    TrainingData,
    TrainingUtterance,
    read_training_data,
)
from voiceanon.eval.attackers.facts import AttackerFacts
from voiceanon.eval.attackers.plda import Plda
from voiceanon.eval.attackers.training import EpochResult, TrainingProgress

__all__ = [
    "ORIGINAL",
    "AttackerConfig",
    "AttackerFacts",
    "EpochResult",
    "Plda",
    "TrainedAttacker",
    "TrainingData",
    "TrainingProgress",
    "TrainingUtterance",
    "load_attacker",
    "read_training_data",
    "train_attacker",
]
