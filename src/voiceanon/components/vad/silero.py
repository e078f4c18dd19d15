"""Silero's voice activity detector, version 4, for 16 kHz: probabilities of speech per block.

The published network is run block by block and keeps the state of its LSTM in between. Only that
state ties the blocks together, so that here all blocks of a batch pass the encoder at once, and the
LSTM sees whole recordings.

Sources: graph and tensors of ``files/silero_vad.onnx`` of github.com/snakers4/silero-vad (MIT), tag
v4.0; specification sheet of B3, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.vad.segments import BLOCK_SAMPLES
from voiceanon.errors import WeightsError

_WINDOW_SAMPLES = 256
_HOP_SAMPLES = 64
_EDGE_SAMPLES = 96
"""Reflected in front of and behind each block."""

_BINS = _WINDOW_SAMPLES // 2 + 1

_LOG_FACTOR = 2.0**20
"""The logarithm is that of 1 + factor * magnitude."""

_SMOOTHING_TAPS = 7
_SMOOTHING_FRAMES = 1.5
"""Standard deviation of the Gaussian that smooths the mean level over frames."""

_DEPTHWISE_TAPS = 5
_STATE_WIDTH = 64
_LSTM_LAYERS = 2

_ROWS = 1024
"""Blocks that pass the encoder at once: 8 MiB for each of its widest signals."""

FOLDED = ("encoder.0", "encoder.4", "encoder.8", "encoder.12")
"""Convolutions that the exporter has merged with their batch norms: the file gives numbers for
their names; they come in this order."""

_PREFIX = "model."
"""Of the names of the network for 16 kHz; that for 8 kHz has ``model_8k.``."""


class SileroVad(nn.Module):
    """Waveforms to probabilities of speech.

    Entries have the published names without ``model.`` in front, where the file has names; see
    `silero_from_onnx`. Computes in float32 under autocast, too.
    """

    def __init__(self) -> None:
        """Builds the network with untrained weights; transform and filter are the published."""
        super().__init__()
        self.feature_extractor = Spectrum()
        self.adaptive_normalization = LevelNorm()
        self.first_layer = nn.Sequential(SeparableBlock(2 * _BINS, 16))
        self.encoder = nn.Sequential(
            *_pooling(16, 2),
            nn.Sequential(SeparableBlock(16, 32)),
            *_pooling(32, 2),
            nn.Sequential(SeparableBlock(32, 32)),
            *_pooling(32, 2),
            nn.Sequential(SeparableBlock(32, 64)),
            *_pooling(64, 1),
        )
        self.lstm = nn.LSTM(_STATE_WIDTH, _STATE_WIDTH, _LSTM_LAYERS, batch_first=True)
        self.decoder = nn.ModuleDict(
            {"decoder": nn.Sequential(nn.ReLU(), nn.Conv1d(_STATE_WIDTH, 1, 1), nn.Sigmoid())}
        )

    def forward(self, wav: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the probabilities; the last block of a recording is filled up with zeros.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, brought to a peak of 1.0 as B3 does. The values in the
                padding do not matter.
            lengths: Samples of each recording, int64 ``(B,)``, 1 to T.

        Returns:
            Probabilities float32 ``(B, N)``, one for each 512 samples, and the blocks of each
            recording, int64 ``(B,)``. What comes after those is finite and has no meaning. A
            recording's own values do not depend on the rest of the batch.
        """
        blocks = (lengths + BLOCK_SAMPLES - 1) // BLOCK_SAMPLES
        places = torch.arange(wav.shape[1], device=wav.device)
        inside = wav.masked_fill(places >= lengths[:, None], 0.0)
        count = -(-wav.shape[1] // BLOCK_SAMPLES)
        filled = F.pad(inside, (0, count * BLOCK_SAMPLES - wav.shape[1]))
        with torch.autocast(wav.device.type, enabled=False):
            rows = filled.view(-1, BLOCK_SAMPLES)
            encoded = torch.cat([self.encode(part) for part in torch.split(rows, _ROWS)])
            states, _ = self.lstm(encoded.view(len(wav), count, _STATE_WIDTH))
            probabilities = self.decoder["decoder"](states.transpose(1, 2)).squeeze(1)
        return probabilities, blocks

    def encode(self, blocks: Tensor) -> Tensor:
        """Turns blocks ``(N, 512)`` into what the LSTM sees, ``(N, 64)``."""
        magnitudes = self.feature_extractor(blocks)
        levels = self.adaptive_normalization(magnitudes)
        features: Tensor = self.first_layer(torch.cat([magnitudes, levels], dim=1))
        encoded: Tensor = self.encoder(features)
        return encoded.squeeze(2)


class Spectrum(nn.Module):
    """Magnitudes of short-time spectra, eight per block, by a convolution."""

    forward_basis_buffer: Tensor

    def __init__(self) -> None:
        """Makes the transform, which the file holds as well: Fourier, periodic Hann window."""
        super().__init__()
        samples = torch.arange(_WINDOW_SAMPLES, dtype=torch.float64)
        turns = torch.arange(_BINS, dtype=torch.float64)[:, None] * samples / _WINDOW_SAMPLES
        window = torch.hann_window(_WINDOW_SAMPLES, dtype=torch.float64)
        waves = torch.cat([(2 * torch.pi * turns).cos(), -(2 * torch.pi * turns).sin()])
        self.register_buffer("forward_basis_buffer", (waves * window)[:, None].float())

    def forward(self, blocks: Tensor) -> Tensor:
        """Turns ``(N, 512)`` into ``(N, 129, 8)``."""
        edged = F.pad(blocks[:, None], (_EDGE_SAMPLES, _EDGE_SAMPLES), mode="reflect")
        parts = F.conv1d(edged, self.forward_basis_buffer, stride=_HOP_SAMPLES)
        real, imaginary = parts.square().chunk(2, dim=1)
        return (real + imaginary).sqrt()


class LevelNorm(nn.Module):
    """Logarithmic magnitudes less the smoothed mean level of their block."""

    filter_: Tensor

    def __init__(self) -> None:
        """Makes the smoothing filter, which the file holds as well: a Gaussian of sum 1."""
        super().__init__()
        places = torch.arange(_SMOOTHING_TAPS, dtype=torch.float64) - _SMOOTHING_TAPS // 2
        weights = (-0.5 * (places / _SMOOTHING_FRAMES).square()).exp()
        self.register_buffer("filter_", (weights / weights.sum())[None, None].float())

    def forward(self, magnitudes: Tensor) -> Tensor:
        """Turns ``(N, D, M)`` into the same shape."""
        levels = (1 + _LOG_FACTOR * magnitudes).log()
        side = _SMOOTHING_TAPS // 2
        means = F.pad(levels.mean(1, keepdim=True), (side, side), mode="reflect")
        return levels - F.conv1d(means, self.filter_).mean(2, keepdim=True)


class SeparableBlock(nn.Module):
    """A convolution per channel and one across channels, beside a shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        """Builds the layers; the shortcut has entries only where the channels change."""
        super().__init__()
        depthwise = nn.Conv1d(
            inputs, inputs, _DEPTHWISE_TAPS, padding=_DEPTHWISE_TAPS // 2, groups=inputs
        )
        self.dw_conv = nn.Sequential(depthwise)
        self.pw_conv = nn.Sequential(nn.Conv1d(inputs, outputs, 1))
        self.proj = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(N, inputs, M)`` into ``(N, outputs, M)``."""
        added = self.pw_conv(self.dw_conv(x).relu())
        return F.relu(added + self.proj(x))


def _pooling(width: int, stride: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    """A convolution of one tap, and a place holder for the batch norm that was merged with it."""
    return nn.Conv1d(width, width, 1, stride), nn.Identity(), nn.ReLU()


class ExportedOperation(Protocol):
    """An operation of the exported graph; see `voiceanon.hub.onnx.Layer`."""

    @property
    def kind(self) -> str:
        """Such as ``"Conv"``."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what it takes."""
        ...

    @property
    def branches(self) -> Mapping[str, ExportedGraph]:
        """Graphs that it chooses from, by name."""
        ...


class ExportedGraph(Protocol):
    """A graph, or a branch of one; see `voiceanon.hub.onnx.OnnxFile`."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Weights by name."""
        ...

    @property
    def operations(self) -> Sequence[ExportedOperation]:
        """In the order in which they run."""
        ...


def silero_from_onnx(graph: ExportedGraph) -> dict[str, Tensor]:
    """Finds the entries of `SileroVad` in the published file.

    The file holds two networks and chooses by the rate: the first branch is for 16 kHz.

    Args:
        graph: Of ``silero_vad.onnx``, version 4.

    Returns:
        Entries by the names of `SileroVad`.

    Raises:
        WeightsError: The graph is another, such as that of a later version.
    """
    try:
        branch = next(_branches(graph))
        entries = {
            name.removeprefix(_PREFIX): value
            for name, value in graph.tensors.items()
            if name.startswith(_PREFIX)
        }
        weights = [
            operation.inputs[1:3]
            for operation in branch.operations
            if operation.kind == "Conv" and not operation.inputs[1].startswith(_PREFIX)
        ]
        for place, names in zip(FOLDED, weights, strict=True):
            entries[f"{place}.weight"], entries[f"{place}.bias"] = (graph.tensors[n] for n in names)
        recurrent = next(b for b in _branches(branch) if _lstms(b))
        for layer, operation in enumerate(_lstms(recurrent)):
            entries |= _lstm_entries(layer, [recurrent.tensors[n] for n in operation.inputs[1:4]])
    except (IndexError, KeyError, StopIteration, ValueError) as error:
        raise WeightsError(
            f"Silero: this is not the graph of version 4 ({error!r}); take 'files/silero_vad.onnx' "
            "at the tag v4.0 of github.com/snakers4/silero-vad."
        ) from error
    return entries


def _branches(graph: ExportedGraph) -> Iterator[ExportedGraph]:
    """First branches of the choices in a graph."""
    for operation in graph.operations:
        if operation.kind == "If":
            yield operation.branches["then_branch"]


def _lstms(graph: ExportedGraph) -> list[ExportedOperation]:
    return [operation for operation in graph.operations if operation.kind == "LSTM"]


def _lstm_entries(layer: int, weights: Sequence[Tensor]) -> dict[str, Tensor]:
    """Entries of one layer; ONNX orders gates as input, output, forget, cell, and joins biases."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    inputs, states, biases = weights
    parts = (inputs[0], states[0], *biases[0].chunk(2))
    return {
        f"lstm.{name}_l{layer}": torch.cat([part.chunk(4)[gate] for gate in (0, 2, 3, 1)])
        for name, part in zip(names, parts, strict=True)
    }
