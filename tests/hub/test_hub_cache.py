"""What is in the cache: listed, checked afresh, removed."""

import os

import pytest
from hub_files import checkpoint, flip, hub_passport, leftovers, passport, sha256, system, zip_of

from voiceanon.hub import verify
from voiceanon.hub.cache import list_cached, remove_cached, verify_cached
from voiceanon.hub.paths import cache_folder, release_path
from voiceanon.hub.resolve import resolve

A, B = checkpoint(a=1), checkpoint(b=2)
PACKED = zip_of({"m/a.pt": A})


@pytest.fixture
def info(hub):
    hub.hub("owner/net", "model.bin", B)
    return system(
        passport(hub.release("/r/v1/a.pt", A), A),
        passport(hub.release("/r/v1/b.pt", B)),
        passport(hub.release("/r/v1/m.zip", PACKED), members=("m/a.pt",)),
        hub_passport("owner/net", "model.bin"),
        passport(hub.release("/r/v1/extra.pt", A), optional=True),
    )


def states(info):
    return [entry.state for entry in list_cached([info])]


def test_listing(info, no_sockets):
    tried = no_sockets()
    assert states(info) == ["not cached"] * 5
    assert tried == []


def test_listing_after_a_load(info, no_sockets):
    resolve(info)
    tried = no_sockets()
    entries = list_cached([info])
    # The Hub names a large file by its digest, so that it counts as published.
    assert states(info) == ["verified", "recorded", "recorded", "verified", "not cached"]
    assert [entry.size for entry in entries] == [len(A), len(B), len(PACKED), len(B), 0]
    assert [entry.sha256 for entry in entries[:2]] == [sha256(A), sha256(B)]
    assert entries[4].sha256 == "unknown"
    assert entries[4].path is None
    assert {entry.system for entry in entries} == {"toy"}
    assert tried == []


def test_files_that_were_changed_count_as_not_checked(info):
    flip(resolve(info)["a.pt"])
    assert states(info)[0] == "not checked"


def test_verifying_all_looks_at_every_byte(info):
    paths = resolve(info)
    assert verify_cached([info]) == []
    facts = paths["a.pt"].stat()
    flip(paths["a.pt"])
    os.utime(paths["a.pt"], ns=(facts.st_atime_ns, facts.st_mtime_ns))
    resolve(info)
    (fault,) = verify_cached([info])
    assert (fault.system, fault.path) == ("toy", paths["a.pt"])
    assert sha256(A) in fault.message


def test_removing(info, hub, hub_cache, own_cache):
    resolve(info)
    assert remove_cached([info]) == len(A) + 2 * len(B) + len(PACKED)
    assert states(info) == ["not cached"] * 5
    assert leftovers(own_cache) == []
    assert not any("blobs" in name or "snapshots" in name for name in leftovers(hub_cache))
    assert remove_cached([info]) == 0
    # What is fetched after that may be another version.
    hub.release("/r/v1/b.pt", A)
    assert resolve(info)["b.pt"].read_bytes() == A


def test_a_changed_manifest_overrides_the_record(server):
    address = server.release("/r/v1/b.pt", B)
    resolve(system(passport(address)))
    with pytest.raises(Exception, match=f"expected SHA-256 {sha256(A)}, found {sha256(B)}"):
        resolve(system(passport(address, sha256=sha256(A))))
    resolve(system(passport(address, sha256=sha256(B).upper())))
    assert states(system(passport(address, sha256=sha256(B)))) == ["verified"]


def test_a_record_of_another_revision_does_not_count(server):
    address = server.release("/r/v1/b.pt", B)
    path = resolve(system(passport(address)))["b.pt"]
    newer = passport(address, revision="v2")
    assert verify.known_digest(path, newer) is None
    flip(path)
    assert verify.verify(path, newer) == sha256(path.read_bytes())


def test_broken_records_are_made_anew(server, own_cache):
    file = passport(server.release("/r/v1/b.pt", B))
    path = resolve(system(file))["b.pt"]
    (record,) = (own_cache / "records").iterdir()
    for text in ("", "{", "[]", '{"path": 1}', "null"):
        record.write_text(text)
        assert verify.known_digest(path, file) is None
        assert resolve(system(file)) == {"b.pt": path}
    assert verify.known_digest(path, file) == sha256(B)


def test_digests_of_files_and_members(info, own_cache):
    paths = resolve(info)
    expected = {"a.pt": A, "b.pt": B, "m/a.pt": A, "model.bin": B}
    found = {name: verify.digest_of(path) for name, path in paths.items()}
    assert found == {name: sha256(data) for name, data in expected.items()}
    verify.forget(paths["m/a.pt"])
    flip(paths["b.pt"])
    assert verify.digest_of(paths["m/a.pt"]) == sha256(A)
    assert verify.digest_of(paths["b.pt"]) == sha256(paths["b.pt"].read_bytes()) != sha256(B)


def test_a_cache_that_cannot_be_written_still_serves(server, own_cache, monkeypatch):
    file = passport(server.release("/r/v1/b.pt", B))
    resolve(system(file))
    for record in (own_cache / "records").iterdir():
        record.unlink()
    (own_cache / "records").rmdir()
    (own_cache / "records").write_text("no folder can be made here")
    assert resolve(system(file)) == {"b.pt": release_path(file)}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"VOICEANON_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/voiceanon"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/voiceanon"),
        ({"HOME": "/home/u"}, "/home/u/.cache/voiceanon"),
        ({"HOME": "/home/u", "VOICEANON_CACHE": "~/w"}, "/home/u/w"),
    ],
)
def test_where_the_cache_is(settings, expected, monkeypatch):
    for name in ("VOICEANON_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert str(cache_folder()) == expected
