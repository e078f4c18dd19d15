"""ECAPA-TDNN, the network of the speaker verification attackers.

Sources: paper "ECAPA-TDNN: Emphasized Channel Attention, Propagation and Aggregation in TDNN Based
Speaker Verification" (arXiv 2005.07143); specification sheet of the evaluation, section 3.3;
SpeechBrain 0.5.16, `lobes/models/ECAPA_TDNN.py`, for entry names and the order of steps.

SpeechBrain pads a batch with zeros and lets them flow into the embeddings. Here the ends of all
recordings are mirrored where they are, and means leave the padding out, so that a recording's
embedding is that of the recording alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.errors import WeightsError

MIN_FRAMES = 5
"""The widest convolution mirrors 4 frames at each end, for which it needs one more."""

VARIANCE_FLOOR = 1e-12
"""Below the square root in standard deviations (SpeechBrain, `AttentiveStatisticsPooling`)."""


@dataclass(frozen=True, kw_only=True)
class EcapaConfig:
    """Sizes; the defaults are those of the challenge's ASV_eval.

    Attributes:
        bands: Values per frame that go in.
        width: Channels of the first four blocks; 1024 in `speechbrain/spkrec-ecapa-voxceleb`.
        pooled_width: Channels that are pooled; 3072 there.
        scale: Parts into which a Res2Net block splits its channels.
        attention: Hidden channels of the attentive pooling.
        squeeze: Hidden channels of a squeeze-and-excitation block.
        embedding: Values of an embedding.
    """

    bands: int = 80
    width: int = 512
    pooled_width: int = 1536
    scale: int = 8
    attention: int = 128
    squeeze: int = 128
    embedding: int = 192

    @classmethod
    def from_entries(cls, entries: Mapping[str, Tensor]) -> EcapaConfig:
        """Reads the sizes from the shapes of published entries.

        Raises:
            WeightsError: They are not those of an ECAPA-TDNN.
        """
        try:
            width, bands, _ = entries["blocks.0.conv.conv.weight"].shape
            part = entries["blocks.1.res2net_block.blocks.0.conv.conv.weight"].shape[0]
            return cls(
                bands=bands,
                width=width,
                pooled_width=entries["mfa.conv.conv.weight"].shape[0],
                scale=width // part,
                attention=entries["asp.conv.conv.weight"].shape[1],
                squeeze=entries["blocks.1.se_block.conv1.conv.weight"].shape[0],
                embedding=entries["fc.conv.weight"].shape[0],
            )
        except (KeyError, ValueError) as error:
            raise WeightsError(
                f"ECAPA-TDNN: the entry {error} is missing or of another shape; take the file "
                "embedding_model.ckpt of a SpeechBrain ECAPA-TDNN."
            ) from error


@dataclass(frozen=True)
class Frames:
    """What is padding in a batch ``(B, C, N)``.

    Attributes:
        lengths: Frames of each recording, int64 ``(B,)``.
        inside: 1 in a recording and 0 in its padding, float32 ``(B, 1, N)``.
    """

    lengths: Tensor
    inside: Tensor

    @classmethod
    def of(cls, lengths: Tensor, size: int) -> Frames:
        """For recordings of some ``lengths`` in a batch of N = ``size`` frames."""
        inside = torch.arange(size, device=lengths.device) < lengths[:, None]
        return cls(lengths, inside[:, None].float())

    def mean(self, x: Tensor) -> Tensor:
        """Mean over the frames of each recording: ``(B, C, N)`` to ``(B, C, 1)``."""
        return (x * self.inside).sum(2, keepdim=True) / self.lengths[:, None, None]


class EcapaTdnn(nn.Module):
    """The network up to the embedding. Entries have the names of `embedding_model.ckpt`."""

    KERNEL = 5
    RES_KERNEL = 3
    DILATIONS = (2, 3, 4)

    def __init__(self, config: EcapaConfig | None = None) -> None:
        """Builds the network with untrained weights; ASV_eval's sizes if left out."""
        super().__init__()
        self.config = config or EcapaConfig()
        width, pooled = self.config.width, self.config.pooled_width
        self.blocks = nn.ModuleList([
            TdnnBlock(self.config.bands, width, self.KERNEL),
            *(SeRes2NetBlock(self.config, dilation) for dilation in self.DILATIONS),
        ])  # fmt: skip
        self.mfa = TdnnBlock(len(self.DILATIONS) * width, pooled)
        self.asp = AttentivePooling(pooled, self.config.attention)
        self.asp_bn = Norm(2 * pooled)
        self.fc = MirroredConv(2 * pooled, self.config.embedding)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Computes embeddings.

        Args:
            features: float32 ``(B, N, bands)``. The values in the padding do not matter.
            lengths: Frames of each recording, int64 ``(B,)``, `MIN_FRAMES` to N. The caller
                guarantees the lower bound.

        Returns:
            float32 ``(B, embedding)``, not normalised. A recording's own embedding does not depend
            on the rest of the batch.
        """
        pooled = self.pool(self.frames(features, lengths), lengths)
        return cast(Tensor, self.fc(self.asp_bn(pooled), lengths))[..., 0]

    def frames(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Computes what is pooled, ``(B, pooled_width, N)``."""
        frames = Frames.of(lengths, features.shape[1])
        x = features.transpose(1, 2)
        x = self.blocks[0](x.where(frames.inside > 0, x.new_zeros(())), lengths)
        outputs = []
        for block in self.blocks[1:]:
            x = block(x, frames)
            outputs.append(x)
        return cast(Tensor, self.mfa(torch.cat(outputs, 1), lengths))

    def pool(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Means and deviations over time: ``(B, C, N)`` to ``(B, 2 C, 1)``."""
        return cast(Tensor, self.asp(x, Frames.of(lengths, x.shape[2])))


class MirroredConv(nn.Module):
    """Convolution that keeps the length; beyond both ends of a recording it sees its reflection."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        """Makes ``conv``; its padding is half of its reach."""
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation)
        self.padding = dilation * (kernel - 1) // 2

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Turns ``(B, inputs, N)`` with lengths ``(B,)`` into ``(B, outputs, N)``."""
        if self.padding:
            x = mirror_ends(x, lengths, self.padding)
        return cast(Tensor, self.conv(x))


class Norm(nn.Module):
    """Batch norm under the name that SpeechBrain's wrapper gives it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, width, N)`` into the same shape."""
        return cast(Tensor, self.norm(x))


class TdnnBlock(nn.Module):
    """Convolution, ReLU, batch norm."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = MirroredConv(inputs, outputs, kernel, dilation)
        self.norm = Norm(outputs)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Turns ``(B, inputs, N)`` with lengths ``(B,)`` into ``(B, outputs, N)``."""
        return cast(Tensor, self.norm(F.relu(self.conv(x, lengths))))


class Res2NetBlock(nn.Module):
    """Convolutions of parts of the channels, each of which also sees the result of the last."""

    def __init__(self, config: EcapaConfig, dilation: int) -> None:
        super().__init__()
        self.scale = config.scale
        part = config.width // config.scale
        self.blocks = nn.ModuleList(
            TdnnBlock(part, part, EcapaTdnn.RES_KERNEL, dilation) for _ in range(config.scale - 1)
        )

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Turns ``(B, width, N)`` with lengths ``(B,)`` into the same shape."""
        first, *parts = x.chunk(self.scale, 1)
        results = [first]
        for i, (block, part) in enumerate(zip(self.blocks, parts, strict=True)):
            results.append(block(part if i == 0 else part + results[-1], lengths))
        return torch.cat(results, 1)


class SeBlock(nn.Module):
    """Squeeze and excitation: the mean over time tells how much of each channel passes."""

    def __init__(self, config: EcapaConfig) -> None:
        super().__init__()
        self.conv1 = MirroredConv(config.width, config.squeeze)
        self.conv2 = MirroredConv(config.squeeze, config.width)

    def forward(self, x: Tensor, frames: Frames) -> Tensor:
        """Turns ``(B, width, N)`` into the same shape."""
        hidden = F.relu(self.conv1(frames.mean(x), frames.lengths))
        return x * cast(Tensor, self.conv2(hidden, frames.lengths)).sigmoid()


class SeRes2NetBlock(nn.Module):
    """A Res2Net block between two maps of single frames, then excitation, around a shortcut."""

    def __init__(self, config: EcapaConfig, dilation: int) -> None:
        super().__init__()
        self.tdnn1 = TdnnBlock(config.width, config.width)
        self.res2net_block = Res2NetBlock(config, dilation)
        self.tdnn2 = TdnnBlock(config.width, config.width)
        self.se_block = SeBlock(config)

    def forward(self, x: Tensor, frames: Frames) -> Tensor:
        """Turns ``(B, width, N)`` into the same shape."""
        inner = self.res2net_block(self.tdnn1(x, frames.lengths), frames.lengths)
        return x + cast(Tensor, self.se_block(self.tdnn2(inner, frames.lengths), frames))


class AttentivePooling(nn.Module):
    """Weighted mean and deviation of each channel; the weights also see the unweighted ones."""

    def __init__(self, width: int, attention: int) -> None:
        super().__init__()
        self.tdnn = TdnnBlock(3 * width, attention)
        self.conv = MirroredConv(attention, width)

    def forward(self, x: Tensor, frames: Frames) -> Tensor:
        """Turns ``(B, width, N)`` into ``(B, 2 width, 1)``."""
        size = x.shape[2]
        mean, deviation = _statistics(x, frames.inside / frames.lengths[:, None, None])
        context = torch.cat([x, mean.expand(-1, -1, size), deviation.expand(-1, -1, size)], 1)
        hidden = self.tdnn(context, frames.lengths).tanh()
        scores = cast(Tensor, self.conv(hidden, frames.lengths))
        weights = scores.masked_fill(frames.inside == 0, -torch.inf).softmax(2)
        return torch.cat(_statistics(x, weights), 1)


def _statistics(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation over time, ``(B, C, 1)`` each, under weights that add up to 1."""
    mean = (weights * x).sum(2, keepdim=True)
    variance = (weights * (x - mean).square()).sum(2, keepdim=True)
    return mean, variance.clamp_min(VARIANCE_FLOOR).sqrt()


def mirror_ends(x: Tensor, lengths: Tensor, width: int) -> Tensor:
    """Continues every recording by its reflection, without the end frame itself.

    Args:
        x: ``(B, C, N)``.
        lengths: Frames of each recording, int64 ``(B,)``, more than ``width``.
        width: Frames to add at each end.

    Returns:
        ``(B, C, N + 2 width)``; recordings start at ``width``.
    """
    batch, channels, _ = x.shape
    steps = torch.arange(width, device=x.device)
    before = x[..., 1 : width + 1].flip(2)
    padded = torch.cat([before, x, x.new_zeros(batch, channels, width)], 2)
    source = (lengths[:, None] - 2 - steps)[:, None].expand(-1, channels, -1)
    target = (lengths[:, None] + width + steps)[:, None].expand(-1, channels, -1)
    return padded.scatter(2, target, x.gather(2, source))
