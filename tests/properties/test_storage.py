"""The result is the caller's own: no shared memory, no graph, and the input as it was."""

import numpy as np
import pytest
import signals
import torch

from properties import systems


def forms(rate):
    wav = signals.speech(0.5, rate)
    return {
        "mono": wav,
        "channels": torch.stack([wav, 0.5 * wav]),
        "silence": torch.zeros(8_000),
        "one silent channel": torch.stack([wav, torch.zeros_like(wav)]),
    }


def memory(tensor):
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


@pytest.mark.parametrize("rate", [16_000, 44_100])
@pytest.mark.parametrize("form", forms(16_000))
def test_results_own_their_memory_and_inputs_stay(system, rate, form):
    wav = forms(rate)[form]
    before = wav.clone()
    result = system.anonymize(wav, rate, seed=1)
    assert torch.equal(wav, before)
    assert memory(result)[0] != memory(wav)[0]
    assert memory(result)[1] == result.numel() * 4  # no larger batch is kept alive
    array = wav.numpy()
    out = system.anonymize(array, rate, seed=1)
    assert not np.shares_memory(out, array)
    out += 1
    assert torch.equal(wav, before)
    assert torch.equal(system.anonymize(wav, rate, seed=1), result)


@pytest.mark.parametrize("keeps_length", [True, False])
@pytest.mark.parametrize("loudness", ["published", "none"])
def test_a_system_that_hands_back_its_batch_shares_no_memory(keeps_length, loudness):
    wavs = [signals.speech(0.5), torch.stack([signals.speech(0.4)] * 2)]
    before = [wav.clone() for wav in wavs]
    results = systems.PassThrough(keeps_length=keeps_length).anonymize_batch(
        wavs, loudness=loudness
    )
    pointers = {memory(tensor)[0] for tensor in (*wavs, *results)}
    assert len(pointers) == 4
    for result in results:
        result.zero_()
    assert all(torch.equal(*pair) for pair in zip(wavs, before, strict=True))


def test_a_system_that_writes_into_its_batch_does_not_reach_the_input():
    wav = signals.speech(0.5)
    before = wav.clone()
    for chunk_seconds in (None, 0.2):
        passing = systems.PassThrough(lambda batch: batch.zero_(), overlap_seconds=0.05)
        passing.anonymize(wav, chunk_seconds=chunk_seconds)
        passing.anonymize(wav.numpy(), chunk_seconds=chunk_seconds)
    assert torch.equal(wav, before)


def test_items_of_a_batch_share_no_memory(system):
    wavs = [signals.speech(seconds) for seconds in (0.4, 0.5, 0.4)]
    results = system.anonymize_batch(wavs, 16_000, seed=1, keys=list("abc"))
    assert len({memory(result)[0] for result in results}) == 3
    arrays = system.anonymize_batch([wav.numpy() for wav in wavs], 16_000, seed=1, keys=list("abc"))
    assert not any(np.shares_memory(arrays[0], other) for other in arrays[1:])


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_results_have_no_graph(system, rate):
    wav = signals.speech(0.4, rate).requires_grad_()
    twice = wav * 2
    for audio in (wav, twice):
        result = system.anonymize(audio, rate, seed=1)
        assert not result.requires_grad
        assert result.grad_fn is None
    assert wav.requires_grad
    assert wav.grad is None
    assert torch.equal(
        system.anonymize(wav.detach(), rate, seed=1), system.anonymize(wav, rate, seed=1)
    )


def test_results_have_no_graph_although_the_system_could_be_trained():
    trainable = systems.Filter()
    assert all(parameter.requires_grad for parameter in trainable.parameters())
    result = trainable.anonymize(signals.speech(0.4))
    assert not result.requires_grad
    assert not result.is_inference()


def test_results_can_take_part_in_training(system):
    result = system.anonymize(signals.speech(0.4), 16_000, seed=1)
    assert not result.is_inference()
    weight = torch.ones(1, requires_grad=True)
    (weight * result).sum().backward()
    assert weight.grad is not None
    result.add_(1)


def test_arrays_can_be_written(system):
    for audio in (signals.speech(0.4).numpy(), signals.speech(0.4, 44_100).numpy()):
        result = system.anonymize(audio, seed=1)
        assert result.flags.writeable
        assert result.flags.c_contiguous
