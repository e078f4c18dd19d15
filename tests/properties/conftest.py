import pytest
import torch

from properties import systems
from voiceanon import registry


@pytest.fixture(scope="package", autouse=True)
def own_systems_registered():
    """Our own systems are registered while these tests run, and unknown to all others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_registered", dict(registry._registered))
        systems.register_own()
        yield


@pytest.fixture
def passing():
    """A system that changes nothing, for what the shared steps alone are responsible for."""
    return systems.PassThrough()


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """Small networks on short signals lose more by waiting for a second thread than they gain."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def systems_under_test():
    for name in systems.SYSTEM_IDS:
        yield pytest.param(name, marks=[pytest.mark.slow] if name in systems.SIBLINGS else [])


@pytest.fixture(scope="package", params=systems_under_test())
def system_id(request):
    return request.param


@pytest.fixture(scope="package")
def system(system_id, own_systems_registered):
    """Every system in turn, built once; a test that changes it takes a copy."""
    return systems.build(system_id)
