"""Kaldi files: read, and written back byte for byte; values by the layouts of the sheet."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import kaldi_writer as writer
from golden.seeded_weights import seeded_tensor

from voiceanon import WeightsError
from voiceanon.hub import kaldi
from voiceanon.hub.kaldi.nnet3 import FIELDS, Component, Descriptor, parse_descriptor
from voiceanon.hub.kaldi.stream import Stream

FOLDER = Path(__file__).parents[1] / "golden" / "xvector_nsf" / "kaldi"
NETWORKS = ("bn_small.raw", "bn_small_prepared.raw", "xvector_small.raw")


@pytest.mark.parametrize(
    ("name", "read", "write"),
    [
        *((name, kaldi.read_nnet3, writer.nnet3) for name in NETWORKS),
        ("ivector_final.ie", kaldi.read_ivector_extractor, writer.ivector_extractor),
        ("ivector_final.dubm", kaldi.read_diag_gmm, writer.diag_gmm),
        ("ivector_final.mat", kaldi.read_matrix, writer.single),
        ("ivector_global_cmvn.stats", kaldi.read_matrix, writer.single),
    ],
)
def test_files_of_kaldi_come_back_byte_for_byte(name, read, write):
    assert write(read(FOLDER / name)) == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("stem", ["bn_small", "xvector_small"])
def test_entries_are_those_of_the_table(stem):
    shapes = json.loads((FOLDER / f"{stem}_entries.json").read_text())
    entries = kaldi.nnet3_entries(kaldi.read_nnet3(FOLDER / f"{stem}.raw"))
    assert {name: list(tensor.shape) for name, tensor in entries.items()} == shapes
    for name, tensor in entries.items():
        # Kaldi keeps sums, and divides them when it writes.
        assert np.allclose(tensor.numpy(), seeded_tensor(name, shapes[name]), rtol=0, atol=1e-6)


def test_the_prepared_form_has_one_layer_for_two():
    plain, prepared = (
        kaldi.nnet3_entries(kaldi.read_nnet3(FOLDER / f"bn_small{end}.raw"))
        for end in ("", "_prepared")
    )
    assert list(prepared)[-2:] == ["lda.tdnn1.affine.weight", "lda.tdnn1.affine.bias"]
    assert "tdnn1.affine.weight" not in prepared
    product = plain["tdnn1.affine.weight"] @ plain["lda.weight"]
    assert torch.allclose(prepared["lda.tdnn1.affine.weight"], product, atol=1e-5)


def test_nodes_and_what_they_take():
    model = kaldi.read_nnet3(FOLDER / "bn_small_prepared.raw")
    assert model.node("ivector").settings["dim"] == "30"
    first = model.node("tdnn1.affine")
    assert first.settings["component"] == "lda.tdnn1.affine"
    assert first.input == Descriptor(
        "Append",
        (
            Descriptor("Offset", (Descriptor("input"), -1.0)),
            Descriptor("input"),
            Descriptor("Offset", (Descriptor("input"), 1.0)),
            Descriptor("ReplaceIndex", (Descriptor("ivector"), Descriptor("t"), 0.0)),
        ),
    )
    scaled = Descriptor("Scale", (0.75, Descriptor("tdnn1.dropout")))
    assert model.node("tdnnf2.noop").input == Descriptor(
        "Sum", (scaled, Descriptor("tdnnf2.dropout"))
    )
    assert model.components["tdnnf6.linear"].fields["TimeOffsets"] == (-3, 0)
    with pytest.raises(WeightsError, match="no node 'nobody'"):
        model.node("nobody")


def test_every_type_of_the_table_comes_back(tmp_path):
    """With all optional fields and with none, of the types that the stored files lack, too."""
    model = kaldi.read_nnet3(FOLDER / "xvector_small.raw")
    examples = {
        "f": 0.5, "d": 0.25, "i": -7, "b": True, "v": torch.arange(3.0), "": True, "I": (-3, 0, 3),
        "m": torch.arange(6.0, dtype=torch.float64).reshape(2, 3), "ii": (20, 80),
        "ff": (4.0, 2.0),
    }  # fmt: skip
    components = {
        (name := f"{type_}.{full}"): Component(
            name,
            type_,
            {field.name: examples[field.kind] for field in fields if full or not field.optional},
        )
        for type_, fields in FIELDS.items()
        for full in (True, False)
    }
    data = writer.nnet3(replace(model, components=components))
    (tmp_path / "x.raw").write_bytes(data)
    again = kaldi.read_nnet3(tmp_path / "x.raw")
    assert writer.nnet3(again) == data
    assert {name: set(c.fields) for name, c in again.components.items()} == {
        name: set(c.fields) for name, c in components.items()
    }


def test_a_float_may_be_written_as_a_double(tmp_path):
    data = (FOLDER / "xvector_small.raw").read_bytes()
    short = b"<Epsilon> \4" + struct.pack("<f", 1e-3)
    assert short in data
    long = b"<Epsilon> \10" + struct.pack("<d", 1e-3)
    (tmp_path / "x.raw").write_bytes(data.replace(short, long))
    entries = kaldi.nnet3_entries(kaldi.read_nnet3(tmp_path / "x.raw"))
    assert entries["tdnn1.batchnorm.running_var"].shape == (32,)


def with_normalisation(tmp_path, **changes):
    model = kaldi.read_nnet3(FOLDER / "xvector_small.raw")
    old = model.components["tdnn1.batchnorm"]
    new = replace(old, fields={**old.fields, **changes})
    data = writer.nnet3(replace(model, components={**model.components, old.name: new}))
    (tmp_path / "x.raw").write_bytes(data)
    return kaldi.nnet3_entries(kaldi.read_nnet3(tmp_path / "x.raw"))


def test_statistics_of_a_block_are_those_of_all(tmp_path):
    block = {"StatsMean": torch.arange(8.0), "StatsVar": torch.arange(8.0) - 1, "BlockDim": 8}
    entries = with_normalisation(tmp_path, **block)
    assert entries["tdnn1.batchnorm.running_mean"].tolist() == 4 * list(range(8))
    assert entries["tdnn1.batchnorm.running_var"].tolist() == 4 * [0, *range(7)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Epsilon": 0.01}, "epsilon 0.01"),
        ({"TargetRms": 0.5}, "target RMS 0.5"),
        ({"BlockDim": 5}, "32 values in blocks of 5"),
        ({"BlockDim": 0}, "blocks of 0"),
        ({"Dim": -32, "BlockDim": 32}, "-32 values in blocks of 32"),
        ({"BlockDim": 8}, "32 means and 32 variances, 8 are due"),
        ({"Dim": 1 << 30, "BlockDim": 32}, "claim to have 107374"),
    ],
)
def test_normalisations_that_the_entries_cannot_say(tmp_path, changes, words):
    with pytest.raises(WeightsError, match=words):
        with_normalisation(tmp_path, **changes)


def test_the_mixture_agrees_with_itself():
    """Its constants follow from its other parts (sheet, section 15.1)."""
    gmm = kaldi.read_diag_gmm(FOLDER / "ivector_final.dubm")
    width = gmm.inv_vars.shape[1]
    constants = (
        gmm.weights.log()
        - 0.5 * width * np.log(2 * np.pi)
        + 0.5 * gmm.inv_vars.log().sum(1)
        - 0.5 * (gmm.means_invvars**2 / gmm.inv_vars).sum(1)
    )
    assert torch.allclose(gmm.gconsts, constants, atol=1e-4)


def test_the_extractor_in_full():
    extractor = kaldi.read_ivector_extractor(FOLDER / "ivector_final.ie")
    assert extractor.projections.shape == (16, 20, 30)
    assert extractor.projections.dtype == torch.float64
    assert extractor.prior_offset == 10
    covariances = extractor.inverse_covariances
    assert torch.equal(covariances, covariances.mT)
    assert bool((torch.linalg.eigvalsh(covariances) > 0).all())


def test_a_plda_comes_back(tmp_path):
    stored = np.load(FOLDER.parent / "pool_selection.npz")
    model = kaldi.Plda(
        *(torch.from_numpy(stored[f"plda_{part}"]) for part in ("mean", "transform", "psi"))
    )
    (tmp_path / "plda").write_bytes(writer.plda(model))
    again = kaldi.read_plda(tmp_path / "plda")
    for part in ("mean", "transform", "psi"):
        assert torch.equal(getattr(again, part), getattr(model, part))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vectors_and_matrices_binary_and_as_text(tmp_path, dtype):
    matrix = torch.linspace(-3, 1e6, 6, dtype=dtype).reshape(2, 3)
    for name, tensor, read in (
        ("vector", matrix[0], kaldi.read_vector),
        ("matrix", matrix, kaldi.read_matrix),
    ):
        (tmp_path / name).write_bytes(writer.single(tensor))
        assert torch.equal(read(tmp_path / name), tensor)
        (tmp_path / name).write_text(writer.text(tensor))
        assert torch.allclose(read(tmp_path / name).to(dtype), tensor, rtol=1e-7)


@pytest.mark.parametrize("text", ["", "[", "[ 1 2", "[ 1 2\n 3 ]", "[ 1 a ]", "[ 1 nan ]", "1 2"])
def test_text_that_is_no_matrix(tmp_path, text):
    (tmp_path / "x").write_text(text)
    with pytest.raises(WeightsError, match=f"^{tmp_path / 'x'}: "):
        kaldi.read_matrix(tmp_path / "x")


def compressed(kind, numbers, span, rows, columns, *arrays):
    head = f"{kind} ".encode() + struct.pack("<2f2i", *numbers, span, rows, columns)
    return b"\0B" + head + b"".join(array.tobytes() for array in arrays)


def test_archives_with_all_kinds_of_objects(tmp_path):
    draws = np.random.default_rng(0)
    codes = draws.integers(0, 256, (5, 9), np.uint8)
    codes[0, :6] = 0, 64, 65, 192, 193, 255
    heads = np.sort(draws.integers(0, 65536, (5, 4)).astype("<u2"), axis=1)
    words = draws.integers(0, 65536, (3, 2)).astype("<u2")
    plain = {"1001": torch.arange(4.0), "a-b": torch.ones(2, 3, dtype=torch.float64)}
    data = writer.ark(plain)
    offsets = {"1001": 5, "a-b": len(writer.ark({"1001": plain["1001"]})) + 4}
    for key, entry in (
        ("cm", compressed("CM", [-2.0], 6.0, 9, 5, heads, codes)),
        ("cm2", compressed("CM2", [-2.0], 6.0, 3, 2, words)),
        ("cm3", compressed("CM3", [-2.0], 6.0, 3, 2, codes[:3, :2].copy())),
    ):
        offsets[key] = len(data) + len(key) + 1
        data += f"{key} ".encode() + entry
    (tmp_path / "x.ark").write_bytes(data)
    found = kaldi.read_ark(tmp_path / "x.ark")
    assert list(found) == ["1001", "a-b", "cm", "cm2", "cm3"]
    assert all(torch.equal(found[key], tensor) for key, tensor in plain.items())
    assert np.allclose(found["cm2"].numpy(), -2 + 6 * (words / 65535), atol=1e-6)
    assert np.allclose(found["cm3"].numpy(), -2 + 6 * (codes[:3, :2] / 255), atol=1e-6)
    knots = -2 + 6 * (heads / 65535)
    expected = [
        np.interp(codes[column], (0, 64, 192, 255), knots[column]) for column in range(len(codes))
    ]
    assert np.allclose(found["cm"].numpy(), np.array(expected).T, atol=1e-6)

    # An index names the folder of the machine that wrote it, and may be in another order.
    lines = [f"{key} /there/data/x.ark:{place}" for key, place in reversed(offsets.items())]
    (tmp_path / "x.scp").write_text("\n".join(lines) + "\n")
    listed = kaldi.read_scp(tmp_path / "x.scp")
    assert list(listed) == list(reversed(found))
    assert all(torch.equal(listed[key], found[key]) for key in found)


@pytest.mark.parametrize(
    "line", ["a", "a x.ark", "a x.ark:", "a x.ark:-1", "a b c:3", "a gunzip|", "a x.ark:3[0:2]"]
)
def test_lines_of_an_index_that_are_none(tmp_path, line):
    (tmp_path / "x.ark").write_bytes(writer.ark({"a": torch.ones(2)}))
    (tmp_path / "x.scp").write_text(line + "\n")
    with pytest.raises(WeightsError):
        kaldi.read_scp(tmp_path / "x.scp")


def test_an_index_reads_nothing_outside_its_folder(tmp_path):
    (tmp_path / "x.ark").write_bytes(writer.ark({"a": torch.ones(2)}))
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "x.scp").write_text(f"a {tmp_path / 'x.ark'}:2\n")
    with pytest.raises(WeightsError, match=str(inner / "x.ark")):
        kaldi.read_scp(inner / "x.scp")
    assert torch.equal(kaldi.read_scp(inner / "x.scp", folder=tmp_path)["a"], torch.ones(2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", Descriptor("a")),
        (" Round( a-1.b , 10 ) ", Descriptor("Round", (Descriptor("a-1.b"), 10.0))),
        ("Scale(-1e-3, a)", Descriptor("Scale", (-1e-3, Descriptor("a")))),
    ],
)
def test_descriptors(text, expected):
    assert parse_descriptor(text, Stream(Path("x"), b"")) == expected


@pytest.mark.parametrize(
    "text", ["", "a b", "a(", "a(,)", "a(b", "a(b))", "(a)", "3", "a(b c)", "a?", "a(" * 40]
)
def test_texts_that_are_no_descriptors(text):
    with pytest.raises(WeightsError):
        parse_descriptor(text, Stream(Path("x"), b""))
