"""A step that fails raises: the original is never handed on, in whole or in part."""

import pytest
import signals
import soundfile
import torch

from properties import systems
from voiceanon import ConversionError


class Broken(systems.PassThrough):
    """Gives ``answer(batch, lengths)`` from the call ``after`` on."""

    def __init__(self, answer, after=0, **facts):
        super().__init__(**facts)
        self.answer = answer
        self.after = after

    def convert(self, batch, lengths, targets, generators):
        result = super().convert(batch, lengths, targets, generators)
        return result if len(self.batches) <= self.after else self.answer(batch, lengths)


def poke(value):
    def answer(batch, lengths):
        batch = batch.clone()
        batch[-1, 100] = value
        return batch, lengths

    return answer


def fail(batch, lengths):
    raise RuntimeError("the network failed")


ANSWERS = {
    "nan": poke(torch.nan),
    "inf": poke(torch.inf),
    "-inf": poke(-torch.inf),
    "one dimension": lambda batch, lengths: (batch[0], lengths),
    "three dimensions": lambda batch, lengths: (batch[None], lengths),
    "fewer rows": lambda batch, lengths: (batch[:-1], lengths[:-1]),
    "fewer rows than lengths": lambda batch, lengths: (batch[:-1], lengths),
    "more rows": lambda batch, lengths: (torch.cat([batch, batch]), torch.cat([lengths, lengths])),
    "fewer lengths": lambda batch, lengths: (batch, lengths[:-1]),
    "float64": lambda batch, lengths: (batch.double(), lengths),
    "float16": lambda batch, lengths: (batch.half(), lengths),
    "complex": lambda batch, lengths: (batch + 0j, lengths),
    "shorter": lambda batch, lengths: (batch[:, :-50], lengths - 50),
    "longer": lambda batch, lengths: (torch.cat([batch, batch], 1), 2 * lengths),
    "shorter, not said": lambda batch, lengths: (batch[:, :-50], lengths),
    "nothing": lambda batch, lengths: (batch[:, :0], 0 * lengths),
}
FREE_LENGTH = {
    "more samples said than given": lambda batch, lengths: (batch, lengths + 1),
    "negative": lambda batch, lengths: (batch, -lengths),
    "fewer lengths": lambda batch, lengths: (batch, lengths[:-1]),
    "nan": poke(torch.nan),
}


@pytest.fixture(scope="module")
def wavs():
    return [signals.speech(0.5), signals.speech(0.9), signals.speech(0.7)]


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_unsound_answer_raises(kind, wavs):
    for audio in (wavs[0], torch.stack([wavs[0], wavs[0]])):
        with pytest.raises(ConversionError, match="test-pass: "):
            Broken(ANSWERS[kind]).anonymize(audio)
    with pytest.raises(ConversionError, match="test-pass: "):
        Broken(ANSWERS[kind]).anonymize_batch(wavs)


@pytest.mark.parametrize("kind", FREE_LENGTH)
def test_an_unsound_answer_raises_where_lengths_are_free(kind, wavs):
    with pytest.raises(ConversionError, match="test-pass: "):
        Broken(FREE_LENGTH[kind], keeps_length=False).anonymize_batch(wavs)


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_unsound_answer_in_a_late_chunk_raises(kind, wavs):
    broken = Broken(ANSWERS[kind], after=2, overlap_seconds=0.05, batch_seconds=0.1)
    with pytest.raises(ConversionError, match="test-pass: "):
        broken.anonymize(torch.cat(wavs), chunk_seconds=0.4)
    assert len(broken.batches) == 3


@pytest.mark.parametrize("earlier", [None, b"earlier"])
@pytest.mark.parametrize("kind", [*ANSWERS, "error"])
def test_no_file_is_left(kind, earlier, wavs, tmp_path):
    answer = {**ANSWERS, "error": fail}[kind]
    src, dst = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(src, torch.cat(wavs).numpy(), 16_000)
    content = src.read_bytes()
    if earlier:
        dst.write_bytes(earlier)
    broken = Broken(answer, after=1, overlap_seconds=0.05, batch_seconds=0.1)
    with pytest.raises(RuntimeError if kind == "error" else ConversionError):
        broken.anonymize_file(src, dst, chunk_seconds=0.4)
    assert src.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == (
        ["in.wav", "out.wav"] if earlier else ["in.wav"]
    )
    assert not earlier or dst.read_bytes() == earlier


def test_an_error_of_the_system_comes_through(wavs):
    with pytest.raises(RuntimeError, match="the network failed"):
        Broken(fail).anonymize(wavs[0])
    with pytest.raises(RuntimeError, match="the network failed"):
        Broken(fail, after=1, batch_seconds=0.1).anonymize_batch(wavs)


def test_an_error_of_the_draw_comes_through(wavs):
    class NoVoice(systems.PassThrough):
        def draw_target(self, generator, speaker):
            raise LookupError("no voice left")

    broken = NoVoice()
    with pytest.raises(LookupError, match="no voice left"):
        broken.anonymize(wavs[0])
    assert broken.batches == []


def test_a_system_goes_on_after_an_error(wavs):
    broken = Broken(fail)
    with pytest.raises(RuntimeError):
        broken.anonymize(wavs[0])
    broken.after = 9
    assert torch.equal(broken.anonymize(wavs[0]), wavs[0])


def test_a_failed_write_leaves_the_earlier_file(wavs, tmp_path, monkeypatch):
    src, dst = tmp_path / "in.wav", tmp_path / "out.wav"
    soundfile.write(src, wavs[0].numpy(), 16_000)
    dst.write_bytes(b"earlier")

    def full_disk(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(soundfile.SoundFile, "write", full_disk)
    with pytest.raises(OSError, match="No space left"):
        systems.PassThrough().anonymize_file(src, dst)
    assert dst.read_bytes() == b"earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.wav", "out.wav"]
