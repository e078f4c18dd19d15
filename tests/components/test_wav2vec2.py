"""wav2vec 2.0 against the original's stored outputs, torchaudio and transformers; batches."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict
from golden.vqbn_files import entry_shapes
from signals import noise, speech

from voiceanon.components.content.wav2vec2 import TORCHAUDIO_RENAMES, Wav2Vec2, Wav2Vec2Sizes
from voiceanon.components.random_weights import fill_random
from voiceanon.components.weight_norm import SPELLINGS, fold_entries
from voiceanon.errors import ConfigError
from voiceanon.hub.convert import load_strict

GOLDEN = Path(__file__).parents[1] / "golden" / "vqbn_hifigan"
PREFIX = "bn_extractor.preprocessor."
FINAL_NORM = "encoder.transformer.layer_norm."
OFFICIAL = "hifigan_bn_tdnnf_wav2vec2_vq_48_v1"

SMALL = Wav2Vec2Sizes(
    conv_channels=32, width=128, heads=2, feed_forward=64, layers=3, pos_kernel=16, pos_groups=4
)

TOLERANCE = 2e-5
"""Absolute, for values of a standard deviation of about 1; stored values are within 4e-6."""


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def published(table):
    """Shapes by torchaudio's name."""
    shapes = entry_shapes(table)
    return {n.removeprefix(PREFIX): s for n, s in shapes.items() if n.startswith(PREFIX)}


def renamed(name):
    for pattern, replacement in TORCHAUDIO_RENAMES:
        name = re.sub(pattern, replacement, name)
    return name


def load(sizes, weights):
    """A network from weights by torchaudio's names, as from a published file."""
    with torch.device("meta"):
        model = Wav2Vec2(sizes)
    load_strict(
        model,
        weights,
        file=Path("file"),
        renames=TORCHAUDIO_RENAMES,
        unused=lambda name: name.startswith(FINAL_NORM),
        fold=fold_entries,
    )
    return model.eval()


def run(model, wav):
    """Features of one recording, ``(N, D)``."""
    features, frames = model(wav[None], torch.tensor([len(wav)]))
    assert features.shape[:2] == (1, frames.item())
    return features[0]


@pytest.fixture(scope="module")
def small():
    with torch.device("meta"):
        model = Wav2Vec2(SMALL)
    model = model.to_empty(device="cpu").eval()
    fill_random(model, torch.Generator().manual_seed(0))
    return model


def padded(clips, padding):
    batch = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True, padding_value=padding)
    return batch, torch.tensor([len(clip) for clip in clips])


def close(result, expected):
    torch.testing.assert_close(result, torch.as_tensor(expected), rtol=0, atol=TOLERANCE)


# Stages.


def test_stored_stages():
    sizes = Wav2Vec2Sizes(layers=2, feed_forward=256)
    shapes = published("b5_reduced_golden")
    seeded = seeded_state_dict({PREFIX + name: shape for name, shape in shapes.items()})
    model = load(sizes, {name.removeprefix(PREFIX): value for name, value in seeded.items()})
    stored, inputs = np.load(GOLDEN / "b5_reduced.npz"), np.load(GOLDEN / "inputs.npz")
    seen = {}
    model.encoder["layers"][0].register_forward_hook(
        lambda module, inputs, output: seen.update(layer=output)
    )
    model.feature_extractor.register_forward_hook(
        lambda module, inputs, output: seen.update(conv=output)
    )
    utterance = inputs["pcm_367-130732-0000"][:32_000] / np.float32(32_768)
    for name, wav in (("det", inputs["det"]), ("u367_2s", utterance)):
        features = run(model, torch.from_numpy(wav))
        close(seen["conv"][0, ::8].T, stored[f"{name}.w2v_conv"])
        layer = seen["layer"][0] if isinstance(seen["layer"], tuple) else seen["layer"]
        close(layer[0, :, ::16], stored[f"{name}.w2v_layer0"])
        close(features[:, ::16], stored[f"{name}.w2v_layer1"])


# Other implementations.


def test_equals_torchaudio():
    torchaudio = pytest.importorskip("torchaudio")
    strides = zip((10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2), strict=True)
    theirs = torchaudio.models.wav2vec2_model(
        extractor_mode="layer_norm",
        extractor_conv_layer_config=[(SMALL.conv_channels, *pair) for pair in strides],
        extractor_conv_bias=True,
        encoder_embed_dim=SMALL.width,
        encoder_projection_dropout=0.0,
        encoder_pos_conv_kernel=SMALL.pos_kernel,
        encoder_pos_conv_groups=SMALL.pos_groups,
        encoder_num_layers=SMALL.layers,
        encoder_num_heads=SMALL.heads,
        encoder_attention_dropout=0.0,
        encoder_ff_interm_features=SMALL.feed_forward,
        encoder_ff_interm_dropout=0.0,
        encoder_dropout=0.0,
        encoder_layer_norm_first=True,
        encoder_layer_drop=0.0,
        aux_num_out=None,
    ).eval()
    shapes = {name: value.shape for name, value in theirs.state_dict().items()}
    theirs.load_state_dict(seeded_state_dict(shapes), strict=True)
    wav = speech(1.0)
    expected = theirs.extract_features(wav[None])[0][-1][0]
    close(run(load(SMALL, theirs.state_dict()), wav), expected)


