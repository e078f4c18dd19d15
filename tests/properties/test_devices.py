"""P27, P28: devices, precision."""

import copy
import logging
import os

import pytest
import signals
import torch

from properties import systems
from properties.helpers import SRC, assert_close, assert_follows
from voiceanon import ConfigError
from voiceanon.hub.pool import Pool

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def tensors_of(value, seen=None):
    """Every tensor that an object holds, through attributes and containers."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Pool):
        return  # stays in main memory by design; what `convert` needs of it is moved there
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from tensors_of(item, seen)
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        yield from tensors_of(vars(value), seen)


def devices_of(system):
    return {tensor.device.type for tensor in tensors_of(vars(system))}


def test_to_leaves_no_tensor_behind(system):
    moved = copy.deepcopy(system).to("meta")
    assert moved.device == torch.device("meta")
    assert devices_of(moved) == {"meta"}
    assert system.device == torch.device("cpu")


def test_to_moves_what_convert_has_made(system):
    """Windows, filters and the like that are made at first use must move, too."""
    used = copy.deepcopy(system)
    used.anonymize(signals.speech(0.3), 16_000, seed=1)
    used.to("meta")
    assert devices_of(used) == {"meta"}


def test_the_device_can_be_read(system):
    assert system.device == torch.device("cpu")
    assert system.anonymize(signals.speech(0.3), 16_000, return_report=True)[1].device == "cpu"


def test_a_device_may_be_an_object():
    assert systems.build("test-filter", device=torch.device("cpu")).device.type == "cpu"


def test_auto_takes_what_there_is(system_id):
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert systems.build(system_id, device="auto").device.type == expected


@pytest.mark.parametrize(
    "name",
    ["gpu", "CPU", "", "cuda:x", "cuda:99", "meta", "xpu", None, 1.5, torch.device("meta"), "cpu "],
)
def test_unknown_devices_raise(name):
    with pytest.raises(ConfigError, match="device: "):
        systems.build("test-filter", device=name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_missing_device_raises_and_names_the_way_out(name):
    with pytest.raises(ConfigError, match=r"device: .*0 CUDA devices.*'auto'"):
        systems.build("test-filter", device=name)


def test_the_choice_is_logged_once(system_id, caplog):
    with caplog.at_level(logging.INFO, logger="voiceanon"):
        system = systems.build(system_id)
        system.anonymize(signals.speech(0.3), 16_000)
    said = [record for record in caplog.records if "device" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.INFO]
    assert said[0].name.startswith("voiceanon")
    assert "cpu" in said[0].getMessage()


def test_visible_devices_are_never_touched(system_id, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    before = dict(os.environ)
    systems.build(system_id, device="auto").anonymize(signals.speech(0.3), 16_000)
    assert dict(os.environ) == before
    sources = [path.read_text(encoding="utf-8") for path in SRC.rglob("voiceanon/**/*.py")]
    assert not any("CUDA_VISIBLE_DEVICES" in source for source in sources)
    assert sources


def test_results_stay_with_the_input(system):
    wav = signals.speech(0.3)
    assert system.anonymize(wav, 16_000).device == wav.device


def test_saving_the_state_and_loading_it_gives_the_same_system(system):
    other = systems.build(system.info.id)
    other.load_state_dict(system.state_dict())
    wav = signals.speech(0.4)
    expected = system.anonymize(wav, 16_000, seed=1)
    assert torch.equal(other.anonymize(wav, 16_000, seed=1), expected)


def test_a_copy_gives_the_same_result(system):
    wav = signals.speech(0.4)
    expected = system.anonymize(wav, 16_000, seed=1)
    assert torch.equal(copy.deepcopy(system).anonymize(wav, 16_000, seed=1), expected)


@pytest.mark.parametrize("precision", ["half", "", None, "fp16", torch.float16])
def test_unknown_precisions_raise(precision):
    with pytest.raises(ConfigError, match="precision: "):
        systems.build("test-filter", precision=precision)


def test_precision_can_be_read_and_stands_in_the_report(system_id):
    system = systems.build(system_id)
    assert system.precision == "float32"
    wav = signals.speech(0.3)
    system.precision = "bfloat16"
    result, report = system.anonymize(wav, 16_000, seed=1, return_report=True)
    assert report.precision == "bfloat16"
    assert result.dtype == torch.float32
    assert not torch.is_autocast_enabled("cpu")
    with pytest.raises(ConfigError, match="precision: "):
        system.precision = "double"
    assert system.precision == "bfloat16"


def test_autocast_ends_also_after_an_error():
    def fail(batch):
        assert torch.is_autocast_enabled("cpu")
        raise KeyError

    passing = systems.PassThrough(fail)
    passing.precision = "bfloat16"
    with pytest.raises(KeyError):
        passing.anonymize(signals.speech(0.3))
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_gpu_and_cpu_agree(system_id, rate):
    cpu = systems.build(system_id)
    gpu = systems.build(system_id, device="cuda")
    wavs = [signals.speech(seconds, rate) for seconds in (0.4, 2.0)]
    keys = ["a", "b"]
    expected, cpu_reports = cpu.anonymize_batch(wavs, rate, seed=1, keys=keys, return_reports=True)
    for where in ("cpu", "cuda"):
        inputs = [wav.to(where) for wav in wavs]
        results, reports = gpu.anonymize_batch(inputs, rate, seed=1, keys=keys, return_reports=True)
        for result, wanted in zip(results, expected, strict=True):
            assert result.device.type == where
            if not gpu.info.discrete:
                assert_close(result.cpu(), wanted, 1e-3)
        assert [r.target for r in reports] == [r.target for r in cpu_reports]


@pytest.mark.gpu
@needs_cuda
def test_a_batch_follows_single_calls_on_the_gpu(system_id):
    gpu = systems.build(system_id, device="cuda")
    wavs = [signals.speech(seconds) for seconds in (0.3, 6.0, 1.1)]
    keys = list("abc")
    results = gpu.anonymize_batch(wavs, 16_000, seed=1, keys=keys)
    for wav, key, result in zip(wavs, keys, results, strict=True):
        alone = gpu.anonymize(wav, 16_000, seed=1, key=key)
        assert result.shape == alone.shape
        if system_id not in systems.SUCCESSIVE:
            assert_follows(gpu, result, alone)
