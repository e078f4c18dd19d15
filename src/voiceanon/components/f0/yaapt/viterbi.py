"""Dynamic programming over the frames of all recordings of a batch at once.

In the port, unlike in the Viterbi algorithm, the predecessor of a state is looked for with the
transitions the other way round: state j follows the state i for which cost(i) + transition(j to i)
is least, but what is added is transition(i to j). Of equal costs that of the last state wins.
"""

from __future__ import annotations

import torch
from torch import Tensor


def best_path(local: Tensor, transitions: Tensor, frames: Tensor, *, ported: bool = True) -> Tensor:
    """Finds the states of least cost.

    Args:
        local: Cost of each state, ``(B, N, S)``.
        transitions: Cost ``[b, t, i, j]`` from state i of frame t to state j of the next,
            ``(B, N - 1, S, S)``; minus infinity may occur.
        frames: Frames of each item, int64 ``(B,)``; what lies behind does not matter.
        ported: Whether predecessors are looked for as the port does.

    Returns:
        int64 ``(B, N)``; behind an item its last state is repeated.
    """
    states = local.shape[2]
    # In reverse order, as `argmin` takes the first of equal values.
    local = local.flip(2).transpose(0, 1).contiguous()
    towards = transitions.flip(2, 3).transpose(0, 1).contiguous()
    steps = towards.mT.contiguous()
    if not ported:
        towards = steps
    cost = local[0]
    costs, pointers = [cost], []
    # One frame after the other: what is chosen depends on all that was chosen before.
    for here, towards_here, step in zip(
        local[1:].unbind(), towards.unbind(), steps.unbind(), strict=True
    ):
        before = cost[:, None]
        pointer = (before + towards_here).argmin(2, keepdim=True)
        cost = (before + step).gather(2, pointer)[..., 0] + here
        pointers.append(pointer)
        costs.append(cost)
    last = (frames - 1).clamp_min(0)
    ends = torch.stack(costs, 1).gather(1, last[:, None, None].expand(-1, 1, states)).argmin(2)
    if not pointers:
        return states - 1 - ends
    return states - 1 - _trace_back(torch.stack(pointers, 1)[..., 0], ends, last)


def _trace_back(pointers: Tensor, ends: Tensor, last: Tensor) -> Tensor:
    """Follows the pointers from the last frame of each item.

    Args:
        pointers: State of frame t before each state of frame t + 1, int64 ``(B, N - 1, S)``.
        ends: State of the last frame, int64 ``(B, 1)``.
        last: Number of the last frame, int64 ``(B,)``.

    Returns:
        int64 ``(B, N)``.
    """
    states, steps = pointers.shape[2], pointers.shape[1]
    time = torch.arange(steps, device=pointers.device)
    stay = torch.arange(states, device=pointers.device)
    reached = pointers.where((time < last[:, None])[..., None], stay)
    # Pointers of 1, 2, 4, ... frames, composed until each leads from the end of the batch.
    span = 1
    while span < steps:
        joined = reached[:, :-span].gather(2, reached[:, span:])
        reached = torch.cat([joined, reached[:, -span:]], 1)
        span *= 2
    path = reached.gather(2, ends[:, None].expand(-1, steps, 1))[..., 0]
    return torch.cat([path, ends], 1)
