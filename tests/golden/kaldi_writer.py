"""Kaldi files in their original forms, written from what `voiceanon.hub.kaldi` reads.

Made from the tables of the specification sheet, sections 14 and 15, as Kaldi writes them.
"""

import struct

import numpy as np
import torch

from voiceanon.hub.kaldi.nnet3 import FIELDS

KINDS = {torch.float32: ("F", "<f4"), torch.float64: ("D", "<f8")}


def nnet3(model):
    """Bytes of a raw model."""
    lines = "".join(f"{node.line}\n" for node in model.nodes)
    parts = [b"\0B<Nnet3> \n", lines.encode(), b"\n<NumComponents> "]
    parts.append(integer(len(model.components)))
    for name, component in model.components.items():
        parts.append(f"<ComponentName> {name} <{component.type}> ".encode())
        for field in FIELDS[component.type]:
            if field.name in component.fields:
                parts.append(f"<{field.name}> ".encode())
                parts.append(value(field.kind, component.fields[field.name]))
        parts.append(f"</{component.type}> ".encode())
    return b"".join([*parts, b"</Nnet3> "])


def value(kind, given):
    """Bytes of a field."""
    if len(kind) > 1:
        return b"".join(value(letter, part) for letter, part in zip(kind, given, strict=True))
    if not kind:
        return b""
    return {
        "f": real, "d": double, "i": integer, "b": flag, "v": array, "m": array, "I": integers,
    }[kind](given)  # fmt: skip


def integer(number):
    return b"\4" + struct.pack("<i", number)


def real(number):
    return b"\4" + struct.pack("<f", number)


def double(number):
    return b"\10" + struct.pack("<d", number)


def flag(given):
    return b"T" if given else b"F"


def integers(numbers):
    return b"\4" + struct.pack(f"<i{len(numbers)}i", len(numbers), *numbers)


def array(tensor):
    """A vector or a matrix, with its token."""
    letter, dtype = KINDS[tensor.dtype]
    sizes = b"".join(map(integer, tensor.shape))
    token = f"{letter}{'VM'[tensor.ndim - 1]} ".encode()
    return token + sizes + tensor.numpy().astype(dtype).tobytes()


def symmetric(matrix):
    """A packed symmetric matrix."""
    letter, dtype = KINDS[matrix.dtype]
    lower = matrix.numpy()[np.tril_indices(len(matrix))]
    return f"{letter}P ".encode() + integer(len(matrix)) + lower.astype(dtype).tobytes()


def single(tensor):
    """A file with one vector or matrix."""
    return b"\0B" + array(tensor)


def plda(model):
    return b"\0B<Plda> %b%b%b</Plda> " % tuple(map(array, (model.mean, model.transform, model.psi)))


def diag_gmm(model):
    return (
        b"\0B<DiagGMM> <GCONSTS> %b<WEIGHTS> %b<MEANS_INVVARS> %b<INV_VARS> %b</DiagGMM> "
        % tuple(
            map(array, (model.gconsts, model.weights, model.means_invvars, model.inv_vars))
        )
    )  # fmt: skip


def ivector_extractor(model):
    return b"".join([
        b"\0B<IvectorExtractor> <w> ", array(model.weight_projections),
        b"<w_vec> ", array(model.weights),
        b"<M> ", integer(len(model.projections)), *map(array, model.projections),
        b"<SigmaInv> ", *map(symmetric, model.inverse_covariances),
        b"<IvectorOffset> ", double(model.prior_offset), b"</IvectorExtractor> ",
    ])  # fmt: skip


def ark(tensors):
    """An archive of vectors and matrices."""
    return b"".join(f"{key} ".encode() + single(tensor) for key, tensor in tensors.items())


def text(tensor):
    """A vector or a matrix as text."""
    if tensor.ndim == 1:
        return f" [ {' '.join(f'{x:.9g}' for x in tensor.tolist())} ]\n"
    rows = "\n".join("  " + " ".join(f"{x:.9g}" for x in row) + " " for row in tensor.tolist())
    return f" [\n{rows}]\n"
