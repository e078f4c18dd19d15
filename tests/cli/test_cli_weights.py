"""``voiceanon download`` and ``cache``, and what ``info`` says about weights."""

import hashlib
import io
from dataclasses import replace

import pytest
from hub_files import flip, hub_passport, leftovers, passport
from hub_server import FileServer
from huggingface_hub import constants, file_download

from voiceanon import list_systems, system_info
from voiceanon.cli.progress import DownloadProgress
from voiceanon.hub import transfer
from voiceanon.hub.manifest import read_pools
from voiceanon.hub.pool import read_pool

ALL_GOOD, FAULTY, WRONG = 0, 1, 2
NEEDED = ("WavLM-Large.pt", "prematch_g_02500000.pt")
OPTIONAL = "g_02500000.pt"


@pytest.fixture
def server(monkeypatch):
    """A server on loopback, to which also the Hub's client goes."""
    server = FileServer()
    monkeypatch.setattr(transfer, "FIRST_PAUSE_SECONDS", 0.0)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    for module in (constants, file_download):
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    yield server
    server.close()


@pytest.fixture
def files(small_weights):
    """Content by name."""
    return {name: (small_weights / name).read_bytes() for name in (*NEEDED, OPTIONAL)}


@pytest.fixture
def small(server, files, register):
    """The system ``test-knn``: t8-2 with small files, on the server; one encoder only."""
    published = system_info("t8-2").weights
    return register(
        "test-knn",
        [
            replace(file, address=server.release(f"/r/v0.1/{file.name}", files[file.name]))
            for file in published
            if file.name in files
        ],
    )


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def row(out, start):
    """Cells of the line of a table that begins so."""
    (line,) = [line for line in out.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


# --- download ----------------------------------------------------------------------------------


def test_download_fills_a_folder_that_load_uses(run, small, server, files, tmp_path):
    folder = tmp_path / "new" / "weights"
    code, out, err = run("download", "test-knn", "--to", folder)
    assert (code, err) == (ALL_GOOD, "")
    assert sorted(path.name for path in folder.iterdir()) == sorted(NEEDED)
    lines = out.splitlines()
    for name, line in zip(NEEDED, lines[:-1], strict=True):
        assert (folder / name).read_bytes() == files[name]
        assert line.startswith(f"{folder / name}: ")
        assert line.endswith(f"MiB, SHA-256 {sha256(files[name])}")
    assert (
        lines[-1]
        == f"Use them with --weights {folder}, or load('test-knn', weights={str(folder)!r})."
    )
    asked = len(server.asked)
    assert run("download", "test-knn", "--to", folder)[:2] == (ALL_GOOD, out)
    assert len(server.asked) == asked


def test_download_of_all_files(run, small, tmp_path):
    code, *_ = run("download", "test-knn", "--to", tmp_path / "w", "--all")
    assert code == ALL_GOOD
    assert (tmp_path / "w" / OPTIONAL).is_file()


def test_the_whole_way(run, small, server, corpus, small_weights, tmp_path):
    weights, pool = tmp_path / "weights", tmp_path / "pool.safetensors"
    run("download", "test-knn", "--to", weights)
    server.close()
    (weights / "config_v1_wavlm.json").write_text(
        (small_weights / "config_v1_wavlm.json").read_text()
    )
    common = ("--system", "test-knn", "--weights", weights, "--local-files-only")
    code, _, err = run("pool", "build", corpus, pool, *common)
    assert (code, err) == (ALL_GOOD, "")
    code, out, err = run("anonymize", corpus, tmp_path / "out", *common, "--pool", pool)
    assert (code, err) == (ALL_GOOD, "")
    assert "3 done, 0 failed" in out
    assert len(read_pool(pool).facts["encoder"]) == 64


def test_download_fills_the_cache(run, small, own_cache, server):
    code, out, err = run("download", "test-knn")
    assert (code, err) == (ALL_GOOD, "")
    assert len(leftovers(own_cache)) == 2
    assert out.count("SHA-256") == 2
    assert "--weights" not in out
    server.close()
    assert run("download", "test-knn")[:2] == (ALL_GOOD, out)


def test_download_of_a_system_of_the_hub(run, server, files, register):
    name = "pytorch_model.bin"
    server.hub("owner/net", name, files[NEEDED[0]], linked=True)
    register("test-hub", [hub_passport("owner/net", name)])
    code, out, _ = run("download", "test-hub")
    assert code == ALL_GOOD
    assert sha256(files[NEEDED[0]]) in out
    assert row(run("cache", "list", "test-hub")[1], name)[:2] == [name, "test-hub"]


def test_download_of_a_system_without_weights(run):
    assert run("download", "b2") == (
        ALL_GOOD,
        "vpc2024-b2 has no weight files; there is nothing to fetch.\n",
        "",
    )


def test_a_download_that_fails(run, small, server, tmp_path, monkeypatch):
    server.files.pop(f"/r/v0.1/{NEEDED[1]}")
    code, _, err = run("download", "test-knn", "--to", tmp_path / "w")
    assert code == WRONG
    assert "answered HTTP 404" in err
    assert [path.name for path in (tmp_path / "w").iterdir()] == [NEEDED[0]]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, _, err = run("download", "test-knn", "--to", tmp_path / "w")
    assert code == WRONG
    assert "the network is not used because HF_HUB_OFFLINE is set" in err
    assert run("download", "b22")[0] == WRONG


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr("voiceanon.cli.progress.LINE_SECONDS", 0.0)
    with DownloadProgress() as progress:
        progress.on_block("a.pt", 1 << 20, 3 << 19)
        progress.on_block("b.pt", 1 << 20, None)
    assert capsys.readouterr().err == "a.pt: 1.0 MiB of 1.5 MiB\nb.pt: 1.0 MiB\n"


def test_progress_on_a_terminal_shows_every_file(run, small, tmp_path, monkeypatch):
    monkeypatch.setattr("rich.console.Console.is_terminal", property(lambda console: True))
    code, _, err = run("download", "test-knn", "--to", tmp_path / "w")
    assert code == ALL_GOOD
    for name in NEEDED:
        assert name in err
    assert "MiB of" in err


# --- loading without the network ---------------------------------------------------------------


def test_local_files_only_never_fetches(run, small, server, corpus, tmp_path):
    arguments = (
        "anonymize",
        corpus,
        tmp_path / "out",
        "--system",
        "test-knn",
        "--local-files-only",
    )
    code, out, err = run(*arguments)
    assert (code, out) == (WRONG, "")
    assert "2 weight files are missing" in err
    assert f"published at {server.address}/r/v0.1/{NEEDED[0]}" in err
    assert "voiceanon download test-knn --to DIR" in err
    assert server.asked == []


# --- info --------------------------------------------------------------------------------------


def test_info_says_what_is_cached(run, small, files):
    code, out, _ = run("info", "test-knn")
    assert code == ALL_GOOD
    assert row(out, f"{OPTIONAL} ") == [
        OPTIONAL,
        "by some settings",
        "no",
        "not stated",
        "unknown",
        "unknown",
    ]
    run("download", "test-knn")
    out = run("info", "test-knn")[1]
    name = NEEDED[0]
    size = f"{len(files[name]) / 2**20:.1f} MiB"
    assert row(out, f"{name}  ") == [
        name,
        "yes",
        "yes, recorded",
        size,
        "unknown",
        sha256(files[name]),
    ]
    assert row(out, f"{OPTIONAL} ")[2] == "no"


def test_info_says_what_is_published(run, server, files, register):
    data = files[NEEDED[0]]
    address = server.release("/r/v1/net.pt", data)
    register("test-known", [passport(address, data, name="net.pt")])
    run("download", "test-known")
    cells = row(run("info", "test-known")[1], "net.pt  ")
    assert cells[2] == "yes, verified"
    assert cells[4:] == [sha256(data)] * 2


@pytest.mark.parametrize("name", list_systems())
def test_info_shows_every_passport(run, name):
    _, out, _ = run("info", name)
    facts = system_info(name)
    for file in facts.weights:
        for value in (file.key, file.address, file.revision, file.licence, file.training_data):
            assert value in out
        assert file.licence_source in out
    for pool in read_pools(name):
        for value in (pool.id, pool.content, pool.file.address, pool.file.licence, *pool.notes):
            assert value in out


# --- cache -------------------------------------------------------------------------------------


def test_list(run, small, register, own_cache, tmp_path):
    code, out, _ = run("cache", "list")
    assert (code, out) == (
        ALL_GOOD,
        f"folders: {own_cache}, {tmp_path / 'hub'}\n0 files, 0.0 MiB\n",
    )
    run("download", "test-knn")
    register("test-twin", small.weights)
    out = run("cache", "list")[1]
    assert row(out, NEEDED[0])[1] == "test-knn, test-twin"
    assert out.splitlines()[-1].startswith("2 files, ")
    assert OPTIONAL not in {line.split(" ")[0] for line in out.splitlines()}
    assert row(run("cache", "list", "test-twin")[1], NEEDED[0])[1] == "test-twin"
    assert run("cache", "list", "b2")[1].endswith("0 files, 0.0 MiB\n")
    assert run("cache", "list", "b22")[0] == WRONG


def test_verify(run, small, register, own_cache):
    run("download", "test-knn")
    register("test-twin", small.weights)
    assert run("cache", "verify") == (ALL_GOOD, "2 files as they should be, 0 not\n", "")
    (path,) = own_cache.rglob(NEEDED[1])
    flip(path)
    code, out, _ = run("cache", "verify", "test-knn")
    assert code == FAULTY
    assert out.startswith(f"failed: {path}: the file has changed")
    assert out.splitlines()[-1] == "1 files as they should be, 1 not"


def test_remove(run, small, register, own_cache):
    run("download", "test-knn")
    register("test-twin", small.weights)
    assert run("cache", "remove", "b2")[1] == "0 files deleted, 0.0 MiB\n"
    code, out, _ = run("cache", "remove", "test-twin")
    assert code == ALL_GOOD
    assert out.startswith("2 files deleted, ")
    assert leftovers(own_cache) == []


@pytest.mark.parametrize(
    ("arguments", "answer", "code", "left"),
    [([], "n\n", 1, 2), ([], "", 1, 2), ([], "y\n", ALL_GOOD, 0), (["--yes"], "", ALL_GOOD, 0)],
)
def test_remove_of_everything_asks(
    run, small, register, own_cache, monkeypatch, arguments, answer, code, left
):
    run("download", "test-knn")
    register("test-twin", small.weights)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    status, out, _ = run("cache", "remove", *arguments)
    assert status == code
    assert ("2 files deleted" in out) is (left == 0)
    assert ("Delete the 2 cached files of all systems" in out) is (not arguments)
    assert len(leftovers(own_cache)) == left
