import pytest
import torch

from voiceanon import ConfigError
from voiceanon.devices import arithmetic, check_precision, resolve_device

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
FLAGS = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)


def settings():
    return [flag.fp32_precision for flag in FLAGS]


@pytest.mark.parametrize(("precision", "expected"), [("float32", "ieee"), ("tf32", "tf32")])
def test_tf32_is_set_inside_only_also_after_an_error(precision, expected):
    before = settings(), torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32

    def work():
        with arithmetic(precision, CUDA):
            assert settings() == [expected] * 3
            raise KeyError

    with pytest.raises(KeyError):
        work()
    after = settings(), torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    assert after == before


def test_the_cpu_touches_no_flag():
    before = settings()
    with arithmetic("float32", CPU):
        assert settings() == before


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_autocast(precision):
    with arithmetic(precision, CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == getattr(torch, precision)
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "", "meta", None, 3.0])
def test_unknown_devices_are_refused(name):
    with pytest.raises(ConfigError, match="device"):
        resolve_device(name)


def test_absent_devices_are_refused():
    with pytest.raises(ConfigError, match="CUDA devices"):
        resolve_device("cuda:99")


def test_auto_is_cuda_if_there_is_any():
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert resolve_device("auto").type == expected


def test_unknown_precision_is_refused():
    with pytest.raises(ConfigError, match="bfloat16"):
        check_precision("fp16")
