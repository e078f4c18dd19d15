"""What the caller has set for the whole process neither changes results nor is changed."""

import random

import numpy as np
import pytest
import signals
import torch

from properties import systems
from properties.helpers import assert_close, assert_follows, chunk_limit


@pytest.fixture(scope="module")
def wav():
    return signals.speech(0.8, 44_100)


def test_global_generators_are_neither_used_nor_moved(system, wav):
    def states():
        numpy_state = np.random.get_state()
        return random.getstate(), repr(numpy_state), torch.get_rng_state().tolist()

    results = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        before = states()
        results.append(system.anonymize(wav, 44_100, seed=3))
        system.anonymize(wav, 44_100)
        assert states() == before
    assert torch.equal(*results)


def test_a_seeded_process_still_draws_new_voices(system, wav):
    targets = []
    for _ in range(4):
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        targets.append(system.anonymize(wav, 44_100, return_report=True)[1].target)
    assert any(target != targets[0] for target in targets)


def test_the_default_dtype_has_no_effect(system, wav):
    limit = chunk_limit(system, 0.4)
    long = signals.speech(2.1 * limit, system.sample_rate)
    expected = system.anonymize(wav, 44_100, seed=3)
    at_model_rate = system.anonymize(long, seed=3, chunk_seconds=limit)
    torch.set_default_dtype(torch.float64)
    try:
        result = system.anonymize(wav, 44_100, seed=3)
        chunked = system.anonymize(long, seed=3, chunk_seconds=limit)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert result.dtype == chunked.dtype == torch.float32
    assert_close(result, expected, 1e-6)
    assert_close(chunked, at_model_rate, 1e-6)


def test_the_default_device_has_no_effect(system, wav):
    """As after ``torch.set_default_device("cuda")``."""
    expected = system.anonymize(wav, 44_100, seed=3)
    array = wav.numpy()
    with torch.device("meta"):
        result = system.anonymize(wav, 44_100, seed=3)
        array_result = system.anonymize(array, 44_100, seed=3)
        again = systems.build(system.info.id)
    assert torch.equal(result, expected)
    assert np.array_equal(array_result, expected.numpy())
    assert again.device == torch.device("cpu")
    assert torch.equal(again.anonymize(wav, 44_100, seed=3), expected)


def test_the_number_of_threads_has_no_effect(system):
    wav = signals.speech(3.0, 44_100)
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            results.append(system.anonymize(wav, 44_100, seed=3))
        finally:
            torch.set_num_threads(before)
    for result in results[1:]:
        assert_follows(system, result, results[0])


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_grad_mode_has_no_effect(system, wav, mode):
    expected = system.anonymize(wav, 44_100, seed=3)
    with mode():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        result = system.anonymize(wav, 44_100, seed=3)
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
    assert torch.equal(result, expected)
