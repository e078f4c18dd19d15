"""Weight files, passports and systems for the tests of the weights layer."""

import hashlib
import io
import os
import tarfile
import zipfile

import torch

from voiceanon.types import SystemInfo, WeightFile


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def checkpoint(**content):
    """Bytes of a file of `torch.save`."""
    stream = io.BytesIO()
    torch.save(content or {"model": {"weight": torch.arange(6.0).reshape(2, 3)}}, stream)
    return stream.getvalue()


def passport(address, data=None, **fields):
    """A weight file; ``data`` gives its published size and digest, if any are published."""
    known = {"size": len(data), "sha256": sha256(data)} if data is not None else {}
    return WeightFile(**{
        "name": address.rpartition("/")[2],
        "address": address,
        "revision": "v1",
        "size": None,
        "sha256": "unknown",
        "licence": "not stated",
        "licence_source": address,
        "training_data": "none",
        **known,
        **fields,
    })  # fmt: skip


def hub_passport(repository, name, data=None, *, revision="main", **fields):
    address = f"https://huggingface.co/{repository}/resolve/{revision}/{name}"
    fields = {"name": name, "revision": revision, "repository": repository, **fields}
    return passport(address, data, **fields)


def system(*files, **facts):
    return SystemInfo(id="toy", summary="toy", sample_rate=16000, weights=files, **facts)


def zip_of(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def tar_of(members, mode="w:gz"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def leftovers(folder):
    """Files below a folder that are neither records nor locks."""
    found = [path for path in folder.rglob("*") if path.is_file() or path.is_symlink()]
    return sorted(
        str(path.relative_to(folder))
        for path in found
        if not {"records", "locks", ".locks"} & set(path.relative_to(folder).parts)
    )


def flip(path, position=-10):
    """Changes one bit and the time of change."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    facts = path.stat()
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1_000_000))
