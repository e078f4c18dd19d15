"""Files of the Hub: through its own client, into its own cache."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_files import checkpoint, flip, hub_passport, leftovers, sha256, system
from hub_server import COMMIT

import voiceanon.hub
from voiceanon.errors import WeightsError
from voiceanon.hub import fetch
from voiceanon.hub.paths import hub_path
from voiceanon.hub.resolve import resolve

DATA = checkpoint()
ALLOWED = {
    "repo_id", "filename", "revision", "subfolder", "cache_dir", "local_files_only", "token",
}  # fmt: skip


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("name", ["model.bin", "en/high/model.bin"])
def test_a_file_comes_into_the_hubs_cache(hub, hub_cache, name, linked, no_sockets):
    hub.hub("owner/net", name, DATA, linked=linked)
    info = system(hub_passport("owner/net", name, DATA))
    (path,) = resolve(info).values()
    assert path == hub_cache / "models--owner--net" / "snapshots" / COMMIT / name
    assert path.read_bytes() == DATA
    tried = no_sockets()
    assert resolve(info) == {name: path}
    assert resolve(info, local_files_only=True) == {name: path}
    assert tried == []


def test_a_pinned_commit(hub, no_sockets):
    hub.hub("owner/net", "model.bin", DATA, revision=COMMIT)
    info = system(hub_passport("owner/net", "model.bin", revision=COMMIT))
    paths = resolve(info)
    tried = no_sockets()
    assert resolve(info) == paths
    assert tried == []


def test_the_client_tells_nothing_about_the_program(hub):
    hub.hub("owner/net", "model.bin", DATA)
    resolve(system(hub_passport("owner/net", "model.bin")))
    assert {asked.path for asked in hub.asked} == {"/owner/net/resolve/main/model.bin"}
    for asked in hub.asked:
        headers = {name.lower(): value for name, value in asked.headers.items()}
        assert "torch/" not in headers["user-agent"]
        assert "agent/" not in headers["user-agent"]


def test_the_token_goes_to_the_hub_only(hub):
    hub.hub("owner/net", "model.bin", DATA)
    resolve(system(hub_passport("owner/net", "model.bin")), token="hf_secret")
    assert {asked.headers.get("authorization") for asked in hub.asked} == {"Bearer hf_secret"}


@pytest.mark.parametrize("linked", [False, True])
def test_one_wrong_byte_leaves_nothing(hub, hub_cache, linked):
    wrong = DATA[:-1] + bytes([DATA[-1] ^ 1])
    hub.hub("owner/net", "model.bin", wrong, linked=linked)
    with pytest.raises(WeightsError) as caught:
        resolve(system(hub_passport("owner/net", "model.bin", DATA)))
    for part in ("models--owner--net", sha256(DATA), sha256(wrong)):
        assert part in str(caught.value)
    assert not any("snapshots" in name or "blobs" in name for name in leftovers(hub_cache))


def test_the_hubs_own_digest_is_believed_where_none_is_published(hub, hub_cache):
    hub.hub("owner/net", "model.bin", DATA)
    hub.files["/owner/net/resolve/main/model.bin"].etag = f'"{sha256(b"something else")}"'
    with pytest.raises(WeightsError, match=sha256(b"something else")):
        resolve(system(hub_passport("owner/net", "model.bin")))
    assert not any("snapshots" in name for name in leftovers(hub_cache))


def test_a_web_page_instead_of_a_file(hub, hub_cache):
    hub.hub("owner/net", "model.bin", b"<html>Please log in</html>")
    with pytest.raises(WeightsError, match="found a web page"):
        resolve(system(hub_passport("owner/net", "model.bin")))
    assert not any("snapshots" in name for name in leftovers(hub_cache))


def test_a_flipped_byte_in_the_cache(hub):
    hub.hub("owner/net", "model.bin", DATA)
    info = system(hub_passport("owner/net", "model.bin"))
    (path,) = resolve(info).values()
    flip(path.resolve())
    with pytest.raises(WeightsError, match=f"expected SHA-256 {sha256(DATA)}, found"):
        resolve(info)


def test_a_missing_file_names_address_and_way_out(hub):
    with pytest.raises(WeightsError) as caught:
        resolve(system(hub_passport("owner/net", "model.bin")))
    assert "https://huggingface.co/owner/net/resolve/main/model.bin" in str(caught.value)
    assert "pass token=" in str(caught.value)


def test_dropping_keeps_what_another_revision_uses(hub, hub_cache):
    hub.hub("owner/net", "model.bin", DATA)
    file = hub_passport("owner/net", "model.bin")
    path = fetch.fetch(file)
    twin = hub_cache / "models--owner--net" / "snapshots" / ("f" * 40) / "model.bin"
    twin.parent.mkdir()
    twin.symlink_to(path.resolve())
    fetch.drop(path)
    assert hub_path(file) is None
    assert twin.read_bytes() == DATA
    fetch.drop(twin)
    assert not list((hub_cache / "models--owner--net" / "blobs").iterdir())


def test_only_the_known_keywords_of_the_hubs_client_are_used():
    """The client has renamed and dropped keywords between its versions."""
    calls, imports = [], set()
    package = Path(voiceanon.hub.__file__).parents[1]
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("huggingface"):
                imports |= {(path.name, node.module, alias.name) for alias in node.names}
            if isinstance(node, ast.Import):
                assert not any(a.name.startswith("huggingface") for a in node.names), path
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("hf_hub_download"):
                calls.append((path.name, node))
    ((where, call),) = calls
    assert where == "fetch.py"
    assert not call.args
    assert {keyword.arg for keyword in call.keywords} == ALLOWED
    assert imports == {
        ("fetch.py", "huggingface_hub", "hf_hub_download"),
        ("fetch.py", "huggingface_hub", "constants"),
        ("paths.py", "huggingface_hub", "constants"),
    }


PROGRAM = """
import json, socket, sys, time
from hub_files import hub_passport, passport, system
from voiceanon.errors import WeightsError
from voiceanon.hub.resolve import resolve

