"""Folders of B1's published files, under their names and in their formats, with seeded weights."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from golden import kaldi_writer as writer
from golden.seeded_weights import fill_, seeded_state_dict, seeded_tensor
from voiceanon import registry
from voiceanon.hub import kaldi
from voiceanon.systems import xvector_nsf_files as names

FOLDER = Path(__file__).parent / "xvector_nsf"
KALDI = FOLDER / "kaldi"
END_TO_END = np.load(FOLDER / "e2e_small.npz")

SMALL = {
    names.BOTTLENECK_FILE: "bn_small.raw",
    names.IVECTOR_FILE: "ivector_final.ie",
    names.UBM_FILE: "ivector_final.dubm",
    names.SPLICE_FILE: "ivector_final.mat",
    names.CMVN_FILE: "ivector_global_cmvn.stats",
    names.XVECTOR_FILE: "xvector_small.raw",
}
"""Files that Kaldi wrote."""

BACKEND_WIDTH = 8


def place(folder, key):
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write_small(folder, *, chunk=10_000):
    """The networks of `e2e_small.npz` and its pool, with a made-up PLDA; 48 speakers."""
    for key, name in SMALL.items():
        shutil.copyfile(KALDI / name, place(folder, key))
    pool = torch.from_numpy(END_TO_END["pool"])
    write_backend(folder, pool.shape[1], BACKEND_WIDTH)
    write_pool(folder, pool)
    write_chunks(folder, 25, chunk)
    state = generator_state(16 + pool.shape[1] + 1)
    state["input_mean"][:-1], state["input_std"][:-1] = 0, 1
    state["input_std"][:16] = 250
    torch.save(state, place(folder, names.GENERATOR_FILES["kaldi"]))
    return folder


def write_official(folder):
    """All files in their published sizes."""
    for key, template, table in (
        (names.BOTTLENECK_FILE, "bn_small.raw", KALDI / "bn_full_entries.json"),
        (
            names.XVECTOR_FILE,
            "xvector_small.raw",
            FOLDER / "entries_2_xvect_extr_final.raw.json",
        ),
    ):
        shapes = json.loads(table.read_text())
        place(folder, key).write_bytes(resized(KALDI / template, seeded_state_dict(shapes)))
    write_extractor(folder)
    write_backend(folder, 512, 200)
    write_pool(folder, torch.from_numpy(seeded_tensor("pool", (1160, 512))))
    write_chunks(folder, 25, 25)
    torch.save(generator_state(769), place(folder, names.GENERATOR_FILES["kaldi"]))
    return folder


def resized(path, entries):
    """A raw model with other parameters; only the fields that reading needs follow."""
    model = kaldi.read_nnet3(path)
    components = {}
    for name, component in model.components.items():
        fields = dict(component.fields)
        for field, end in (
            ("LinearParams", "weight"),
            ("Params", "weight"),
            ("BiasParams", "bias"),
        ):
            if field in fields and fields[field].numel():
                fields[field] = entries[f"{name}.{end}"]
        if component.type == "BatchNormComponent":
            fields["StatsMean"] = entries[f"{name}.running_mean"]
            fields["StatsVar"] = entries[f"{name}.running_var"]
            fields["Dim"] = fields["BlockDim"] = len(fields["StatsMean"])
        components[name] = replace(component, fields=fields)
    return writer.nnet3(replace(model, components=components))


def write_extractor(folder):
    """512 Gaussians in 40 dimensions, i-vectors of 100 values."""
    shapes = {"means": (512, 40), "projections": (512, 40, 100), "splice": (40, 281)}
    values = {name: torch.from_numpy(seeded_tensor(name, shape)) for name, shape in shapes.items()}
    ones = torch.ones(512, 40)
    weights = torch.full((512,), 1 / 512)
    constants = weights.log() - 20 * math.log(2 * math.pi) - 0.5 * values["means"].square().sum(1)
    ubm = kaldi.DiagGmm(constants, weights, values["means"], ones)
    extractor = kaldi.IvectorExtractor(
        torch.zeros(0, 0, dtype=torch.float64),
        weights.double(),
        values["projections"].double(),
        torch.eye(40, dtype=torch.float64).expand(512, -1, -1),
        100.0,
    )
    stats = torch.cat([torch.zeros(2, 40), torch.full((2, 1), 3.9e8)], 1).double()
    place(folder, names.UBM_FILE).write_bytes(writer.diag_gmm(ubm))
    place(folder, names.IVECTOR_FILE).write_bytes(writer.ivector_extractor(extractor))
    place(folder, names.SPLICE_FILE).write_bytes(writer.single(values["splice"]))
    # As published, a text.
    place(folder, names.CMVN_FILE).write_text(writer.text(stats))


def write_backend(folder, width, inner):
    """Mean, projection and PLDA."""
    mean = torch.from_numpy(seeded_tensor("mean.vec.bias", (width,)))
    lda = torch.from_numpy(seeded_tensor("transform.mat", (inner, width + 1)))
    plda = kaldi.Plda(
        torch.from_numpy(seeded_tensor("plda.bias", (inner,))).double(),
        torch.from_numpy(seeded_tensor("plda", (inner, inner))).double(),
        torch.linspace(10, 0.1, inner, dtype=torch.float64),
    )
    place(folder, names.MEAN_FILE).write_text(writer.text(mean))
    place(folder, names.LDA_FILE).write_bytes(writer.single(lda))
    place(folder, names.PLDA_FILE).write_bytes(writer.plda(plda))


def speaker_names(count):
    return [f"{1000 + number}" for number in range(count)]


def write_pool(folder, vectors):
    """Speakers with odd places are male."""
    speakers = speaker_names(len(vectors))
    data = writer.ark(dict(zip(speakers, vectors, strict=True)))
    place(folder, names.POOL_FILE).write_bytes(data)
    lines = [f"{name} {'fm'[place % 2]}\n" for place, name in enumerate(speakers)]
    place(folder, names.SEXES_FILE).write_text("".join(lines))


def write_chunks(folder, least, usual):
    for key, frames in zip(names.CHUNK_FILES, (least, usual), strict=True):
        place(folder, key).write_text(f"{frames}\n")


def write_sidekit(folder, width=6):
    """What the variant has besides: other vectors of the pool, and its generator."""
    pool = torch.from_numpy(seeded_tensor("sidekit", (48, width)))
    rows = {name: row[None] for name, row in zip(speaker_names(48), pool, strict=True)}
    place(folder, names.SIDEKIT_POOL_FILE).write_bytes(writer.ark(rows))
    state = generator_state(16 + width + 1)
    wrapped = {"state_dict": {f"module.{name}": value for name, value in state.items()}}
    torch.save(wrapped, place(folder, names.GENERATOR_FILES["sidekit"]))
    return folder


def generator_state(width):
    """Entries of the generator for another number of inputs, as the README of the values says."""
    table = FOLDER / "entries_5_joint_tts_nsf_hifigan_trained_network_G.json"
    shapes = json.loads(table.read_text())
    for name, shape in shapes.items():
        if 769 in shape:
            shapes[name] = [width if size == 769 else size for size in shape]
    state = fill_({name: torch.empty(shape) for name, shape in shapes.items()})
    for name, value in state.items():
        if name.endswith(".scale"):
            value.fill_(0.2 if "l_noi_blocks" in name else 0.1)
        elif ".l_ave" in name:
            value.fill_(1 / 160)
        elif name.endswith("l_cut_f_smooth.weight"):
            value.fill_(1 / 640)
    state["output_mean"].fill_(0)
    state["output_std"].fill_(1)
    state["input_mean"][-1], state["input_std"][-1] = 180, 50
    return state


def unpin(monkeypatch):
    """Lets files of other sizes and digests take the place of the published ones."""
    known = dict(registry._built_in())
    for name in ("vpc2024-b1", "b1-sidekit"):
        info = known[name].info
        free = {"size": None, "sha256": "unknown", "other_digest": "not stated"}
        weights = tuple(replace(file, **free) for file in info.weights)
        known[name] = replace(known[name], info=replace(info, weights=weights))
    monkeypatch.setattr(registry, "_built_in", lambda: known)
