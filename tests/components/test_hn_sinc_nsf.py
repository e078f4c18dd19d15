"""The hn-sinc-NSF generator stage by stage against the original's stored outputs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from components import plain_nsf
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.vocoder.hn_sinc_nsf import (
    HnSincNsf,
    HnSincNsfConfig,
    NsfNoise,
    draw_noise,
    generator,
)
from voiceanon.components.vocoder.hn_sinc_nsf.sinc_filters import (
    ORDER,
    apply_half_filter,
    half_filters,
)
from voiceanon.components.vocoder.hn_sinc_nsf.smoothing import (
    Upsampling,
    average_samples,
    combine,
    neighbours,
)
from voiceanon.errors import ConfigError, WeightsError

GOLDEN = Path(__file__).parents[1] / "golden" / "xvector_nsf"
FILES = {
    "b1b": ("entries_5_joint_tts_nsf_hifigan_trained_network_G.json", "b1b_generator.npz", 0.2),
    "b1a": ("entries_4_nsf_pt_trained_network.json", "nsf_generator.npz", 0.1),
}
SAMPLES = 4800

TOLERANCE = 2e-5
"""Absolute, for amplitudes about 1; found are 4e-6 from the original, 2e-6 from the plain form."""

SINE_TOLERANCE = 1e-4
"""Absolute, for an amplitude of 0.1: the original sums phases in float32 over 10 s."""


def entries_of(kind, width=None):
    """Seeded entries with the published constants that the stored outputs were made with."""
    name, _, noise_scale = FILES[kind]
    shapes = json.loads((GOLDEN / name).read_text())
    if width is not None:
        published = shapes["input_mean"][0]
        shapes = {k: [width if n == published else n for n in v] for k, v in shapes.items()}
    entries = seeded_state_dict(shapes)
    for key, value in entries.items():
        if key.endswith("scale"):
            value.fill_(noise_scale if "noi" in key else 0.1)
        elif "l_ave" in key or "l_cut_f" in key:
            value.fill_(1 / value.shape[-1])
    entries["output_mean"].zero_()
    entries["output_std"].fill_(1)
    entries["input_mean"][-1], entries["input_std"][-1] = 180, 50
    return entries


def model_of(kind):
    entries = entries_of(kind)
    model = HnSincNsf(HnSincNsfConfig.from_entries(entries)).eval()
    model.load_state_dict(entries, strict=True)
    return model


def random_numbers(kind):
    if kind == "zero":
        return NsfNoise(torch.zeros(1, 8), torch.zeros(1, SAMPLES, 8), torch.zeros(1, SAMPLES, 1))
    r = np.random.RandomState(2022)
    draws = [r.random_sample((1, 8))]
    draws += [r.standard_normal((1, SAMPLES, width)) for width in (8, 1)]
    return NsfNoise(*(torch.from_numpy(draw.astype(np.float32)) for draw in draws))


class Case:
    """A network, its stored input and its stored outputs."""

    def __init__(self, kind):
        self.model, stored = model_of(kind), np.load(GOLDEN / FILES[kind][1])
        self.stored = {name: torch.from_numpy(stored[name]) for name in stored}
        self.f0 = self.stored["f0"][None]
        self.features = inputs(self.stored["feat"], self.stored["xvector"], self.stored["f0"])[None]
        self.frames = torch.tensor([30])

    def conditions(self):
        normalised = (self.features - self.model.input_mean) / self.model.input_std
        return self.model.m_cond(normalised, self.f0, self.frames, self.frames)

    def context(self):
        return self.conditions().context(slice(30), torch.tensor([0]))

    def run(self, noise):
        wav, lengths = self.model(self.features, self.f0, self.frames, noise)
        assert lengths.tolist() == [SAMPLES]
        return wav[0]


def inputs(feat, xvector, f0):
    return torch.cat([feat, xvector.expand(len(feat), -1), f0[:, None]], 1)


@pytest.fixture(scope="module", params=list(FILES))
def case(request):
    return Case(request.param)


@pytest.fixture(scope="module")
def b1b():
    return Case("b1b")


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def close(result, expected, tolerance=TOLERANCE):
    assert result.shape == expected.shape
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance)


# Stages: each gets the stored output of the stage in front of it, where there is one.


def test_recurrent_network(case):
    normalised = (case.features - case.model.input_mean) / case.model.input_std
    close(case.model.m_cond.l_blstm(normalised, case.frames)[0], case.stored["zero_blstm"])


def test_convolution(case):
    given = case.stored["zero_blstm"][None]
    close(case.model.m_cond.l_conv1d(given.mT).tanh().mT[0], case.stored["zero_conv"])


def test_context(case):
    conditions = case.conditions()
    item = torch.tensor([0])
    whole = conditions.context(slice(30), item)
    close(whole[0, ::80], case.stored["zero_ctx_every80"])
    assert torch.equal(conditions.context(slice(7, 9), item), whole[:, 7 * 160 : 9 * 160])


def test_cut_off(case):
    close(case.conditions().cut_off[0], case.stored["zero_cut_f"])


def test_filters(case):
    cut_off = case.stored["zero_cut_f"][None, [0, 640, 1600, 2880]]
    for taps, name in zip(half_filters(cut_off), ("lp", "hp"), strict=True):
        both = torch.cat([taps[0].flip(1)[:, :-1], taps[0]], 1)
        close(both, case.stored[f"zero_{name}_coef_sel"])


@pytest.mark.parametrize("kind", ["zero", "rs"])
def test_sources(case, kind):
    noise = random_numbers(kind)
    source = case.model.m_source
    harmonic, branch = source(
        *source.turns(case.f0, noise.phases), case.f0, noise.sine, noise.branch
    )
    close(harmonic[0], case.stored[f"{kind}_har_source"])
    close(branch[0], case.stored[f"{kind}_noi_source"])


@pytest.mark.parametrize("kind", ["zero", "rs"])
def test_filter_blocks(case, kind):
    context, signal = case.context(), case.stored[f"{kind}_har_source"][None]
    for i, block in enumerate(case.model.m_filter.l_har_blocks):
        signal = block(signal, context, block.start(signal))
        if i == 0:
            close(signal[0], case.stored[f"{kind}_har_b1"])
            signal = case.stored[f"{kind}_har_b1"][None]
    close(signal[0], case.stored[f"{kind}_har_b5"])
    (block,) = case.model.m_filter.l_noi_blocks
    noise = case.stored[f"{kind}_noi_source"][None]
    close(block(noise, context, block.start(noise))[0], case.stored[f"{kind}_noi_b1"])


@pytest.mark.parametrize("kind", ["zero", "rs"])
def test_time_varying_filters(case, kind):
    low, high = half_filters(case.stored["zero_cut_f"][None])
    past = torch.zeros(1, ORDER - 1)
    for taps, before, after in (
        (low, "har_b5", "har_filtered"),
        (high, "noi_b1", "noi_filtered"),
    ):
        signal = case.stored[f"{kind}_{before}"][None]
        close(apply_half_filter(past, signal, taps)[0], case.stored[f"{kind}_{after}"])


def test_sines_do_not_drift():
    stored = np.load(GOLDEN / "sine_long.npz")
    f0 = torch.from_numpy(stored["f0"])[None]
    source = HnSincNsf().m_source
    voiced = (f0 > 0).float()
    sines = source.sines(*source.turns(f0, torch.zeros(1, 8)), voiced, torch.zeros(1, 160_000, 8))
    assert voiced.sum() * 160 == stored["uv_sum"]
    close(sines[0, ::257], torch.from_numpy(stored["sine_every257"]), SINE_TOLERANCE)


# The chain.


@pytest.mark.parametrize("kind", ["zero", "rs"])
def test_waveform(case, kind):
    close(case.run(random_numbers(kind)), case.stored[f"{kind}_wav"])


def test_waveform_with_the_published_draws(case):
    noise = case.model.draw_noise(case.frames, [torch.Generator().manual_seed(1)])
    close(case.run(noise), case.stored["torchseed1_wav"])


@pytest.mark.parametrize("frames", [1, 2, 3, 47])
def test_equals_the_plain_form(b1b, frames):
    draw = torch.Generator().manual_seed(frames)
    f0 = 80 + 400 * torch.rand(frames, generator=draw)
    f0[::3] = 0
    features = inputs(torch.randn(frames, 256, generator=draw), torch.randn(512), f0)
    count = torch.tensor([frames])
    noise = draw_noise(count, [draw])
    wav, _ = b1b.model(features[None], f0[None], count, noise)
    plain = plain_nsf.stages(
        entries_of("b1b"), features, f0, noise.phases[0], noise.sine[0], noise.branch[0, :, 0]
    )
    close(wav[0], plain["wav"])


@pytest.mark.parametrize(("kind", "width"), [("b1b", 769), ("b1b", 513), ("b1a", 593)])
def test_published_entries_load_strictly(kind, width):
    entries = entries_of(kind, width)
    model = HnSincNsf(HnSincNsfConfig.from_entries(entries))
    model.load_state_dict(entries, strict=True)
    assert model.config.input_width == width
    for name, value in model.state_dict().items():
        assert torch.equal(value, entries[name]), name


def test_constants_of_a_new_network_are_those_of_the_published_file():
    entries, new = entries_of("b1b"), HnSincNsf().state_dict()
    for name in entries:
        if name.endswith("scale") or "l_ave" in name or "l_cut_f" in name or "output" in name:
            assert torch.equal(entries[name], new[name]), name


# Parts that are computed in another way than the published program does.


@pytest.mark.parametrize("hop", [80, 160])
@pytest.mark.parametrize("frames", [1, 2, 5])
def test_upsampling_is_that_of_the_published_averages(frames, hop):
    draw = torch.Generator().manual_seed(0)
    upsampling = Upsampling(3, hop)
    for average in (upsampling.l_ave1, upsampling.l_ave2):
        average.weight.mul_(1 + 0.1 * torch.randn(average.weight.shape, generator=draw))
    x = torch.randn(1, frames, 3, generator=draw)
    plain = x.mT.repeat_interleave(hop, 2)
    for average in (upsampling.l_ave2, upsampling.l_ave1):
        plain = plain_nsf.smooth(plain, average.weight)
    result = combine(neighbours(x, torch.tensor([frames])), upsampling.weights())
    close(result, plain.mT, 2e-6)


def test_averages_end_where_an_item_does():
    draw = torch.Generator().manual_seed(0)
    x, weight = torch.randn(3, 900, generator=draw), torch.rand(1, 1, 640, generator=draw) / 320
    lengths = torch.tensor([900, 300, 1])
    result = average_samples(x, lengths, weight)
    for row, own, length in zip(result, x, lengths.tolist(), strict=True):
        close(row[:length], plain_nsf.smooth(own[None, None, :length], weight)[0, 0], 2e-6)


def test_filters_pass_what_they_are_for():
    cut_off = torch.linspace(0.1, 0.9, 17)[None]
    low, high = half_filters(cut_off)
    signs = 1 - 2 * (torch.arange(16) % 2)
    close(low[..., 0] + 2 * low[..., 1:].sum(-1), torch.ones(1, 17), 2e-6)
    alternating = high[..., 0] + 2 * (signs[1:] * high[..., 1:]).sum(-1)
    close(alternating, torch.ones(1, 17), 2e-6)


def test_filters_delay_by_15_samples():
    impulse = torch.zeros(1, 64)
    impulse[0, 10] = 1
    low, _ = half_filters(torch.full((1, 64), 0.5))
    result = apply_half_filter(torch.zeros(1, ORDER - 1), impulse, low)[0]
    assert result.argmax() == 25
    close(result[25:41], result[10:26].flip(0), 1e-7)
    assert not result[:10].any()


def test_first_sine_has_no_random_phase(b1b):
    source, noise = b1b.model.m_source, random_numbers("rs")
    starts, _ = source.turns(b1b.f0, noise.phases)
    assert starts[0, 0, 0] == 0
    close(starts[0, 0, 1:].float(), noise.phases[0, 1:], 0)


# Batches and pieces.


def mixed_batch(model, lengths=(7, 30, 19, 1), generators=None):
    draw = torch.Generator().manual_seed(3)
    frames = torch.tensor(lengths)
    f0 = 80 + 400 * torch.rand(len(lengths), max(lengths), generator=draw)
    f0[:, ::4] = 0
    features = torch.randn(len(lengths), max(lengths), 769, generator=draw)
    features[..., -1] = f0
    seeds = [torch.Generator().manual_seed(n) for n in range(len(lengths))]
    return features, f0, frames, model.draw_noise(frames, seeds)


@pytest.mark.parametrize("garbage", [1e3, torch.nan])
def test_batch_of_mixed_lengths_equals_single_runs(b1b, garbage):
    features, f0, frames, noise = mixed_batch(b1b.model)
    expected = []
    for i, count in enumerate(frames.tolist()):
        own = NsfNoise(noise.phases[i : i + 1], *(n[i : i + 1] for n in (noise.sine, noise.branch)))
        expected.append(
            b1b.model(features[i, None, :count], f0[i, None, :count], frames[i, None], own)
        )
        features[i, count:], f0[i, count:] = garbage, garbage
        noise.sine[i, 160 * count :], noise.branch[i, 160 * count :] = garbage, garbage
    features, f0 = (
        torch.nn.functional.pad(x, p) for x, p in ((features, (0, 0, 0, 2)), (f0, (0, 2)))
    )
    wav, lengths = b1b.model(features, f0, frames, noise)
    assert wav.shape == (4, 160 * 32)
    assert lengths.tolist() == (160 * frames).tolist()
    for row, (alone, length) in zip(wav, expected, strict=True):
        close(row[: length[0]], alone[0], 5e-6)
        assert not row[length[0] :].any()


def test_pieces_do_not_matter(b1b, monkeypatch):
    features, f0, frames, noise = mixed_batch(b1b.model, (30, 12))
    results = []
    for samples in (10**6, 960):
        monkeypatch.setattr(generator, "CPU_PIECE", samples)
        monkeypatch.setattr(generator, "CPU_LEAST_PIECE", samples // 2)
        results.append(b1b.model(features, f0, frames, noise)[0])
    close(results[1], results[0], 5e-6)


def test_draws_of_an_item_do_not_depend_on_the_batch():
    frames = torch.tensor([3, 5])
    together = draw_noise(frames, [torch.Generator().manual_seed(n) for n in (1, 2)])
    alone = draw_noise(frames[:1], [torch.Generator().manual_seed(1)])
    assert together.sine.shape == (2, 800, 8)
    assert torch.equal(together.phases[:1], alone.phases)
    for batch, own in ((together.sine, alone.sine), (together.branch, alone.branch)):
        assert torch.equal(batch[:1, :480], own)
        assert not batch[0, 480:].any()


def test_lower_precision_stays_near(b1b):
    noise = random_numbers("rs")
    expected = b1b.run(noise)
    with torch.autocast("cpu", torch.bfloat16):
        result = b1b.run(noise)
    assert result.dtype == torch.float32
    error = (result - expected).square().mean() / expected.square().mean()
    assert 0 < error < 1e-3


# Errors.


def test_other_weights_are_refused():
    with pytest.raises(WeightsError, match="input_mean"):
        HnSincNsfConfig.from_entries({"conv_pre.weight": torch.zeros(1)})


def test_blocks_without_end_are_refused():
    entries = HnSincNsf(HnSincNsfConfig(harmonic_blocks=1)).state_dict()
    entries |= {f"m_filter.l_har_blocks.0.l_convs.{i}.weight": torch.ones(1) for i in range(40)}
    with pytest.raises(WeightsError, match="40 convolutions in a block"):
        HnSincNsfConfig.from_entries(entries)


def test_wrong_width_is_refused(b1b):
    with pytest.raises(ConfigError, match="593 features"):
        b1b.model(torch.zeros(1, 30, 593), b1b.f0, b1b.frames, random_numbers("zero"))


def test_short_noise_is_refused(b1b):
    noise = draw_noise(torch.tensor([29]), [torch.Generator()])
    with pytest.raises(ConfigError, match=r"4640 .* 4800"):
        b1b.run(noise)


def test_sizes_are_those_of_the_entries():
    sizes = {"harmonic_blocks": 2, "harmonic_convolutions": 4, "noise_convolutions": 3}
    config = HnSincNsfConfig(input_width=9, hop_samples=80, harmonics=3, **sizes)
    assert HnSincNsfConfig.from_entries(HnSincNsf(config).state_dict()) == config
    published = HnSincNsfConfig.from_entries(entries_of("b1b"))
    assert published == HnSincNsfConfig()
