"""Batches: order by length, cap by padded samples, pad with lengths, undo."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def plan_batches(lengths: Sequence[float], capacity: float) -> list[list[int]]:
    """Groups items of similar length.

    Args:
        lengths: Length of each item, in any unit.
        capacity: Most that longest length times count may reach, in the same unit; an item that is
            longer gets a batch of its own.

    Returns:
        Batches of item indices, from the shortest items to the longest; equal lengths keep their
        order.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if batches and lengths[index] * (len(batches[-1]) + 1) <= capacity:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def pad(waves: Sequence[Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
    """Pads with zeros at the end.

    Args:
        waves: float32 ``(T_i,)`` each.
        device: Where the batch goes.

    Returns:
        float32 ``(B, T)`` and int64 lengths ``(B,)``, both on ``device``.
    """
    lengths = torch.tensor([len(wave) for wave in waves], device=device)
    return pad_sequence([wave.to(device) for wave in waves], batch_first=True), lengths


def unpad(batch: Tensor, lengths: Tensor) -> list[Tensor]:
    """Undoes `pad`: views of ``(B, T)`` with their own lengths."""
    return [wave[:length] for wave, length in zip(batch, lengths.tolist(), strict=True)]


def length_mask(lengths: Tensor, size: int) -> Tensor:
    """Marks what is no padding: bool ``(B, size)`` from lengths ``(B,)``."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]
