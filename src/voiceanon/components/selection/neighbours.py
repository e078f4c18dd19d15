"""Cosine nearest neighbours of frames in a pool, in two passes and with bounded memory.

The coarse pass scores every pool frame, block by block, and keeps a few candidates per query; the
exact pass computes the cosine of those alone, in float32 and without matrix products. So distances,
and the order of neighbours, depend neither on half precision, nor on TF32, nor on what else is in
the batch.

Source: specification sheet of kNN-VC, sections 5 and 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from voiceanon.errors import ConfigError

CANDIDATES = 32
"""Candidates of the coarse pass: with as many, bfloat16 scores lost no neighbour (section 11)."""

QUERY_BLOCK = 512
"""Queries, and `POOL_BLOCK` pool frames, whose float32 scores are held at once: 16 MiB."""

POOL_BLOCK = 8192

EXACT_BLOCK = 64
"""Queries whose candidates are gathered at once in the exact pass: 8 MiB at 1024 features."""

STORAGE = (torch.float32, torch.float16)
"""Types of stored frames. bfloat16 is none: it changes the neighbours of 2 % of the frames, float16
those of 0.25 % (section 11)."""


@dataclass(frozen=True, eq=False)
class PreparedPool:
    """A matching set on a device, with what need not be computed for every query.

    Attributes:
        frames: float32 or float16 ``(M, D)``, not normalised.
        inverse_norms: float32 ``(M,)``, 0 for a frame of zeros.
        values: ``(M, V)``, what is averaged in place of the frames; the frames themselves unless
            another set was given.
    """

    frames: Tensor
    inverse_norms: Tensor
    values: Tensor

    @classmethod
    def prepare(
        cls, frames: Tensor, *, dtype: torch.dtype = torch.float32, values: Tensor | None = None
    ) -> PreparedPool:
        """Stores frames and computes their norms, on the device where they are.

        Args:
            frames: ``(M, D)``, M at least 1.
            dtype: One of `STORAGE`; also that of the values.
            values: ``(M, V)``, if other frames than those that are compared shall be averaged.

        Raises:
            ConfigError: No frame, values that do not belong to the frames, another type, or frames
                that are not finite in that type.
        """
        if dtype not in STORAGE:
            raise ConfigError(f"pool: frames are stored as float32 or float16, not as {dtype}.")
        if frames.ndim != 2 or 0 in frames.shape:
            raise ConfigError(
                f"pool: frames of shape {tuple(frames.shape)}; (frames, features) are due, at "
                "least one of each. Add reference speech."
            )
        if values is not None and (values.ndim != 2 or len(values) != len(frames)):
            raise ConfigError(
                f"pool: values of shape {tuple(values.shape)} for {len(frames)} frames; one row "
                "for each frame is due."
            )
        frames = frames.to(dtype)
        norms = torch.linalg.vector_norm(frames, dim=1, dtype=torch.float32)
        if not bool(norms.isfinite().all()):
            raise ConfigError(f"pool: frames are not finite as {dtype}; check the reference.")
        return cls(frames, _inverse(norms), frames if values is None else values.to(dtype))

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.frames)

    def to(self, device: torch.device) -> PreparedPool:
        """The pool on another device; itself if it is there already."""
        if device == self.frames.device:
            return self
        frames = self.frames.to(device)
        values = frames if self.values is self.frames else self.values.to(device)
        return PreparedPool(frames, self.inverse_norms.to(device), values)


def nearest(
    query: Tensor,
    pool: PreparedPool,
    k: int,
    *,
    coarse: torch.dtype | None = None,
    candidates: int = CANDIDATES,
) -> tuple[Tensor, Tensor]:
    """Finds the pool frames with the smallest cosine distance to each query.

    Args:
        query: ``(N, D)``, float32 or half precision, on the pool's device.
        pool: At least one frame.
        k: Neighbours per query; a smaller pool gives as many as it has.
        coarse: Type of the factors in the coarse pass; sums are float32 always. ``None`` for the
            query's own type: exact for a float32 query. A half-precision type finds the same
            neighbours unless more than ``candidates`` frames are as near within its rounding.
        candidates: Frames per query that the exact pass compares.

    Returns:
        int64 indices and float32 distances, 0 to 2, both ``(N, min(k, M))``, nearest first; of
        equal distances the one with the smaller index.

    Raises:
        ConfigError: ``k`` is below 1, or query and pool do not fit together.
    """
    _check(query, pool, k)
    count = min(k, len(pool))
    kept = min(max(k, candidates), len(pool))
    with torch.autocast(query.device.type, enabled=False):
        results = []
        for block in torch.split(query, QUERY_BLOCK):
            unit = block.float()
            unit = unit * _inverse(torch.linalg.vector_norm(unit, dim=1, keepdim=True))
            chosen = _scan(unit, pool, kept, coarse or query.dtype)
            results.append(_refine(unit, pool, chosen, count))
        indices, distances = zip(*results, strict=True)
        return torch.cat(indices), torch.cat(distances)


def average(pool: PreparedPool, indices: Tensor) -> Tensor:
    """Unweighted mean of the pool's values at indices ``(N, k)``: float32 ``(N, V)``."""
    result = pool.values.new_empty(len(indices), pool.values.shape[1], dtype=torch.float32)
    for start in range(0, len(indices), QUERY_BLOCK):
        block = indices[start : start + QUERY_BLOCK]
        result[start : start + QUERY_BLOCK] = pool.values[block].mean(1, dtype=torch.float32)
    return result


