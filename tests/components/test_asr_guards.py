"""Active sound, pauses, and words that nobody said."""

import math

import pytest
import signals
import torch

from voiceanon.components.asr.activity import (
    FRAME_SAMPLES,
    ActivityConfig,
    active_frames,
    pause_cuts,
)
from voiceanon.components.asr.guards import (
    GuardConfig,
    check,
    is_repetitive,
    transcribe_guarded,
)
from voiceanon.components.asr.protocol import Segment, Transcript

LEVELS = ActivityConfig()
GUARDS = GuardConfig()


def tone(dbfs, seconds):
    amplitude = math.sqrt(2) * 10 ** (dbfs / 20)
    return amplitude / 0.5 * signals.tone(seconds, frequency=400, peak=0.5)


def frames(wav, config=LEVELS):
    return active_frames(wav[None], torch.tensor([len(wav)]), config)[0].tolist()


@pytest.mark.parametrize(("dbfs", "expected"), [(-49.5, True), (-50.5, False)])
def test_the_floor(dbfs, expected):
    assert frames(tone(dbfs, 0.1)) == [expected] * 4


@pytest.mark.parametrize(("below", "expected"), [(39.5, True), (40.5, False)])
def test_the_range_below_the_peak(below, expected):
    wav = torch.cat([tone(-3, 0.1), tone(-3 - below, 0.1)])
    assert frames(wav) == [True] * 4 + [expected] * 4


def test_an_offset_is_no_sound():
    assert not any(frames(torch.full((1600,), 0.5)))


def test_a_short_last_frame_counts_what_it_has():
    wav = tone(-20, 0.11)
    assert len(wav) % FRAME_SAMPLES == 160
    assert frames(wav) == [True] * 5


def test_neither_padding_nor_neighbours_matter():
    waves = [tone(-20, 0.3), torch.cat([tone(-30, 0.1), tone(-65, 0.2)]), tone(-60, 0.05)]
    lengths = torch.tensor([len(wav) for wav in waves])
    batch = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True, padding_value=float("nan"))
    together = active_frames(batch, lengths, LEVELS)
    for wav, row in zip(waves, together, strict=True):
        alone = frames(wav)
        assert row.tolist() == alone + [False] * (len(row) - len(alone))


def test_cuts_fall_into_pauses():
    active = [True] * 10 + [False] * 5 + [True] * 10 + [False] * 2 + [True] * 10 + [False] * 3
    assert pause_cuts(active, 100, 4) == [(0, 10), (15, 37)]
    assert pause_cuts(active, 100, 9) == [(0, 37)]
    assert pause_cuts(active, 20, 9) == [(0, 10), (15, 25), (27, 37)]
    assert pause_cuts([False] * 5, 10, 1) == []
    assert pause_cuts([True] * 25, 10, 1) == [(0, 10), (10, 20), (20, 25)]


def said(text, start=0.0, end=2.0):
    return Transcript(segments=(Segment(start=start, end=end, text=text),))


def active(seconds, total=None):
    row = torch.zeros(round((total or seconds) / 0.025), dtype=torch.bool)
    row[: round(seconds / 0.025)] = True
    return row


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("thank you thank you thank you thank you", True),
        ("no no no no", True),
        ("no no no", False),
        ("and so on and so on and so on and so on and that was all that he said to them", True),
        ("one two three four five six seven eight", False),
        ("the cat and a dog and the bird and one fish and the frog and then the end", False),
        ("a b c d e a b c d e a b c d e a b c d e", True),
        ("", False),
    ],
)
def test_repetitions(text, expected):
    assert is_repetitive(text, GUARDS) is expected


def test_words_at_a_human_rate_pass():
    found = check(said("what had happened to me", 0.3, 1.9), active(2.0), GUARDS)
    assert found.text == "what had happened to me"
    assert found.rejected == ()


def test_too_many_words_are_rejected():
    text = " ".join(f"word{i}" for i in range(15))
    assert check(said(text), active(2.0, 3.0), GUARDS).text == ""
    assert check(said(text), active(2.5, 3.0), GUARDS).text == text


def test_few_words_on_long_noise_are_rejected():
    found = check(said("thank you", 0.0, 8.0), active(8.0), GUARDS)
    assert found.text == ""
    assert found.rejected == ("2 words in 8.0 s of sound",)
    assert check(said("thank you", 0.0, 1.0), active(8.0), GUARDS).text == "thank you"
    assert check(said("no", 0.0, 1.9), active(1.9), GUARDS).text == "no"


def test_one_bad_segment_does_not_take_the_others():
    segments = (*said("you", 0.0, 5.0).segments, *said("one two three four", 5.0, 7.0).segments)
    found = check(Transcript(segments=segments), active(7.0), GUARDS)
    assert found.text == "one two three four"
    assert len(found.rejected) == 1


def test_segments_are_cut_to_the_sound_within_them():
    row = torch.zeros(200, dtype=torch.bool)
    row[20:40] = True  # 0.5 to 1.0 s
    (segment,) = check(said("one two", 0.0, 4.0), row, GUARDS).segments
    assert (segment.start, segment.end) == (0.5, 1.0)
    assert check(said("one two", 2.0, 4.0), row, GUARDS).rejected == ("words without sound",)


class Writer:
    """Says how many samples it got."""

    sample_rate = 16_000

    def __init__(self):
        self.seen = []

    def transcribe(self, batch, lengths, generators):
        self.seen.append(lengths.tolist())
        return [said(f"heard {n} samples", 0, n / 16_000) for n in lengths.tolist()]


def test_nothing_is_recognised_without_sound():
    waves = [tone(-20, 1.0), tone(-60, 2.0), tone(-20, 0.1), tone(-20, 0.2)]
    lengths = torch.tensor([len(wav) for wav in waves])
    batch = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True)
    writer = Writer()
    found = transcribe_guarded(writer, batch, lengths, [torch.Generator() for _ in waves], GUARDS)
    assert writer.seen == [[16_000, 3_200]]
    assert [t.text for t in found] == ["heard 16000 samples", "", "", ""]
    assert found[1].rejected == ("too little sound",)
    assert "3 words" in found[3].rejected[0]  # 15 words per second
    transcribe_guarded(writer, batch[1:2], lengths[1:2], [torch.Generator()], GUARDS)
    assert len(writer.seen) == 1
