"""What is compared with what: conditions, trial lists, scores, and the numbers' passports."""

from voiceanon.eval.protocol.condition import Attack, Condition, Utility
from voiceanon.eval.protocol.draw import draw_trials
from voiceanon.eval.protocol.embeddings import EmbeddingCache, embed_all
from voiceanon.eval.protocol.kaldi import read_enrolment, read_sexes, read_trials
from voiceanon.eval.protocol.measurement import (
    Interval,
    Measurement,
    SpeechCounts,
    TrialCounts,
    warn_of_weak_attacker,
)
from voiceanon.eval.protocol.scoring import score_trials, speaker_means
from voiceanon.eval.protocol.trials import TrialList, by_sex, make_trials

__all__ = [
    "Attack",
    "Condition",
    "EmbeddingCache",
    "Interval",
    "Measurement",
    "SpeechCounts",
    "TrialCounts",
    "TrialList",
    "Utility",
    "by_sex",
    "draw_trials",
    "embed_all",
    "make_trials",
    "read_enrolment",
    "read_sexes",
    "read_trials",
    "score_trials",
    "speaker_means",
    "warn_of_weak_attacker",
]
