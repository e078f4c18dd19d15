"""Moves the poles of frames, on the CPU or on a GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from voiceanon.components.lpc import tensor

BLOCK_FRAMES = 128
"""Frames whose intermediate values share a core's cache."""


def warp_poles(frames: Tensor, alphas: Tensor, order: int, offset: float) -> Tensor:
    """Predicts each frame, warps the angles of its poles, and filters its residual with them.

    Args:
        frames: Windowed frames, float64 ``(K, L)``.
        alphas: McAdams coefficient per frame, float64 ``(K,)``.
        order: Of the linear prediction.
        offset: Added to the frames that are analysed (not to those that are filtered), which keeps
            silence defined.

    Returns:
        float64 ``(K, L)``.
    """
    if frames.device.type == "cpu":
        return _warp_compiled(frames, alphas, order, offset)
    whitening = tensor.burg(frames + offset, order)
    return tensor.refilter(frames, whitening, tensor.warp(whitening, alphas))


def _warp_compiled(frames: Tensor, alphas: Tensor, order: int, offset: float) -> Tensor:
    # Imported here, since numba costs as much to import as all the rest but torch.
    from voiceanon.components.lpc import compiled

    result = torch.empty_like(frames)

    def work(start: int) -> None:
        span = slice(start, start + BLOCK_FRAMES)
        part = frames[span].numpy()
        whitening = compiled.burg(part + offset, order)
        shaping = compiled.warp(whitening, alphas[span].numpy())
        compiled.refilter(part, whitening, shaping, result[span].numpy())

    starts = range(0, len(frames), BLOCK_FRAMES)
    threads = min(torch.get_num_threads(), len(starts))
    if threads <= 1:
        for start in starts:
            work(start)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, starts))
    return result
