"""Bounds of speech: stored probabilities of three versions, a plain loop, batches, edges."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from voiceanon.components.vad.segments import speech_bounds

STORED = json.loads(
    (Path(__file__).parents[1] / "golden" / "gan_fastspeech2" / "vad.json").read_text()
)
LENGTHS = {"utt": 37_840, "utt_twice_with_gap": 37_840 + 4_000 + 20_000, "zeros_1s": 16_000}
VERSIONS = list(STORED)


def bounds(probabilities, length):
    blocks = torch.tensor([len(probabilities)])
    start, end, found = speech_bounds(probabilities[None], blocks, torch.tensor([length]))
    assert start.dtype == end.dtype == torch.int64
    return int(start), int(end), bool(found)


def plain_segments(probabilities, length):
    """The rule block by block, as it is written in the specification sheet."""
    segments, start, candidate = [], None, None
    for i, p in enumerate(probabilities.tolist()):
        if p >= 0.5:
            candidate = None
            if start is None:
                start = 512 * i
        elif p < 0.35 and start is not None:
            if candidate is None:
                candidate = 512 * i
            if 512 * i - candidate >= 1600:
                if candidate - start > 4000:
                    segments.append((start, candidate))
                start = candidate = None
    if start is not None and length - start > 4000:
        segments.append((start, length))
    return segments


def plain_bounds(probabilities, length):
    segments = plain_segments(probabilities, length)
    if not segments:
        return 0, length, False
    return max(segments[0][0] - 480, 0), min(segments[-1][1] + 480, length), True


# Stored probabilities.


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", list(LENGTHS))
def test_stored_segments(version, name):
    stored = STORED[version][name]
    probabilities, length = torch.tensor(stored["probs"]), LENGTHS[name]
    segments = stored["timestamps"]
    if not segments:
        assert bounds(probabilities, length) == (0, length, False)
        return
    assert bounds(probabilities, length) == (segments[0]["start"], segments[-1]["end"], True)
    # The inner bounds, from what lies on either side of a block between two segments.
    for left, right in pairwise(segments):
        cut = (left["end"] + right["start"]) // 2 // 512
        _, end, _ = bounds(probabilities[:cut], 512 * cut)
        start, _, _ = bounds(probabilities[cut:], length - 512 * cut)
        assert (end, start + 512 * cut) == (left["end"], right["start"])


@pytest.mark.parametrize("version", VERSIONS)
def test_stored_segments_in_one_batch(version):
    rows = [torch.tensor(STORED[version][name]["probs"]) for name in LENGTHS]
    batch = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0.9)
    blocks = torch.tensor([len(row) for row in rows])
    lengths = torch.tensor(list(LENGTHS.values()))
    results = torch.stack(speech_bounds(batch, blocks, lengths), dim=1)
    for result, row, length in zip(results.tolist(), rows, lengths.tolist(), strict=True):
        assert tuple(result) == plain_bounds(row, length)


# Random ones.


def noise(count, seed):
    """Runs of speech, silence and what is neither, of all lengths."""
    generator = torch.Generator().manual_seed(seed)
    levels = torch.tensor([0.1, 0.4, 0.9])
    runs = torch.randint(1, 12, (count,), generator=generator)
    kinds = torch.randint(3, (count,), generator=generator)
    return levels[kinds].repeat_interleave(runs)


def test_a_plain_loop_gives_the_same():
    items = [noise(count, seed) for seed in range(300) for count in (1, 2, 5, 15, 40)]
    batch = torch.nn.utils.rnn.pad_sequence(items, batch_first=True, padding_value=torch.nan)
    blocks = torch.tensor([len(item) for item in items])
    lengths = 512 * blocks - torch.arange(len(items)) % 512
    expected = [plain_bounds(p, n) for p, n in zip(items, lengths.tolist(), strict=True)]
    start, end, found = speech_bounds(batch, blocks, lengths)
    assert list(zip(start.tolist(), end.tolist(), found.tolist(), strict=True)) == expected
    segments = [len(plain_segments(p, n)) for p, n in zip(items, lengths.tolist(), strict=True)]
    assert min(segments) == 0
    assert max(segments) > 3


# Edges of the rule.


def levels(*runs):
    return torch.cat([torch.full((count,), level) for level, count in runs])


@pytest.mark.parametrize(("blocks", "found"), [(7, False), (8, True)])
def test_shortest_segment(blocks, found):
    probabilities = levels((0.1, 10), (0.5, blocks), (0.1, 10))
    assert bounds(probabilities, 27 * 512)[2] is found


@pytest.mark.parametrize(("gap", "end"), [(4, 17), (5, 10)])
def test_shortest_silence(gap, end):
    """What follows is too short for a segment of its own, but prolongs one that goes on."""
    probabilities = levels((0.9, 10), (0.349, gap), (0.9, 3), (0.1, 9))
    assert bounds(probabilities, len(probabilities) * 512) == (0, end * 512 + 480, True)


def test_undecided_blocks_neither_start_nor_end():
    probabilities = levels((0.4, 5), (0.9, 10), (0.4, 50))
    assert bounds(probabilities, 65 * 512 - 7) == (5 * 512 - 480, 65 * 512 - 7, True)
    probabilities = levels((0.9, 10), (0.1, 1), (0.4, 2), (0.1, 9))
    assert bounds(probabilities, 22 * 512)[1] == 10 * 512 + 480


def test_padding_stays_inside():
    assert bounds(levels((0.9, 20)), 20 * 512) == (0, 20 * 512, True)
    assert bounds(levels((0.1, 1), (0.9, 20)), 21 * 512) == (32, 21 * 512, True)


def test_speech_to_the_end_must_be_long_enough_as_well():
    probabilities = levels((0.1, 5), (0.9, 8))
    assert bounds(probabilities, 5 * 512 + 4001) == (5 * 512 - 480, 5 * 512 + 4001, True)
    assert bounds(probabilities, 5 * 512 + 4000) == (0, 5 * 512 + 4000, False)


def test_nothing():
    start, end, found = speech_bounds(
        torch.empty(2, 0), torch.tensor([0, 0]), torch.tensor([0, 100])
    )
    assert (start.tolist(), end.tolist(), found.tolist()) == ([0, 0], [0, 100], [False, False])
