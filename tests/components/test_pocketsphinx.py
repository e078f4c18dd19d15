"""pocketsphinx on speech that a Piper voice makes; both carry trained weights."""

import copy
import json

import numpy as np
import pytest
import soxr
import torch
from golden.asr_tts_files import FOLDER

pytest.importorskip("pocketsphinx")

from voiceanon.components.asr.pocketsphinx import PocketSphinx

SENTENCE = json.loads((FOLDER / "offline.json").read_text())["sentences"][0]


@pytest.fixture(scope="module")
def wave():
    spoken = np.load(FOLDER / "piper_joe.npz")["wave_zero_noise"]
    return torch.from_numpy(soxr.resample(spoken, 22_050, 16_000, quality="HQ"))


def hear(recognizer, waves):
    lengths = torch.tensor([len(wave) for wave in waves])
    batch = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True, padding_value=0.9)
    return recognizer.transcribe(batch, lengths, [torch.Generator() for _ in waves])


def test_the_golden_sentence(wave):
    (transcript,) = hear(PocketSphinx(), [wave])
    assert transcript.text == SENTENCE["rerecognised"] == "what had happened to me"
    (segment,) = transcript.segments
    assert (segment.start, segment.end) == (0.0, len(wave) / 16_000)


@pytest.mark.slow
def test_neither_order_nor_neighbours_matter(wave):
    recognizer = copy.deepcopy(PocketSphinx())
    other = torch.cat([torch.zeros(3200), 0.3 * wave])
    alone = [hear(PocketSphinx(), [each])[0] for each in (wave, other)]
    assert hear(recognizer, [wave, other]) == alone
    assert hear(recognizer, [other, wave]) == alone[::-1]
    assert hear(copy.deepcopy(recognizer), [wave])[0] == alone[0]


@pytest.mark.slow
def test_long_recordings_are_cut_at_pauses(wave):
    long = torch.cat([wave, torch.zeros(16_000 * 15)] * 2 + [wave])
    assert len(long) > 30 * 16_000
    (transcript,) = hear(PocketSphinx(), [long])
    assert len(transcript.segments) == 3
    assert {segment.text for segment in transcript.segments} == {"what had happened to me"}
    starts = [segment.start for segment in transcript.segments]
    assert starts == pytest.approx([0.0, 16.2, 32.4], abs=0.2)


def test_very_short_input_gives_nothing():
    assert hear(PocketSphinx(), [torch.full((100,), 0.1)])[0].text == ""
