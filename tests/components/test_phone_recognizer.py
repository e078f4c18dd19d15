"""From recordings to text."""

import copy
import math

import pytest
import reduced_recognizer
import torch
from reduced_recognizer import E_SETTINGS, SETTINGS, TOKENS

SHORTEST = 960


@pytest.fixture(scope="module")
def model():
    return reduced_recognizer.reduced()


def recordings():
    wav = reduced_recognizer.utterance()
    pieces = [wav, wav[5000:16000], wav[:SHORTEST], wav[: SHORTEST - 1], wav[:0]]
    lengths = torch.tensor([len(piece) for piece in pieces])
    batch = torch.full((len(pieces), len(wav)), math.nan)
    for row, piece in zip(batch, pieces, strict=True):
        row[: len(piece)] = piece
    return batch, lengths


@pytest.mark.parametrize(
    "settings",
    [SETTINGS, E_SETTINGS, SETTINGS | {"normalize": "utterance_mvn", "normalize_conf": {}}],
)
def test_recording_in_a_batch_is_recording_alone(settings):
    model = reduced_recognizer.reduced(settings)
    batch, lengths = recordings()
    texts = model.transcribe(batch, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = model.transcribe(batch[row : row + 1, :length], lengths[row : row + 1])
        assert alone == [texts[row]]
    assert texts[0]
    assert texts[3:] == ["", ""]


def test_shortest_recording_that_has_a_text(model):
    wav = reduced_recognizer.utterance()[None, :SHORTEST]
    model = copy.deepcopy(model)
    # Neither end nor blank: whatever is said, it is a letter.
    model.decoder.output_layer.bias.data[TOKENS.index("b")] += 20
    assert model.transcribe(wav, torch.tensor([SHORTEST])) == ["b"]
    assert model.transcribe(wav, torch.tensor([SHORTEST - 1])) == [""]


def test_nothing_but_too_short_recordings(model):
    assert model.fewest_samples == SHORTEST
    assert model.transcribe(torch.randn(2, 100), torch.tensor([100, 0])) == ["", ""]


def test_text_is_that_of_the_best_hypothesis(model):
    wav = reduced_recognizer.utterance()[None]
    lengths = torch.tensor([wav.shape[1]])
    with torch.no_grad():
        (result,) = model.search(*model.encode(wav, lengths))
    ids = result.hypotheses[0].ids[1:-1]
    expected = "".join(TOKENS[i] for i in ids).replace("▁", " ").removeprefix(" ")
    assert model.transcribe(wav, lengths) == [expected]


def test_pieces_are_joined(model):
    end, space_a, b = 39, TOKENS.index("▁a"), TOKENS.index("b")
    assert model.text((end, space_a, b, 0, space_a, end)) == "ab a"
    assert model.text((end, b, 1, b, end)) == "b ⁇ b"
    assert model.text((end, end)) == ""
    # A text that is as long as the recording can have an end inside.
    assert model.text((end, b, end, end)) == "b"


def test_callers_defaults_do_not_matter(model):
    batch, lengths = recordings()
    expected = model.transcribe(batch, lengths)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            assert model.transcribe(batch, lengths) == expected
    finally:
        torch.set_default_dtype(torch.float32)
