"""SER_eval, the emotion classifiers of the VoicePrivacy Challenge 2024.

wav2vec 2.0, a mean over time, and one linear map; five of them, each for the two speakers of an
IEMOCAP session that it was not trained on. Source: specification sheet of the evaluation, section
3.5, after the SpeechBrain recipe for IEMOCAP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from voiceanon.devices import arithmetic, building, resolve_device
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.eval.ids import check_known
from voiceanon.eval.sources.base import Recording
from voiceanon.eval.sources.manifest import Access, identity_of, read_source
from voiceanon.eval.sources.releases import resolve_members
from voiceanon.eval.sources.wav2vec2 import (
    BASE,
    ENCODER_RENAMES,
    MIN_SAMPLES,
    Encoder,
    read_labels,
    read_settings,
)
from voiceanon.eval.sources.waves import SAMPLE_RATE, open_waves
from voiceanon.hub.convert import load_strict
from voiceanon.hub.read import read_state

SER_EVAL = "vpc2024-ser-eval"
"""The challenge's file."""

FOLDS = ("1", "2", "3", "4", "5")
"""Sessions of IEMOCAP; model k was trained on the others."""

ENCODER_FILE = "wav2vec2.ckpt"
HEAD_FILE = "model.ckpt"
LABEL_FILE = "label_encoder.txt"

_HEAD_RENAMES = ((r"^0\.w\.", ""),)


class SerNetwork(nn.Module):
    """The network: probabilities of emotions."""

    def __init__(self, settings: Mapping[str, Any], emotions: int) -> None:
        """Builds the network with untrained weights.

        Args:
            settings: Of the encoder, see `Encoder`.
            emotions: Number of labels.
        """
        super().__init__()
        self.encoder = Encoder(settings)
        self.output = nn.Linear(self.encoder.width, emotions, bias=False)

    def forward(self, wav: Tensor) -> Tensor:
        """Turns one recording ``(1, T)`` into probabilities ``(1, emotions)``."""
        lengths = torch.full((1,), wav.shape[1], device=wav.device)
        pooled = self.encoder(wav, lengths).mean(1)
        return cast(Tensor, self.output(pooled)).softmax(-1)


class SerEval:
    """Classifies one recording at a time, as the challenge does.

    Attributes:
        label: See `ScoreSource`.
        identity: See `ScoreSource`.
        training_data: What the networks were trained on.
        emotions: Labels of all networks, sorted.
    """

    def __init__(
        self,
        networks: Mapping[str, SerNetwork],
        labels: Mapping[str, Sequence[str]],
        folds: Mapping[str, str],
        *,
        label: str,
        identity: str,
        training_data: str,
        device: str | torch.device = "auto",
    ) -> None:
        """Takes filled networks.

        Args:
            networks: By fold; moved to ``device``.
            labels: Emotions in the order of each network's outputs, by fold.
            folds: Fold of each speaker, as in the table ``spk2fold``.
            label: What they are.
            identity: Of the weights.
            training_data: What they were trained on.
            device: As in `voiceanon.load`.

        Raises:
            ConfigError: A speaker's fold has no network.
        """
        check_known(folds.values(), networks, "folds", "number them as the networks are")
        self.label = label
        self.identity = identity
        self.training_data = training_data
        self.emotions = tuple(sorted({name for names in labels.values() for name in names}))
        self._labels = labels
        self._folds = dict(folds)
        self._device = resolve_device(device)
        self._networks = {
            fold: network.to(self._device).eval().requires_grad_(False)
            for fold, network in networks.items()
        }

    def classify(self, recordings: Sequence[Recording], speakers: Sequence[str]) -> list[str]:
        """Names the emotion of each recording.

        Args:
            recordings: See `waves.open_wave`.
            speakers: Speaker of each recording; its fold says which network judges.

        Raises:
            AudioError: A recording cannot be used as it is, or is shorter than 25 ms.
            ConfigError: A speaker has no fold, or there are not as many speakers as recordings.
        """
        if len(speakers) != len(recordings):
            raise ConfigError(
                f"speakers: {len(speakers)} for {len(recordings)} recordings; one each is due."
            )
        check_known(speakers, self._folds, "speakers", "add them to folds")
        seconds = MIN_SAMPLES / SAMPLE_RATE
        waves = open_waves(recordings, min_seconds=seconds, label=self.label)
        emotions = []
        for wave, speaker in zip(waves, speakers, strict=True):
            fold = self._folds[speaker]
            with torch.inference_mode(), arithmetic("float32", self._device):
                probabilities = self._networks[fold](wave[None].to(self._device))
            emotions.append(self._labels[fold][int(probabilities.argmax())])
        return emotions


def load_ser_eval(
    folds: Mapping[str, str],
    *,
    weights: str | Path | None = None,
    device: str | torch.device = "auto",
    local_files_only: bool = False,
    token: str | bool | None = None,
) -> SerEval:
    """Loads those classifiers of the VoicePrivacy Challenge 2024 that some speakers need.

    Args:
        folds: Fold of each speaker, ``"1"`` to ``"5"``, as in the table ``spk2fold``.
        weights: Folder with ``ser.zip``, as it is or unpacked; ``None`` for the cache, which is
            filled from the published address.
        device: As in `voiceanon.load`.
        local_files_only: Never use the network.
        token: The Hub's access token.

    Raises:
        ConfigError: There is no such fold, or no speaker.
        WeightsError: The file is missing, damaged, or holds another network.
    """
    check_known(folds.values(), FOLDS, "folds", f"they are {', '.join(FOLDS)}")
    wanted = sorted(set(folds.values()))
    if not wanted:
        raise ConfigError("folds: there are none; name the fold of each speaker.")
    info = read_source(SER_EVAL)
    patterns = {
        f"{fold}/{name}": rf"fold_{fold}/(?:.*/)?{name.replace('.', chr(92) + '.')}"
        for fold in wanted
        for name in (ENCODER_FILE, HEAD_FILE, LABEL_FILE)
    }
    access = Access(weights=weights, local_files_only=local_files_only, token=token)
    paths = resolve_members(info, patterns, access)
    networks, labels = {}, {}
    for fold in wanted:
        own = {name: paths[f"{fold}/{name}"] for name in (ENCODER_FILE, HEAD_FILE, LABEL_FILE)}
        labels[fold] = read_labels(own[LABEL_FILE])
        networks[fold] = _load(own, labels[fold])
    return SerEval(
        networks,
        labels,
        folds,
        label=info.label,
        identity=identity_of(info, paths),
        training_data=info.training_data,
        device=device,
    )


def _load(paths: Mapping[str, Path], labels: Sequence[str]) -> SerNetwork:
    head = read_state(paths[HEAD_FILE])
    if len(next(iter(head.values()))) != len(labels):
        raise WeightsError(
            f"{paths[HEAD_FILE]}: an output of {len(labels)} emotions is due, as many as "
            f"{paths[LABEL_FILE]} lists; take both files from one model."
        )
    with building(), torch.device("meta"):
        network = SerNetwork(read_settings(paths[ENCODER_FILE], BASE), len(labels))
    encoder = read_state(paths[ENCODER_FILE])
    load_strict(network.encoder.model, encoder, file=paths[ENCODER_FILE], renames=ENCODER_RENAMES)
    load_strict(network.output, head, file=paths[HEAD_FILE], renames=_HEAD_RENAMES)
    return network