def match(
    queries: Tensor,
    lengths: Tensor,
    pools: Sequence[PreparedPool],
    k: int,
    *,
    coarse: torch.dtype | None = None,
) -> Tensor:
    """Replaces every frame by the mean of its nearest frames in the item's own pool.

    Items that share a pool (the very same object) are searched together.

    Args:
        queries: ``(B, N, D)``; what lies behind an item's length is not looked at.
        lengths: int64 ``(B,)`` in frames.
        pools: One for each item, all of one width of values, on the queries' device.
        k: Neighbours per frame, at most as many as a pool has.
        coarse: As for `nearest`.

    Returns:
        float32 ``(B, N, V)``, zero behind each item, NaN for frames that are not finite.
    """
    if not len(queries) == len(lengths) == len(pools):
        raise ConfigError(
            f"matching: {len(queries)} queries, {len(lengths)} lengths and {len(pools)} pools; "
            "each item has one of all."
        )
    counts: list[int] = lengths.tolist()
    items_by_pool: dict[int, list[int]] = {}
    for item, pool in enumerate(pools):
        items_by_pool.setdefault(id(pool), []).append(item)
    width = pools[0].values.shape[1] if pools else 0
    result = queries.new_zeros(*queries.shape[:2], width, dtype=torch.float32)
    for items in items_by_pool.values():
        pool = pools[items[0]]
        query = torch.cat([queries[item, : counts[item]] for item in items])
        indices, distances = nearest(query, pool, k, coarse=coarse)
        # Any frames would be "nearest" to one that is not finite, and hide that it went wrong.
        matched = average(pool, indices).masked_fill_(distances[:, :1].isnan(), torch.nan)
        parts = torch.split(matched, [counts[item] for item in items])
        for item, part in zip(items, parts, strict=True):
            result[item, : counts[item]] = part
    return result


def _check(query: Tensor, pool: PreparedPool, k: int) -> None:
    if k < 1:
        raise ConfigError(f"matching: k is {k}; at least 1 neighbour is due.")
    if query.ndim != 2 or query.shape[1] != pool.frames.shape[1]:
        raise ConfigError(
            f"matching: queries of shape {tuple(query.shape)} in a pool of shape "
            f"{tuple(pool.frames.shape)}; both must have the same features. Prepare the pool with "
            "the extractor of the queries."
        )
    if query.device != pool.frames.device:
        raise ConfigError(
            f"matching: queries on {query.device}, pool on {pool.frames.device}; move the pool."
        )


def _inverse(norms: Tensor) -> Tensor:
    # A frame of zeros gets cosine 0 with everything rather than NaN.
    return torch.where(norms > 0, 1 / norms, 0)


def _scan(unit: Tensor, pool: PreparedPool, kept: int, coarse: torch.dtype) -> Tensor:
    """Coarse pass: indices ``(n, kept)`` of the largest scores, in any order."""
    factors = unit.to(coarse)
    best = unit.new_empty(len(unit), 0)
    chosen = best.long()
    for start in range(0, len(pool), POOL_BLOCK):
        rows = slice(start, start + POOL_BLOCK)
        scores = _products(factors, pool.frames[rows].to(coarse))
        scores *= pool.inverse_norms[rows]
        top, places = scores.topk(min(kept, scores.shape[1]), dim=1, sorted=False)
        merged = torch.cat([best, top], dim=1)
        best, order = merged.topk(min(kept, merged.shape[1]), dim=1, sorted=False)
        chosen = torch.cat([chosen, places + start], dim=1).gather(1, order)
    return chosen


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Dot products of all rows: ``(n, D)``, ``(m, D)`` of one type to float32 ``(n, m)``."""
    if left.dtype == torch.float32:
        return left @ right.T
    if left.device.type == "cuda":
        # Scores that are rounded to bfloat16 would change the neighbours of 32 % of the frames.
        return torch.mm(left, right.T, out_dtype=torch.float32)
    return left.float() @ right.float().T


def _refine(unit: Tensor, pool: PreparedPool, chosen: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Exact pass: the nearest ``count`` among candidates ``(n, kept)``, and their distances."""
    # In the order of the pool, so that a stable sort decides between equal distances.
    chosen = chosen.sort(dim=1).values
    cosines = unit.new_empty(chosen.shape)
    for start in range(0, len(unit), EXACT_BLOCK):
        rows = slice(start, start + EXACT_BLOCK)
        frames = pool.frames[chosen[rows]].float()
        cosines[rows] = frames.mul_(unit[rows, None]).sum(-1)
    cosines *= pool.inverse_norms[chosen]
    distances, order = (1 - cosines).sort(dim=1, stable=True)
    return chosen.gather(1, order[:, :count]), distances[:, :count]
