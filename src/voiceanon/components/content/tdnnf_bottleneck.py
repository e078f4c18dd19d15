"""Bottleneck features of a factorised time-delay network (TDNN-F) that is told the speaker.

Sources: specification sheet of the x-vector family, section 7; `run_tdnn_1d.sh` of Kaldi's
LibriSpeech recipe; Povey et al., "Semi-Orthogonal Low-Rank Matrix Factorization for Deep Neural
Networks", Interspeech 2018. Entries have the names of the components of the published
`prefinal-l.raw`, with `lda` merged into the first layer (`merge_lda`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.kaldi_layers import ContextAffine, RunningNorm, splice
from voiceanon.components.rows import take_rows
from voiceanon.errors import WeightsError

SHIFTS = (1, 1, 1, 0, *(3,) * 12)
"""Frames between the two that each of the layers ``tdnnf2`` to ``tdnnf17`` sees (section 7)."""

FIRST_OFFSETS = (-1, 0, 1)
"""Frames that the first layer sees."""

CONTEXT_FRAMES = 1 + sum(SHIFTS)
"""Frames on each side that a bottleneck frame depends on: 40."""

BYPASS = 0.75
"""Share of a layer's input that is added to its output."""

CHUNK_FRAMES = 50
"""Output frames that are computed together, with one i-vector (Kaldi's ``--frames-per-chunk``)."""

BLOCK = 32
"""Chunks that are computed at once: 26 MB per layer at the published sizes."""

IVECTOR_PERIOD = 10
"""Frames between i-vectors (``--online-ivector-period``)."""


@dataclass(frozen=True, kw_only=True)
class TdnnfBottleneckConfig:
    """Sizes of a network; the defaults are the published ones (section 7).

    Attributes:
        inputs: Features of a frame.
        ivector: Values of an i-vector.
        hidden: Features between layers.
        inner: Features between the two maps of a layer.
        bottleneck: Features of the bottleneck.
    """

    inputs: int = 40
    ivector: int = 100
    hidden: int = 1536
    inner: int = 160
    bottleneck: int = 256


class TdnnfBottleneckNet(nn.Module):
    """Features and i-vectors to bottleneck features. Runs in float32, always."""

    def __init__(self, config: TdnnfBottleneckConfig | None = None) -> None:
        """Builds the network with untrained weights.

        Args:
            config: The published sizes if left out.
        """
        super().__init__()
        self.config = config = config or TdnnfBottleneckConfig()
        spliced = len(FIRST_OFFSETS) * config.inputs + config.ivector
        first = nn.ModuleDict({"affine": ContextAffine(spliced, config.hidden)})
        self.lda = nn.ModuleDict({"tdnn1": first})
        self.tdnn1 = nn.ModuleDict({"batchnorm": RunningNorm(config.hidden)})
        for i, shift in enumerate(SHIFTS, start=2):
            self.add_module(f"tdnnf{i}", FactorisedLayer(config.hidden, config.inner, shift=shift))
        self.add_module("prefinal-l", ContextAffine(config.hidden, config.bottleneck, bias=False))

    def forward(self, feats: Tensor, frames: Tensor, ivectors: Tensor) -> Tensor:
        """Computes bottleneck features, one for each frame.

        Args:
            feats: MFCC, float32 ``(B, F, C)``. Rows behind a recording do not matter.
            frames: Frames of each recording, int64 ``(B,)``, at least 1.
            ivectors: float32 ``(B, V, S)``, one for every `IVECTOR_PERIOD` frames. Rows behind
                those of a recording do not matter.

        Returns:
            float32 ``(B, F, D)``. Rows behind a recording are finite and have no meaning.
        """
        with torch.autocast(feats.device.type, enabled=False):
            parts = (torch.split(part, BLOCK) for part in _chunks(feats, frames, ivectors))
            blocks = [
                self.bottleneck(self.first_norm(self.first_affine(x, ivector)))
                for x, ivector in zip(*parts, strict=True)
            ]
        rows = torch.cat(blocks).view(len(feats), -1, self.config.bottleneck)
        return rows[:, : feats.shape[1]]

    def first_affine(self, x: Tensor, ivector: Tensor) -> Tensor:
        """Turns chunks ``(M, N, C)`` and their i-vectors ``(M, S)`` into ``(M, N - 2, H)``."""
        spliced = splice(x, FIRST_OFFSETS)
        told = ivector[:, None].expand(-1, spliced.shape[1], -1)
        return cast(Tensor, self.get_submodule(_FIRST)(torch.cat([spliced, told], dim=2)))

    def first_norm(self, x: Tensor) -> Tensor:
        """Applies ReLU and batch norm of the first layer to ``(M, N, H)``."""
        return cast(Tensor, self.tdnn1["batchnorm"](F.relu(x)))

    def bottleneck(self, x: Tensor) -> Tensor:
        """Runs the other layers: ``(M, N + 2 sum(SHIFTS), H)`` to ``(M, N, D)``."""
        for i in range(2, len(SHIFTS) + 2):
            x = self.get_submodule(f"tdnnf{i}")(x)
        return cast(Tensor, self.get_submodule("prefinal-l")(x))


