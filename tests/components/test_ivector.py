"""I-vectors against Kaldi's stored values and against plain code; speakers; batches."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from components import plain_ivector

from voiceanon.components.speaker import conjugate_gradient
from voiceanon.components.speaker.ivector import OnlineIvectors
from voiceanon.components.speaker.ivector_config import (
    IvectorConfig,
    config_from_entries,
    ivector_entries,
    random_entries,
)
from voiceanon.errors import WeightsError
from voiceanon.hub import kaldi

GOLDEN = Path(__file__).parents[1] / "golden" / "xvector_nsf"
STORED = np.load(GOLDEN / "ivector.npz")

TOLERANCE = 1e-4
"""Absolute, for values up to 1.2: Kaldi computes features and posteriors in float32."""

PLAIN_TOLERANCE = 2e-6
"""The result is float32; all before it is float64 in both."""

STEP_TOLERANCE = 1e-7
"""Steps on badly conditioned systems magnify the last bits of float64."""


def stored_entries():
    folder = GOLDEN / "kaldi"
    mixture = kaldi.read_diag_gmm(folder / "ivector_final.dubm")
    extractor = kaldi.read_ivector_extractor(folder / "ivector_final.ie")
    return ivector_entries(
        lda=kaldi.read_matrix(folder / "ivector_final.mat"),
        weights=mixture.weights,
        means_invvars=mixture.means_invvars,
        inv_vars=mixture.inv_vars,
        projections=extractor.projections,
        inverse_covariances=extractor.inverse_covariances,
        prior_offset=extractor.prior_offset,
        cmvn_stats=kaldi.read_matrix(folder / "ivector_global_cmvn.stats"),
    )


def loaded(entries):
    config = config_from_entries({name: tuple(v.shape) for name, v in entries.items()})
    model = OnlineIvectors(config)
    model.load_state_dict(entries, strict=True)
    return model


@pytest.fixture(scope="module")
def model():
    return loaded(stored_entries())


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def close(result, expected, tolerance=TOLERANCE):
    expected = torch.as_tensor(expected).to(result.dtype)
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)


def features():
    return torch.from_numpy(STORED["feats_utt1"])[None]


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# Stages.


def test_raw_features(model):
    result = model.project(features().double(), torch.tensor([235]))
    close(result[0], STORED["lda_raw"])


def test_mean_normalised_features(model):
    _, first = model.adapt(features()[:, :1], torch.tensor([1]))
    nothing = first._replace(feature_sum=0 * first.feature_sum, feature_frames=torch.zeros(1))
    clean = model.subtract_mean(features().double(), nothing)
    close(model.project(clean, torch.tensor([235]))[0], STORED["lda_cmvn"])


def test_posteriors(model):
    entries = {name: value.numpy() for name, value in model.state_dict().items()}
    frames = torch.from_numpy(STORED["lda_cmvn"]).double()
    result = model.posteriors(frames[None])[0]
    for row, frame in zip(result, frames, strict=True):
        expected = torch.zeros(16, dtype=torch.float64)
        for g, weight in plain_ivector.posterior(entries, frame.numpy()):
            expected[g] = weight
        close(row, expected, 1e-12)
    assert (result > 0).sum(1).unique().numel() > 2


# The chain.


def test_stored_ivectors(model):
    result = model(features(), torch.tensor([235]))
    assert result.shape == (1, 24, 30)
    assert result.dtype == torch.float32
    close(result[0], STORED["ivectors_utt1"])


def test_stored_ivectors_of_a_second_utterance(model):
    _, state = model.adapt(features(), torch.tensor([235]))
    second = features()[:, 85:].flip(1)
    result, _ = model.adapt(second, torch.tensor([150]), state)
    close(result[0], STORED["ivectors_utt2_after_utt1"])
    assert (result - model(second, torch.tensor([150]))).abs().max() > 0.1


@pytest.mark.parametrize("frames", [1, 9, 10, 11, 30])
def test_number_of_ivectors(model, frames):
    result = model(features()[:, :frames], torch.tensor([frames]))
    assert result.shape == (1, math.ceil(frames / 10), 30)


@pytest.mark.parametrize("lengths", [(1, 1), (5, 700), (700, 500), (1_300, 400, 21)])
def test_speaker_is_what_the_definition_says(lengths):
    config = IvectorConfig(inputs=4, context=2, width=3, gaussians=7, ivector=5)
    entries = random_entries(config, torch.Generator().manual_seed(3))
    entries["global_mean"] = noise(4, seed=1).double()
    model = loaded(entries)
    plain_entries = {name: value.numpy() for name, value in entries.items()}
    state = expected_state = None
    for seed, length in enumerate(lengths):
        x = 0.7 + noise(length, 4, seed=seed)
        result, state = model.adapt(x[None], torch.tensor([length]), state)
        expected, expected_state = plain_ivector.ivectors(
            config, plain_entries, x.double().numpy(), expected_state
        )
        close(result[0], expected, PLAIN_TOLERANCE)


def test_batch_equals_single_recordings(model):
    x = features().repeat(4, 2, 1)
    frames = torch.tensor([470, 1, 40, 235])
    for row, count in zip(x, frames, strict=True):
        row[count:] = torch.nan
    first, state = model.adapt(x, frames)
    second, _ = model.adapt(x, frames, state)
    for i, count in enumerate(frames):
        own = slice(0, math.ceil(count / 10))
        alone, known = model.adapt(x[i : i + 1, :count], count[None])
        again, _ = model.adapt(x[i : i + 1, :count], count[None], known)
        close(first[i, own], alone[0], PLAIN_TOLERANCE)
        close(second[i, own], again[0], PLAIN_TOLERANCE)
    assert first.isfinite().all()


def test_default_dtype_changes_nothing(model):
    expected = model.adapt(features(), torch.tensor([235]))[1].linear
    torch.set_default_dtype(torch.float64)
    try:
        result = model.adapt(features(), torch.tensor([235]))[1].linear
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(result, expected)
    assert result.dtype == expected.dtype


@pytest.mark.gpu
def test_gpu_equals_cpu():
    model = loaded(stored_entries()).cuda()
    frames = torch.tensor([235], device="cuda")
    result, state = model.adapt(features().cuda(), frames)
    close(result[0].cpu(), STORED["ivectors_utt1"])
    second = features()[:, 85:].flip(1).cuda()
    result, _ = model.adapt(second, frames - 85, state)
    close(result[0].cpu(), STORED["ivectors_utt2_after_utt1"])


# Conjugate gradient.


def systems(condition, size=30, batch=6):
    draws = np.random.default_rng(0)
    for _ in range(batch):
        basis, _ = np.linalg.qr(draws.standard_normal((size, size)))
        values = np.geomspace(1.0, condition, size)
        yield basis @ np.diag(values) @ basis.T, draws.standard_normal(size)


def approached(cases):
    quadratic, linear = (torch.from_numpy(np.stack(part)) for part in zip(*cases, strict=True))
    return conjugate_gradient.approach(quadratic, linear, torch.zeros_like(linear))


# Well and badly conditioned, so that it ends converged, on its way, and farther off than before.
@pytest.mark.parametrize(("condition", "exact"), [(1.0, 0), (30.0, 0), (1e3, 0), (1e6, 6)])
def test_conjugate_gradient(condition, exact):
    cases = list(systems(condition))
    result = approached(cases)
    count = 0
    for (quadratic, linear), own in zip(cases, result, strict=True):
        expected, solved = plain_ivector.conjugate_gradient(quadratic, linear, 0 * linear)
        count += solved
        close(own, expected, STEP_TOLERANCE)
    assert count == exact


def test_exact_solution_is_of_those_systems_that_need_it():
    cases = [next(systems(1e6)), next(systems(30.0))]
    result = approached(cases)
    for case, own in zip(cases, result, strict=True):
        close(own, plain_ivector.conjugate_gradient(*case, 0 * case[1])[0], 1e-9)


# Entries.


def test_constants_of_the_mixture_are_those_of_the_file():
    mixture = kaldi.read_diag_gmm(GOLDEN / "kaldi" / "ivector_final.dubm")
    close(stored_entries()["gconsts"].float(), mixture.gconsts, 1e-4)


def test_sizes_are_read_from_shapes(model):
    assert model.config == IvectorConfig(width=20, gaussians=16, ivector=30)


def test_parts_that_do_not_belong_together_are_refused():
    entries = {name: tuple(value.shape) for name, value in stored_entries().items()}
    with pytest.raises(WeightsError, match="'gconsts' has the shape"):
        config_from_entries({**entries, "gconsts": (15,)})


def test_without_entries_ivectors_are_zero():
    model = OnlineIvectors(IvectorConfig(gaussians=8, ivector=6))
    assert torch.equal(model(features(), torch.tensor([235])), torch.zeros(1, 24, 6))


def test_random_entries_have_the_official_sizes():
    config = IvectorConfig()
    entries = random_entries(config, torch.Generator().manual_seed(0))
    model = loaded(entries)
    assert model.config == config
    assert entries["quadratic_terms"].shape == (512, 100, 100)
    result = model(10 * noise(1, 31, 40), torch.tensor([31]))
    assert result.isfinite().all()
    assert result.std() > 0.01
