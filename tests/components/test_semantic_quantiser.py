"""The semantic quantiser at its official and its reduced size, against stored outputs."""

import numpy as np
import pytest
import torch
from golden.codec_lm_files import FOLDER, OFFICIAL_QUANTISER, quantiser_entries

from voiceanon.components.content.semantic_quantiser import (
    SemanticQuantiser,
    SemanticQuantiserConfig,
)
from voiceanon.errors import WeightsError

GOLDEN = np.load(FOLDER / "quantizer.npz")
CHAIN = np.load(FOLDER / "chain.npz")


def build(entries):
    shapes = {name: tuple(value.shape) for name, value in entries.items()}
    model = SemanticQuantiser(SemanticQuantiserConfig.from_entries(shapes)).eval()
    model.load_state_dict(entries, strict=True)
    return model


@pytest.fixture(scope="module")
def official():
    return build(quantiser_entries({}))


@pytest.fixture(scope="module")
def reduced():
    return build(quantiser_entries(OFFICIAL_QUANTISER))


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def test_stages_at_the_official_size(official):
    assert official.config == SemanticQuantiserConfig()
    features = torch.from_numpy(GOLDEN["features"])[None]
    hidden, _ = official.lstm(features)
    assert np.abs(hidden[0, :, :64].numpy() - GOLDEN["lstm_out_first64"]).max() <= 1e-5
    scores = official.scores(features)[0].log_softmax(-1)
    assert np.abs(scores[:, :16].numpy() - GOLDEN["logprob_first16"]).max() <= 5e-5
    best = scores.topk(2).values
    assert np.abs(best[:, 0].numpy() - GOLDEN["top_logprob"]).max() <= 5e-5
    assert np.abs((best[:, 0] - best[:, 1]).numpy() - GOLDEN["margin"]).max() <= 5e-5
    assert official(features)[0].tolist() == GOLDEN["tokens"].tolist()


def test_the_stored_chain(reduced):
    features = torch.from_numpy(CHAIN["features"])[None]
    assert reduced(features)[0].tolist() == CHAIN["semantic"].tolist()
    best = reduced.scores(features)[0].log_softmax(-1).topk(2).values
    assert np.abs((best[:, 0] - best[:, 1]).numpy() - CHAIN["quantizer_margin"]).max() <= 5e-5


def test_padding_behind_does_no_harm(reduced):
    features = torch.randn(3, 50, 48, generator=torch.Generator().manual_seed(0))
    lengths = (50, 1, 17)
    batch = features.clone()
    for row, length in zip(batch, lengths, strict=True):
        row[length:] = torch.nan
    tokens = reduced(batch)
    for row, wav, length in zip(tokens, features, lengths, strict=True):
        assert torch.equal(row[:length], reduced(wav[None, :length])[0])


def test_autocast_changes_nothing(reduced):
    features = torch.from_numpy(CHAIN["features"])[None]
    expected = reduced.scores(features)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(reduced.scores(features), expected)


@pytest.mark.parametrize("name", ["lstm.weight_ih_l0", "fc.bias"])
def test_another_file_is_refused(name):
    shapes = {"lstm.weight_ih_l0": (8, 3), "fc.bias": (10,)}
    assert SemanticQuantiserConfig.from_entries(shapes).hidden == 2
    del shapes[name]
    with pytest.raises(WeightsError, match="semantic quantiser"):
        SemanticQuantiserConfig.from_entries(shapes)
