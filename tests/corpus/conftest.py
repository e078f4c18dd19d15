"""Small corpora made in code."""

import functools
import json

import numpy as np
import pytest
import signals
import soundfile

from voiceanon import load


@pytest.fixture(scope="session")
def anon():
    return load("b2", device="cpu")


@functools.cache
def speech(seconds, rate, seed):
    return signals.speech(seconds, rate, seed=seed).numpy()


@pytest.fixture
def write_audio():
    """Writes a file of speech-like sound; ``first`` replaces its first sample."""

    def write(path, *, seconds=0.3, rate=16_000, channels=1, seed=0, subtype=None, first=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        data = np.stack([speech(seconds, rate, seed + c) for c in range(channels)], axis=1)
        if first is not None:
            data[0] = first
        soundfile.write(path, data, rate, subtype=subtype)
        return path

    return write


@pytest.fixture
def corpus(tmp_path, write_audio):
    """A folder of four files of two speakers, with different lengths."""
    folder = tmp_path / "in"
    write_audio(folder / "ann" / "a1.wav", seconds=0.5, seed=1)
    write_audio(folder / "ann" / "a2.flac", seconds=0.3, seed=2)
    write_audio(folder / "ben" / "b1.wav", seconds=0.8, seed=3)
    write_audio(folder / "ben" / "deep" / "b2.ogg", seconds=0.4, seed=4)
    return folder


@pytest.fixture
def contents():
    """Bytes of all files below a folder by relative path, without the report.

    Of Ogg files the samples, since libsndfile draws a serial number for each.
    """

    def read(folder):
        return {
            str(path.relative_to(folder)): soundfile.read(path)[0].tobytes()
            if path.suffix == ".ogg"
            else path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "report.jsonl"
        }

    return read


@pytest.fixture
def records():
    """The lines of a report."""

    def read(folder):
        return [json.loads(line) for line in (folder / "report.jsonl").read_text().splitlines()]

    return read
