"""Draws and pseudo-speakers of `b1` against those of the original programs."""

import json
import re

import numpy as np
import pytest
import torch
from golden import xvector_nsf_files as files

from voiceanon.components.selection.targets import OTHER_SEX
from voiceanon.hub.pool import Pool
from voiceanon.systems.xvector_nsf_config import XVectorNSFConfig
from voiceanon.systems.xvector_nsf_selection import Backend, PreparedPool
from voiceanon.systems.xvector_nsf_targets import published_ranks

STORED = {
    name: torch.from_numpy(x) for name, x in np.load(files.FOLDER / "pool_selection.npz").items()
}
FACTS = json.loads((files.FOLDER / "pool_selection.json").read_text())
KINDS = [name for name in FACTS if not name.startswith("_")]
ORDER, SEXES, SOURCES = FACTS["_pool_order"], FACTS["_pool_gender"], FACTS["_source"]


@pytest.fixture(scope="module")
def pools():
    """By the way of comparing; the pool's order is that of the sorted names, as stored."""
    assert sorted(ORDER) == ORDER
    vectors = STORED["pool"].float()
    pool = Pool({name: row[None] for name, row in zip(ORDER, vectors, strict=True)}, SEXES, {})
    width = vectors.shape[1]
    backend = Backend(width, len(STORED["plda_psi"]))
    names = ("mean_vec", "lda", "plda_mean", "plda_transform", "plda_psi")
    own = ("mean", "transform", "centre", "matrix", "spread")
    backend.load_state_dict({a: STORED[b] for a, b in zip(own, names, strict=True)})
    return {
        distance: PreparedPool.prepare(pool, width, width, how, torch.device("cpu"))
        for distance, how in (("plda", backend), ("cosine", None))
    }


def config_of(kind):
    distance, level, rule, proximity, seed = re.fullmatch(
        r"(\w+)_(spk|utt)_(same|cross)_(\w+)_seed(\d+)", kind
    ).groups()
    config = XVectorNSFConfig(
        distance=distance,
        proximity=proximity,
        cross_gender=rule == "cross",
        candidates=20,
        averaged=10,
    )
    return config, level, seed


@pytest.mark.parametrize("kind", KINDS)
def test_pseudo_speakers(pools, kind):
    config, level, seed = config_of(kind)
    pool = pools[config.distance]
    sexes = [facts["gender"] for facts in SOURCES.values()]
    wanted = [OTHER_SEX[sex] if config.cross_gender else sex for sex in sexes]
    ranked = pool.ranked(STORED["spk_xvectors"], wanted, config)
    # One draw for each speaker, or for each utterance, in the order of the lists.
    utterances = [(place, utt) for place, s in enumerate(SOURCES.values()) for utt in s["utts"]]
    draws = published_ranks(config, seed, len(utterances if level == "utt" else SOURCES))
    for row, (place, utterance) in enumerate(utterances):
        facts = FACTS[kind][utterance]
        ranks = draws[row if level == "utt" else place]
        assert ranked[place] == facts["top20"]
        assert ranks == sorted(facts["sample"])
        chosen = [ranked[place][rank] for rank in ranks]
        assert chosen == facts["averaged"]
        result, expected = pool.averages([chosen])[0], STORED[f"pseudo_{kind}"][row]
        assert torch.equal(result, expected.float())


@pytest.mark.parametrize("seed", FACTS["_python_random_sample_200_100"])
def test_published_draws_of_the_official_size(seed):
    expected = FACTS["_python_random_sample_200_100"][seed]
    ranks = published_ranks(XVectorNSFConfig(), seed, len(expected))
    assert ranks == [sorted(each) for each in expected]
