"""ASR_eval, the speech recognizer of the VoicePrivacy Challenge 2024.

wav2vec 2.0, two linear layers, and CTC without a language model. Sources: specification sheet of
the evaluation, section 3.4; hyperparameters of ``speechbrain/asr-wav2vec2-librispeech``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.batching import pad
from voiceanon.devices import arithmetic, building, resolve_device
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.eval.metrics.wer import normalise_reference
from voiceanon.eval.sources.base import Recording
from voiceanon.eval.sources.manifest import (
    Access,
    SourceInfo,
    identity_of,
    read_source,
    resolve_source,
)
from voiceanon.eval.sources.releases import resolve_members
from voiceanon.eval.sources.wav2vec2 import (
    ENCODER_RENAMES,
    LARGE_LV60,
    MIN_SAMPLES,
    Encoder,
    read_labels,
    read_settings,
)
from voiceanon.eval.sources.waves import SAMPLE_RATE, open_waves
from voiceanon.hub.convert import load_strict
from voiceanon.hub.read import read_state

ASR_EVAL = "vpc2024-asr-eval"
"""The challenge's own file."""

ASR_HUB = "speechbrain-asr-wav2vec2-librispeech"
"""The model on the Hub that the challenge names as its source."""

ENCODER_FILE = "wav2vec2.ckpt"
HEAD_FILE = "asr.ckpt"
LABEL_FILE = "tokenizer.ckpt"

BATCH_SIZE = 8
"""Recordings per batch, from the longest to the shortest (VPC 2024); texts depend on it."""

BLANK = 0
"""Number of the CTC blank."""

LEAK = 0.01
"""Slope of the LeakyReLU below 0: PyTorch's, which the recipe leaves as it is."""

_HEAD_RENAMES = (
    (r"^0\.linear\.w\.", "layers.0."),
    (r"^0\.linear_0\.w\.", "layers.1."),
    (r"^1\.w\.", "output."),
)


class AsrNetwork(nn.Module):
    """The network: log-probabilities of characters."""

    def __init__(self, settings: Mapping[str, Any], width: int, characters: int) -> None:
        """Builds the network with untrained weights.

        Args:
            settings: Of the encoder, see `Encoder`.
            width: Of the two layers.
            characters: Number of labels, the blank included.
        """
        super().__init__()
        self.encoder = Encoder(settings)
        self.layers = nn.ModuleList([
            nn.Linear(self.encoder.width, width),
            nn.Linear(width, width),
        ])  # fmt: skip
        self.output = nn.Linear(width, characters)

    def forward(self, wav: Tensor, lengths: Tensor) -> Tensor:
        """Turns a batch as in `Encoder.forward` into log-probabilities ``(B, N, characters)``."""
        x = self.encoder(wav, lengths)
        for layer in self.layers:
            x = F.leaky_relu(layer(x), LEAK)
        return cast(Tensor, self.output(x)).log_softmax(-1)


class AsrEval:
    """Transcribes in batches as the challenge does.

    Attributes:
        label: See `ScoreSource`.
        identity: See `ScoreSource`.
        training_data: What the network was trained on.
    """

    def __init__(
        self,
        network: AsrNetwork,
        characters: Sequence[str],
        *,
        label: str,
        identity: str,
        training_data: str,
        batch_size: int = BATCH_SIZE,
        device: str | torch.device = "auto",
    ) -> None:
        """Takes a filled network.

        Args:
            network: Moved to ``device``.
            characters: Its labels, the blank first.
            label: What it is.
            identity: Of the weights.
            training_data: What it was trained on.
            batch_size: Recordings per batch. A text depends a little on what else is in its batch,
                and published numbers on `BATCH_SIZE`; with 1 every text is that of the recording
                alone.
            device: As in `voiceanon.load`.

        Raises:
            ConfigError: ``batch_size`` is less than 1.
        """
        if batch_size < 1:
            raise ConfigError(f"batch_size: {batch_size} is too small; at least 1 is due.")
        self.label = label
        self.identity = f"{identity} batch_size={batch_size}"
        self.training_data = training_data
        self._characters = tuple(characters)
        self._batch_size = batch_size
        self._device = resolve_device(device)
        self._network = network.to(self._device).eval().requires_grad_(False)

    def transcribe(self, recordings: Sequence[Recording]) -> list[str]:
        """Writes down words, in upper case.

        Args:
            recordings: See `waves.open_wave`.

        Returns:
            One text per recording.

        Raises:
            AudioError: A recording cannot be used as it is, or is shorter than 25 ms.
        """
        seconds = MIN_SAMPLES / SAMPLE_RATE
        waves = open_waves(recordings, min_seconds=seconds, label=self.label)
        texts = [""] * len(waves)
        order = sorted(range(len(waves)), key=lambda i: len(waves[i]), reverse=True)
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            wav, lengths = pad([waves[i] for i in batch], self._device)
            with torch.inference_mode(), arithmetic("float32", self._device):
                paths = greedy_paths(self._network(wav, lengths), lengths, wav.shape[1])
            for i, path in zip(batch, paths, strict=True):
                text = "".join(self._characters[c] for c in path)
                texts[i] = " ".join(text.split())
        return texts

    def normalise(self, text: str) -> str:
        """Upper case and single blanks, without , ! ? . (VPC 2024); leaves hypotheses alone."""
        return normalise_reference(text)


