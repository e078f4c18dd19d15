"""Files of the Kaldi toolkit, read in pure Python into tensors and plain values.

Nothing in a file can run, no size in it is believed beyond the bytes that are there, and whatever
is wrong with it ends in one `WeightsError` that names the file and the byte.

Source of the layouts: specification sheet of the x-vector family, sections 14 and 15.
"""

from __future__ import annotations

from voiceanon.hub.kaldi.archives import read_ark, read_scp
from voiceanon.hub.kaldi.models import (
    DiagGmm,
    IvectorExtractor,
    Plda,
    read_diag_gmm,
    read_ivector_extractor,
    read_matrix,
    read_plda,
    read_vector,
)
from voiceanon.hub.kaldi.nnet3 import Component, Descriptor, Nnet3, Node, nnet3_entries, read_nnet3

__all__ = [
    "Component",
    "Descriptor",
    "DiagGmm",
    "IvectorExtractor",
    "Nnet3",
    "Node",
    "Plda",
    "nnet3_entries",
    "read_ark",
    "read_diag_gmm",
    "read_ivector_extractor",
    "read_matrix",
    "read_nnet3",
    "read_plda",
    "read_scp",
    "read_vector",
]
