"""HuBERT stage by stage against stored outputs, and against transformers."""

import numpy as np
import pytest
import torch
from golden.codec_lm_files import CONFIG, FOLDER, hubert_entries, table
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.content.hubert import (
    CONV_KERNELS,
    CONV_STRIDES,
    HOP_SAMPLES,
    MIN_SAMPLES,
    Hubert,
    HubertConfig,
    frame_count,
    is_unused_entry,
)
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError

CHAIN = np.load(FOLDER / "chain.npz")
LAYER = 9
TOLERANCE = 1e-5
"""Absolute, for values of a standard deviation of about 1."""

LENGTHS = (21840, 12000, 400, 719)


@pytest.fixture(scope="module")
def model():
    return seeded(hubert_entries(), HubertConfig.from_published(CONFIG["hubert"]))


@pytest.fixture(scope="module")
def x():
    return torch.from_numpy(CHAIN["hubert_in16k"])[None]


@pytest.fixture(autouse=True)
def inference():
    """On one thread: small networks lose more by waiting for a second one than they gain."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield
    torch.set_num_threads(before)


def seeded(entries, config, layers=LAYER):
    model = Hubert(config, layers=layers).eval()
    kept = {k: v for k, v in entries.items() if not is_unused_entry(k, layers=layers)}
    model.load_state_dict(fold_entries(kept), strict=True)
    return model


def close(result, expected, tolerance=TOLERANCE):
    expected = torch.as_tensor(expected)
    assert result.shape == expected.shape
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)


def test_extractor(model, x):
    frames = model.feature_extractor(x, torch.tensor([x.shape[1]]))
    close(frames[0, :, :8].T, CHAIN["conv_features_first8"])


def test_input_of_the_first_layer(model, x):
    frames = model.feature_extractor(x, torch.tensor([x.shape[1]]))
    valid = torch.ones(1, 68, dtype=torch.bool)
    close(model.encoder.begin(model.project(frames, valid))[0], CHAIN["hidden_0"])


def test_layers_from_the_stored_input(model):
    z = torch.from_numpy(CHAIN["hidden_0"])[None]
    mask = torch.ones(1, 1, 1, 68, dtype=torch.bool)
    for layer in model.encoder.layers:
        z = layer(z, mask)
    close(z[0], CHAIN["features"])


def test_the_chain(model, x):
    features, frames = model(x, torch.tensor([x.shape[1]]))
    assert frames.tolist() == [68]
    assert features.dtype == torch.float32
    close(features[0], CHAIN["features"])


def test_all_twelve_layers(x):
    full = seeded(hubert_entries(), HubertConfig.from_published(CONFIG["hubert"]), 12)
    close(full(x, torch.tensor([x.shape[1]]))[0][0], CHAIN["hidden_12"])


def padded(x, padding):
    batch = torch.full((len(LENGTHS), max(LENGTHS)), padding, dtype=x.dtype)
    for row, length in zip(batch, LENGTHS, strict=True):
        row[:length] = x[0, :length]
    return batch, torch.tensor(LENGTHS)


@pytest.mark.parametrize("padding", [0.0, 0.3, torch.nan, torch.inf])
def test_a_padded_batch_equals_single_recordings(model, x, padding):
    features, frames = model(*padded(x, padding))
    assert features.isfinite().all()
    for row, count, length in zip(features, frames.tolist(), LENGTHS, strict=True):
        alone, single = model(x[:, :length], torch.tensor([length]))
        assert single.tolist() == [count]
        close(row[:count], alone[0], 5e-6)


def test_in_float64_a_padded_batch_is_the_same(model, x):
    """What is left is rounding alone."""
    model = seeded(hubert_entries(), model.config).double()
    x = x.double()
    features, frames = model(*padded(x, torch.nan))
    for row, count, length in zip(features, frames.tolist(), LENGTHS, strict=True):
        close(row[:count], model(x[:, :length], torch.tensor([length]))[0][0], 1e-12)


def test_the_norm_needs_the_mask(model, x):
    """Zeros behind a recording are no part of it."""
    longer = torch.cat([x, torch.zeros(1, 40_000)], dim=1)
    wrong, _ = model(longer, torch.tensor([longer.shape[1]]))
    assert float((wrong[0, :68] - torch.from_numpy(CHAIN["features"])).abs().max()) > 0.05


@pytest.mark.slow
def test_transformers(x):
    from transformers import HubertConfig as TheirConfig
    from transformers import HubertModel

    shapes = hubert_entries()
    theirs = HubertModel(TheirConfig(**CONFIG["hubert"], attn_implementation="eager")).eval()
    theirs.load_state_dict(shapes, strict=True)
    states = theirs(x, output_hidden_states=True).hidden_states
    for layers in (1, LAYER, 12):
        ours = seeded(shapes, HubertConfig.from_published(CONFIG["hubert"]), layers)
        close(ours(x, torch.tensor([x.shape[1]]))[0], states[layers])


def test_frames_are_what_the_convolutions_give(model):
    seen, hop = 1, 1
    for kernel, stride in zip(CONV_KERNELS, CONV_STRIDES, strict=True):
        seen, hop = seen + (kernel - 1) * hop, hop * stride
    assert (seen, hop) == (MIN_SAMPLES, HOP_SAMPLES)
    for samples in (400, 719, 720, 16_000, 16_079, 16_080):
        wav = torch.zeros(1, samples)
        frames = model.feature_extractor(wav, torch.tensor([samples])).shape[1]
        assert frame_count(torch.tensor(samples)).item() == frames


def test_autocast_changes_nothing(model, x):
    expected, _ = model(x, torch.tensor([x.shape[1]]))
    with torch.autocast("cpu", torch.bfloat16):
        result, _ = model(x, torch.tensor([x.shape[1]]))
    assert torch.equal(result, expected)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("feat_extract_norm", "layer"),
        ("do_stable_layer_norm", True),
        ("conv_bias", True),
        ("conv_kernel", [10, 3, 3, 3, 3, 2, 3]),
        ("conv_dim", [32, 64]),
    ],
)
def test_other_architectures_are_refused(setting, value):
    with pytest.raises(ConfigError, match="Use HuBERT base"):
        HubertConfig.from_published({**CONFIG["hubert"], setting: value})


def test_widths_that_cannot_be_divided():
    with pytest.raises(ConfigError, match="width 50 cannot be divided by 4 heads"):
        HubertConfig(width=50, heads=4)
    assert HubertConfig.from_published({}) == HubertConfig()


@pytest.mark.slow
def test_the_published_entries_fit(x):
    """All 211, of which 50 belong to layers 10 to 12 and one to masks."""
    entries = table("hubert_base_ls960_transformers")
    used = {k: v for k, v in entries.items() if not is_unused_entry(k, layers=LAYER)}
    assert (len(entries), len(used)) == (211, 162)
    model = seeded(seeded_state_dict(used), HubertConfig())
    features, _ = model(x, torch.tensor([x.shape[1]]))
    assert features.shape == (1, 68, 768)
    assert features.isfinite().all()
