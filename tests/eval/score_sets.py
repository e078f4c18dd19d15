"""The score sets of the golden file, made again from their recipes."""

import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden" / "eval"
SCORES = json.loads((GOLDEN / "scores.json").read_text())
METRIC_SETS = tuple(name for name in SCORES if name != "exact_tie_5_10")
"""All but the one that has equal error rates alone."""

NORMAL_SETS = {
    "separated": (101, (4, 0.7, 500), (-4, 0.7, 5000)),
    "overlap_vpc_f": (102, (0.42, 0.14, 548), (0.08, 0.12, 11196)),
    "unbalanced": (104, (1, 1, 1000), (-1, 1, 100000)),
    "llr_calibrated": (105, (2, 2, 2000), (-2, 2, 20000)),
    "chance": (107, (0, 1, 449), (0.02, 1, 9457)),
    "reversed": (108, (-0.3, 1, 548), (0, 1, 11196)),
}


@cache
def score_set(name):
    """Targets and non-targets, float64, checked against the stored digest."""
    golden = SCORES[name]
    if "target" in golden:
        scores = np.array(golden["target"]), np.array(golden["nontarget"])
    elif name == "llr_shifted":
        scores = tuple(side + 3.0 for side in score_set("llr_calibrated"))
    elif name == "rounded_ties":
        random = np.random.RandomState(109)
        scores = tuple(
            np.round(random.normal(m, 0.15, n), 2) for m, n in ((0.35, 600), (0.15, 6000))
        )
    else:
        seed, *sides = NORMAL_SETS[name]
        random = np.random.RandomState(seed)
        scores = tuple(random.normal(*side) for side in sides)
    for side, kind in zip(scores, ("target", "nontarget"), strict=True):
        digest = hashlib.sha256(side.astype("<f8").tobytes()).hexdigest()[:16]
        assert golden.get(f"sha256_{kind}_f64le", digest) == digest
    return scores


def small_sets(count, *, seed=0):
    """Random sets of 1 to 12 scores per class, float32, most of them with ties."""
    random = np.random.RandomState(seed)
    for _ in range(count):
        decimals = random.choice([0, 1, 2, 6])
        yield tuple(
            np.round(random.normal(shift, 1, random.randint(1, 13)), decimals).astype(np.float32)
            for shift in (0.5, 0.0)
        )