class FactorisedLayer(nn.Module):
    """Two maps that look one back and one ahead; ReLU, batch norm, bypass."""

    def __init__(self, width: int, inner: int, *, shift: int) -> None:
        """Builds the layer.

        Args:
            width: Features in front of and behind the layer, H.
            inner: Features between the two maps.
            shift: Frames to look back and ahead; 0 for none.
        """
        super().__init__()
        self.shift = shift
        back, ahead = ((-shift, 0), (0, shift)) if shift else ((0,), (0,))
        self.linear = ContextAffine(width, inner, offsets=back, bias=False)
        self.affine = ContextAffine(inner, width, offsets=ahead)
        self.batchnorm = RunningNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(M, N, H)`` into ``(M, N - 2 shift, H)``."""
        branch: Tensor = self.batchnorm(F.relu(self.affine(self.linear(x))))
        middle = x[:, self.shift : self.shift + branch.shape[1]]
        return torch.add(branch, middle, alpha=BYPASS)


def merge_lda(entries: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Turns the entries of a file as trained into those of a file that is prepared for use.

    Args:
        entries: Values by published name. Where the fixed map ``lda`` and ``tdnn1.affine`` stand
            apart, they become ``lda.tdnn1.affine``.
    """
    merged = dict(entries)
    if "lda.weight" in merged:
        first_weight, first_bias = merged.pop("lda.weight"), merged.pop("lda.bias")
        weight, bias = merged.pop("tdnn1.affine.weight"), merged.pop("tdnn1.affine.bias")
        product = weight.double() @ first_weight.double()
        moved = weight.double() @ first_bias.double() + bias.double()
        merged[f"{_FIRST}.weight"], merged[f"{_FIRST}.bias"] = product.float(), moved.float()
    return merged


def config_from_entries(entries: Mapping[str, Sequence[int]]) -> TdnnfBottleneckConfig:
    """Reads the sizes of a network from the shapes of its entries.

    The i-vector is taken to be what the first layer gets besides three frames of the published 40
    features.

    Args:
        entries: Shapes by name, after `merge_lda`.

    Raises:
        WeightsError: An entry is missing or has too few values.
    """
    hidden, spliced = _shape(entries, f"{_FIRST}.weight")
    inputs = TdnnfBottleneckConfig.inputs
    ivector = spliced - len(FIRST_OFFSETS) * inputs
    if ivector < 1:
        raise WeightsError(
            f"bottleneck network: the first layer takes {spliced} values; {len(FIRST_OFFSETS)} "
            f"frames of {inputs} features and an i-vector are due. {_HINT}"
        )
    return TdnnfBottleneckConfig(
        inputs=inputs,
        ivector=ivector,
        hidden=hidden,
        inner=_shape(entries, "tdnnf2.linear.weight")[0],
        bottleneck=_shape(entries, "prefinal-l.weight")[0],
    )


_FIRST = "lda.tdnn1.affine"
_HINT = "Take the published prefinal-l.raw of tdnn_1d_sp."


def _shape(entries: Mapping[str, Sequence[int]], name: str) -> tuple[int, int]:
    """Shape of a matrix that must be there."""
    shape = tuple(entries.get(name, ()))
    if len(shape) != 2 or 0 in shape:
        found = f"has the shape {shape}" if name in entries else "is missing"
        raise WeightsError(f"bottleneck network: the entry {name!r} {found}. {_HINT}")
    return shape


def _chunks(feats: Tensor, frames: Tensor, ivectors: Tensor) -> tuple[Tensor, Tensor]:
    """Cuts recordings into chunks of `CHUNK_FRAMES` with context, each with its i-vector.

    The network sees a chunk's i-vector in the frames around the chunk, too, so that neighbouring
    chunks do not share them.

    Returns:
        ``(B K, CHUNK_FRAMES + 2 CONTEXT_FRAMES, C)`` and ``(B K, S)``.
    """
    device = feats.device
    starts = torch.arange(0, feats.shape[1], CHUNK_FRAMES, device=device)
    places = torch.arange(-CONTEXT_FRAMES, CHUNK_FRAMES + CONTEXT_FRAMES, device=device)
    index = (starts[:, None] + places).clamp_min(0)
    chunks = take_rows(feats.float(), torch.minimum(index, frames[:, None, None] - 1))
    own = (frames[:, None] - starts).clamp(1, CHUNK_FRAMES)
    middle = (starts + (own - 1) // 2) // IVECTOR_PERIOD
    last = (frames - 1) // IVECTOR_PERIOD
    chosen = take_rows(ivectors.float(), torch.minimum(middle, last[:, None]))
    return chunks.flatten(0, 1), chosen.flatten(0, 1)
