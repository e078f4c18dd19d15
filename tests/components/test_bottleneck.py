"""Content encoders of B5 and B6, stage by stage against the original; batches; published files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from golden.vqbn_files import entries, entry_shapes

from voiceanon.components.content.bottleneck import (
    BottleneckConfig,
    BottleneckEncoder,
    config_from_entries,
    frame_count,
    is_unused_entry,
)
from voiceanon.components.content.tdnnf import edge_frames
from voiceanon.components.content.wav2vec2 import Wav2Vec2Sizes
from voiceanon.components.edges import repeat_edges
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.hub.convert import load_strict, rename

GOLDEN = Path(__file__).parents[1] / "golden" / "vqbn_hifigan"
PREFIX = "bn_extractor."
RUNS = ("b6_official", "b6_reduced", "b5_reduced")
B6, B5 = "hifigan_bn_tdnnf_600h_vq_48_v1", "hifigan_bn_tdnnf_wav2vec2_vq_48_v1"
QUANTISER = "bottleneck_func.quant."

STAGE_TOLERANCE = 5e-5
"""Absolute, for values of a standard deviation of about 1, from the stored stage in front."""

CHAIN_TOLERANCE = 1e-3
"""From the waveform: energies of the filter bank differ by 5e-4 between machines. The codes, which
have to be equal, lie 0.013 or more before the next ones."""

BATCH_TOLERANCE = 5e-5


def stripped(values):
    return {n.removeprefix(PREFIX): v for n, v in values.items() if n.startswith(PREFIX)}


def load(weights):
    """An encoder from entries by published name, as from a published file."""
    config = config_from_entries({name: tuple(value.shape) for name, value in weights.items()})
    with torch.device("meta"):
        encoder = BottleneckEncoder(config)
    load_strict(
        encoder,
        weights,
        file=Path("final.pt"),
        renames=encoder.renames,
        unused=lambda name: is_unused_entry(name, config),
        fold=fold_entries,
    )
    return encoder.eval()


@pytest.fixture(scope="module")
def encoders():
    return {run: load(stripped(entries(run))) for run in RUNS}


@pytest.fixture(scope="module")
def stored():
    return {run: np.load(GOLDEN / f"{run}.npz") for run in RUNS}


@pytest.fixture(scope="module")
def recordings():
    inputs = np.load(GOLDEN / "inputs.npz")
    spoken = {
        name: torch.from_numpy(inputs[name] / np.float32(32_768))
        for name in inputs.files
        if name.startswith("pcm_")
    }
    utterance = spoken["pcm_367-130732-0000"][:32_000]
    return {"det": torch.from_numpy(inputs["det"]), "u367_2s": utterance, **spoken}


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def encode(encoder, wav):
    """One recording: vectors ``(N, D)`` and codes ``(N,)``."""
    vectors, codes, lengths = encoder(wav[None], torch.tensor([len(wav)]))
    assert lengths.tolist() == [len(vectors[0])]
    return vectors[0], None if codes is None else codes[0]


def close(result, expected, tolerance):
    torch.testing.assert_close(result, torch.as_tensor(expected), rtol=0, atol=tolerance)


class Seen(dict):
    """Outputs of modules, by name, while it is open."""

    def __init__(self, module):
        super().__init__()
        self.hooks = [
            part.register_forward_hook(lambda part, x, y, name=name: self.update({name: y}))
            for name, part in module.named_modules()
        ]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for hook in self.hooks:
            hook.remove()


# Stages.


@pytest.mark.parametrize("name", ["det", "u367_2s"])
@pytest.mark.parametrize("run", ["b6_official", "b6_reduced"])
def test_layers_from_stored_features(encoders, stored, run, name):
    encoder, golden = encoders[run], stored[run]
    features = torch.from_numpy(golden[f"{name}.fbank_cmn"])[None]
    edge = edge_frames(encoder.config.layers)
    with Seen(encoder) as seen:
        encoder.tdnnfs(
            encoder.tdnn1(repeat_edges(features, torch.tensor([features.shape[1]]), edge, edge))
        )
    step = 64 if run == "b6_official" else 4
    for layer in ("tdnn1", *(f"tdnnfs.{i}" for i in range(0, 20, 2))):
        close(seen[layer][0, :, ::step], golden[f"{name}.{layer}_out"], STAGE_TOLERANCE)
    close(seen["tdnnfs.20.tdnn.linearB"][0], golden[f"{name}.pre_vq"], STAGE_TOLERANCE)


@pytest.mark.parametrize("name", ["det", "u367_2s"])
@pytest.mark.parametrize("run", RUNS)
def test_codes_from_stored_bottleneck(encoders, stored, run, name):
    golden = stored[run]
    quantiser = encoders[run].tdnnfs[-1].tdnn["bottleneck_func"]["quant"]
    vectors, codes = quantiser(torch.from_numpy(golden[f"{name}.pre_vq"])[None])
    assert codes[0].tolist() == golden[f"{name}.codes"].tolist()
    assert torch.equal(vectors[0], torch.from_numpy(golden["codebook"])[codes[0]])
    # The original adds and subtracts the input, which leaves rounding behind.
    close(vectors[0], golden[f"{name}.bn"], 1e-6)


# The chain.


@pytest.mark.parametrize("name", ["det", "u367_2s"])
@pytest.mark.parametrize("run", RUNS)
def test_chain(encoders, stored, recordings, run, name):
    encoder, golden = encoders[run], stored[run]
    with Seen(encoder) as seen:
        vectors, codes = encode(encoder, recordings[name])
    layers = ["tdnn1", *(f"tdnnfs.{i}" for i in range(0, 2 * len(encoder.config.layers) - 4, 2))]
    step = 4 if run == "b6_reduced" else 64
    for layer in layers:
        close(seen[layer][0, :, ::step], golden[f"{name}.{layer}_out"], CHAIN_TOLERANCE)
    before = seen[f"{encoder.config.bottleneck_layer}.tdnn.linearB"][0]
    close(before, golden[f"{name}.pre_vq"], CHAIN_TOLERANCE)
    assert codes.tolist() == golden[f"{name}.codes"].tolist()
    assert vectors.dtype == torch.float32
    close(vectors, golden[f"{name}.bn"], 1e-6)


@pytest.mark.parametrize("run", ["b6_reduced", "b5_reduced"])
def test_without_quantiser_the_bottleneck_comes_as_it_is(stored, recordings, run):
    weights = {n: v for n, v in stripped(entries(run)).items() if QUANTISER not in n}
    encoder = load(weights)
    assert encoder.config.codebook_size is None
    for name in ("det", "u367_2s"):
        vectors, codes = encode(encoder, recordings[name])
        assert codes is None
        close(vectors, stored[run][f"{name}.pre_vq"], CHAIN_TOLERANCE)


@pytest.mark.parametrize("run", RUNS)
def test_frames_of_every_length(encoders, recordings, run):
    encoder, wav = encoders[run], recordings["det"]
    for samples in (400, 401, 479, 480, 559, 560, 719, 720, 721, 8000, 16_000, 16_079, 16_080):
        vectors, codes = encode(encoder, wav[:samples])
        assert len(vectors) == len(codes) == (samples + 240) // 320
        assert vectors.isfinite().all()
    assert frame_count(torch.tensor([400, 720, 24_010])).tolist() == [2, 3, 75]


# Batches.


def mixed(recordings, seconds):
    """Parts of all utterances in a row, of various lengths."""
    row = torch.cat([wav for name, wav in sorted(recordings.items()) if name != "det"])
    return [row.roll(-9999 * i)[: round(16_000 * length)] for i, length in enumerate(seconds)]


def equals_single_runs(encoder, clips, padding):
    batch = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True, padding_value=padding)
    before = batch.clone()
    lengths = torch.tensor([len(clip) for clip in clips])
    with Seen(encoder) as seen:
        vectors, codes, frames = encoder(batch, lengths)
    bottleneck = seen[f"{encoder.config.bottleneck_layer}.tdnn.linearB"]
    assert torch.equal(batch.nan_to_num(), before.nan_to_num())
    assert frames.tolist() == frame_count(lengths).tolist()
    assert vectors.shape[:2] == codes.shape == (len(clips), frames.max())
    assert vectors.isfinite().all()
    for i, clip in enumerate(clips):
        with Seen(encoder) as seen:
            alone, alone_codes = encode(encoder, clip)
        before = seen[f"{encoder.config.bottleneck_layer}.tdnn.linearB"]
        close(bottleneck[i, : frames[i]], before[0], BATCH_TOLERANCE)
        assert torch.equal(codes[i, : frames[i]], alone_codes)
        assert torch.equal(vectors[i, : frames[i]], alone)
    assert codes.unique().numel() > 5


@pytest.mark.parametrize("padding", [0.0, 0.3, torch.nan, torch.inf])
def test_padded_batch_equals_single_runs_b6(encoders, recordings, padding):
    clips = mixed(recordings, (0.3, 12.0, 0.731, 4.0, 2.5, 0.025))
    equals_single_runs(encoders["b6_reduced"], clips, padding)


@pytest.mark.parametrize("padding", [0.3, torch.nan])
def test_padded_batch_equals_single_runs_b5(encoders, recordings, padding):
    clips = mixed(recordings, (0.3, 1.2, 0.731, 0.025))
    equals_single_runs(encoders["b5_reduced"], clips, padding)


@pytest.mark.slow
@pytest.mark.parametrize("run", ["b6_official", "b5_reduced"])
def test_long_padded_batch_equals_single_runs(encoders, recordings, run):
    equals_single_runs(encoders[run], mixed(recordings, (12.0, 0.3, 5.17, 11.99)), torch.nan)


@pytest.mark.parametrize("run", ["b6_reduced", "b5_reduced"])
def test_batch_is_better_than_the_originals(encoders, recordings, run):
    golden = np.load(GOLDEN / f"batch_{run}.npz")
    clips = [recordings["u367_2s"], recordings["det"]]
    batch = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True)
    _, codes, frames = encoders[run](batch, torch.tensor([len(clip) for clip in clips]))
    for i, count in enumerate(frames):
        assert codes[i, :count].tolist() == golden[f"pad.single{i}.codes"].tolist()
    # There, the shorter one hears the zeros behind it.
    assert codes[1, : frames[1]].tolist() != golden["pad.codes"][1, : frames[1]].tolist()


# Arithmetic and devices.


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_change_b6(encoders, recordings, dtype):
    encoder = encoders["b6_official"]
    with Seen(encoder) as expected:
        _, codes = encode(encoder, recordings["u367_2s"])
    with torch.autocast("cpu", dtype), Seen(encoder) as seen:
        _, found = encode(encoder, recordings["u367_2s"])
    assert torch.equal(found, codes)
    # Codes alone would forgive much.
    before = "tdnnfs.20.tdnn.linearB"
    assert torch.equal(seen[before], expected[before])


def test_autocast_of_b5_changes_codes_only_where_they_are_close(encoders, stored, recordings):
    encoder, golden = encoders["b5_reduced"], stored["b5_reduced"]
    with torch.autocast("cpu", torch.bfloat16), Seen(encoder) as seen:
        vectors, codes = encode(encoder, recordings["u367_2s"])
    assert seen["tdnn1"].dtype == vectors.dtype == torch.float32
    assert not np.array_equal(seen["tdnn1"][0, :, ::64], golden["u367_2s.tdnn1_out"])
    sure = golden["u367_2s.vq_margin"] > 2.0
    assert sure.sum() > 40
    assert (codes.numpy() == golden["u367_2s.codes"])[sure].all()


@pytest.mark.gpu
@pytest.mark.parametrize("run", RUNS)
def test_gpu_equals_cpu(stored, recordings, run):
    encoder, golden = load(stripped(entries(run))).cuda(), stored[run]
    clips = [recordings["det"], recordings["u367_2s"]]
    batch = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True, padding_value=torch.nan)
    lengths = torch.tensor([len(clip) for clip in clips])
    vectors, codes, frames = encoder(batch.cuda(), lengths.cuda())
    for i, name in enumerate(("det", "u367_2s")):
        assert codes[i, : frames[i]].tolist() == golden[f"{name}.codes"].tolist()
        close(vectors[i, : frames[i]].cpu(), golden[f"{name}.bn"], 1e-6)


# Published files.


@pytest.mark.parametrize(("table", "kept"), [(B6, 69), (B5, 434)])
def test_official_entries_fit(table, kept):
    shapes = stripped(entry_shapes(table))
    config = config_from_entries(shapes)
    expected = BottleneckConfig(front_end="wav2vec2" if table == B5 else "fbank")
    assert config == expected
    used = {name: shape for name, shape in shapes.items() if not is_unused_entry(name, config)}
    assert len(used) == kept
    with torch.device("meta"):
        encoder = BottleneckEncoder(config)
        weights = {name: torch.empty(shape) for name, shape in used.items()}
    state = fold_entries(rename(weights, encoder.renames, file=Path("final.pt")))
    given = {name: value.shape for name, value in state.items()}
    assert given == {name: value.shape for name, value in encoder.state_dict().items()}


def test_sizes_of_the_reduced_runs(encoders):
    assert encoders["b6_official"].config == BottleneckConfig()
    assert encoders["b6_reduced"].config == BottleneckConfig(hidden=64, inner=16)
    assert encoders["b5_reduced"].config == BottleneckConfig(
        front_end="wav2vec2", inner=16, wav2vec2=Wav2Vec2Sizes(layers=2, feed_forward=256)
    )


def test_other_codebooks():
    shapes = stripped(entry_shapes(B6))
    name = f"tdnnfs.20.tdnn.{QUANTISER}_embedding.weight"
    assert config_from_entries({**shapes, name: (256, 256)}).codebook_size == 256
    plain = {n: s for n, s in shapes.items() if QUANTISER not in n}
    assert config_from_entries(plain) == BottleneckConfig(codebook_size=None)
    shapes = {n: s for n, s in stripped(entry_shapes(B5)).items() if QUANTISER not in n}
    assert config_from_entries(shapes) == BottleneckConfig(front_end="wav2vec2", codebook_size=None)


def test_unused_entries():
    config = BottleneckConfig()
    for name in (
        "tdnnfs.20.bn.running_mean",
        "tdnnfs.20.tdnn.linearA.bias",
        f"tdnnfs.20.{QUANTISER}_embedding.weight",
        f"tdnnfs.20.tdnn.{QUANTISER}_ema_w",
        f"tdnnfs.20.tdnn.{QUANTISER}_ema_cluster_size",
        "tdnnfs_after.2.tdnn.linearB.inner_nat.bias",
        "prefinal_xent.bn.running_var",
        "chain_output.weight",
        "tdnn1.bn.num_batches_tracked",
        "preprocessor.encoder.transformer.layer_norm.weight",
        "preprocessor.masked_spec_embed",
    ):
        assert is_unused_entry(name, config), name
    for name in (
        "tdnnfs.2.bn.running_mean",
        "tdnnfs.2.tdnn.linearA.bias",
        f"tdnnfs.2.tdnn.{QUANTISER}_embedding.weight",
        f"tdnnfs.20.tdnn.{QUANTISER}_embedding.weight",
        "tdnnfs.20.tdnn.linearB.inner_nat.weight",
        "preprocessor.encoder.transformer.layers.0.layer_norm.weight",
        "something.else",
    ):
        assert not is_unused_entry(name, config), name
    b5 = BottleneckConfig(front_end="wav2vec2")
    assert is_unused_entry("tdnnfs.2.tdnn.linearA.bias", b5)


def test_two_quantisers_do_not_pass():
    weights = stripped(entries("b6_reduced"))
    weights[f"tdnnfs.2.tdnn.{QUANTISER}_embedding.weight"] = torch.zeros(48, 16)
    with pytest.raises(WeightsError, match=r"of no use to the network:\n  tdnnfs\.2\.tdnn\.bottle"):
        load(weights)


LAST = "tdnnfs.20.tdnn.linearB.inner_nat.weight"
PROJECTION = "preprocessor.encoder.feature_projection.projection.weight"
POSITION = "preprocessor.encoder.transformer.pos_conv_embed.conv.weight_v"


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (B6, {"tdnn1": None}, "11 layers .* the front end 'fbank'; 12 are known"),
        (B6, {"tdnn": None}, "0 layers"),
        (B6, {"preprocessor.x": (1,)}, "12 layers .* the front end 'wav2vec2'; 3 are known"),
        (B5, {"preprocessor": None}, "3 layers .* the front end 'fbank'; 12 are known"),
        (B6, {"tdnnfs.22.tdnn.linearB.inner_nat.weight": (128, 3072)}, "13 layers"),
        (B6, {LAST: None, LAST.replace("20", "22"): (256, 3072)}, f"'{LAST}' is missing"),
        (B6, {"tdnn1.tdnn.linearA.weight": (1024,)}, r"linearA.weight' has the shape \(1024,\)"),
        (B5, {PROJECTION: None}, "projection.weight' is missing; 2 dimensions"),
        (B5, {PROJECTION: (1000, 512)}, "width 1000 with groups of 64"),
        (B5, {POSITION: (1024, 60, 128)}, "width 1024 with groups of 60"),
        (B5, {POSITION: None}, "pos_conv_embed.conv.weight_v' is missing"),
    ],
)
def test_unknown_layouts_are_refused(table, changes, message):
    shapes = stripped(entry_shapes(table))
    for name, shape in changes.items():
        shapes = {n: s for n, s in shapes.items() if not n.startswith(name)}
        if shape is not None:
            shapes[name] = shape
    with pytest.raises(WeightsError, match=message):
        config_from_entries(shapes)


def test_unknown_front_end_is_refused():
    with pytest.raises(ConfigError, match="front_end: 'mfcc' is not one of fbank, wav2vec2"):
        BottleneckConfig(front_end="mfcc")
