"""Weight normalisation folded away: published pairs of magnitude and direction become one weight.

In inference the pair is a constant, so that a plain weight gives the same output for less work.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from voiceanon.errors import WeightsError

SPELLINGS = (
    ("weight_g", "weight_v"),
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
)
"""Endings of magnitude and direction: `torch.nn.utils.weight_norm` and its successor in
`torch.nn.utils.parametrizations`."""

FOLDED = "weight"
"""Ending of the folded entry."""


def fold_weight_norm(magnitude: Tensor, direction: Tensor) -> Tensor:
    """Gives the weight that a pair stands for: ``magnitude * direction / ||direction||``.

    The norm runs over the dimensions in which ``magnitude`` has size 1, so that its shape alone
    tells which dimension was kept.

    Args:
        magnitude: ``g``, as many dimensions as ``direction``, each of its size or of size 1.
        direction: ``v``, any shape.

    Returns:
        Shape and type of ``direction``.

    Raises:
        WeightsError: The shapes do not belong together.
    """
    fits = magnitude.dim() == direction.dim() and all(
        kept in (1, size) for kept, size in zip(magnitude.shape, direction.shape, strict=True)
    )
    if not fits:
        raise WeightsError(
            f"weight norm: a magnitude of shape {tuple(magnitude.shape)} does not fit a direction "
            f"of shape {tuple(direction.shape)}; every size must be 1 or the same. Take both from "
            "one checkpoint."
        )
    kept_dims = [i for i, kept in enumerate(magnitude.shape) if kept > 1] or [0]
    if len(kept_dims) == 1:
        # The kernel of torch's own weight norm, so that weights are those of the published code to
        # the last bit.
        return torch._weight_norm(direction, magnitude, kept_dims[0])
    summed = [i for i, kept in enumerate(magnitude.shape) if kept == 1]
    # An empty list would mean all dimensions to `vector_norm`.
    norm = torch.linalg.vector_norm(direction, dim=summed, keepdim=True) if summed else direction
    return direction * (magnitude / norm.abs())


def fold_entries(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Folds every weight-normalised layer of a checkpoint.

    Args:
        state: Entries by name. Both of `SPELLINGS` are understood, also side by side; layers that
            are folded already, or that never had a weight norm, pass unchanged.

    Returns:
        The same entries in the same order, with ``<layer>.weight`` in place of each pair.

    Raises:
        WeightsError: Half of a pair is missing, a layer has more than one weight, or the shapes of
            a pair do not belong together.
    """
    folded: dict[str, Tensor] = {}
    for name, value in state.items():
        layer, ending = _split(name)
        if ending is None:
            _put(folded, name, value)
            continue
        magnitude, direction = (_half(state, layer + half) for half in ending)
        # The magnitude alone writes, so that a pair is folded once.
        if name == layer + ending[0]:
            _put(folded, layer + FOLDED, fold_weight_norm(magnitude, direction))
    return folded


def _split(name: str) -> tuple[str, tuple[str, str] | None]:
    """Splits an entry's name into its layer, with the dot, and the spelling of its pair."""
    for pair in SPELLINGS:
        for ending in pair:
            layer = name.removesuffix(ending)
            if layer != name and (not layer or layer.endswith(".")):
                return layer, pair
    return name, None


def _half(state: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in state:
        raise WeightsError(
            f"weight norm: the entry {name!r} is missing, but its other half is there; a layer "
            "needs both. Load the complete checkpoint."
        )
    return state[name]


def _put(folded: dict[str, Tensor], name: str, value: Tensor) -> None:
    if name in folded:
        raise WeightsError(
            f"weight norm: the checkpoint holds {name!r} more than once, plain or in a pair; one "
            "form is allowed. Remove the others."
        )
    folded[name] = value
