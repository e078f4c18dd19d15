"""Weight files as plain data; nothing in them can run."""

import argparse
import io
import json
import os
import pickle
import re
import subprocess
import zipfile

import numpy as np
import pytest
import torch
from hub_files import checkpoint
from safetensors.torch import save_file

from voiceanon.errors import WeightsError
from voiceanon.hub.read import part_of, read, read_state, state_of

WEIGHT = torch.arange(6.0).reshape(2, 3)


def saved(path, content, **how):
    torch.save(content, path, **how)
    return path


@pytest.mark.parametrize("new", [True, False], ids=["zip", "old format"])
def test_nested_settings_come_as_plain_data(tmp_path, new):
    content = {
        "model": {"w": torch.nn.Parameter(WEIGHT), "n": torch.tensor(3)},
        "cfg": argparse.Namespace(width=4, inner=argparse.Namespace(names=["a", "b"])),
        "best": np.float64(0.25),
        "step": np.int64(7),
        "on": np.bool_(True),
        "sizes": (1, 2),
        "none": None,
    }
    path = saved(tmp_path / "a.pt", content, _use_new_zipfile_serialization=new)
    data = read(path)
    assert torch.equal(data["model"]["w"], WEIGHT)
    assert not data["model"]["w"].requires_grad
    assert type(data["model"]["w"]) is torch.Tensor
    assert data["cfg"] == {"width": 4, "inner": {"names": ["a", "b"]}}
    assert (data["best"], data["step"], data["on"], data["none"]) == (0.25, 7, True, None)
    assert {type(data[name]) for name in ("best", "step", "on")} == {float, int, bool}
    assert data["sizes"] == [1, 2]


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_scalars_of_both_numpy_generations(tmp_path, module):
    raw = io.BytesIO()
    torch.save({"x": np.float32(1.5)}, raw, _use_new_zipfile_serialization=True)
    source = zipfile.ZipFile(raw)
    path = tmp_path / "a.pt"
    with zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("data.pkl"):
                data = re.sub(rb"cnumpy\._?core\.multiarray\n", f"c{module}\n".encode(), data)
                assert module.encode() in data
            target.writestr(name, data)
    assert read(path) == {"x": 1.5}


@pytest.mark.parametrize("new", [True, False], ids=["zip", "old format"])
def test_storages_of_a_gpu_come_to_the_cpu(tmp_path, new):
    raw = io.BytesIO()
    torch.save({"w": WEIGHT}, raw, _use_new_zipfile_serialization=new)
    path = tmp_path / "a.pt"
    if new:
        source = zipfile.ZipFile(raw)
        with zipfile.ZipFile(path, "w") as target:
            for name in source.namelist():
                data = source.read(name)
                if name.endswith("data.pkl"):
                    data = _tagged(data)
                target.writestr(name, data)
    else:
        path.write_bytes(_tagged(raw.getvalue()))
    with pytest.raises(RuntimeError, match=r"(?i)cuda"):
        torch.load(path, weights_only=True)
    state = read_state(path)
    assert state["w"].device.type == "cpu"
    assert torch.equal(state["w"], WEIGHT)


def _tagged(data):
    """Says that the storage lay on the first GPU: a longer string of the pickle."""
    old = b"X\x03\x00\x00\x00cpu"
    assert old in data
    return data.replace(old, b"X\x06\x00\x00\x00cuda:0")


