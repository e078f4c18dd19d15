"""x-vectors against Kaldi's stored values; chunks; statistics; batches; published entries."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.speaker.tdnn_xvector import (
    LOST_FRAMES,
    TdnnXVector,
    XVectorConfig,
    config_from_entries,
    is_unused_entry,
    pool_statistics,
)
from voiceanon.errors import WeightsError
from voiceanon.hub import kaldi

GOLDEN = Path(__file__).parents[1] / "golden" / "xvector_nsf"
SMALL = np.load(GOLDEN / "xvector_small.npz")
SMALL_ENTRIES = "kaldi/xvector_small_entries.json"
OFFICIAL_ENTRIES = "entries_2_xvect_extr_final.raw.json"

TOLERANCE = 2e-4
"""Absolute, for values up to 4: Kaldi takes variances from squares, in float32."""

STAGE_TOLERANCE = 2e-5
"""Absolute, for values up to 13."""

BATCH_TOLERANCE = 2e-5
"""Products of matrices of another height may add up in another order."""


def entry_shapes(name):
    return json.loads((GOLDEN / name).read_text())


def kept(entries):
    return {name: value for name, value in entries.items() if not is_unused_entry(name)}


def seeded(name):
    shapes = entry_shapes(name)
    model = TdnnXVector(config_from_entries(shapes))
    model.load_state_dict(kept(seeded_state_dict(shapes)), strict=True)
    return model


@pytest.fixture(scope="module")
def model():
    return seeded(SMALL_ENTRIES)


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def features(rows=203):
    return torch.from_numpy(SMALL["feats"][:rows])


def run(model, x, **options):
    return model(x[None], torch.tensor([len(x)], device=x.device), **options)[0]


def close(result, expected, tolerance=TOLERANCE):
    expected = torch.as_tensor(expected)
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)


# Stages.


def test_frame_features(model):
    result = model.frame_features(features()[None])[0]
    close(result, SMALL["stage_tdnn5_batchnorm"], STAGE_TOLERANCE)


def test_statistics():
    hidden = torch.from_numpy(SMALL["stage_tdnn5_batchnorm"])
    result = pool_statistics(hidden[None], torch.tensor([len(hidden)]))[0]
    close(result, SMALL["stage_stats"], STAGE_TOLERANCE)


def test_embedding(model):
    hidden = torch.from_numpy(SMALL["stage_tdnn5_batchnorm"])
    result = model.embed(hidden[None], torch.tensor([len(hidden)]))[0]
    close(result, SMALL["xvector_chunk10000"])


# The chain.


@pytest.mark.parametrize(
    ("rows", "chunk_frames", "name"),
    [
        (203, 10_000, "xvector_chunk10000"),
        (203, 25, "xvector_chunk25"),
        (17, 10_000, "xvector_17frames"),
        (137, 50, "xvector_137frames_chunk50"),
    ],
)
def test_stored_xvectors(model, rows, chunk_frames, name):
    close(run(model, features(rows), chunk_frames=chunk_frames), SMALL[name])


@pytest.mark.parametrize("chunk_frames", [25, 10_000])
def test_official_sizes(chunk_frames):
    stored = np.load(GOLDEN / "xvector_full_size.npz")
    model = seeded(OFFICIAL_ENTRIES)
    assert model.config == XVectorConfig()
    x = torch.from_numpy(stored["feats"])
    close(run(model, x, chunk_frames=chunk_frames), stored[f"xvector_chunk{chunk_frames}"])


def test_published_entries_are_those_of_a_file():
    entries = kaldi.nnet3_entries(kaldi.read_nnet3(GOLDEN / "kaldi" / "xvector_small.raw"))
    model = TdnnXVector(config_from_entries({k: tuple(v.shape) for k, v in entries.items()}))
    model.load_state_dict(kept(entries), strict=True)
    close(run(model, features(), chunk_frames=10_000), SMALL["xvector_chunk10000"])


def test_unused_entries():
    names = [name for name in entry_shapes(OFFICIAL_ENTRIES) if is_unused_entry(name)]
    layers = {name.rsplit(".", 1)[0] for name in names}
    assert layers == {"tdnn6.batchnorm", "tdnn7.affine", "tdnn7.batchnorm", "output.affine"}


# Chunks, by their definition.


def plain(model, x, chunk_frames, min_chunk_frames=25):
    total = 0
    for start in range(0, len(x), chunk_frames):
        chunk = x[start : start + chunk_frames]
        missing = max(0, min_chunk_frames - len(chunk))
        front = missing // 2
        rows = [chunk[:1]] * front + [chunk] + [chunk[-1:]] * (missing - front)
        hidden = model.frame_features(torch.cat(rows)[None])
        stats = torch.cat((hidden.mean(1), hidden.std(1, correction=0)), dim=1)
        total = total + len(chunk) * model.tdnn6["affine"](stats)[0]
    return total / len(x)


@pytest.mark.parametrize("frames", [1, 14, 24, 25, 26, 50, 51, 120])
@pytest.mark.parametrize("chunk_frames", [20, 25, 40, 10_000])
def test_chunks(model, frames, chunk_frames):
    x = features(frames)
    result = run(model, x, chunk_frames=chunk_frames)
    close(result, plain(model, x, chunk_frames), BATCH_TOLERANCE)


def test_other_shortest_chunk(model):
    x = features(36)
    result = run(model, x, chunk_frames=30, min_chunk_frames=21)
    close(result, plain(model, x, 30, 21), BATCH_TOLERANCE)


def test_a_unit_that_does_not_move_has_the_floor_as_deviation():
    hidden = torch.full((1, LOST_FRAMES, 3), 7.3)
    result = pool_statistics(hidden, torch.tensor([LOST_FRAMES]))[0]
    close(result, torch.tensor([7.3] * 3 + [1e-5] * 3), 1e-6)


@pytest.mark.parametrize("chunk_frames", [25, 50, 10_000])
def test_batch_equals_single_recordings(model, chunk_frames):
    frames = torch.tensor([203, 17, 137, 1, 50])
    batch = torch.full((5, 210, 30), torch.nan)
    for row, count in zip(batch, frames, strict=True):
        row[:count] = features(count)
    result = model(batch, frames, chunk_frames=chunk_frames)
    for own, count in zip(result, frames, strict=True):
        alone = run(model, features(count), chunk_frames=chunk_frames)
        close(own, alone, BATCH_TOLERANCE)


def test_default_dtype_changes_nothing(model):
    expected = run(model, features(40))
    torch.set_default_dtype(torch.float64)
    try:
        result = run(model, features(40))
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(result, expected)
    assert result.dtype == expected.dtype


def test_autocast_changes_nothing(model):
    with torch.autocast("cpu", torch.bfloat16):
        result = run(model, features())
    assert torch.equal(result, run(model, features()))


@pytest.mark.gpu
def test_gpu_equals_cpu():
    model = seeded(SMALL_ENTRIES).cuda()
    close(run(model, features().cuda(), chunk_frames=25).cpu(), SMALL["xvector_chunk25"])


# Files that are none.


def test_missing_layer_is_refused():
    entries = entry_shapes(OFFICIAL_ENTRIES)
    del entries["tdnn3.affine.weight"]
    with pytest.raises(WeightsError, match=r"'tdnn3\.affine\.weight' is missing"):
        config_from_entries(entries)


@pytest.mark.parametrize("shape", [[512, 1535], [512], [0, 1536]])
def test_wrong_shape_is_refused(shape):
    entries = {**entry_shapes(OFFICIAL_ENTRIES), "tdnn3.affine.weight": shape}
    with pytest.raises(WeightsError, match=r"'tdnn3\.affine\.weight' has the shape"):
        config_from_entries(entries)


def test_layers_that_do_not_fit_each_other_are_refused():
    entries = {**entry_shapes(OFFICIAL_ENTRIES), "tdnn3.affine.weight": [512, 1539]}
    with pytest.raises(WeightsError, match="must be equal"):
        config_from_entries(entries)