def greedy_paths(log_probs: Tensor, lengths: Tensor, size: int) -> list[list[int]]:
    """Best character of each frame, repetitions and blanks taken out.

    Args:
        log_probs: ``(B, N, characters)``.
        lengths: Samples of each recording, int64 ``(B,)``.
        size: Samples of the padded batch; a recording has that share of the frames, rounded.

    Returns:
        Character numbers of each recording.
    """
    count = log_probs.shape[1]
    frames = torch.round(lengths.float() / size * count).long()
    best = log_probs.argmax(-1)
    best = best.where(torch.arange(count, device=best.device) < frames[:, None], BLANK)
    new = F.pad(best[:, 1:] != best[:, :-1], (1, 0), value=True)
    kept = new & (best != BLANK)
    return [row[keep].tolist() for row, keep in zip(best.cpu(), kept.cpu(), strict=True)]


def load_asr_eval(
    *,
    weights: str | Path | None = None,
    batch_size: int = BATCH_SIZE,
    device: str | torch.device = "auto",
    local_files_only: bool = False,
    token: str | bool | None = None,
) -> AsrEval:
    """Loads the recognizer of the VoicePrivacy Challenge 2024.

    Args:
        weights: Folder with ``asr.zip``, as it is or unpacked; ``None`` for the cache, which is
            filled from the published address.
        batch_size: As in `AsrEval`.
        device: As in `voiceanon.load`.
        local_files_only: Never use the network.
        token: The Hub's access token.

    Raises:
        WeightsError: The file is missing, damaged, or holds another network.
    """
    info = read_source(ASR_EVAL)
    patterns = {name: name.replace(".", r"\.") for name in (ENCODER_FILE, HEAD_FILE, LABEL_FILE)}
    access = Access(weights=weights, local_files_only=local_files_only, token=token)
    paths = resolve_members(info, patterns, access)
    return _load(info, paths, batch_size=batch_size, device=device)


def load_asr_hub(
    *,
    weights: str | Path | None = None,
    batch_size: int = BATCH_SIZE,
    device: str | torch.device = "auto",
    local_files_only: bool = False,
    token: str | bool | None = None,
) -> AsrEval:
    """Loads ``speechbrain/asr-wav2vec2-librispeech``; the rest as in `load_asr_eval`."""
    info = read_source(ASR_HUB)
    access = Access(weights=weights, local_files_only=local_files_only, token=token)
    paths = resolve_source(info, access)
    return _load(info, paths, batch_size=batch_size, device=device)


def _load(
    info: SourceInfo, paths: Mapping[str, Path], *, batch_size: int, device: str | torch.device
) -> AsrEval:
    characters = read_labels(paths[LABEL_FILE])
    head = read_state(paths[HEAD_FILE])
    output = head.get("1.w.weight")
    if output is None or output.ndim != 2 or len(output) != len(characters):
        raise WeightsError(
            f"{paths[HEAD_FILE]}: an output of {len(characters)} characters is due, as many as "
            f"{paths[LABEL_FILE]} lists; take both files from one model."
        )
    with building(), torch.device("meta"):
        network = AsrNetwork(
            read_settings(paths[ENCODER_FILE], LARGE_LV60), output.shape[1], len(characters)
        )
    encoder = read_state(paths[ENCODER_FILE])
    load_strict(network.encoder.model, encoder, file=paths[ENCODER_FILE], renames=ENCODER_RENAMES)
    tail = nn.ModuleDict({"layers": network.layers, "output": network.output})
    load_strict(tail, head, file=paths[HEAD_FILE], renames=_HEAD_RENAMES)
    return AsrEval(
        network,
        characters,
        label=info.label,
        identity=identity_of(info, paths),
        training_data=info.training_data,
        batch_size=batch_size,
        device=device,
    )
