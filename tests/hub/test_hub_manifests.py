"""Manifests: complete, and in agreement with each other."""

import re
from dataclasses import fields
from importlib.resources import files

import pytest

from voiceanon.hub import manifest
from voiceanon.hub.manifest import list_manifests, read_manifest, read_pools
from voiceanon.types import WeightFile

MAY_BE_NONE = {
    "size",
    "repository",
    "folder",
    "training_rate",
    "chunk_seconds",
    "cpu_batch_seconds",
    "request",
}
DIGEST = re.compile(r"[0-9a-f]{64}|unknown")
OTHER_DIGEST = re.compile(r"(md5|git-blob|sha256-prefix):[0-9a-f]+|not stated")


def all_files():
    for name in list_manifests():
        yield from read_manifest(name).weights
        yield from (pool.file for pool in read_pools(name))


def assert_filled(value, where):
    for field in fields(value):
        found = getattr(value, field.name)
        place = f"{where}: {field.name}"
        if found is None:
            assert field.name in MAY_BE_NONE, place
        elif isinstance(found, str):
            assert found.strip() == found, place
            assert found, place
        elif isinstance(found, tuple):
            for entry in found:
                if isinstance(entry, str):
                    assert entry.strip(), place
                else:
                    assert_filled(entry, place)


@pytest.mark.parametrize("name", list_manifests())
def test_nothing_is_empty(name):
    info = read_manifest(name)
    assert info.id == name
    assert_filled(info, name)
    for pool in read_pools(name):
        assert_filled(pool, name)
        assert_filled(pool.file, name)


@pytest.mark.parametrize("name", list_manifests())
def test_raw_manifests_hold_no_empty_value(name):
    text = (files("voiceanon.hub") / "manifests" / f"{name}.json").read_text("utf-8")
    assert not re.search(r":\s*(\"\s*\"|\{\})", text)


def test_weight_files_are_well_formed():
    for file in all_files():
        scheme = "https" if file.request is None else "sftp"
        assert file.address.startswith(f"{scheme}://"), file
        assert file.address.endswith(f"/{file.name}"), file
        assert "{" not in file.address, file
        assert "https://" in file.licence_source, file
        assert DIGEST.fullmatch(file.sha256), file
        assert OTHER_DIGEST.fullmatch(file.other_digest), file
        assert file.size is None or file.size > 0, file
        if file.repository is not None:
            end = f"/{file.repository}/resolve/{file.revision}/{file.name}"
            assert file.address.endswith(end), file


@pytest.mark.parametrize("name", list_manifests())
def test_names_within_a_system_are_unique(name):
    weights = read_manifest(name).weights
    names = [member for file in weights for member in (file.key, *file.members)]
    assert len(names) == len(set(names))


def test_the_same_address_has_the_same_passport_everywhere():
    known = {}
    for file in all_files():
        assert known.setdefault(file.address, file) == file


def test_aliases_are_unique():
    names = [name for each in list_manifests() for name in (each, *read_manifest(each).aliases)]
    assert len(names) == len(set(names))


def test_trained_systems_say_so():
    for name in list_manifests():
        info = read_manifest(name)
        assert bool(info.weights) == (info.training_rate is not None), name


def test_knn_vc_is_described():
    t8, t19 = read_manifest("vpc2024-t8-2"), read_manifest("vpc2024-t19-1")
    assert "t8-2" in t8.aliases
    assert "t19-1" in t19.aliases
    assert t8.weights == t19.weights
    assert all("Not verified against published weights" in info.notes[0] for info in (t8, t19))
    assert [file.name for file in t8.weights if not file.optional] == [
        "WavLM-Large.pt",
        "prematch_g_02500000.pt",
    ]
    assert t8.weights[0].address == (
        "https://github.com/bshall/knn-vc/releases/download/v0.1/WavLM-Large.pt"
    )
    assert {(r.metric, r.value) for r in t8.published if "test" in r.condition} == {
        ("EER", 6.94), ("WER", 3.05), ("UAR", 56.67),
    }  # fmt: skip
    assert {(r.metric, r.value) for r in t19.published if "dev" in r.condition} == {
        ("EER", 8.06), ("WER", 2.60), ("UAR", 46.94),
    }  # fmt: skip
    assert [pool.id for pool in read_pools("vpc2024-t8-2")] == [
        "libritts-4", "libritts-100", "salt-librispeech",
    ]  # fmt: skip
    assert read_pools("vpc2024-b2") == ()


def test_files_that_share_a_passport_share_an_entry():
    shared = {field.name: "x" for field in fields(WeightFile) if field.name != "name"}
    entry = {
        **shared,
        "address": "https://h/{repository}/resolve/{revision}/{name}",
        "repository": "a/b",
        "revision": "c",
        "members": [],
        "optional": False,
        "files": [{"name": "one.npy"}, {"name": "d/two.npy", "size": 7}],
    }
    one, two = manifest.weight_files([entry])
    assert one.address == "https://h/a/b/resolve/c/one.npy"
    assert two.address == "https://h/a/b/resolve/c/d/two.npy"
    assert (one.members, two.size, two.licence) == ((), 7, "x")


def test_keys_tell_files_of_one_name_apart():
    plain = {field.name: "x" for field in fields(WeightFile)}
    assert WeightFile(**{**plain, "folder": None}).key == "x"
    assert WeightFile(**{**plain, "folder": "f"}).key == "f/x"
