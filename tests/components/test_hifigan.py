"""HiFi-GAN: golden values of kNN-VC's vocoder, padded batches, reach, every published option."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.vocoder.hifigan import B3_RENAMES, HiFiGan, HiFiGanConfig
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError
from voiceanon.hub.convert import rename

GOLDEN = Path(__file__).parents[1] / "golden" / "knn_vc"
KNN_VC = HiFiGanConfig(
    input_width=1024, linear_width=512, strides=(10, 8, 2, 2), kernels=(20, 16, 4, 4)
)
SMALL = HiFiGanConfig(
    input_width=64, linear_width=32, first_width=64, strides=(10, 8, 2, 2), kernels=(20, 16, 4, 4)
)
FIVE_STAGES = {"strides": (5, 4, 4, 2, 2), "kernels": (11, 8, 8, 4, 4), "first_width": 32}
B6 = HiFiGanConfig(input_width=20, reflect_start=True, **FIVE_STAGES)
FREEVC = HiFiGanConfig(
    input_width=16,
    first_width=32,
    strides=(10, 8, 2, 2),
    kernels=(16, 16, 4, 4),
    condition_width=12,
    last_bias=False,
)

# Sums of up to 512 x 7 products in another order; float32 against float64 is 2.2e-7 at the end.
STAGE_TOLERANCE = 5e-5
WAVEFORM_TOLERANCE = 5e-6
CHAIN_TOLERANCE = 1e-5
BATCH_TOLERANCE = 1e-6


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


def published(table):
    shapes = json.loads((GOLDEN / table).read_text())
    return seeded_state_dict({name: tuple(shape) for name, shape in shapes.items()})


def load(config, table):
    model = HiFiGan(config).eval()
    model.load_state_dict(fold_entries(published(table)), strict=True)
    return model


def seeded(config):
    model = HiFiGan(config).eval()
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    model.load_state_dict(seeded_state_dict(shapes))
    return model


def generate(model, features, condition=None):
    """One item without a batch: ``(N, D)`` to ``(T,)``."""
    wav, lengths = model(features[None], torch.tensor([len(features)]), condition)
    assert lengths.tolist() == [wav.shape[1]]
    return wav[0]


def record(model):
    """Collects what every layer gives, copied, since the next one may write into it."""
    outputs = {}
    for name, module in model.named_modules():
        module.register_forward_hook(
            lambda module, inputs, output, name=name: (
                outputs.update({name: output.clone()}) if torch.is_tensor(output) else None
            )
        )
    return outputs


def close(found, golden, tolerance):
    np.testing.assert_allclose(found.numpy(), golden, rtol=0, atol=tolerance)


def test_official_stages_and_waveform():
    golden = np.load(GOLDEN / "hifigan_official.npz")
    noise = np.random.RandomState(6).standard_normal((24, 1024)).astype(np.float32)
    model = load(KNN_VC, "entries_prematch_g_02500000.json")
    outputs = record(model)
    wav = generate(model, torch.from_numpy(noise))
    close(outputs["lin_pre"][0], golden["lin_pre"], STAGE_TOLERANCE)
    close(outputs["conv_pre"][0, :32], golden["conv_pre"], STAGE_TOLERANCE)
    for stage in range(4):
        close(outputs[f"ups.{stage}"][0, :2], golden[f"ups{stage}_ch0to1"], STAGE_TOLERANCE)
        blocks = [outputs[f"resblocks.{3 * stage + j}"][0] for j in range(3)]
        # The stored arrays were taken after the reference had summed all blocks into the first
        # one's output; so they hold the two others twice. That the mean itself is right shows in
        # the next stage.
        stored = (blocks[0] + 2 * blocks[1] + 2 * blocks[2]) / 3
        close(stored[:2], golden[f"stage{stage}_ch0to1"], STAGE_TOLERANCE)
        summary = torch.stack([stored.mean(1), stored.std(1)])
        close(summary, golden[f"stage{stage}_mean_std_per_channel"], STAGE_TOLERANCE)
    close(outputs["conv_post"][0, 0], golden["conv_post"], STAGE_TOLERANCE)
    close(wav, golden["waveform"], WAVEFORM_TOLERANCE)


def test_chain():
    golden = np.load(GOLDEN / "chain_small.npz")
    model = load(SMALL, "entries_hifigan_small.json")
    close(generate(model, torch.from_numpy(golden["average"])), golden["raw"], CHAIN_TOLERANCE)


def test_parameter_count():
    # Printed by the notebook of kNN-VC's authors.
    assert sum(p.numel() for p in HiFiGan(KNN_VC).parameters()) == 16_523_393


@pytest.mark.parametrize("config", [SMALL, B6, FREEVC], ids=["knn-vc", "b6", "freevc"])
def test_padded_batch_equals_single_items(config):
    model = seeded(config)
    counts = [9, 1, 20, 8]
    extra = int(config.reflect_start)
    generator = torch.Generator().manual_seed(0)
    items = [torch.randn(n, config.input_width, generator=generator) for n in counts]
    condition = None
    if config.condition_width:
        condition = torch.randn(4, config.condition_width, generator=generator)
    # Nothing may depend on the padding, not even through 0 * nan.
    features = torch.nn.utils.rnn.pad_sequence(items, batch_first=True, padding_value=torch.nan)
    before = features.clone()
    wav, lengths = model(features, torch.tensor(counts), condition)
    assert torch.equal(features.nan_to_num(), before.nan_to_num())
    assert wav.shape == (4, 20 * config.hop_samples + extra)
    assert lengths.tolist() == [n * config.hop_samples + extra for n in counts]
    for i, item in enumerate(items):
        alone = generate(model, item, None if condition is None else condition[i : i + 1])
        close(wav[i, : lengths[i]], alone.numpy(), BATCH_TOLERANCE)
        assert not wav[i, lengths[i] :].any()


def test_without_masks_a_batch_would_differ():
    model = seeded(SMALL)
    features = torch.randn(40, 64, generator=torch.Generator().manual_seed(1))
    padded = torch.nn.functional.pad(features[:20], (0, 0, 0, 20))
    alone = generate(model, features[:20])
    wrong = (generate(model, padded)[: 20 * 320] - alone).abs()
    assert wrong.max() > 1e-3
    # "The last 9 frames change (2892 samples)" at official size.
    assert 2500 < len(alone) - int(wrong.gt(BATCH_TOLERANCE).nonzero()[0]) < 3482


@pytest.mark.parametrize("config", [SMALL, HiFiGanConfig(input_width=20, **FIVE_STAGES)])
def test_reach_of_a_frame(config):
    """An impulse through positive weights cannot cancel, so that it shows all that it touches."""
    model = HiFiGan(config).eval()
    for parameter in model.parameters():
        parameter.fill_(1 / parameter[0].numel() if parameter.ndim > 1 else 0)
    features = torch.zeros(61, config.input_width)
    features[30] = 1
    touched = generate(model, features).nonzero()[:, 0] - 30 * config.hop_samples
    assert (int(touched.min()), int(touched.max()) + 1) == config.context_samples


def test_reach_of_knn_vc_in_frames():
    # The sheet measured -10.85 ... +11.85 frames with seeded weights, whose outermost taps round
    # to nothing; this is the bound for all weights.
    first, last = KNN_VC.context_samples
    assert -10.9 < first / KNN_VC.hop_samples <= -10.85
    assert 11.85 <= last / KNN_VC.hop_samples < 11.9


def test_autocast_keeps_the_end_in_float32():
    model = seeded(SMALL)
    features = torch.randn(30, 64, generator=torch.Generator().manual_seed(2))
    exact = generate(model, features)
    outputs = record(model)
    with torch.autocast("cpu", torch.bfloat16):
        half = generate(model, features)
    assert outputs["resblocks.11"].dtype == torch.bfloat16
    assert outputs["conv_post"].dtype == half.dtype == torch.float32
    # bfloat16 has 8 bits: 1 % of the standard deviation after some 80 layers.
    assert (half - exact).square().mean().sqrt() < 0.03 * exact.std()


def test_gradients_pass():
    """In-place steps do not get in the way of training."""
    with torch.inference_mode(False), torch.enable_grad():
        model = seeded(SMALL)
        features = torch.randn(2, 8, 64, requires_grad=True)
        wav, _ = model(features, torch.tensor([8, 3]))
        wav.square().sum().backward()
        assert features.grad is not None
        assert features.grad[1, :3].any()
        assert not features.grad[1, 3:].any()
        assert all(p.grad is not None for p in model.parameters())


def test_reflected_start():
    model = seeded(B6)
    plain = HiFiGan(HiFiGanConfig(input_width=20, **FIVE_STAGES)).eval()
    plain.load_state_dict(model.state_dict())
    features = torch.randn(10, 20, generator=torch.Generator().manual_seed(3))
    longer, shorter = generate(model, features), generate(plain, features)
    assert len(longer) == len(shorter) + 1
    # Only the first samples see what was put in front of them.
    close(longer[5:], shorter[4:].numpy(), BATCH_TOLERANCE)
    assert not torch.equal(longer[1:4], shorter[:3])


def test_last_slope():
    features = torch.randn(10, 20, generator=torch.Generator().manual_seed(4))
    sizes = {"input_width": 20, **FIVE_STAGES, "first_width": 64}
    ends = []
    for slope in (0.01, 0.1):
        model = seeded(HiFiGanConfig(last_slope=slope, **sizes))
        outputs = record(model)
        generate(model, features)
        mean = sum(outputs[f"resblocks.{12 + j}"] for j in range(3)) / 3
        expected = model.conv_post(torch.nn.functional.leaky_relu(mean, slope))
        close(outputs["conv_post"], expected.numpy(), BATCH_TOLERANCE)
        ends.append(expected)
    assert (ends[0] - ends[1]).abs().max() > 1e-3


def test_condition_moves_the_first_layer():
    model = seeded(FREEVC)
    features = torch.randn(6, 16, generator=torch.Generator().manual_seed(5))
    condition = torch.randn(1, 12, generator=torch.Generator().manual_seed(6))
    outputs = record(model)
    generate(model, features, condition)
    expected = model.cond.weight[:, :, 0] @ condition[0] + model.cond.bias
    close(outputs["cond"][0, :, 0], expected.numpy(), BATCH_TOLERANCE)
    with pytest.raises(ConfigError, match="needs a condition"):
        generate(model, features)


def test_names_of_the_options():
    names = set(HiFiGan(SMALL).state_dict())
    assert names == set(fold_entries(published("entries_hifigan_small.json")))
    without = set(HiFiGan(B6).state_dict())
    assert not any(name.startswith(("lin_pre", "cond.")) for name in without)
    freevc = set(HiFiGan(FREEVC).state_dict())
    assert {"cond.weight", "cond.bias", "conv_pre.bias", "conv_post.weight"} <= freevc
    assert "conv_post.bias" not in freevc


def test_names_of_b3():
    given = {
        "input_conv.weight_g": 0,
        "upsamples.0.1.weight_v": 1,
        "blocks.11.convs1.2.1.bias": 2,
        "blocks.0.convs2.0.1.weight_g": 3,
        "output_conv.1.bias": 4,
        "conv_pre.weight": 5,
    }
    assert rename(given, B3_RENAMES, file=Path("vocoder.pt")) == {
        "conv_pre.weight_g": 0,
        "ups.0.weight_v": 1,
        "resblocks.11.convs1.2.bias": 2,
        "resblocks.0.convs2.0.weight_g": 3,
        "conv_post.bias": 4,
        "conv_pre.weight": 5,
    }


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"strides": (2, 2), "kernels": (4,)}, "2 strides and 1 kernels"),
        ({"strides": (5,), "kernels": (10,)}, "kernel 10 over stride 5"),
        ({"strides": (5,), "kernels": (3,)}, "kernel 3 over stride 5"),
        ({"strides": (2,), "kernels": (4,), "residual_kernels": (4,)}, "must be odd"),
        ({"strides": (2, 2), "kernels": (4, 4), "first_width": 6}, "cannot be halved"),
    ],
)
def test_sizes_that_do_not_fit(sizes, message):
    with pytest.raises(ConfigError, match=message):
        HiFiGanConfig(input_width=8, **sizes)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
def test_cuda(dtype):
    model = seeded(SMALL)
    generator = torch.Generator().manual_seed(7)
    features, lengths = torch.randn(2, 30, 64, generator=generator), torch.tensor([30, 11])
    exact, _ = model(features, lengths)
    with torch.autocast("cuda", dtype, enabled=dtype is not None):
        wav, samples = model.cuda()(features.cuda(), lengths.cuda())
    assert samples.tolist() == [9600, 3520]
    tolerance = 0.03 * exact.std() if dtype else 1e-2 * exact.std()  # TF32 may be on.
    assert (wav.cpu() - exact).square().mean().sqrt() < tolerance
