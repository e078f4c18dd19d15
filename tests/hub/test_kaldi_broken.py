"""Broken Kaldi files: one clear error, whatever is wrong, and no memory beyond the file's size."""

import random
import struct
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import kaldi_writer as writer

from voiceanon import WeightsError
from voiceanon.hub import kaldi

FOLDER = Path(__file__).parents[1] / "golden" / "xvector_nsf" / "kaldi"


def entries_of(path):
    return kaldi.nnet3_entries(kaldi.read_nnet3(path))


def samples():
    """One small file of each kind, and its reader."""
    model = kaldi.read_nnet3(FOLDER / "xvector_small.raw")
    few = {name: model.components[name] for name in list(model.components)[:6]}
    bottleneck = kaldi.read_nnet3(FOLDER / "bn_small.raw").components
    few |= {name: bottleneck[name] for name in ("tdnnf5.linear", "tdnnf5.dropout", "tdnnf5.noop")}
    stored = np.load(FOLDER.parent / "pool_selection.npz")
    parts = [torch.from_numpy(stored[f"plda_{part}"]) for part in ("mean", "transform", "psi")]
    extractor = kaldi.read_ivector_extractor(FOLDER / "ivector_final.ie")
    matrix = torch.arange(6.0).reshape(2, 3)
    small = kaldi.IvectorExtractor(
        extractor.weight_projections,
        extractor.weights[:2],
        extractor.projections[:2, :3, :2],
        extractor.inverse_covariances[:2, :3, :3],
        extractor.prior_offset,
    )
    codes = b"\0BCM " + struct.pack("<2f2i", 0, 1, 2, 3) + bytes(3 * 8 + 2 * 3)
    return {
        "nnet3": (writer.nnet3(kaldi.Nnet3(Path("x"), model.nodes, few)), entries_of),
        "plda": (writer.plda(kaldi.Plda(*parts)), kaldi.read_plda),
        "gmm": ((FOLDER / "ivector_final.dubm").read_bytes(), kaldi.read_diag_gmm),
        "extractor": (writer.ivector_extractor(small), kaldi.read_ivector_extractor),
        "matrix": (writer.single(matrix), kaldi.read_matrix),
        "text": (writer.text(matrix).encode(), kaldi.read_matrix),
        "vector": (writer.single(matrix[0]), kaldi.read_vector),
        "ark": (writer.ark({"a": matrix, "b": matrix[0]}) + b"c " + codes, kaldi.read_ark),
        "scp": (b"a /there/x.ark:2\nb x.ark:39\n", kaldi.read_scp),
    }


def mutations(data, draws):
    """Truncated, with bits or bytes changed, with numbers made large, with parts moved or gone."""
    changed = bytearray(data)
    for _ in range(draws.choice((1, 1, 1, 2, 5))):
        place = draws.randrange(len(changed)) if changed else 0
        match draws.randrange(6):
            case 0:
                del changed[place:]
            case 1 if changed:
                changed[place] ^= 1 << draws.randrange(8)
            case 2 if changed:
                changed[place] = draws.randrange(256)
            case 3:
                number = draws.choice((-1, 0, 1, 1 << 20, (1 << 31) - 1, -(1 << 31)))
                changed[place : place + 4] = struct.pack("<i", number)
            case 4:
                del changed[place : place + draws.randrange(40)]
            case _:
                other = draws.randrange(len(changed) + 1)
                changed[place:place] = changed[other : other + draws.randrange(40)]
    return bytes(changed)


