"""Chunks of long audio: cut with overlap, join to the exact length.

Neighbouring chunks share ``2 * overlap`` samples. The outer half of what they share is context and
thrown away; over the inner half the first fades into the second. Where a system's output depends
on less than half the overlap, chunked and whole results agree up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ChunkPlan:
    """Where a recording is cut.

    Attributes:
        total: Samples of the recording.
        starts: First sample of each chunk's own part; the first is 0.
        overlap: Samples of context on both sides.
    """

    total: int
    starts: tuple[int, ...]
    overlap: int

    def __len__(self) -> int:
        """Number of chunks."""
        return len(self.starts)

    def span(self, index: int) -> tuple[int, int]:
        """First sample and end of a chunk with its context."""
        end = self.starts[index + 1] if index + 1 < len(self) else self.total
        return max(0, self.starts[index] - self.overlap), min(self.total, end + self.overlap)


def plan_chunks(total: int, chunk: int, overlap: int, hop: int = 1) -> ChunkPlan:
    """Cuts ``total`` samples into pieces of about equal size.

    Args:
        total: Samples of the recording.
        chunk: Samples of a piece, context not counted; a remainder shorter than ``overlap`` is
            left with its neighbour.
        overlap: Samples of context on both sides; at most half of ``chunk``.
        hop: Cuts fall on multiples of this, so that frames lie as in the whole recording.
    """
    if total <= chunk:
        return ChunkPlan(total, (0,), 0)
    overlap = _round_up(overlap, hop)
    size = max(hop, _round_up(-(-total // -(-total // chunk)), hop))
    starts = list(range(0, total, size))
    if len(starts) > 1 and total - starts[-1] < overlap:
        starts.pop()
    return ChunkPlan(total, tuple(starts), overlap)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


class ChunkJoiner:
    """Joins converted chunks, given in order, into one seamless signal."""

    def __init__(self, plan: ChunkPlan) -> None:
        self._plan = plan
        self._index = 0
        self._tail: Tensor | None = None

    def push(self, chunk: Tensor) -> Tensor:
        """Takes the next converted chunk with its context, gives the samples that are now final.

        Args:
            chunk: float32 ``(T,)``, as long as the chunk's span.
        """
        plan, index = self._plan, self._index
        first, _ = plan.span(index)
        half = plan.overlap // 2
        begin = 0
        pieces = []
        if self._tail is not None:
            begin = plan.starts[index] - half - first
            pieces.append(_cross_fade(self._tail, chunk[begin : begin + len(self._tail)]))
            begin += len(self._tail)
        if index + 1 < len(plan):
            stop = plan.starts[index + 1] - half - first
            self._tail = chunk[stop : stop + 2 * half].clone()
            pieces.append(chunk[begin:stop])
        else:
            self._tail = None
            pieces.append(chunk[begin:])
        self._index += 1
        return torch.cat(pieces)


def _cross_fade(first: Tensor, second: Tensor) -> Tensor:
    steps = torch.arange(1, len(first) + 1, dtype=first.dtype, device=first.device)
    return torch.lerp(first, second, steps / (len(first) + 1))
