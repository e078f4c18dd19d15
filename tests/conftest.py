"""What holds for every test, such as that nothing talks to the internet, and a fixture for many."""

import ipaddress
import socket
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def no_network(request, monkeypatch):
    """Connections that leave the machine fail, except under the marker ``network``."""
    if request.node.get_closest_marker("network"):
        return
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))


@pytest.fixture(scope="module")
def one_thread():
    """Small networks lose more by waiting for a second thread than they gain."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _guarded(connect):
    def guarded(self, address):
        if not _stays_here(self, address):
            # No Exception, so that no code under test can swallow it.
            pytest.fail(f"a test tried to connect to {address!r}")
        return connect(self, address)

    return guarded


def _stays_here(sock, address):
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    host = address[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
