"""SpeechBrain leaves stand-ins for modules, which break those who look at all that is imported."""

import importlib.util
import sys

import pytest


def pytest_collection_modifyitems(items):
    """Skips what needs SpeechBrain where it is not installed; collecting must not import it."""
    if importlib.util.find_spec("speechbrain") is not None:
        return
    for item in items:
        if item.get_closest_marker("speechbrain"):
            item.add_marker(pytest.mark.skip(reason="SpeechBrain is not installed"))


@pytest.fixture(autouse=True)
def no_stand_ins():
    """Takes them away: hypothesis, in tests that follow, asks each module for its file."""
    yield
    for name, module in list(sys.modules.items()):
        if name.startswith("speechbrain") and "importutils" in type(module).__module__:
            del sys.modules[name]
