"""PLDA, diagonal Gaussian mixtures, i-vector extractors, single matrices and vectors.

Source: specification sheet of the x-vector family, sections 14 and 15.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from voiceanon.errors import WeightsError
from voiceanon.hub.kaldi.stream import Stream, open_stream


@dataclass(frozen=True)
class Plda:
    """Probabilistic linear discriminant analysis.

    Attributes:
        mean: ``(D,)``, float64.
        transform: ``(D, D)``; makes the within-class covariance the unit matrix.
        psi: ``(D,)``; between-class variances after the transform.
    """

    mean: Tensor
    transform: Tensor
    psi: Tensor


@dataclass(frozen=True)
class DiagGmm:
    """A mixture of G Gaussians with diagonal covariances in D dimensions.

    Attributes:
        gconsts: ``(G,)``; the part of the log-likelihoods that does not depend on the frame.
        weights: ``(G,)``.
        means_invvars: ``(G, D)``; means over variances.
        inv_vars: ``(G, D)``.
    """

    gconsts: Tensor
    weights: Tensor
    means_invvars: Tensor
    inv_vars: Tensor


@dataclass(frozen=True)
class IvectorExtractor:
    """A model that gives i-vectors of S values, from G Gaussians in D dimensions.

    Attributes:
        weight_projections: Kaldi's ``w``; ``(0, 0)`` where weights do not depend on the i-vector.
        weights: ``w_vec`` ``(G,)``.
        projections: ``M`` ``(G, D, S)``, float64.
        inverse_covariances: ``Sigma_inv`` ``(G, D, D)``.
        prior_offset: First value of the prior's mean.
    """

    weight_projections: Tensor
    weights: Tensor
    projections: Tensor
    inverse_covariances: Tensor
    prior_offset: float


def read_plda(path: Path) -> Plda:
    """Reads a binary ``plda``.

    Raises:
        WeightsError: It is none, or is damaged.
    """
    stream = open_stream(path)
    stream.begin()
    stream.expect("<Plda>")
    model = Plda(stream.vector(), stream.matrix(), stream.vector())
    stream.expect("</Plda>")
    stream.end()
    size = len(model.mean)
    if model.transform.shape != (size, size) or model.psi.shape != (size,):
        stream.fail(
            f"a mean of {size} values, a transform of {tuple(model.transform.shape)} and psi of "
            f"{len(model.psi)} do not belong together"
        )
    return model


def read_diag_gmm(path: Path) -> DiagGmm:
    """Reads a binary ``final.dubm``.

    Raises:
        WeightsError: It is none, or is damaged.
    """
    stream = open_stream(path)
    stream.begin()
    stream.expect("<DiagGMM>")
    fields = []
    for token, read in (
        ("<GCONSTS>", stream.vector),
        ("<WEIGHTS>", stream.vector),
        ("<MEANS_INVVARS>", stream.matrix),
        ("<INV_VARS>", stream.matrix),
    ):
        stream.expect(token)
        fields.append(read())
    stream.expect("</DiagGMM>")
    stream.end()
    model = DiagGmm(*fields)
    sizes = {len(field) for field in fields}
    if len(sizes) > 1 or model.means_invvars.shape != model.inv_vars.shape:
        stream.fail(f"parts of shapes {[tuple(f.shape) for f in fields]} do not belong together")
    return model


def read_ivector_extractor(path: Path) -> IvectorExtractor:
    """Reads a binary ``final.ie``.

    Raises:
        WeightsError: It is none, or is damaged.
    """
    stream = open_stream(path)
    stream.begin()
    stream.expect("<IvectorExtractor>")
    stream.expect("<w>")
    weight_projections = stream.matrix()
    stream.expect("<w_vec>")
    weights = stream.vector()
    stream.expect("<M>")
    count = stream.integer()
    projections = _stacked(stream, [stream.matrix() for _ in range(count)])
    stream.expect("<SigmaInv>")
    covariances = _stacked(stream, [stream.symmetric() for _ in range(count)])
    stream.expect("<IvectorOffset>")
    offset = stream.real()
    stream.expect("</IvectorExtractor>")
    stream.end()
    if len(weights) != count or projections.shape[1] != covariances.shape[1]:
        stream.fail(
            f"{len(weights)} weights, projections of {tuple(projections.shape)} and covariances of "
            f"{tuple(covariances.shape)} do not belong together"
        )
    return IvectorExtractor(weight_projections, weights, projections, covariances, offset)


def _stacked(stream: Stream, parts: list[Tensor]) -> Tensor:
    shapes = {(part.shape, part.dtype) for part in parts}
    if len(shapes) != 1:
        stream.fail(f"expected matrices of one shape, found {len(shapes)} shapes")
    return torch.stack(parts)


def read_matrix(path: Path) -> Tensor:
    """Reads a file with one matrix ``(R, C)``: binary float32 or float64, or text as float64.

    Raises:
        WeightsError: It is none, or is damaged.
    """
    stream = open_stream(path)
    if stream.is_binary():
        return _only(stream, stream.matrix)
    rows = _text_rows(stream)
    if len({len(row) for row in rows}) != 1:
        stream.fail("expected a matrix in text form, '[', rows of equal length, ']',")
    return torch.tensor(rows, dtype=torch.float64)


def read_vector(path: Path) -> Tensor:
    """Reads a file with one vector ``(N,)``: binary float32 or float64, or text as float64.

    Raises:
        WeightsError: It is none, or is damaged.
    """
    stream = open_stream(path)
    if stream.is_binary():
        return _only(stream, stream.vector)
    rows = _text_rows(stream)
    if len(rows) != 1:
        stream.fail("expected a vector in text form, '[', numbers, ']',")
    return torch.tensor(rows[0], dtype=torch.float64)


def _only(stream: Stream, read: Callable[[], Tensor]) -> Tensor:
    """The one binary object of a file."""
    stream.begin()
    value = read()
    stream.end()
    return value


def _text_rows(stream: Stream) -> list[list[float]]:
    """Rows of numbers between square brackets; empty lines do not count."""
    try:
        text = stream.data.decode("ascii").strip()
        if not (text.startswith("[") and text.endswith("]") and len(text) > 1):
            raise ValueError("no square brackets")
        lines = (line.split() for line in text[1:-1].splitlines())
        rows = [[float(word) for word in line] for line in lines if line]
    except ValueError as error:
        stream.fail(f"expected numbers in square brackets ({error})")
    if not all(math.isfinite(value) for row in rows for value in row):
        raise WeightsError(f"{stream.path}: holds a value that is not finite.")
    return rows
