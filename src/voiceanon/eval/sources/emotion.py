"""An emotion classifier that is trained on the spot: needs no download, and only labelled speech.

Statistics of cepstra, pitch and energy, and a support vector machine, one for each speaker that is
left out. A speaker is always judged by a machine that never heard that speaker, as in the
VoicePrivacy Challenge, whose classifier is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from voiceanon.errors import ConfigError
from voiceanon.eval.dependencies import required
from voiceanon.eval.sources.base import NOT_CHALLENGE, Recording
from voiceanon.eval.sources.waves import SAMPLE_RATE, open_waves

WINDOW_SAMPLES = 512
"""32 ms (ours, as all numbers here: common values of the field, not tuned on any corpus)."""

HOP_SAMPLES = 160
"""10 ms."""

BANDS = 40
"""Mel bands below the cepstra."""

CEPSTRA = 13

PITCH_WINDOW_SAMPLES = 1024
"""64 ms: four periods of the lowest pitch."""

PITCH_RANGE_HZ = (65.0, 500.0)

ACTIVE_DB = 25.0
"""Frames at most this far below the loudest one count as speech; all statistics are of those."""

PERCENTILES = (10.0, 50.0, 90.0)

MIN_SECONDS = 0.2
"""Shortest recording, seconds: cepstra change over 9 frames, and pitch needs its window."""

TINY_POWER = 1e-10
"""Added to powers before their logarithm."""

_ANYBODY = ""
"""Key of the machine that heard all speakers."""


class LeaveOneSpeakerOut:
    """Emotion classifiers, each trained on all speakers but one.

    Speakers that are not in the training data are judged by a machine that heard all of it.

    Attributes:
        label: See `ScoreSource`.
        identity: See `ScoreSource`.
        training_data: What the machines were trained on.
        emotions: Names of the emotions, sorted.
    """

    def __init__(
        self, recordings: Sequence[Recording], emotions: Sequence[str], speakers: Sequence[str]
    ) -> None:
        """Trains the machines.

        Args:
            recordings: See `waves.open_wave`; of original speech, as in the challenge.
            emotions: Emotion of each recording.
            speakers: Speaker of each recording.

        Raises:
            AudioError: A recording cannot be used as it is, or is shorter than `MIN_SECONDS`.
            ConfigError: The three are not as many, or without some speaker fewer than two emotions
                are left.
            MissingDependencyError: scikit-learn is not installed.
        """
        _check_counts(recordings, emotions=emotions, speakers=speakers)
        required("sklearn", "emotion classifier")
        features = _all_features(recordings)
        labels, owners = np.array(emotions), np.array(speakers)
        self._machines = {_ANYBODY: _train(features, labels, "nobody")}
        for speaker in sorted(set(speakers)):
            others = owners != speaker
            self._machines[speaker] = _train(features[others], labels[others], speaker)
        self.emotions = tuple(sorted(set(emotions)))
        self.training_data = (
            f"{len(labels)} recordings of {len(set(speakers))} speakers, leave one speaker out"
        )
        self.label = (
            "support vector machine on statistics of cepstra, pitch and energy, trained on "
            f"{self.training_data}; {NOT_CHALLENGE}"
        )
        digest = hashlib.sha256(features.tobytes())
        digest.update("\0".join([*emotions, *speakers]).encode())
        self.identity = f"leave one speaker out {digest.hexdigest()}"

    def classify(self, recordings: Sequence[Recording], speakers: Sequence[str]) -> list[str]:
        """Names the emotion of each recording.

        Args:
            recordings: See `waves.open_wave`.
            speakers: True speaker of each recording, also where its voice was changed.

        Raises:
            AudioError: A recording cannot be used as it is, or is shorter than `MIN_SECONDS`.
            ConfigError: There are not as many speakers as recordings.
        """
        _check_counts(recordings, speakers=speakers)
        if not len(recordings):
            return []
        features = _all_features(recordings)
        named = np.empty(len(features), dtype=object)
        judges = np.array([name if name in self._machines else _ANYBODY for name in speakers])
        for judge in np.unique(judges).tolist():
            own = judges == judge
            named[own] = self._machines[judge].predict(features[own])
        return [str(emotion) for emotion in named]


def emotion_features(wave: Tensor) -> npt.NDArray[np.float64]:
    """Statistics of one recording; its level does not matter, since systems change it.

    Args:
        wave: float32 ``(T,)``, 16 kHz.

    Returns:
        float64 ``(D,)``: means, deviations and deviations of the changes of the cepstra (without
        the level in the first); then mean, deviation and `PERCENTILES` of pitch (octaves) and of
        its changes, of energy below the loudest frame (dB), spectral centroid (Hz) and rate of
        zero crossings.
    """
    import librosa

    samples = wave.numpy()
    samples = samples / max(float(np.abs(samples).max()), TINY_POWER)
    power = np.abs(librosa.stft(samples, n_fft=WINDOW_SAMPLES, hop_length=HOP_SAMPLES)) ** 2
    energy = 10 * np.log10(power.sum(0) + TINY_POWER)
    active = energy >= energy.max() - ACTIVE_DB
    bands = librosa.feature.melspectrogram(S=power, sr=SAMPLE_RATE, n_mels=BANDS)
    cepstra = librosa.feature.mfcc(S=10 * np.log10(bands + TINY_POWER), n_mfcc=CEPSTRA)
    cepstra[0] -= cepstra[0].max()
    changes = librosa.feature.delta(cepstra)[:, active]
    pitch = np.log2(librosa.yin(
        samples,
        fmin=PITCH_RANGE_HZ[0],
        fmax=PITCH_RANGE_HZ[1],
        sr=SAMPLE_RATE,
        frame_length=PITCH_WINDOW_SAMPLES,
        hop_length=HOP_SAMPLES,
    ))  # fmt: skip
    centroid = librosa.feature.spectral_centroid(S=np.sqrt(power), sr=SAMPLE_RATE)[0]
    crossings = librosa.feature.zero_crossing_rate(
        samples, frame_length=WINDOW_SAMPLES, hop_length=HOP_SAMPLES
    )[0]
    tracks = (
        pitch[active],
        np.diff(pitch, prepend=pitch[0])[active],
        energy[active] - energy.max(),
        centroid[active],
        crossings[active],
    )
    spoken = cepstra[:, active]
    return np.concatenate([
        spoken.mean(1),
        spoken.std(1),
        changes.std(1),
        *(np.array([t.mean(), t.std(), *np.percentile(t, PERCENTILES)]) for t in tracks),
    ]).astype(np.float64)  # fmt: skip


def _all_features(recordings: Sequence[Recording]) -> npt.NDArray[np.float64]:
    waves = open_waves(recordings, min_seconds=MIN_SECONDS, label="the emotion classifier")
    return np.stack([emotion_features(wave) for wave in waves])


def _train(features: npt.NDArray[np.float64], labels: npt.NDArray[Any], left_out: str) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    if len(set(labels.tolist())) < 2:
        raise ConfigError(
            f"emotions: with {left_out} left out, fewer than 2 emotions remain to train on; add "
            "speakers or emotions."
        )
    machine = make_pipeline(StandardScaler(), SVC(class_weight="balanced"))
    return machine.fit(features, labels)


def _check_counts(recordings: Sequence[Recording], **others: Sequence[str]) -> None:
    for name, values in others.items():
        if len(values) != len(recordings):
            raise ConfigError(
                f"{name}: {len(values)} for {len(recordings)} recordings; one each is due."
            )
