"""The guard of all tests: what leaves the machine fails, also where the code swallows errors."""

import contextlib
import socket

import pytest

ELSEWHERE = "192.0.2.1"
"""An address that is reserved for documentation."""


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_other_machines_are_out_of_reach(method):
    def careless():
        with socket.socket() as sock, contextlib.suppress(Exception):
            getattr(sock, method)((ELSEWHERE, 443))

    with pytest.raises(pytest.fail.Exception, match=ELSEWHERE):
        careless()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_this_machine_can_be_reached(host):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.socket() as sock:
            sock.connect((host, port))