release, blocked, only = json.loads(sys.argv[1])
if blocked:
    def refuse(self, address):
        raise SystemExit(f"connection to {address}")
    socket.socket.connect = socket.socket.connect_ex = refuse
info = system(hub_passport("owner/net", "model.bin"), passport(release))
start = time.perf_counter()
try:
    paths = {name: str(path) for name, path in resolve(info, local_files_only=only).items()}
    print(json.dumps([paths, None]))
except WeightsError as error:
    print(json.dumps([time.perf_counter() - start, str(error)]))
"""


def run(server, tmp_path, *, blocked=False, only=False, **environment):
    arguments = json.dumps([server.address + "/r/v1/release.pt", blocked, only])
    places = [str(Path(__file__).parent), *filter(None, sys.path)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    kept.pop("VOICEANON_CACHE")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, arguments],
        env={
            **kept,
            "PYTHONPATH": os.pathsep.join(places),
            "HF_ENDPOINT": server.address,
            "HF_HOME": str(tmp_path / "home"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("offline", [{"HF_HUB_OFFLINE": "1"}, {}])
def test_processes_of_their_own(server, tmp_path, offline):
    """With the environment alone: missing and offline, fetched, then without any socket."""
    server.hub("owner/net", "model.bin", DATA)
    server.release("/r/v1/release.pt", DATA)
    alone = {"blocked": True, "only": not offline}
    seconds, message = run(server, tmp_path, **alone, **offline)
    assert seconds < 1.0
    assert "2 weight files are missing" in message
    assert server.asked == []
    paths, fault = run(server, tmp_path)
    assert fault is None
    assert paths["model.bin"].startswith(str(tmp_path / "home" / "hub" / "models--owner--net"))
    assert paths["release.pt"].startswith(str(tmp_path / "home" / "voiceanon"))
    asked = len(server.asked)
    assert run(server, tmp_path, **alone, **offline) == [paths, None]
    assert len(server.asked) == asked
