"""Single files out of archives that cannot be trusted."""

import io
import stat
import tarfile
import zipfile

import pytest
from hub_files import checkpoint, tar_of, zip_of

from voiceanon.errors import WeightsError
from voiceanon.hub import archives
from voiceanon.hub.archives import extract, is_archive, list_files

DATA = b"0123456789" * 100
INNER = checkpoint()


def written(path, data):
    path.write_bytes(data)
    return path


def tar_entry(name, kind, *, link="", size=0, mode="w"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname, entry.size = kind, link, size
        archive.addfile(entry, io.BytesIO(b"x" * size))
    return stream.getvalue()


def zip_link(name, target):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        entry = zipfile.ZipInfo(name)
        entry.create_system = 3
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, target)
    return stream.getvalue()


@pytest.mark.parametrize("make", [
    zip_of,
    lambda files: tar_of(files, "w"),
    lambda files: tar_of(files, "w:gz"),
    lambda files: tar_of(files, "w:bz2"),
    lambda files: tar_of(files, "w:xz"),
])  # fmt: skip
def test_all_forms(tmp_path, make):
    archive = written(tmp_path / "any", make({"top/a.bin": DATA, "top/b.pt": INNER}))
    assert is_archive(archive)
    assert list_files(archive) == ("top/a.bin", "top/b.pt")
    for member, data in (("top/a.bin", DATA), ("a.bin", DATA), ("b.pt", INNER)):
        target = tmp_path / "out" / member
        extract(archive, member, target)
        assert target.read_bytes() == data


def test_the_exact_path_comes_before_an_ending(tmp_path):
    archive = written(tmp_path / "a.zip", zip_of({"x/a.bin": b"1", "a.bin": b"2"}))
    extract(archive, "a.bin", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"2"


def test_an_ending_must_be_unique_and_there(tmp_path):
    archive = written(tmp_path / "a.zip", zip_of({"x/a.bin": b"1", "y/a.bin": b"2"}))
    with pytest.raises(WeightsError, match="but 2 entries end with that"):
        extract(archive, "a.bin", tmp_path / "out")
    with pytest.raises(WeightsError, match="but no entry ends with that"):
        extract(archive, "in", tmp_path / "out")
    assert not (tmp_path / "out").exists()


EVIL = {
    "up": ("zip", zip_of({"m/../../evil.bin": DATA}), "leads out of its folder"),
    "up in tar": ("tar", tar_of({"../evil.bin": DATA}), "leads out of its folder"),
    "up, backslashes": ("zip", zip_of({"m\\..\\..\\x/evil.bin": DATA}), "leads out of its folder"),
    "absolute": ("zip", zip_of({"/tmp/evil.bin": DATA}), "has an absolute path"),
    "absolute in tar": ("tar", tar_of({"/tmp/evil.bin": DATA}), "has an absolute path"),
    "drive": ("zip", zip_of({"C:/evil.bin": DATA}), "has an absolute path"),
    "link in zip": ("zip", zip_link("m/evil.bin", "/etc/passwd"), "a link"),
    "symlink": ("tar", tar_entry("m/evil.bin", tarfile.SYMTYPE, link="/etc/passwd"), "a link"),
    "hard link": ("tar", tar_entry("m/evil.bin", tarfile.LNKTYPE, link="/etc/passwd"), "a link"),
    "device": ("tar", tar_entry("m/evil.bin", tarfile.CHRTYPE), "a device"),
    "pipe": ("tar", tar_entry("m/evil.bin", tarfile.FIFOTYPE), "a device"),
    "folder": ("tar", tar_entry("m/evil.bin", tarfile.DIRTYPE), "a folder"),
    "sparse": ("tar", tar_entry("m/evil.bin", tarfile.GNUTYPE_SPARSE), "a device"),
}


@pytest.mark.parametrize("case", EVIL)
def test_harmful_entries_are_not_unpacked(tmp_path, case):
    kind, data, reason = EVIL[case]
    archive = written(tmp_path / f"a.{kind}", data)
    with pytest.raises(WeightsError, match=rf"a\.{kind}: the entry .*evil\.bin'? .*{reason}"):
        extract(archive, "evil.bin", tmp_path / "safe" / "out")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [archive.name]
    assert list_files(archive) == ()


def test_harmful_neighbours_are_left_alone(tmp_path):
    archive = written(tmp_path / "a.zip", zip_of({"../evil.bin": b"1", "good.bin": DATA}))
    extract(archive, "good.bin", tmp_path / "deep" / "good.bin")
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["a.zip", "good.bin"]


@pytest.mark.parametrize("make", [zip_of, tar_of])
def test_bombs(tmp_path, make, monkeypatch):
    monkeypatch.setattr(archives, "FREE_BYTES", 1 << 16)
    archive = written(tmp_path / "a", make({"big.bin": bytes(10 << 20), "rest.bin": DATA}))
    assert archive.stat().st_size < 20_000
    with pytest.raises(WeightsError, match=f"'big.bin' would unpack to {10 << 20} bytes"):
        extract(archive, "big.bin", tmp_path / "out")
    extract(archive, "rest.bin", tmp_path / "rest")
    assert not (tmp_path / "out").exists()


def test_a_tar_with_too_much_before_the_entry(tmp_path, monkeypatch):
    archive = written(tmp_path / "a.tgz", tar_of({"big.bin": bytes(10 << 20), "a.bin": DATA}))
    monkeypatch.setattr(archives, "LARGEST_BYTES", 1 << 20)
    with pytest.raises(WeightsError, match=f"unpacks to more than {1 << 20} bytes"):
        extract(archive, "a.bin", tmp_path / "out")


def test_a_zip_that_lies_about_a_size(tmp_path):
    data = bytearray(zip_of({"a.bin": bytes(100_000)}))
    lie = (10).to_bytes(4, "little")
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = data.index(signature) + offset
        data[place : place + 4] = lie
    archive = written(tmp_path / "a.zip", data)
    with pytest.raises(WeightsError, match=r"a\.zip: cannot be read as a zip or tar archive"):
        extract(archive, "a.bin", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", [zip_of, tar_of, lambda files: tar_of(files, "w:xz")])
def test_damaged_archives(tmp_path, make):
    whole = make({"a.bin": bytes(range(256)) * 400})
    for number, data in enumerate((whole[: len(whole) // 2], whole[:8], b"nothing")):
        archive = written(tmp_path / f"a{number}", data)
        with pytest.raises(WeightsError, match=f"a{number}: "):
            extract(archive, "a.bin", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_an_encrypted_entry(tmp_path):
    data = bytearray(zip_of({"a.bin": DATA}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    archive = written(tmp_path / "a.zip", data)
    with pytest.raises(WeightsError, match="is encrypted"):
        extract(archive, "a.bin", tmp_path / "out")
