"""Metrics of privacy and utility: arrays in, frozen results with unit and direction out.

Rates are fractions in [0, 1]; results that are usually printed in percent have `percent`. A higher
score always means more similar speakers. Numbers that depend on scores too many to be held take
`ScoreBlocks`.
"""

from voiceanon.eval.metrics.challenge import (
    CATEGORY_EERS,
    VPC2022_WEIGHTS,
    CombinedScore,
    GenderGap,
    PrivacyCategory,
    RelativeChange,
    SystemRates,
    combined_scores,
    gender_gap,
    pareto_front,
    privacy_categories,
    relative_change,
    vpc2022_average,
)
from voiceanon.eval.metrics.cllr import LikelihoodRatioCost, likelihood_ratio_cost
from voiceanon.eval.metrics.eer import EerVariant, EqualErrorRate, equal_error_rate
from voiceanon.eval.metrics.eer_intervals import (
    EerDifference,
    EerInterval,
    eer_difference,
    eer_interval,
    mean_eer_interval,
)
from voiceanon.eval.metrics.embeddings import cosine_scores, normalised_mean
from voiceanon.eval.metrics.kinds import Meaning, MetricWarning
from voiceanon.eval.metrics.legal import LegalLinkability, better_candidates, legal_linkability
from voiceanon.eval.metrics.linkability import LinkabilityDsys, linkability_dsys
from voiceanon.eval.metrics.pav import calibrate_scores, hull_vertices
from voiceanon.eval.metrics.pitch import (
    MeanPitchCorrelation,
    PitchCorrelation,
    mean_pitch_correlation,
    pitch_correlation,
)
from voiceanon.eval.metrics.rank_disclosure import RankDisclosure, rank_disclosure
from voiceanon.eval.metrics.roc import area_under_curve
from voiceanon.eval.metrics.scores import ScoreBlocks, Scores
from voiceanon.eval.metrics.similarity import (
    SimilarityMatrix,
    VoiceDistinctiveness,
    similarity_matrix,
    voice_distinctiveness,
)
from voiceanon.eval.metrics.singling_out import TRIVIAL_ATTACKER, SinglingOut, singling_out
from voiceanon.eval.metrics.uar import (
    UnweightedAverageRecall,
    mean_over_folds,
    unweighted_average_recall,
)
from voiceanon.eval.metrics.wer import WordErrorRate, normalise_reference, word_error_rate
from voiceanon.eval.metrics.wer_intervals import WerInterval, wer_interval
from voiceanon.eval.metrics.zebra import EceCurve, Zebra, ece_curve, zebra

__all__ = [
    "CATEGORY_EERS",
    "TRIVIAL_ATTACKER",
    "VPC2022_WEIGHTS",
    "CombinedScore",
    "EceCurve",
    "EerDifference",
    "EerInterval",
    "EerVariant",
    "EqualErrorRate",
    "GenderGap",
    "LegalLinkability",
    "LikelihoodRatioCost",
    "LinkabilityDsys",
    "MeanPitchCorrelation",
    "Meaning",
    "MetricWarning",
    "PitchCorrelation",
    "PrivacyCategory",
    "RankDisclosure",
    "RelativeChange",
    "ScoreBlocks",
    "Scores",
    "SimilarityMatrix",
    "SinglingOut",
    "SystemRates",
    "UnweightedAverageRecall",
    "VoiceDistinctiveness",
    "WerInterval",
    "WordErrorRate",
    "Zebra",
    "area_under_curve",
    "better_candidates",
    "calibrate_scores",
    "combined_scores",
    "cosine_scores",
    "ece_curve",
    "eer_difference",
    "eer_interval",
    "equal_error_rate",
    "gender_gap",
    "hull_vertices",
    "legal_linkability",
    "likelihood_ratio_cost",
    "linkability_dsys",
    "mean_eer_interval",
    "mean_over_folds",
    "mean_pitch_correlation",
    "normalise_reference",
    "normalised_mean",
    "pareto_front",
    "pitch_correlation",
    "privacy_categories",
    "rank_disclosure",
    "relative_change",
    "similarity_matrix",
    "singling_out",
    "unweighted_average_recall",
    "voice_distinctiveness",
    "vpc2022_average",
    "wer_interval",
    "word_error_rate",
    "zebra",
]