class Runs:
    """A pickle that calls a function when it is read."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("new", [True, False], ids=["zip", "old format"])
@pytest.mark.parametrize(
    ("function", "name"),
    # Pickles of torch's protocol bear the names of Python 2.
    [(os.system, "posix.system"), (subprocess.call, "commands.call"), (eval, "eval")],
)
def test_a_pickle_that_runs_code_is_refused(tmp_path, function, name, new):
    marker = tmp_path / "ran"
    command = f"open({str(marker)!r}, 'w')" if function is eval else f"touch {marker}"
    evil = Runs(function, ["sh", "-c", command] if function is subprocess.call else command)
    content = {"model": {"w": WEIGHT}, "x": evil}
    path = saved(tmp_path / "a.pt", content, _use_new_zipfile_serialization=new)
    with pytest.raises(WeightsError, match=rf"a\.pt: the file wants {name}, which could run code"):
        read(path)
    assert not marker.exists()


def test_a_bare_pickle_is_refused_under_every_ending(tmp_path):
    marker = tmp_path / "ran"
    for name in ("a.pt", "a.bin", "a.npy", "a.npz", "a.safetensors", "a.json"):
        path = tmp_path / name
        path.write_bytes(pickle.dumps(Runs(os.system, f"touch {marker}")))
        with pytest.raises(WeightsError, match=re.escape(str(path))):
            read(path)
    assert not marker.exists()


def test_other_classes_are_refused(tmp_path):
    path = saved(tmp_path / "a.pt", {"x": argparse.ArgumentParser})
    with pytest.raises(WeightsError, match=r"wants argparse\.ArgumentParser"):
        read(path)
    path = saved(tmp_path / "b.pt", torch.nn.Linear(1, 1))
    with pytest.raises(WeightsError, match=r"wants torch\.nn\.modules\.linear\.Linear"):
        read(path)


def test_the_advice_to_allow_code_is_not_passed_on(tmp_path):
    path = saved(tmp_path / "a.pt", {"x": Runs(os.system, "true")})
    with pytest.raises(WeightsError) as caught:
        read(path)
    assert "weights_only" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_reading_leaves_torch_as_it_was(tmp_path):
    before = set(torch.serialization.get_safe_globals())
    read(saved(tmp_path / "a.pt", {"c": argparse.Namespace(a=1)}))
    assert set(torch.serialization.get_safe_globals()) == before


def test_safetensors(tmp_path):
    save_file({"a.weight": WEIGHT, "half": WEIGHT.half()}, tmp_path / "a.safetensors")
    state = read_state(tmp_path / "a.safetensors")
    assert torch.equal(state["a.weight"], WEIGHT)
    assert state["half"].dtype == torch.float16


def test_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", ints=np.arange(4), words=np.array(["x", "y"]), one=np.float32(2))
    data = read(tmp_path / "a.npz")
    assert data["ints"].tolist() == [0, 1, 2, 3]
    assert data["ints"].dtype == torch.int64
    assert data["words"] == ["x", "y"]
    assert data["one"].shape == ()
    np.save(tmp_path / "a.npy", np.ones((2, 3), np.float32).T)
    assert read(tmp_path / "a.npy").shape == (3, 2)


def test_arrays_of_objects_are_refused(tmp_path):
    marker = tmp_path / "ran"
    evil = np.array([Runs(os.system, f"touch {marker}")], dtype=object)
    np.save(tmp_path / "a.npy", evil)
    np.savez(tmp_path / "a.npz", x=evil)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(WeightsError, match=f"{name}: cannot be read"):
            read(tmp_path / name)
    assert not marker.exists()


def test_json(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"width": 3, "inner": {"a": [1]}}))
    assert read(tmp_path / "config.json") == {"width": 3, "inner": {"a": [1]}}


@pytest.mark.parametrize("cut", [0, 4, 100, -30])
def test_cut_files(tmp_path, cut):
    path = tmp_path / "a.pt"
    path.write_bytes(checkpoint()[:cut])
    with pytest.raises(WeightsError, match=r"a\.pt: (cannot be read|the file)"):
        read(path)


def test_damaged_bytes_never_raise_anything_else(tmp_path):
    whole = checkpoint(model={"w": WEIGHT}, cfg={"a": [1, "x"]})
    path = tmp_path / "a.pt"
    refused = 0
    for place in range(0, len(whole), 7):
        data = bytearray(whole)
        data[place] ^= 0xFF
        path.write_bytes(data)
        try:
            read(path)
        except WeightsError:
            refused += 1
    assert refused > 10


def test_a_missing_entry_lists_what_there_is(tmp_path):
    path = saved(tmp_path / "a.pt", {"model": {"w": WEIGHT}, "cfg": {}})
    with pytest.raises(WeightsError, match="expected an entry 'generator', found 'model', 'cfg'"):
        read_state(path, "generator")
    with pytest.raises(WeightsError, match=r"\[model\]: expected an entry 'x', found 'w'"):
        part_of(read(path), "model", "x", file=path)
    with pytest.raises(WeightsError, match=r"\[cfg\]: expected tensors by name, found nothing"):
        read_state(path, "cfg")
    with pytest.raises(WeightsError, match=r"expected tensors only, found 'w' under 'model'"):
        read_state(path)
    with pytest.raises(WeightsError, match="expected an entry 'x', found a Tensor"):
        state_of(WEIGHT, "x", file=path)


def test_large_files_are_mapped_not_read(tmp_path):
    """Memory is spent on the tensors that are used, not on the file."""
    path = saved(tmp_path / "a.pt", {"big": torch.zeros(8 << 20), "small": WEIGHT})
    resident = _resident_bytes()
    data = read(path)
    assert _resident_bytes() - resident < 16 << 20
    assert torch.equal(data["small"], WEIGHT)


def _resident_bytes():
    psutil = pytest.importorskip("psutil")
    return psutil.Process().memory_info().rss
