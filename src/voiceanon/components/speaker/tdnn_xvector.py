"""x-vectors: a time-delay network, statistics over time, and an embedding of the speaker.

Sources: specification sheet of the x-vector family, section 5; Snyder et al., "X-vectors: Robust
DNN Embeddings for Speaker Recognition", ICASSP 2018. Entries have the names of the components of
the published `final.raw`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from voiceanon.components.kaldi_layers import AffineReluNorm, ContextAffine
from voiceanon.components.rows import take_rows
from voiceanon.errors import WeightsError

CONTEXTS = ((-2, -1, 0, 1, 2), (-2, 0, 2), (-3, 0, 3), (0,), (0,))
"""Frames that each layer sees (section 5)."""

LOST_FRAMES = sum(offsets[-1] - offsets[0] for offsets in CONTEXTS)
"""Frames of a chunk without full context, 14: they do not enter the statistics."""

MIN_CHUNK_FRAMES = 25
"""Shorter chunks are filled up to this (`min_chunk_size`)."""

CHUNK_FRAMES = 25
"""Frames of a chunk in the public package (`max_chunk_size`); the training recipe has 10000."""

VARIANCE_FLOOR = 1e-10
"""Smallest variance (``<VarianceFloor>`` of the statistics pooling)."""


@dataclass(frozen=True, kw_only=True)
class XVectorConfig:
    """Sizes of a network; the defaults are the published ones (section 5).

    Attributes:
        inputs: Features of a frame.
        hidden: Features behind the layers ``tdnn1`` to ``tdnn5``.
        embedding: Values of an x-vector.
    """

    inputs: int = 30
    hidden: tuple[int, ...] = (512, 512, 512, 512, 1500)
    embedding: int = 512


class TdnnXVector(nn.Module):
    """Features of voiced frames to one x-vector per recording. Runs in float32, always.

    `is_unused_entry` tells the published entries that an x-vector does without.
    """

    def __init__(self, config: XVectorConfig | None = None) -> None:
        """Builds the network with untrained weights.

        Args:
            config: The published sizes if left out.
        """
        super().__init__()
        self.config = config = config or XVectorConfig()
        inputs = config.inputs
        for i, (width, offsets) in enumerate(zip(config.hidden, CONTEXTS, strict=True), start=1):
            self.add_module(f"tdnn{i}", AffineReluNorm(inputs, width, offsets=offsets))
            inputs = width
        # Before its ReLU and its batch norm the output is the x-vector.
        self.tdnn6 = nn.ModuleDict({"affine": ContextAffine(2 * inputs, config.embedding)})

    def forward(
        self,
        feats: Tensor,
        frames: Tensor,
        *,
        chunk_frames: int = CHUNK_FRAMES,
        min_chunk_frames: int = MIN_CHUNK_FRAMES,
    ) -> Tensor:
        """Computes x-vectors: the mean over a recording's chunks, weighted by their frames.

        Args:
            feats: MFCC without their sliding mean, voiced frames only, float32 ``(B, F, C)``. Rows
                behind a recording do not matter.
            frames: Frames of each recording, int64 ``(B,)``, at least 1.
            chunk_frames: Frames of a chunk; the last one of a recording may be shorter.
            min_chunk_frames: Frames to which a shorter chunk is filled up with copies of its first
                and last frame; at least 15.

        Returns:
            float32 ``(B, D)``.
        """
        with torch.autocast(feats.device.type, enabled=False):
            chunks, own, filled = _chunks(feats, frames, chunk_frames, min_chunk_frames)
            hidden = self.frame_features(chunks.flatten(0, 1))
            vectors = self.embed(hidden, filled.flatten() - LOST_FRAMES)
            weights = own.float() / frames[:, None]
            return (vectors.view(*own.shape, -1) * weights[..., None]).sum(1)

    def frame_features(self, x: Tensor) -> Tensor:
        """Turns chunks ``(M, N, C)`` into what is pooled, ``(M, N - LOST_FRAMES, H)``."""
        for i in range(1, len(CONTEXTS) + 1):
            x = self.get_submodule(f"tdnn{i}")(x)
        return x

    def embed(self, hidden: Tensor, frames: Tensor) -> Tensor:
        """Turns frames into an embedding.

        Args:
            hidden: float32 ``(M, N, H)``.
            frames: Frames of each chunk that count, int64 ``(M,)``, at least 1.

        Returns:
            float32 ``(M, D)``.
        """
        vectors: Tensor = self.tdnn6["affine"](pool_statistics(hidden, frames))
        return vectors


def pool_statistics(hidden: Tensor, frames: Tensor) -> Tensor:
    """Gives mean and standard deviation over time.

    Args:
        hidden: float32 ``(M, N, H)``.
        frames: Frames of each row that count, int64 ``(M,)``, at least 1.

    Returns:
        float32 ``(M, 2 H)``.
    """
    steps = torch.arange(hidden.shape[1], device=hidden.device)
    outside = (steps >= frames[:, None])[..., None]
    count = frames[:, None].to(hidden.dtype)
    mean = hidden.masked_fill(outside, 0.0).sum(1) / count
    # Of differences, not of squares, as Kaldi does it: those lose the digits of a small variance.
    spread = (hidden - mean[:, None]).masked_fill(outside, 0.0).square().sum(1) / count
    return torch.cat((mean, spread.clamp_min(VARIANCE_FLOOR).sqrt()), dim=1)


def config_from_entries(entries: Mapping[str, Sequence[int]]) -> XVectorConfig:
    """Reads the sizes of a network from the shapes of its entries.

    Args:
        entries: Shapes by published name; other entries do not matter.

    Raises:
        WeightsError: A layer is missing, or a layer does not fit the one in front of it.
    """
    names = [f"tdnn{i}.affine.weight" for i in range(1, len(CONTEXTS) + 2)]
    shapes = [tuple(entries.get(name, ())) for name in names]
    copies = [*map(len, CONTEXTS), 2]
    for name, shape, count in zip(names, shapes, copies, strict=True):
        if len(shape) != 2 or 0 in shape or shape[1] % count:
            found = f"has the shape {shape}" if name in entries else "is missing"
            raise WeightsError(
                f"x-vector network: the entry {name!r} {found}; (outputs, {count} x inputs) is "
                "due. Take the published final.raw of xvector_nnet_1a."
            )
    inputs = [shape[1] // count for shape, count in zip(shapes, copies, strict=True)]
    hidden = tuple(shape[0] for shape in shapes[:-1])
    if tuple(inputs[1:]) != hidden:
        raise WeightsError(
            f"x-vector network: layers of {hidden} features are followed by layers that take "
            f"{tuple(inputs[1:])}; they must be equal. Take the published final.raw of "
            "xvector_nnet_1a."
        )
    return XVectorConfig(inputs=inputs[0], hidden=hidden, embedding=shapes[-1][0])


def is_unused_entry(name: str) -> bool:
    """Tells whether a published entry comes behind the x-vector: only training needs it."""
    return name.startswith(("tdnn6.batchnorm.", "tdnn7.", "output."))


def _chunks(
    feats: Tensor, frames: Tensor, chunk_frames: int, min_chunk_frames: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Cuts recordings into chunks.

    Returns:
        Chunks ``(B, K, W, C)``, each followed by copies of its last frame; the recording's own
        frames in each, 0 for chunks behind a recording, int64 ``(B, K)``; and the frames with
        those that fill it up, int64 ``(B, K)``.
    """
    longest = feats.shape[1]
    size = min(chunk_frames, longest)
    starts = torch.arange(0, longest, size, device=feats.device)
    own = (frames[:, None] - starts).clamp(0, size)
    filled = own.clamp_min(min_chunk_frames)
    before = (filled - own) // 2
    places = torch.arange(max(size, min_chunk_frames), device=feats.device)
    index = (places - before[..., None]).clamp_min(0)
    index = starts[:, None] + torch.minimum(index, (own - 1).clamp_min(0)[..., None])
    # Chunks behind a recording, which get no weight, repeat its last frame: padding may be NaN.
    index = torch.minimum(index, frames[:, None, None] - 1)
    return take_rows(feats.float(), index), own, filled