def fuzz(folder, seconds, seed):
    """Reads mutations for some time; anything but a value or a `WeightsError` passes through."""
    draws = random.Random(seed)
    kinds = samples()
    (folder / "x.ark").write_bytes(kinds["ark"][0])
    outcomes = dict.fromkeys(kinds, 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, (data, read) in kinds.items():
            path = folder / f"{name}.bin"
            path.write_bytes(mutations(data, draws))
            message = error_of(read, path)
            assert message is None or str(folder) in message, name
            outcomes[name] += message is not None
    return outcomes


def error_of(read, path):
    """Message of the `WeightsError`, or ``None``; other errors pass."""
    try:
        read(path)
    except WeightsError as error:
        return str(error)
    return None


def test_mutations_give_values_or_one_kind_of_error(tmp_path):
    outcomes = fuzz(tmp_path, 3, seed=1)
    assert min(outcomes.values()) > 20, outcomes


@pytest.mark.slow
def test_mutations_for_a_minute(tmp_path):
    outcomes = fuzz(tmp_path, 60, seed=2)
    assert min(outcomes.values()) > 500, outcomes


@pytest.mark.parametrize("kind", [kind for kind in samples() if kind not in ("text", "scp")])
def test_every_truncation_is_an_error(tmp_path, kind):
    data, read = samples()[kind]
    path = tmp_path / "x"
    # An archive that ends behind an entry is whole.
    whole = {0, 41, 65} if kind == "ark" else set()
    step = max(1, len(data) // 300)
    for count in {*range(0, len(data), step), len(data) - 1}:
        path.write_bytes(data[:count])
        message = error_of(read, path)
        assert count in whole or str(path) in message, count
    path.write_bytes(data + b"\0")
    with pytest.raises(WeightsError):
        read(path)


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"\0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f", kaldi.read_matrix),
        (b"\0BFM \4\0\0\0\0\4\xff\xff\xff\x7f", kaldi.read_matrix),
        (b"\0BDV \4\xff\xff\xff\x7f", kaldi.read_vector),
        (b"\0BDV \4\xff\xff\xff\xff", kaldi.read_vector),
        (b"a \0BCM " + struct.pack("<2f2i", 0, 1, 1 << 30, 1 << 30), kaldi.read_ark),
        (b"a \0BCM2 " + struct.pack("<2f2i", 0, 1, -5, 3), kaldi.read_ark),
        # A signalling NaN: NumPy warns when it is cast.
        (b"a \0BCM2 \0\0\xa0\x7f" + struct.pack("<f2i", 1, 1, 1) + b"\0\0", kaldi.read_ark),
        (b"\0B<IvectorExtractor> <w> DM \4\0\0\0\0\4\0\0\0\0<w_vec> DV \4\0\0\0\0"
         b"<M> \4\xff\xff\xff\x7f", kaldi.read_ivector_extractor),
    ],
)  # fmt: skip
def test_sizes_are_not_believed(tmp_path, data, read):
    (tmp_path / "x").write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(WeightsError):
            read(tmp_path / "x")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"<RectifiedLinearComponent>", b"<SigmoidComponent>", "unknown type <SigmoidComponent>"),
        (b"<Count>", b"<Counts>", r"expected <Count>, found '<Counts>', at byte \d+"),
        (b"<SelfRepairScale>", b"<SelfRepairSca1e>", "unknown field '<SelfRepairSca1e>'"),
        (b"component-node name=tdnn1.relu", b"composite-node name=tdnn1.relu", "line of nodes"),
        (b"name=tdnn1.relu", b"nome=tdnn1.relu", "expected key=value and a name"),
        (b"<ComponentName> tdnn2.affine", b"<ComponentName> tdnn1.affine", "two components"),
        (b"\0B<Nnet3> \n", b"\0B<Nnet3> x\n", "end of the first line"),
        (b"\0B<Nnet3> ", b"\0B<TransitionModel> ", "transition model"),
        (b"\0B<Nnet3> ", b"<Nnet3> ", "binary Kaldi object"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, old, new, words):
    data = (FOLDER / "xvector_small.raw").read_bytes()
    assert old in data
    (tmp_path / "x.raw").write_bytes(data.replace(old, new))
    with pytest.raises(WeightsError, match=rf"{tmp_path / 'x.raw'}: .*{words}"):
        kaldi.read_nnet3(tmp_path / "x.raw")


def test_a_long_run_of_spaces_takes_no_time(tmp_path):
    data = (FOLDER / "xvector_small.raw").read_bytes()
    line = b"component-node name=x" + b" " * 300_000 + b"!"
    (tmp_path / "x.raw").write_bytes(data.replace(b"input-node", line + b"\ninput-node", 1))
    started = time.monotonic()
    with pytest.raises(WeightsError, match="input of a node"):
        kaldi.read_nnet3(tmp_path / "x.raw")
    assert time.monotonic() - started < 10


def test_many_normalisations_take_no_memory(tmp_path):
    model = kaldi.read_nnet3(FOLDER / "xvector_small.raw")
    old = model.components["tdnn1.batchnorm"]
    one = {"Dim": 1 << 20, "BlockDim": 1, "StatsMean": torch.ones(1), "StatsVar": torch.ones(1)}
    many = {f"x{i}": replace(old, name=f"x{i}", fields={**old.fields, **one}) for i in range(100)}
    data = writer.nnet3(replace(model, components=model.components | many))
    assert len(data) < 1 << 18
    (tmp_path / "x.raw").write_bytes(data)
    with pytest.raises(WeightsError, match="claim to have 104857"):
        entries_of(tmp_path / "x.raw")


def test_files_of_other_kinds_and_missing_ones(tmp_path):
    (tmp_path / "zip").write_bytes(b"PK\3\4" + bytes(100))
    readers = [read for _, read in samples().values()]
    for read in readers:
        for name in ("zip", "missing", "."):
            with pytest.raises(WeightsError):
                read(tmp_path / name)


def test_parts_that_do_not_belong_together(tmp_path):
    path = tmp_path / "x"
    square, vector = torch.eye(3).double(), torch.ones(3).double()
    for plda in (kaldi.Plda(vector, square[:2], vector), kaldi.Plda(vector, square, vector[:2])):
        path.write_bytes(writer.plda(plda))
        with pytest.raises(WeightsError, match="do not belong together"):
            kaldi.read_plda(path)
    path.write_bytes(writer.diag_gmm(kaldi.DiagGmm(vector, vector, square[:2], square)))
    with pytest.raises(WeightsError, match="do not belong together"):
        kaldi.read_diag_gmm(path)
    whole = kaldi.read_ivector_extractor(FOLDER / "ivector_final.ie")
    fewer = kaldi.IvectorExtractor(
        whole.weight_projections, whole.weights[:3], whole.projections,
        whole.inverse_covariances, 1.0,
    )  # fmt: skip
    path.write_bytes(writer.ivector_extractor(fewer))
    with pytest.raises(WeightsError, match="do not belong together"):
        kaldi.read_ivector_extractor(path)