def test_equals_transformers(small):
    transformers = pytest.importorskip("transformers")
    config = transformers.Wav2Vec2Config(
        hidden_size=SMALL.width,
        num_hidden_layers=SMALL.layers,
        num_attention_heads=SMALL.heads,
        intermediate_size=SMALL.feed_forward,
        conv_dim=(SMALL.conv_channels,) * 7,
        num_conv_pos_embeddings=SMALL.pos_kernel,
        num_conv_pos_embedding_groups=SMALL.pos_groups,
        feat_extract_norm="layer",
        conv_bias=True,
        do_stable_layer_norm=True,
    )
    theirs = transformers.Wav2Vec2Model(config).eval()
    conv = theirs.encoder.pos_conv_embed.conv
    torch.nn.utils.parametrize.remove_parametrizations(conv, "weight")
    found = theirs.load_state_dict(small.state_dict(), strict=False)
    assert not found.unexpected_keys
    left = {"masked_spec_embed", "encoder.layer_norm.weight", "encoder.layer_norm.bias"}
    assert set(found.missing_keys) == left
    last = []
    theirs.encoder.layers[-1].register_forward_hook(
        lambda module, inputs, output: last.append(output[0] if type(output) is tuple else output)
    )
    batch, lengths = padded([speech(1.0), speech(0.6, seed=1)], 0.0)
    mask = (torch.arange(batch.shape[1]) < lengths[:, None]).long()
    final = theirs(batch, attention_mask=mask).last_hidden_state
    features, frames = small(batch, lengths)
    for i, count in enumerate(frames):
        close(features[i, :count], last[0][i, :count])
    # The final LayerNorm, which is left out here, would make a difference.
    assert (features - final).abs().max() > 0.1


# Batches.


@pytest.mark.parametrize("padding", [0.0, 1e4, torch.nan, torch.inf])
def test_padded_batch_equals_single_recordings(small, padding):
    clips = [speech(2.0), noise(0.025), speech(0.731, seed=1), speech(1.999, seed=2)]
    batch, lengths = padded(clips, padding)
    before = batch.clone()
    features, frames = small(batch, lengths)
    assert torch.equal(batch.nan_to_num(), before.nan_to_num())
    assert frames.tolist() == [99, 1, 36, 99]
    assert features.isfinite().all()
    for i, clip in enumerate(clips):
        close(features[i, : frames[i]], run(small, clip))


def test_waveform_is_not_normalised(small):
    wav = speech(0.5)
    assert (run(small, wav) - run(small, wav / wav.std())).abs().max() > 0.01


def test_training_mode_changes_nothing(small):
    wav = speech(0.5)
    expected = run(small, wav)
    state = torch.get_rng_state()
    small.train()
    try:
        assert torch.equal(run(small, wav), expected)
    finally:
        small.eval()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_stays_near_float32(small, dtype):
    batch, lengths = padded([speech(1.0), speech(0.6, seed=1)], 0.0)
    expected, frames = small(batch, lengths)
    with torch.autocast("cpu", dtype):
        result, _ = small(batch, lengths)
    assert result.dtype == torch.float32
    assert not torch.equal(result, expected)
    for row, reference, count in zip(result, expected, frames, strict=True):
        assert torch.cosine_similarity(row[:count], reference[:count], dim=1).min() >= 0.999


@pytest.mark.gpu
def test_gpu_equals_cpu():
    model = Wav2Vec2(SMALL).eval()
    fill_random(model, torch.Generator().manual_seed(0))
    batch, lengths = padded([speech(1.0), speech(0.6, seed=1)], torch.nan)
    expected, frames = model(batch, lengths)
    model.cuda()
    result, _ = model(batch.cuda(), lengths.cuda())
    with torch.autocast("cuda", torch.float16):
        coarse, _ = model(batch.cuda(), lengths.cuda())
    for i, count in enumerate(frames):
        close(result[i, :count].cpu(), expected[i, :count])
        cosine = torch.cosine_similarity(coarse[i, :count].cpu(), expected[i, :count], dim=1)
        assert cosine.min() >= 0.999


# Entries.


@pytest.mark.parametrize("spelling", SPELLINGS, ids=["old", "new"])
def test_all_published_entries_fit(spelling):
    shapes = published(OFFICIAL)
    assert len(shapes) == 421
    for old, new in zip(SPELLINGS[0], spelling, strict=True):
        (name,) = (name for name in shapes if name.endswith(old))
        shapes[name.removesuffix(old) + new] = shapes.pop(name)
    used = {n: s for n, s in shapes.items() if not n.startswith(FINAL_NORM)}
    assert len(shapes) - len(used) == 2
    with torch.device("meta"):
        state = fold_entries({renamed(name): torch.empty(shape) for name, shape in used.items()})
        model = Wav2Vec2()
    given = {name: value.shape for name, value in state.items()}
    assert given == {name: value.shape for name, value in model.state_dict().items()}
    # All of them parameters, which random weights fill.
    values = sum(math.prod(shape) for name, shape in used.items() if not name.endswith(spelling[0]))
    assert sum(p.numel() for p in model.parameters()) == values == 315_435_520


def test_names():
    names = list(published(OFFICIAL))
    # In any order, behind any prefix, and harmless to names that are right already.
    for name in names:
        assert sum(bool(re.search(pattern, name)) for pattern, _ in TORCHAUDIO_RENAMES) <= 1
        assert renamed(PREFIX + name) == PREFIX + renamed(name)
        assert renamed(renamed(name)) == renamed(name)
    assert renamed("tdnnfs.0.tdnn.linearA.weight") == "tdnnfs.0.tdnn.linearA.weight"


def test_sizes_that_cannot_be_divided_are_refused():
    with pytest.raises(ConfigError, match="width 1024 cannot be divided by 15 heads"):
        Wav2Vec2Sizes(heads=15)
    with pytest.raises(ConfigError, match="width 128 cannot be divided by 0 groups"):
        Wav2Vec2Sizes(width=128, pos_groups=0)
