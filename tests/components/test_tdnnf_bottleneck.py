"""Bottleneck features against Kaldi's stored values; chunks; batches; both forms of the file."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.content.tdnnf_bottleneck import (
    BLOCK,
    CHUNK_FRAMES,
    CONTEXT_FRAMES,
    SHIFTS,
    TdnnfBottleneckConfig,
    TdnnfBottleneckNet,
    config_from_entries,
    merge_lda,
)
from voiceanon.errors import WeightsError
from voiceanon.hub import kaldi

GOLDEN = Path(__file__).parents[1] / "golden" / "xvector_nsf"
SMALL = np.load(GOLDEN / "bn_small.npz")

TOLERANCE = 2e-5
"""Relative to the largest value: nothing is trained, so that values grow from layer to layer."""

BATCH_TOLERANCE = 2e-6
"""The same: products of matrices of another height may add up in another order."""


def entry_shapes(name):
    return json.loads((GOLDEN / name).read_text())


def loaded(entries):
    entries = merge_lda(entries)
    config = config_from_entries({name: tuple(value.shape) for name, value in entries.items()})
    model = TdnnfBottleneckNet(config)
    model.load_state_dict(entries, strict=True)
    return model


@pytest.fixture(scope="module")
def model():
    return loaded(seeded_state_dict(entry_shapes("kaldi/bn_small_entries.json")))


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def stored(name, file=SMALL):
    return torch.from_numpy(file[name])


def run(model, x, ivectors):
    return model(x[None], torch.tensor([len(x)], device=x.device), ivectors[None])[0]


def close(result, expected, tolerance=TOLERANCE):
    largest = float(expected.abs().max())
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance * largest)


# Stages. A chunk comes with context, of which every layer uses up a part: what is stored are the
# frames behind the rest of it.


def chunk_inputs(start):
    places = torch.arange(start - CONTEXT_FRAMES, start + CHUNK_FRAMES + CONTEXT_FRAMES)
    return stored("feats")[places.clamp_min(0)][None], stored("ivectors")[(start + 24) // 10][None]


@pytest.mark.parametrize(
    ("name", "layers"), [("tdnnf2.noop", 1), ("tdnnf5.noop", 4), ("tdnnf17.noop", 16)]
)
def test_stored_layers(model, name, layers):
    expected = stored(f"stage_{name}")
    for start, kept in ((0, 50), (50, 10)):
        x = model.first_norm(model.first_affine(*chunk_inputs(start)))
        for i in range(2, layers + 2):
            x = model.get_submodule(f"tdnnf{i}")(x)
        left = CONTEXT_FRAMES - 1 - sum(SHIFTS[:layers])
        close(x[0, left : left + kept], expected[start : start + kept])


def test_stored_first_layer(model):
    x = model.first_affine(*chunk_inputs(0))
    left = CONTEXT_FRAMES - 1
    close(x[0, left : left + 50], stored("stage_tdnn1.affine")[:50])
    close(model.first_norm(x)[0, left : left + 50], stored("stage_tdnn1.dropout")[:50])


def test_stored_first_map_of_a_layer(model):
    x = model.first_norm(model.first_affine(*chunk_inputs(0)))
    result = model.get_submodule("tdnnf2.linear")(x)[0]
    # It looks back, so that its first frame is the second of what it gets.
    left = CONTEXT_FRAMES - 2
    close(result[left : left + 50], stored("stage_tdnnf2.linear")[:50])


# The chain.


def test_stored_bottleneck(model):
    close(run(model, stored("feats"), stored("ivectors")), stored("bn"))


@pytest.mark.parametrize("file", ["bn_small.raw", "bn_small_prepared.raw"])
def test_both_forms_of_the_file(file):
    model = loaded(kaldi.nnet3_entries(kaldi.read_nnet3(GOLDEN / "kaldi" / file)))
    close(run(model, stored("feats"), stored("ivectors")), stored("bn"))


def test_official_sizes():
    full = np.load(GOLDEN / "bn_full_size.npz")
    model = loaded(seeded_state_dict(entry_shapes("kaldi/bn_full_entries.json")))
    assert model.config == TdnnfBottleneckConfig()
    close(run(model, stored("feats", full), stored("ivectors", full)), stored("bn", full))


def test_published_entries_are_those_of_the_network():
    entries = entry_shapes("entries_1_asr_am_prefinal-l.raw.json")
    assert config_from_entries(entries) == TdnnfBottleneckConfig()
    with torch.device("meta"):
        model = TdnnfBottleneckNet()
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    assert shapes == entries


def test_context():
    assert CONTEXT_FRAMES == 40


# Chunks.


def test_each_chunk_has_one_ivector(model):
    x = stored("feats")
    ivectors = stored("ivectors").clone()
    expected = run(model, x, ivectors)
    # Chunks are 0-49, 50-99, 100-149, 150-199 and 200-234: middles 24, 74, 124, 174 and 217.
    ivectors[7] += 1
    changed = (run(model, x, ivectors) != expected).any(1)
    assert changed.nonzero().flatten().tolist() == list(range(50, 100))
    ivectors = stored("ivectors").clone()
    ivectors[torch.tensor([i for i in range(24) if i not in (2, 7, 12, 17, 21)])] += 1
    assert torch.equal(run(model, x, ivectors), expected)


@pytest.mark.parametrize("frames", [1, 5, 20, 49, 50, 51, 130])
def test_ends_are_repeated(model, frames):
    x, ivectors = stored("feats")[:frames], stored("ivectors")[: -(-frames // 10)]
    result = run(model, x, ivectors)
    assert result.shape == (frames, 16)
    for start in range(0, frames, 50):
        own = min(50, frames - start)
        places = torch.arange(start - 40, start + own + 40).clamp(0, frames - 1)
        ivector = ivectors[min((start + (own - 1) // 2) // 10, len(ivectors) - 1)]
        hidden = model.first_norm(model.first_affine(x[places][None], ivector[None]))
        close(result[start : start + own], model.bottleneck(hidden)[0], BATCH_TOLERANCE)


def test_batch_equals_single_recordings(model):
    frames = torch.tensor([235, 1, 50, 137])
    x = torch.full((4, 240, 40), torch.nan)
    ivectors = torch.full((4, 24, 30), torch.nan)
    for i, count in enumerate(frames):
        x[i, :count] = stored("feats")[:count]
        ivectors[i, : -(-count // 10)] = stored("ivectors")[: -(-count // 10)]
    result = model(x, frames, ivectors)
    assert result.shape == (4, 240, 16)
    assert result.isfinite().all()
    for own, count in zip(result, frames, strict=True):
        alone = run(model, stored("feats")[:count], stored("ivectors")[: -(-count // 10)])
        close(own[:count], alone, BATCH_TOLERANCE)


def test_more_chunks_than_are_computed_at_once(model):
    copies = BLOCK // 5 + 2
    x = stored("feats").repeat(copies, 1, 1)
    ivectors = stored("ivectors").repeat(copies, 1, 1)
    result = model(x, torch.full((copies,), 235), ivectors)
    close(result, stored("bn").repeat(copies, 1, 1))


def test_autocast_changes_nothing(model):
    expected = run(model, stored("feats"), stored("ivectors"))
    with torch.autocast("cpu", torch.bfloat16):
        result = run(model, stored("feats"), stored("ivectors"))
    assert torch.equal(result, expected)


@pytest.mark.gpu
def test_gpu_equals_cpu():
    model = loaded(seeded_state_dict(entry_shapes("kaldi/bn_small_entries.json"))).cuda()
    result = run(model, stored("feats").cuda(), stored("ivectors").cuda())
    close(result.cpu(), stored("bn"))


# Files that are none.


def test_missing_entry_is_refused():
    entries = entry_shapes("entries_1_asr_am_prefinal-l.raw.json")
    del entries["prefinal-l.weight"]
    with pytest.raises(WeightsError, match=r"'prefinal-l\.weight' is missing"):
        config_from_entries(entries)


def test_network_without_ivector_is_refused():
    entries = entry_shapes("entries_1_asr_am_prefinal-l.raw.json")
    entries["lda.tdnn1.affine.weight"] = [1536, 120]
    with pytest.raises(WeightsError, match="takes 120 values"):
        config_from_entries(entries)
