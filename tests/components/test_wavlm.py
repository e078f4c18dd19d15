"""WavLM stage by stage against the original's stored outputs, and against transformers."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.content.wavlm import WavLM, relative_buckets
from voiceanon.components.content.wavlm_config import (
    CONV_KERNELS,
    CONV_STRIDES,
    HOP_SAMPLES,
    HUB_RENAMES,
    MIN_SAMPLES,
    WavLMConfig,
    frame_count,
    is_unused_entry,
)
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError

GOLDEN = Path(__file__).parents[1] / "golden" / "knn_vc"
SMALL = np.load(GOLDEN / "wavlm_small.npz")
CLIPS = ((5000, 20000), (12000, 9600), (30000, 719))
"""First sample and length of the stored single clips."""

TOLERANCE = 2e-5
"""Absolute, for values of a standard deviation of 0.5 to 3; the two public implementations are
6e-6 apart."""

LARGE_TOLERANCE = 5e-5
"""Absolute, for values of a standard deviation of 2.9; both are 9e-6 from float64."""


def read(name):
    return json.loads((GOLDEN / name).read_text())


def original_name(name):
    for pattern, replacement in HUB_RENAMES:
        name = re.sub(pattern, replacement, name)
    return name


def kept(entries, layers):
    return {k: v for k, v in entries.items() if not is_unused_entry(k, layers=layers)}


def seeded_wavlm(config, entries, layers):
    """A network with the seeded values of the published entries, all of which must fit."""
    model = WavLM(config, layers=layers).eval()
    model.load_state_dict(fold_entries(seeded_state_dict(kept(entries, layers))), strict=True)
    return model


def close(result, expected, tolerance=TOLERANCE):
    expected = torch.as_tensor(expected)
    assert result.shape == expected.shape
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def config():
    return WavLMConfig.from_published(read("config_wavlm_small.json")["original"])


@pytest.fixture(scope="module")
def model(config):
    return seeded_wavlm(config, read("entries_wavlm_small.json"), 8)


@pytest.fixture(scope="module")
def x():
    return torch.from_numpy(np.load(GOLDEN / "input.npz")["utt_int16"] / 32768).float()


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def run(model, wav, wanted=6):
    """Hidden state of one recording, ``(N, D)``."""
    (state,), frames = model.hidden_states(wav[None], torch.tensor([len(wav)]), (wanted,))
    assert frames.tolist() == [len(state[0])]
    return state[0]


# Stages: each gets the stored output of the stage in front of it.


def test_first_convolution(model, x):
    first = model.feature_extractor.conv_layers[0](x[None, :, None])
    close(first[0, :16].T, SMALL["conv0_first16"])


def test_conv_extractor(model, x):
    close(model.feature_extractor(x[None])[0], SMALL["conv_out"])


def test_projection(model):
    valid = torch.ones(1, 118, dtype=torch.bool)
    result = model.project(torch.from_numpy(SMALL["conv_out"])[None], valid)
    close(result[0], SMALL["proj_out"])


def test_positional_convolution(model):
    projected = torch.from_numpy(SMALL["proj_out"])[None]
    close(model.encoder.positional(projected)[0], SMALL["pos_conv_out"])


def test_buckets():
    distance = torch.arange(-1100, 1101)
    result = relative_buckets(distance, 320, 800)
    assert result.tolist() == SMALL["bucket_of_relative_position_m1100_to_1100"].tolist()


def terms(model, frames=118):
    return model.encoder.attention_terms(torch.ones(1, frames, dtype=torch.bool), torch.float32)


def test_position_bias(model):
    bias, key_mask = terms(model)
    close(bias[:, 59, :118], SMALL["pos_bias_head_rel"])
    assert bias.shape == (4, 118, 128)
    assert key_mask.flatten().tolist() == [0.0] * 118 + [-torch.inf] * 10


def test_attention(model):
    layer = model.encoder.layers[0]
    normed = layer.self_attn_layer_norm(torch.from_numpy(SMALL["hidden"][:1]))
    close(layer.self_attn(normed, *terms(model))[0], SMALL["attn0_out"])


@pytest.mark.parametrize("i", range(8))
def test_layer(model, i):
    before = torch.from_numpy(SMALL["hidden"][i : i + 1])
    close(model.encoder.layers[i](before, *terms(model))[0], SMALL["hidden"][i + 1])


# The chain.


def test_all_hidden_states(model, x):
    states, frames = model.hidden_states(x[None], torch.tensor([len(x)]), range(9))
    assert frames.tolist() == [118]
    close(torch.cat(states), SMALL["hidden"])


def test_wanted_layers_come_in_the_order_asked_for(model, x):
    states, _ = model.hidden_states(x[None], torch.tensor([len(x)]), (6, 0, 3, 6))
    close(torch.cat(states), SMALL["hidden"][[6, 0, 3, 6]])


def test_network_cut_to_six_layers(config, x):
    model = seeded_wavlm(config, read("entries_wavlm_small.json"), 6)
    features, frames = model(x[None], torch.tensor([len(x)]))
    assert frames.tolist() == [118]
    assert features.dtype == torch.float32
    close(features[0], SMALL["output_layer6"])
    close(features[0], SMALL["hub_hidden6"])


def test_distances_beyond_the_last_bucket(model):
    noise = np.random.RandomState(0).standard_normal((1, 272_000))
    result = run(model, torch.from_numpy(0.1 * noise).float()[0])
    assert len(result) == 849
    close(result[[0, 100, 424, 848]], SMALL["noise17s_rows_0_100_424_848"])


def test_waveform_is_not_normalised(model, x):
    wrong = torch.from_numpy(SMALL["WRONG_output_layer6_if_waveform_normalised"])
    assert (run(model, x) - wrong).abs().max() > 0.1
    close(run(model, F.layer_norm(x, x.shape)), wrong)


# Batches.


@pytest.mark.parametrize("padding", ["zeros", "noise", "infinity"])
def test_padded_batch_equals_single_recordings(model, x, padding):
    clips = [x[start : start + length] for start, length in CLIPS] + [x]
    batch = torch.zeros(4, len(x))
    if padding == "noise":
        batch = torch.randn(batch.shape, generator=torch.Generator().manual_seed(0))
    elif padding == "infinity":
        batch.fill_(torch.inf)
    for row, clip in zip(batch, clips, strict=True):
        row[: len(clip)] = clip
    lengths = torch.tensor([len(clip) for clip in clips])
    (state,), frames = model.hidden_states(batch, lengths, (6,))
    assert frames.tolist() == [62, 29, 1, 118]
    assert state.isfinite().all()
    stored = [SMALL[f"single_{start}_{length}"] for start, length in CLIPS]
    stored.append(SMALL["output_layer6"])
    for row, count, clip, expected in zip(state, frames, clips, stored, strict=True):
        close(row[:count], expected)
        close(row[:count], run(model, clip))
    wrong = torch.from_numpy(SMALL["WRONG_batch_no_mask_row1"])
    assert (state[0, :62] - wrong).abs().max() > 0.1


def test_frame_count_is_what_the_convolutions_give(model):
    for samples in (400, 719, 720, 721, 1039, 1040, 16_000, 16_079, 16_080):
        frames = model.feature_extractor(torch.zeros(1, samples)).shape[1]
        assert frame_count(torch.tensor(samples)).item() == frames


def test_shortest_input_and_hop_follow_from_the_convolutions():
    seen, hop = 1, 1
    for kernel, stride in zip(CONV_KERNELS, CONV_STRIDES, strict=True):
        seen, hop = seen + (kernel - 1) * hop, hop * stride
    assert (seen, hop) == (MIN_SAMPLES, HOP_SAMPLES)


# Arithmetic and devices.


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_stays_near_float32(model, x, dtype):
    batch = torch.zeros(2, len(x))
    batch[0], batch[1, :20_000] = x, x[:20_000]
    lengths = torch.tensor([len(x), 20_000])
    (expected,), frames = model.hidden_states(batch, lengths, (6,))
    with torch.autocast("cpu", dtype):
        (result,), _ = model.hidden_states(batch, lengths, (6,))
    assert result.dtype == torch.float32
    for row, reference, count in zip(result, expected, frames, strict=True):
        cosine = torch.cosine_similarity(row[:count], reference[:count], dim=1)
        assert cosine.min() >= 0.999
    assert not torch.equal(result, expected)


@pytest.mark.gpu
def test_gpu_equals_cpu(config, x):
    model = seeded_wavlm(config, read("entries_wavlm_small.json"), 8)
    batch = torch.stack([x, x.flip(0)])
    lengths = torch.tensor([len(x), 20_000])
    (expected,), frames = model.hidden_states(batch, lengths, (6,))
    model.cuda()
    (result,), _ = model.hidden_states(batch.cuda(), lengths.cuda(), (6,))
    with torch.autocast("cuda", torch.bfloat16):
        (coarse,), _ = model.hidden_states(batch.cuda(), lengths.cuda(), (6,))
    for i, count in enumerate(frames):
        close(result[i, :count].cpu(), expected[i, :count])
        cosine = torch.cosine_similarity(coarse[i, :count].cpu(), expected[i, :count], dim=1)
        assert cosine.min() >= 0.999
    distance = torch.arange(-1100, 1101)
    buckets = relative_buckets(distance.cuda(), 320, 800).cpu()
    assert torch.equal(buckets, relative_buckets(distance, 320, 800))


# Published files.


def test_official_sizes(x):
    entries = read("entries_WavLM-Large.json")
    assert len(kept(entries, 6)) == 143
    model = seeded_wavlm(WavLMConfig(), entries, 6)
    wav = x[4000:20_000]
    features, frames = model(wav[None], torch.tensor([len(wav)]))
    assert frames.tolist() == [49]
    golden = np.load(GOLDEN / "wavlm_large6.npz")
    close(features[0, :, :96], golden["hidden6_first96dims"], LARGE_TOLERANCE)
    close(features[0].mean(0), golden["hidden6_mean_over_frames"], LARGE_TOLERANCE)
    close(features[0].norm(dim=1), golden["hidden6_frame_norms"], LARGE_TOLERANCE)


@pytest.mark.parametrize("layers", [1, 6, 12, 24])
def test_all_published_entries_fit_or_are_known_to_be_unused(layers):
    entries = kept(read("entries_WavLM-Large.json"), layers)
    with torch.device("meta"):
        model = WavLM(layers=layers)
        state = fold_entries({name: torch.empty(shape) for name, shape in entries.items()})
    shapes = {name: value.shape for name, value in state.items()}
    assert shapes == {name: value.shape for name, value in model.state_dict().items()}


def test_unused_entries():
    names = read("entries_WavLM-Large.json")
    unused = {name for name in names if is_unused_entry(name, layers=24)}
    assert unused == {"mask_emb", "encoder.layer_norm.weight", "encoder.layer_norm.bias"}
    assert is_unused_entry("encoder.layers.6.fc1.bias", layers=6)
    assert not is_unused_entry("encoder.layers.5.fc1.bias", layers=6)
    assert not is_unused_entry("something.else", layers=6)


def test_hub_names():
    original, hub = read("entries_WavLM-Large.json"), read("entries_hub_wavlm-large.json")
    hub_of = read("map_WavLM-Large_to_hub.json")
    assert {original_name(name): name for name in hub} == hub_of
    assert {original_name(name): shape for name, shape in hub.items()} == original
    # In any order, and harmless to a checkpoint that has the original names already.
    assert all(sum(bool(re.match(p, name)) for p, _ in HUB_RENAMES) <= 1 for name in hub)
    assert all(original_name(name) == name for name in original)


# Their attention mixes two types of mask.
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
def test_equals_transformers(config, model, x):
    transformers = pytest.importorskip("transformers")
    settings = read("config_wavlm_small.json")["hub"]
    assert WavLMConfig.from_published(settings) == config
    theirs = transformers.WavLMModel(transformers.WavLMConfig(**settings)).eval()
    # Their entries, renamed and folded, are ours.
    names = {original_name(name): name for name in theirs.state_dict()}
    entries = {name: theirs.state_dict()[names[name]].shape for name in names}
    weights = seeded_state_dict(entries)
    theirs.load_state_dict({names[name]: value for name, value in weights.items()}, strict=True)
    ours = WavLM(config, layers=8).eval()
    ours.load_state_dict(fold_entries(kept(weights, 8)), strict=True)

    batch = torch.stack([x, x.flip(0)])
    lengths = torch.tensor([20_000, len(x)])
    mask = (torch.arange(len(x)) < lengths[:, None]).long()
    expected = theirs(batch, attention_mask=mask, output_hidden_states=True).hidden_states
    states, frames = ours.hidden_states(batch, lengths, range(8))
    for result, reference in zip(states, expected, strict=False):
        for i, count in enumerate(frames):
            close(result[i, :count], reference[i, :count])


def test_published_settings():
    settings = read("config_wavlm_small.json")
    config = WavLMConfig.from_published(settings["original"])
    assert config == WavLMConfig.from_published(settings["hub"])
    assert config == WavLMConfig(conv_channels=32, width=64, heads=4, ffn_width=128, layers=8)
    assert WavLMConfig.from_published({}) == WavLMConfig()
    official = {"conv_feature_layers": "[(512,10,5)] + [(512,3,2)] * 4 + [(512,2,2)] * 2"}
    assert WavLMConfig.from_published(official) == WavLMConfig()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("extractor_mode", "default"),
        ("layer_norm_first", False),
        ("feat_extract_norm", "group"),
        ("do_stable_layer_norm", False),
        ("gru_rel_pos", False),
        ("hidden_act", "relu"),
    ],
)
def test_another_architecture_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name}' is {value!r}"):
        WavLMConfig.from_published({name: value})


@pytest.mark.parametrize(
    "settings",
    [
        {"conv_kernel": [10, 3, 3, 3, 3, 2]},
        {"conv_stride": [5, 2, 2, 2, 2, 2, 3]},
        {"conv_dim": [512, 512, 512, 512, 512, 512, 256]},
        {"conv_feature_layers": "[(512,10,5)] + [(512,3,2)] * 4"},
        {"conv_feature_layers": "?"},
    ],
)
def test_another_extractor_is_refused(settings):
    with pytest.raises(ConfigError, match="the extractor has"):
        WavLMConfig.from_published(settings)
