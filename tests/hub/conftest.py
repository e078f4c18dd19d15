"""Every test here has caches of its own and no proxy between it and the server on loopback."""

import dataclasses
import socket

import pytest
from hub_server import FileServer
from huggingface_hub import constants, file_download

from voiceanon import registry, system_info
from voiceanon.hub import transfer

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_SETTINGS = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HOME", "HF_TOKEN", "VOICEANON_CACHE")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Our cache, empty; the Hub's cache is its neighbour."""
    for name in _SETTINGS + _PROXIES + tuple(name.upper() for name in _PROXIES):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "cache"
    monkeypatch.setenv("VOICEANON_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(transfer, "FIRST_PAUSE_SECONDS", 0.0)
    return folder


@pytest.fixture
def hub_cache(tmp_path):
    return tmp_path / "hub"


@pytest.fixture
def server():
    server = FileServer()
    yield server
    server.close()


@pytest.fixture
def serve_release(server, monkeypatch):
    """Call it with a system, a path on the server and a folder: its release is on loopback then."""

    def serve(name, path, folder):
        info = system_info(name)
        files = []
        for file in info.weights:
            if file.repository is None and (folder / file.name).is_file():
                address = server.release(path + file.name, (folder / file.name).read_bytes())
                file = dataclasses.replace(file, address=address)
            files.append(file)
        info = dataclasses.replace(info, weights=tuple(files))
        entry = dataclasses.replace(registry._find(name), info=info)
        known = {**registry._built_in(), info.id: entry}
        monkeypatch.setattr(registry, "_built_in", lambda: known)
        return info

    return serve


@pytest.fixture
def hub(server, monkeypatch):
    """The server, and the Hub's client pointed at it.

    The client reads HF_ENDPOINT when it is imported; tests in a process of their own use that.
    """
    template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    for module in (constants, file_download):
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    return server


@pytest.fixture
def no_sockets(monkeypatch):
    """Call it: from then on connections fail, and the list that it gives names them."""

    def block():
        tried = []

        def refuse(self, address):
            tried.append(address)
            raise OSError(f"no connection to {address} is allowed")

        for name in ("connect", "connect_ex"):
            monkeypatch.setattr(socket.socket, name, refuse)
        return tried

    return block
