"""A small corpus made in code, and sources whose answers can be worked out by hand."""

import csv

import numpy as np
import signals
import soundfile

from voiceanon.eval.sources.waves import SAMPLE_RATE

SPEAKERS = {"ann": "f", "bea": "f", "cleo": "f", "dan": "m", "eve": "f", "fay": "f"} | {
    "gus": "m", "hal": "m", "ian": "m", "joe": "m",
}  # fmt: skip
"""Five of each sex, the fewest that an interval is made for."""

TAKES = 3
LOUD, SOFT = 0.3, 0.05
"""Peaks: the recognizer hears "LOUD NOISE" or "SOFT", the classifier anger or sadness."""

TEXTS = {LOUD: "Loud, noise!", SOFT: "soft"}
EMOTIONS = {LOUD: "angry", SOFT: "sad"}


def peak_of(take):
    return LOUD if take % 2 == 0 else SOFT


def voice(speaker, take, seconds=0.5):
    """float32 ``(T,)``: a vowel around the speaker's pitch."""
    number = list(SPEAKERS).index(speaker)
    return signals.vowel(
        seconds, name="aeiou"[number % 5], pitch=90 + 17 * number, peak=peak_of(take), seed=take
    ).numpy()


def write_corpus(folder, *, change=None, suffix=".wav"):
    """Writes ``speaker/take.wav`` and a table of all that is known; gives the folder."""
    for speaker in SPEAKERS:
        for take in range(TAKES):
            wave = voice(speaker, take)
            path = folder / speaker / f"{speaker}{take}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, wave if change is None else change(wave), SAMPLE_RATE)
    if change is None:
        write_table(folder / "utterances.csv")
    return folder


def write_table(path):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "utterance", "speaker", "sex", "text", "emotion"])
        for speaker, sex in SPEAKERS.items():
            for take in range(TAKES):
                peak = peak_of(take)
                name = f"{speaker}{take}"
                row = [f"{speaker}/{name}.wav", name, speaker, sex, TEXTS[peak], EMOTIONS[peak]]
                writer.writerow(row)


class MeanSpectrum:
    """Embeds a recording as its mean logarithmic spectrum without the mean."""

    label = "mean spectrum; not the challenge's"
    identity = "mean spectrum 1"
    training_data = "nothing"

    def __init__(self):
        self.calls = 0

    def embed(self, waves):
        self.calls += len(waves)
        return np.stack([self._embed(np.asarray(wave, np.float64)) for wave in waves])

    def _embed(self, wave):
        frames = np.lib.stride_tricks.sliding_window_view(wave, 512)[::256] * np.hanning(512)
        spectrum = np.log(np.abs(np.fft.rfft(frames)) + 1e-3).mean(0)
        return (spectrum - spectrum.mean()).astype(np.float32)


class LevelRecognizer:
    """Hears how loud a recording is."""

    label = "level meter; not the challenge's"
    identity = "level meter 1"
    training_data = "nothing"

    def __init__(self):
        self.blocks = []

    def transcribe(self, waves):
        self.blocks.append([len(wave) for wave in waves])
        return ["loud noise" if np.abs(wave).max() > 0.15 else "soft" for wave in waves]

    def normalise(self, text):
        return " ".join(text.replace(",", " ").replace("!", " ").split()).upper()


class LevelClassifier:
    """Takes loud for angry."""

    label = "level meter; not the challenge's"
    identity = "level meter 2"
    training_data = "nothing"
    emotions = ("angry", "sad")

    def __init__(self):
        self.calls = 0

    def classify(self, waves, speakers):
        assert len(waves) == len(speakers)
        self.calls += len(waves)
        return ["angry" if np.abs(wave).max() > 0.15 else "sad" for wave in waves]
