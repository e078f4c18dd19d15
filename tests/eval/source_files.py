"""Small models in the layouts of the published files."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.eval.sources.asr_eval import AsrNetwork
from voiceanon.eval.sources.ecapa import EcapaConfig, EcapaTdnn
from voiceanon.eval.sources.ser_eval import SerNetwork
from voiceanon.eval.sources.wav2vec2 import LARGE_LV60

GOLDEN = Path(__file__).parents[1] / "golden" / "eval"

UTT = torch.from_numpy(np.load(GOLDEN / "pitch.npz")["wav_orig_int16"] / np.float32(32768))
"""367-130732-0000 of LibriSpeech test-other, 16 kHz: the input of the stored values."""

SYN = torch.from_numpy(np.load(GOLDEN / "asv_models.npz")["wave_syn"])
"""One second with zeros at both ends."""

SMALL_ECAPA = EcapaConfig(width=16, pooled_width=24, scale=4, attention=8, squeeze=8, embedding=12)

SMALL_ENCODER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": [16] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
"""Sizes of the networks that the stored values came from."""

SMALL_LARGE = {**LARGE_LV60, **SMALL_ENCODER}
ASR_WIDTH = 48
CHARACTERS = ("<blank>", "<bos>", "<eos>", " ", "'", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def entries(name):
    return json.loads((GOLDEN / name).read_text())


def encoder_entries(encoder):
    """Published names and shapes of an encoder: as `wav2vec2.ckpt` has them."""
    parts = ("parametrizations.weight.original0", "weight_g")
    others = ("parametrizations.weight.original1", "weight_v")
    return {
        f"model.{name}".replace(*parts).replace(*others): tuple(value.shape)
        for name, value in encoder.model.state_dict().items()
    }


def asr_head_entries(network):
    names = {"layers.0": "0.linear.w", "layers.1": "0.linear_0.w", "output": "1.w"}
    return {
        f"{published}.{kind}": tuple(getattr(network.get_submodule(own), kind).shape)
        for own, published in names.items()
        for kind in ("weight", "bias")
    }


def seeded_ecapa(config=None, like=None):
    network = EcapaTdnn(config).eval()
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    assert like is None or {name: list(shape) for name, shape in shapes.items()} == like
    state = seeded_state_dict(shapes)
    for name, value in network.state_dict().items():
        if not value.is_floating_point():
            state[name] = value
    network.load_state_dict(state)
    return network


def checkpoint(state):
    stream = io.BytesIO()
    torch.save(state, stream)
    return stream.getvalue()


def label_file(labels):
    """A text file of labels as SpeechBrain writes it."""
    lines = [f"{label!r} => {number}" for number, label in enumerate(labels)]
    more = ["================", "'starting_index' => 0", "'blank_label' => '<blank>'"]
    return "\n".join([*lines, *more, ""]).encode()


def asr_files():
    network = AsrNetwork(SMALL_LARGE, ASR_WIDTH, len(CHARACTERS))
    return {
        "wav2vec2.ckpt": checkpoint(seeded_state_dict(encoder_entries(network.encoder))),
        "asr.ckpt": checkpoint(seeded_state_dict(asr_head_entries(network))),
        "tokenizer.ckpt": label_file(CHARACTERS),
        "config.json": json.dumps(SMALL_LARGE).encode(),
    }


def ser_files(labels, seed=""):
    network = SerNetwork(SMALL_ENCODER, len(labels))
    head = {"0.w.weight": (len(labels), 32)}
    state = seeded_state_dict({f"{seed}{name}": shape for name, shape in head.items()})
    return {
        "wav2vec2.ckpt": checkpoint(seeded_state_dict(encoder_entries(network.encoder))),
        "model.ckpt": checkpoint({name.removeprefix(seed): v for name, v in state.items()}),
        "label_encoder.txt": label_file(labels),
        "config.json": json.dumps(SMALL_ENCODER).encode(),
    }


def write_zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def write_files(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
