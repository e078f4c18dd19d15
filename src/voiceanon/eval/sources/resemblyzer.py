"""The GE2E speaker encoder whose weights lie in the package `resemblyzer`: needs no download.

Sources: paper "Generalized End-to-End Loss for Speaker Verification" (arXiv 1710.10467); package
Resemblyzer 0.1.4 (Apache-2.0), `hparams.py`, `audio.py` and `voice_encoder.py`, for all numbers.

The package is not imported, only its file of weights is read: its import needs `webrtcvad`, which
current versions of setuptools break. So its step that shortens long silences is left out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from voiceanon.devices import building, resolve_device
from voiceanon.errors import AudioError, WeightsError
from voiceanon.eval.dependencies import missing
from voiceanon.eval.sources.base import NOT_CHALLENGE, Recording
from voiceanon.eval.sources.waves import SAMPLE_RATE, embed_batches, open_waves
from voiceanon.hub.convert import load_strict
from voiceanon.hub.read import read_state
from voiceanon.hub.verify import digest_of

PACKAGE = "resemblyzer"
WEIGHT_FILE = "pretrained.pt"

WINDOW_SAMPLES = 400
"""25 ms; also the length of the Fourier transform."""

HOP_SAMPLES = 160
"""10 ms."""

BANDS = 40
"""Mel bands; their powers go in as they are, not as logarithms."""

WIDTH = 256
"""Of the LSTM, and of the embedding."""

LAYERS = 3

PIECE_FRAMES = 160
"""Frames of a piece; an embedding is the mean of those of the pieces."""

STEP_FRAMES = 77
"""From piece to piece: 1.3 pieces per second, in whole frames."""

MIN_COVERAGE = 0.75
"""A last piece of which less than this is speech is left out, unless it is the only one."""

LEVEL_DBFS = -30.0
"""Quieter recordings are brought to this RMS."""

MIN_SECONDS = WINDOW_SAMPLES / SAMPLE_RATE
"""Shortest recording, seconds (ours)."""

BATCH_SECONDS = 120.0
"""Most speech in one batch, padding included (ours)."""

LABEL = f"GE2E encoder of the package resemblyzer, without its trim of silences; {NOT_CHALLENGE}"

TRAINING_DATA = "LibriSpeech train-other-500, VoxCeleb1 and VoxCeleb2, original speech"
"""As the repository Real-Time-Voice-Cloning, where the weights come from, states it."""

_UNUSED = ("similarity_weight", "similarity_bias")
"""Entries of the training loss."""


class Ge2eNetwork(nn.Module):
    """Mel powers, LSTM over pieces, and the mean of their embeddings."""

    window: Tensor
    filters: Tensor

    def __init__(self) -> None:
        """Builds the network with untrained weights."""
        super().__init__()
        from torchaudio.functional import melscale_fbanks

        self.lstm = nn.LSTM(BANDS, WIDTH, LAYERS, batch_first=True)
        self.linear = nn.Linear(WIDTH, WIDTH)
        filters = melscale_fbanks(
            WINDOW_SAMPLES // 2 + 1,
            0.0,
            SAMPLE_RATE / 2,
            BANDS,
            SAMPLE_RATE,
            norm="slaney",
            mel_scale="slaney",
        )
        self.register_buffer("window", torch.hann_window(WINDOW_SAMPLES), persistent=False)
        self.register_buffer("filters", filters, persistent=False)

    def forward(self, wav: Tensor, lengths: Tensor) -> Tensor:
        """Embeds recordings.

        Args:
            wav: float32 ``(B, T)``, 16 kHz. The values in the padding do not matter.
            lengths: Samples of each recording, int64 ``(B,)``, at least 1.

        Returns:
            float32 ``(B, WIDTH)`` of length 1. A row does not depend on the others.
        """
        counts = piece_counts(lengths)
        owner = torch.arange(len(counts), device=wav.device).repeat_interleave(counts)
        first = counts.cumsum(0) - counts
        start = STEP_FRAMES * (torch.arange(len(owner), device=wav.device) - first[owner])
        frames = start[:, None] + torch.arange(PIECE_FRAMES, device=wav.device)
        powers = self.powers(wav, lengths, int(frames.max()) + 1)
        _, (hidden, _) = self.lstm(powers[owner[:, None], frames])
        pieces = _unit(cast(Tensor, self.linear(hidden[-1])).relu())
        sums = pieces.new_zeros(len(counts), WIDTH).index_add(0, owner, pieces)
        return _unit(sums / counts[:, None])

    def powers(self, wav: Tensor, lengths: Tensor, count: int) -> Tensor:
        """Powers of mel bands, float32 ``(B, count, BANDS)``, zeros behind each recording."""
        inside = torch.arange(wav.shape[1], device=wav.device) < lengths[:, None]
        silence = max(0, count * HOP_SAMPLES - wav.shape[1])
        spectrum = torch.stft(
            nn.functional.pad(wav.where(inside, wav.new_zeros(())), (0, silence)),
            WINDOW_SAMPLES,
            HOP_SAMPLES,
            window=self.window,
            center=True,
            pad_mode="constant",
            return_complex=True,
        )
        power = spectrum.real.square() + spectrum.imag.square()
        return power[..., :count].transpose(1, 2) @ self.filters


def piece_counts(lengths: Tensor) -> Tensor:
    """Pieces of recordings of some ``lengths`` in samples, int64 of the same shape, at least 1."""
    frames = 1 + lengths // HOP_SAMPLES
    # One piece begins every step until the end is reached.
    steps = (frames - PIECE_FRAMES + STEP_FRAMES + 1).clamp_min(1)
    counts = -(-steps // STEP_FRAMES)
    covered = lengths - (counts - 1) * STEP_FRAMES * HOP_SAMPLES
    thin = (covered < MIN_COVERAGE * PIECE_FRAMES * HOP_SAMPLES) & (counts > 1)
    return counts - thin.long()


class Ge2eEmbedder:
    """Embeds recordings, each as if it were alone.

    Attributes:
        label: See `ScoreSource`.
        identity: See `ScoreSource`.
        training_data: What the network was trained on.
    """

    def __init__(self, *, device: str | torch.device = "auto") -> None:
        """Reads the weights of the installed package.

        Args:
            device: As in `voiceanon.load`.

        Raises:
            MissingDependencyError: The package is not installed.
            WeightsError: Its file of weights is missing or damaged.
        """
        path = _weights()
        self.label = LABEL
        self.training_data = TRAINING_DATA
        self.identity = f"{PACKAGE} {digest_of(path)}"
        self._device = resolve_device(device)
        with building():
            network = Ge2eNetwork()
        entries = read_state(path, "model_state")
        load_strict(network, entries, file=path, unused=lambda name: name in _UNUSED)
        self._network = network.to(self._device).eval().requires_grad_(False)

    def embed(self, recordings: Sequence[Recording]) -> npt.NDArray[np.float32]:
        """Embeds recordings.

        Args:
            recordings: See `waves.open_wave`.

        Returns:
            float32 ``(n, 256)`` of length 1.

        Raises:
            AudioError: A recording cannot be used as it is, is silent or shorter than 25 ms.
        """
        waves = open_waves(recordings, min_seconds=MIN_SECONDS, label=self.label, form=raise_level)
        return embed_batches(
            self._network,
            waves,
            width=WIDTH,
            batch_seconds=BATCH_SECONDS,
            device=self._device,
        )


def raise_level(wave: Tensor) -> Tensor:
    """Brings a recording to `LEVEL_DBFS` if it is quieter.

    Args:
        wave: float32 ``(T,)``.

    Raises:
        AudioError: It is silent.
    """
    rms = wave.double().square().mean().sqrt()
    if rms == 0:
        raise AudioError(
            "audio: the recording is silent, which has no speaker; leave it out of the trials."
        )
    gain = (10 ** (LEVEL_DBFS / 20) / rms).clamp_min(1.0)
    return wave * gain.float()


def _weights() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise missing(PACKAGE, "attacker", options="--no-deps ")
    path = Path(found.submodule_search_locations[0]) / WEIGHT_FILE
    if not path.is_file():
        raise WeightsError(f"{path}: there is no such file; install the package {PACKAGE} afresh.")
    return path


def _unit(vectors: Tensor) -> Tensor:
    norms: Tensor = vectors.norm(dim=1, keepdim=True)
    return vectors / norms
