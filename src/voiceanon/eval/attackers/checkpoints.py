"""Files in an attacker's folder: tensors and plain values, whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from voiceanon.errors import WeightsError
from voiceanon.eval.attackers.network import EmbeddingNetwork, TrainingNetwork
from voiceanon.eval.sources.ecapa_embedder import EMBEDDING_FILE
from voiceanon.files import replacing
from voiceanon.hub.convert import load_strict
from voiceanon.hub.read import read_state as read_tensors

STATE_NAME = "training.ckpt"
"""All that a training needs to go on."""

FRONT_END_NAME = "front_end.ckpt"
"""Best weights of the front end, where it has any that are learnt."""

LAYER_WEIGHTS = "layer_weights"
"""Their name."""

Network: TypeAlias = TrainingNetwork | EmbeddingNetwork

_FROZEN = "front_end.wavlm."
"""Beginning of the names of entries that training does not change."""


def trained_state(network: Network) -> dict[str, Tensor]:
    """Entries that training changes: all but those of a frozen WavLM."""
    state = nn.Module.state_dict(network)
    return {name: value for name, value in state.items() if not name.startswith(_FROZEN)}


def write_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Saves the state of a training."""
    with replacing(folder / STATE_NAME) as temporary:
        torch.save(dict(state), temporary)


def read_state(folder: Path) -> dict[str, Any] | None:
    """Reads the state of a training; ``None`` if there is none.

    Raises:
        WeightsError: The file is damaged.
    """
    path = folder / STATE_NAME
    if not path.is_file():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # Damaged bytes make the reader fail in many ways.
        raise WeightsError(
            f"{path}: cannot be read ({type(error).__name__}); delete it to start the training "
            "anew."
        ) from error
    return state


def write_weights(folder: Path, network: Network) -> None:
    """Saves what embeddings need, apart from a frozen WavLM."""
    with replacing(folder / EMBEDDING_FILE) as temporary:
        torch.save(_on_cpu(network.encoder.state_dict()), temporary)
    front_end = _learnt(network)
    if front_end:
        with replacing(folder / FRONT_END_NAME) as temporary:
            torch.save(_on_cpu(front_end), temporary)


def read_weights(path: Path, network: Network) -> None:
    """Fills a network.

    Args:
        path: Folder of an attacker or of a checkpoint of the challenge, or a file with the entries
            of its ``embedding_model.ckpt``. Without weights of the front end, its own stay.
        network: On the CPU.

    Raises:
        WeightsError: The file is missing, damaged, or of another network.
    """
    file = path / EMBEDDING_FILE if path.is_dir() else path
    if not file.is_file():
        raise WeightsError(
            f"{file}: there is no such file; give a folder with {EMBEDDING_FILE}, or a file with "
            "its entries."
        )
    load_strict(network.encoder, read_tensors(file), file=file)
    front_end = file.with_name(FRONT_END_NAME)
    if _learnt(network) and front_end.is_file():
        layers = read_tensors(front_end).get(LAYER_WEIGHTS)
        own = _learnt(network)[LAYER_WEIGHTS]
        if layers is None or layers.shape != own.shape:
            raise WeightsError(
                f"{front_end}: does not fit a WavLM with {len(own)} hidden states; load with the "
                "WavLM that the attacker was trained with."
            )
        own.copy_(layers)


def digest_of_weights(network: Network) -> str:
    """SHA-256 of names and values of what training changes."""
    digest = hashlib.sha256()
    for name, value in sorted(trained_state(network).items()):
        digest.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _learnt(network: Network) -> dict[str, Tensor]:
    parameters = dict(nn.Module.named_parameters(network.front_end, recurse=False))
    return {name: parameter.detach() for name, parameter in parameters.items()}


def _on_cpu(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.cpu() for name, value in state.items()}
