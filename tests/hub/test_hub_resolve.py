"""From a system's facts to verified files: cache, folder, archives, offline."""

import time
from pathlib import Path

import pytest
from hub_files import (
    checkpoint,
    flip,
    hub_passport,
    leftovers,
    passport,
    sha256,
    system,
    tar_of,
    zip_of,
)  # fmt: skip

from voiceanon.errors import WeightsError
from voiceanon.hub import verify
from voiceanon.hub.paths import hub_path, release_path
from voiceanon.hub.resolve import download, resolve, resolve_files

A, B = checkpoint(a=1), checkpoint(b=2)
MEMBERS = {"tts/a.pt": A, "tts/sub/b.pt": B, "tts/other.txt": b"not wanted"}
NAMES = ("tts/a.pt", "tts/sub/b.pt")


def lay(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@pytest.fixture
def release(server):
    return system(
        passport(server.release("/r/v1/a.pt", A), A),
        passport(server.release("/r/v1/b.pt", B)),
        passport(server.release("/r/v1/extra.pt", b"extra"), optional=True),
    )


# --- the cache ---------------------------------------------------------------------------------


def test_files_are_fetched_once_and_then_no_socket_is_opened(release, server, no_sockets):
    paths = resolve(release)
    assert {name: path.read_bytes() for name, path in paths.items()} == {"a.pt": A, "b.pt": B}
    assert sorted(server.paths()) == ["/r/v1/a.pt", "/r/v1/b.pt"]
    tried = no_sockets()
    assert resolve(release) == paths
    assert resolve(release, local_files_only=True) == paths
    assert tried == []


def test_optional_files_come_when_they_are_named(release):
    assert set(resolve(release, names=["extra.pt"])) == {"extra.pt"}
    assert set(resolve(release, names={"a.pt", "extra.pt"})) == {"a.pt", "extra.pt"}


def test_an_unknown_name_lists_the_known_ones(release):
    with pytest.raises(WeightsError, match=r"no weight file c\.pt; known are a\.pt, b\.pt, extra"):
        resolve(release, names=["c.pt"])


def test_a_system_without_weights_needs_nothing(no_sockets):
    tried = no_sockets()
    assert resolve(system()) == {}
    assert tried == []


def test_later_loads_do_not_hash_again(release, monkeypatch):
    paths = resolve(release)
    monkeypatch.setattr(verify, "check", lambda *a, **k: pytest.fail("hashed again"))
    assert resolve(release) == paths


@pytest.mark.parametrize("name", ["a.pt", "b.pt"])
def test_a_flipped_byte_in_the_cache(release, name):
    path = resolve(release)[name]
    before = sha256(path.read_bytes())
    flip(path)
    after = sha256(path.read_bytes())
    with pytest.raises(WeightsError) as caught:
        resolve(release)
    for part in (str(path), before, after):
        assert part in str(caught.value)


def test_fetching_goes_on_after_one_file_failed(release, server, own_cache):
    del server.files["/r/v1/b.pt"]
    with pytest.raises(WeightsError, match=r"b\.pt: .* HTTP 404"):
        resolve(release)
    server.release("/r/v1/b.pt", B)
    assert set(resolve(release)) == {"a.pt", "b.pt"}
    assert server.paths().count("/r/v1/a.pt") == 1
    assert len(leftovers(own_cache)) == 2


# --- offline -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "argument"])
def test_offline_and_missing(release, how, monkeypatch, no_sockets, own_cache):
    info = system(*release.weights, hub_passport("owner/net", "config.json"))
    only = how == "argument"
    if not only:
        monkeypatch.setenv(how, "1")
    tried = no_sockets()
    start = time.perf_counter()
    with pytest.raises(WeightsError) as caught:
        resolve(info, local_files_only=only)
    assert time.perf_counter() - start < 1.0
    message = str(caught.value)
    assert message.startswith(
        "toy: 3 weight files are missing, and the network is not used because"
    )
    assert ("local_files_only=True" if only else f"{how} is set") in message
    for file in info.weights:
        assert (file.key in message) != file.optional
        assert (file.address in message) != file.optional
    assert str(release_path(release.weights[0]).parent) in message
    assert "models--owner--net" in message
    assert "voiceanon download toy --to DIR" in message
    assert tried == []
    assert leftovers(own_cache) == []


# --- a folder ----------------------------------------------------------------------------------


def test_a_folder_replaces_the_network(release, tmp_path, no_sockets):
    folder = lay(tmp_path / "w", {"a.pt": A, "b.pt": B})
    tried = no_sockets()
    paths = resolve(release, weights=folder)
    assert paths == {"a.pt": folder / "a.pt", "b.pt": folder / "b.pt"}
    assert resolve(release, weights=str(folder)) == paths
    assert tried == []


def test_a_folder_lacks_a_file(release, tmp_path, server):
    folder = lay(tmp_path / "w", {"a.pt": A})
    with pytest.raises(WeightsError) as caught:
        resolve(release, weights=folder)
    message = str(caught.value)
    assert "a weight file is missing" in message
    assert f"b.pt: looked for in {folder / 'b.pt'};" in message
    assert "weights= names a folder" in message
    assert server.asked == []


def test_a_folder_that_is_none(release, tmp_path):
    with pytest.raises(WeightsError, match=r"weights='.*nowhere' is not a folder"):
        resolve(release, weights=tmp_path / "nowhere")


def test_a_folder_with_a_flipped_byte(release, tmp_path):
    folder = lay(tmp_path / "w", {"a.pt": A, "b.pt": B})
    flip(folder / "a.pt")
    with pytest.raises(WeightsError, match=f"expected SHA-256 {sha256(A)}, found"):
        resolve(release, weights=folder)


def test_a_folder_file_without_published_digest_is_held_to_its_first_use(release, tmp_path):
    folder = lay(tmp_path / "w", {"a.pt": A, "b.pt": B})
    resolve(release, weights=folder)
    flip(folder / "b.pt")
    with pytest.raises(WeightsError, match=r"the file has changed.*delete its record") as caught:
        resolve(release, weights=folder)
    record = str(caught.value).partition("delete its record ")[2].partition(";")[0]
    Path(record).unlink()
    assert set(resolve(release, weights=folder)) == {"a.pt", "b.pt"}


def test_a_web_page_and_a_pointer_in_a_folder(release, tmp_path):
    folder = lay(tmp_path / "w", {"a.pt": A, "b.pt": b"<html>404</html>"})
    with pytest.raises(WeightsError, match=r"b\.pt.*found a web page of 16 bytes"):
        resolve(release, weights=folder)
    lay(folder, {"b.pt": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n"})
    with pytest.raises(WeightsError, match="Git LFS pointer"):
        resolve(release, weights=folder)
    lay(folder, {"b.pt": b""})
    with pytest.raises(WeightsError, match="empty file"):
        resolve(release, weights=folder)


def test_files_of_one_name_lie_in_folders_of_their_repositories(tmp_path):
    asr = hub_passport("openai/asr", "config.json", folder="asr")
    tts = hub_passport("kakao/tts", "config.json", folder="tts")
    deep = hub_passport("piper/voices", "en/high/voice.onnx")
    info = system(asr, tts, deep)
    folder = lay(tmp_path / "w", {
        "asr/config.json": b"{}", "tts/config.json": b"[]", "voice.onnx": b"onnx",
    })  # fmt: skip
    paths = resolve(info, weights=folder)
    assert paths["asr/config.json"].read_bytes() == b"{}"
    assert paths["tts/config.json"].read_bytes() == b"[]"
    assert paths["en/high/voice.onnx"] == folder / "voice.onnx"
    (folder / "asr/config.json").rename(folder / "config.json")
    with pytest.raises(WeightsError, match=r"asr/config\.json: looked for in"):
        resolve(info, weights=folder)


@pytest.mark.parametrize("place", ["net/model.bin", "model.bin"])
def test_a_hub_file_lies_flat_or_as_the_hub_has_it(tmp_path, place):
    info = system(hub_passport("owner/net", "model.bin"))
    folder = lay(tmp_path / "w", {place: A})
    assert resolve(info, weights=folder) == {"model.bin": folder / place}


# --- archives ----------------------------------------------------------------------------------


@pytest.fixture(params=["tts.zip", "tts.tar.gz", "tts.tar"])
def archive(request):
    if request.param.endswith(".zip"):
        return request.param, zip_of(MEMBERS)
    return request.param, tar_of(MEMBERS, "w:gz" if request.param.endswith("gz") else "w")


@pytest.fixture
def packed(server, archive):
    name, data = archive
    return system(passport(server.release(f"/r/v2/{name}", data), data, members=NAMES))


def contents(paths):
    return {name: path.read_bytes() for name, path in paths.items()}


def test_members_of_a_fetched_archive(packed, no_sockets, own_cache):
    paths = resolve(packed)
    assert contents(paths) == {name: MEMBERS[name] for name in NAMES}
    assert not any("other.txt" in name for name in leftovers(own_cache))
    tried = no_sockets()
    assert resolve(packed, local_files_only=True) == paths
    assert tried == []


def test_some_members_only(packed, own_cache):
    assert set(resolve(packed, names=["tts/a.pt"])) == {"tts/a.pt"}
    assert not any("b.pt" in name for name in leftovers(own_cache))
    assert set(resolve(packed, names=[packed.weights[0].key])) == set(NAMES)


def test_a_flipped_byte_in_an_unpacked_member(packed):
    flip(resolve(packed)["tts/a.pt"])
    with pytest.raises(WeightsError, match=r"a\.pt: the file has changed"):
        resolve(packed)


def test_an_archive_in_a_folder_as_it_is(packed, archive, tmp_path, no_sockets):
    name, data = archive
    folder = lay(tmp_path / "w", {name: data})
    tried = no_sockets()
    assert contents(resolve(packed, weights=folder)) == {n: MEMBERS[n] for n in NAMES}
    assert [path.name for path in folder.iterdir()] == [name]
    assert tried == []


@pytest.mark.parametrize("places", [
    {"tts/a.pt": A, "tts/sub/b.pt": B},
    {"tts/tts/a.pt": A, "tts/tts/sub/b.pt": B},
    {"a.pt": A, "b.pt": B},
])  # fmt: skip
def test_an_archive_in_a_folder_unpacked(packed, tmp_path, places, no_sockets):
    folder = lay(tmp_path / "w", places)
    tried = no_sockets()
    assert contents(resolve(packed, weights=folder)) == {"tts/a.pt": A, "tts/sub/b.pt": B}
    assert tried == []


def test_an_archive_in_a_folder_with_a_flipped_byte(packed, archive, tmp_path, own_cache):
    name, data = archive
    folder = lay(tmp_path / "w", {name: data})
    flip(folder / name, len(data) // 2)
    with pytest.raises(WeightsError, match=f"expected SHA-256 {sha256(data)}"):
        resolve(packed, weights=folder)
    assert leftovers(own_cache) == []


def test_a_member_that_the_archive_lacks(server, own_cache):
    file = passport(server.release("/r/v2/x.zip", zip_of(MEMBERS)), members=("tts/c.pt",))
    with pytest.raises(WeightsError, match=r"x\.zip: expected a file 'tts/c\.pt' inside"):
        resolve(system(file))


def test_a_pool_goes_the_same_way(server):
    file = passport(server.release("/r/v2/feats.zip", zip_of({"feats/0.pt": A})), members=("0.pt",))
    assert contents(resolve_files([file], owner="libritts-4")) == {"0.pt": A}


# --- filling a folder --------------------------------------------------------------------------


def test_download_fills_a_folder_that_resolve_uses(hub, tmp_path, no_sockets, own_cache):
    hub.hub("owner/net", "en/config.json", b"{}")
    archive = zip_of(MEMBERS)
    info = system(
        passport(hub.release("/r/v1/a.pt", A), A),
        passport(hub.release("/r/v1/tts.zip", archive), members=("tts/sub/b.pt",)),
        hub_passport("owner/net", "en/config.json", folder="net"),
        passport(hub.release("/r/v1/extra.pt", B), optional=True),
    )
    folder = tmp_path / "new" / "w"
    paths = download(info, folder)
    assert leftovers(folder) == ["a.pt", "net/en/config.json", "tts.zip"]
    assert paths["net/en/config.json"] == folder / "net/en/config.json"
    assert hub_path(info.weights[2]) is None
    assert leftovers(own_cache) == []
    asked = len(hub.asked)
    assert download(info, folder) == paths
    assert len(hub.asked) == asked
    tried = no_sockets()
    found = resolve(info, weights=folder)
    assert contents(found) == {"a.pt": A, "tts/sub/b.pt": B, "net/en/config.json": b"{}"}
    assert tried == []


def test_download_takes_what_is_cached(release, tmp_path, no_sockets):
    resolve(release)
    tried = no_sockets()
    folder = tmp_path / "w"
    assert contents(download(release, folder)) == {"a.pt": A, "b.pt": B}
    assert tried == []


def test_download_while_offline(release, tmp_path, monkeypatch, server):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(WeightsError, match=r"HF_HUB_OFFLINE is set"):
        download(release, tmp_path / "w")
    assert server.asked == []


def test_download_of_something_else_leaves_nothing(server, tmp_path):
    wrong = passport(server.release("/r/v1/a.pt", B), A, size=None)
    with pytest.raises(WeightsError, match="expected SHA-256"):
        download(system(wrong), tmp_path / "w")
    assert leftovers(tmp_path / "w") == []


# --- files that are not public -------------------------------------------------------------------


def with_private(release):
    private = passport("sftp://owner.example/kept/secret.pt", request="write to the owners")
    return system(*release.weights, private)


def test_a_file_that_is_not_public_is_asked_for_before_any_other_is_fetched(release, server):
    with pytest.raises(WeightsError) as caught:
        resolve(with_private(release))
    message = str(caught.value)
    assert "toy: a weight file is missing, and not public." in message
    assert "secret.pt: looked for in " in message
    assert message.splitlines()[1].endswith("; write to the owners")
    assert "a.pt" not in message
    assert server.paths() == []


def test_a_file_that_is_not_public_among_others_in_a_folder(release, tmp_path):
    with pytest.raises(WeightsError) as caught:
        resolve(with_private(release), weights=tmp_path)
    message = str(caught.value)
    assert "3 weight files are missing, and the network is not used" in message
    assert "secret.pt; write to the owners" in message
    assert "a.pt; published at http" in message


def test_a_folder_is_filled_up_to_the_file_that_is_not_public(release, tmp_path):
    info, folder = with_private(release), tmp_path / "weights"
    with pytest.raises(WeightsError, match=r"(?s)not public\..*secret\.pt.*All others are in"):
        download(info, folder)
    assert {path.name for path in folder.iterdir()} == {"a.pt", "b.pt"}
    (folder / "secret.pt").write_bytes(b"secret")
    assert set(download(info, folder)) == {"a.pt", "b.pt", "secret.pt"}
    assert resolve(info, weights=folder)["secret.pt"] == folder / "secret.pt"
