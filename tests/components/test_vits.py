"""VITS held to transformers, stage by stage, with noise that both are given."""

# ruff: noqa: RUF001
# IPA has letters that look like others.

import math

import pytest
import torch
from golden.asr_tts_files import LETTERS, hub_vits, vits_module

from voiceanon.components.tts.decoder import RENAMES
from voiceanon.components.tts.durations import is_training_entry
from voiceanon.components.tts.spline import inverse_spline
from voiceanon.components.tts.symbols import SymbolTable, from_piper, from_transformers
from voiceanon.components.tts.vits import Vits, VitsSynthesizer
from voiceanon.components.tts.vits_config import DecoderConfig, VitsConfig
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.hub.convert import load_strict

SYMBOLS = SymbolTable(symbols=("_", " ", *LETTERS), phonemes=False)

TOLERANCE = 1e-5
"""Share of the peak, which tanh keeps below 1: sums in another order, through all stages."""

VOICES = [(5, True), (1, True), (5, False)]
"""Speakers, and whether durations are drawn."""


def ours(model, tmp_path):
    config = VitsConfig.from_published(model.config.to_dict(), SYMBOLS)
    network = Vits(config)
    load_strict(
        network,
        model.state_dict(),
        file=tmp_path / "model",
        renames=RENAMES,
        unused=is_training_entry,
        fold=fold_entries,
    )
    return network.eval()


@pytest.fixture(scope="module", params=VOICES, ids=str)
def pair(request, tmp_path_factory):
    speakers, stochastic = request.param
    model = hub_vits(speakers=speakers, stochastic=stochastic)
    return model, VitsSynthesizer(ours(model, tmp_path_factory.mktemp("vits")), None)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module", autouse=True)
def inference():
    with torch.inference_mode():
        yield


def given_noise(monkeypatch, generator):
    """Transformers draws from the global generator; here it draws from ours, as we do."""
    draw = torch.randn
    monkeypatch.setattr(torch, "randn", lambda *size: draw(size, generator=generator))
    monkeypatch.setattr(torch, "randn_like", lambda x: draw(tuple(x.shape), generator=generator))


@pytest.mark.parametrize(("duration_noise", "noise"), [(0.0, 0.0), (0.8, 0.0), (0.8, 0.667)])
def test_a_waveform_equals_that_of_transformers(pair, monkeypatch, duration_noise, noise):
    model, synthesizer = pair
    several = len(synthesizer.speakers) > 1
    model.noise_scale = synthesizer.noise_scale = noise
    model.noise_scale_duration = synthesizer.duration_noise_scale = duration_noise
    for length, speaker in ((21, 2), (1, 0), (60, 4)):
        speaker = speaker if several else 0
        ids = torch.randint(0, 38, (1, length), generator=torch.Generator().manual_seed(length))
        with monkeypatch.context() as patch:
            given_noise(patch, torch.Generator().manual_seed(5))
            if duration_noise == 0:
                patch.setattr(torch, "randn", lambda *size: torch.zeros(size))
            expected = model(input_ids=ids, speaker_id=speaker if several else None).waveform[0]
        draws = torch.Generator().manual_seed(5)
        (found,) = synthesizer.speak_symbols([ids[0].tolist()], [speaker], [draws])
        assert found.shape == expected.shape
        assert float((found - expected).abs().max()) <= TOLERANCE


def test_the_text_encoder_equals_that_of_transformers_in_a_padded_batch(pair):
    model, synthesizer = pair
    ids = torch.randint(0, 38, (2, 30))
    inside = torch.arange(30) < torch.tensor([[30], [12]])
    expected = model.text_encoder(
        input_ids=ids, padding_mask=inside[..., None].float(), attention_mask=inside.long()
    )
    hidden, mean, log_spread = synthesizer.network.text_encoder(ids, inside)
    for found, wanted in (
        (hidden.transpose(1, 2), expected.last_hidden_state),
        (mean.transpose(1, 2), expected.prior_means),
        (log_spread.transpose(1, 2), expected.prior_log_variances),
    ):
        assert float((found - wanted).abs().max() / wanted.abs().max()) <= TOLERANCE
        assert not found[1, 12:].any()


def test_the_flow_equals_that_of_transformers(pair):
    model, synthesizer = pair
    speaker = synthesizer.network.speaker([3, 0][: 1 if model.config.num_speakers == 1 else 2])
    mask = (torch.arange(40) < torch.tensor([[40], [25]]))[:, None].float()
    z = torch.randn(2, 16, 40) * mask
    expected = model.flow(z, mask, speaker, reverse=True)
    found = synthesizer.network.flow(z, mask, speaker)
    assert float((found - expected).abs().max() / expected.abs().max()) <= TOLERANCE


def generators(count):
    return [torch.Generator().manual_seed(seed) for seed in range(count)]


def test_a_batch_of_mixed_lengths_and_voices_equals_single_runs_in_any_order(pair):
    _, synthesizer = pair
    synthesizer.noise_scale, synthesizer.duration_noise_scale = 0.667, 0.8
    lengths = [5, 40, 17, 1, 80]
    draws = torch.Generator().manual_seed(1)
    texts = [torch.randint(0, 38, (n,), generator=draws).tolist() for n in lengths]
    voices = [i % len(synthesizer.speakers) for i in range(5)]
    alone = [
        synthesizer.speak_symbols([text], [voice], [generator])[0]
        for text, voice, generator in zip(texts, voices, generators(5), strict=True)
    ]
    for order in (range(5), [4, 2, 0, 3, 1]):
        own = generators(5)
        together = synthesizer.speak_symbols(
            [texts[i] for i in order], [voices[i] for i in order], [own[i] for i in order]
        )
        for i, found in zip(order, together, strict=True):
            assert found.shape == alone[i].shape
            assert float((found - alone[i]).abs().max()) <= 2 * TOLERANCE


def test_padded_frames_do_not_matter(pair):
    """As on other devices, where several waveforms share a batch of the decoder."""
    _, synthesizer = pair
    network = synthesizer.network
    several = len(synthesizer.speakers) > 1
    lengths = torch.tensor([30, 7, 19])
    frames = torch.randn(3, 16, 30)
    inside = torch.arange(30) < lengths[:, None]
    frames = torch.where(inside[:, None], frames, 1e3)
    speaker = network.speaker([1, 0, 4] if several else [0, 0, 0])
    together = network.speak(frames, lengths, speaker)
    for i, n in enumerate(lengths.tolist()):
        own = None if speaker is None else speaker[i : i + 1]
        alone = network.speak(frames[i : i + 1, :, :n], lengths[i : i + 1], own)[0]
        end = n * network.hop_samples
        assert float((together[i, :end] - alone).abs().max()) <= TOLERANCE
        assert not together[i, end:].any()


def test_texts_of_one_recording_share_its_noise(pair):
    _, synthesizer = pair
    synthesizer.noise_scale, synthesizer.duration_noise_scale = 0.667, 0.8
    texts, voices = ["hello there", "hello there", "you"], [synthesizer.speakers[0]] * 3
    a, b = generators(2)
    found = synthesizer.synthesize(texts, voices, [a, a, b])
    assert found[0].shape != found[1].shape or not torch.equal(found[0], found[1])
    a, b = generators(2)
    alone = synthesizer.synthesize(texts[:2], voices[:2], [a, a])
    for one, two in zip(found[:2], alone, strict=True):
        assert torch.allclose(one, two, atol=2 * TOLERANCE)


def test_global_generators_are_not_used(pair):
    _, synthesizer = pair
    before = torch.get_rng_state()
    first = synthesizer.synthesize(["abc"], [synthesizer.speakers[0]], generators(1))[0]
    torch.manual_seed(99)
    again = synthesizer.synthesize(["abc"], [synthesizer.speakers[0]], generators(1))[0]
    torch.set_rng_state(before)
    assert torch.equal(first, again)


def test_a_text_without_symbols_is_empty(pair):
    _, synthesizer = pair
    voice = synthesizer.speakers[0]
    empty, full = synthesizer.synthesize(["?!", "a"], [voice, voice], generators(2))
    assert len(empty) == 0
    assert len(full) > 0
    assert len(synthesizer.synthesize(["..."], [voice], generators(1))[0]) == 0


def test_a_faster_voice_needs_less_time(pair):
    _, synthesizer = pair
    ids = [list(range(2, 28))]
    slow = synthesizer.speak_symbols(ids, [0], generators(1))[0]
    synthesizer.speaking_rate = 4.0
    fast = synthesizer.speak_symbols(ids, [0], generators(1))[0]
    synthesizer.speaking_rate = 1.0
    assert len(fast) < len(slow)


def test_a_broken_voice_does_not_take_all_memory(pair):
    _, synthesizer = pair
    synthesizer.speaking_rate = 1e-30
    (found,) = synthesizer.speak_symbols([[2, 3]], [0], generators(1))
    synthesizer.speaking_rate = 1.0
    hop = synthesizer.network.hop_samples
    assert len(found) <= 2 * (2.0 * synthesizer.sample_rate + hop)


# Splines.


def forward_spline(x, widths, heights, slopes, bound):
    """The spline itself, in double precision, knot by knot."""
    edges = []
    for sizes in (widths, heights):
        shares = 1e-3 + (1 - 1e-3 * len(sizes)) * sizes.softmax(-1)
        edges.append(torch.cat([torch.zeros(1), shares.cumsum(-1)]) * 2 * bound - bound)
    slope = torch.cat([torch.ones(1), 1e-3 + torch.nn.functional.softplus(slopes), torch.ones(1)])
    k = int((x >= edges[0]).sum().clamp(1, len(widths)) - 1)
    w, h = edges[0][k + 1] - edges[0][k], edges[1][k + 1] - edges[1][k]
    s, t = h / w, (x - edges[0][k]) / w
    bend = slope[k + 1] + slope[k] - 2 * s
    rise = h * (s * t**2 + slope[k] * t * (1 - t))
    return edges[1][k] + rise / (s + bend * t * (1 - t))


def test_the_inverse_undoes_the_spline():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    try:
        for _ in range(50):
            shape = [torch.randn(n) * 2 for n in (10, 10, 9)]
            x = (torch.rand(()) * 2 - 1) * 4.999
            y = forward_spline(x, *shape, 5.0)
            found = inverse_spline(y[None], *(part[None] for part in shape), 5.0)
            assert float((found - x).abs()) < 1e-6
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_spline_equals_that_of_transformers():
    published = vits_module()._unconstrained_rational_quadratic_spline
    torch.manual_seed(0)
    y = torch.cat([torch.randn(1, 1, 200) * 4, torch.tensor([[[5.0, -5.0, 5.1, -7.0]]])], 2)
    widths, heights, slopes = (torch.randn(1, 1, 204, n) * 3 for n in (10, 10, 9))
    expected, _ = published(y, widths, heights, slopes, reverse=True, tail_bound=5.0)
    found = inverse_spline(y, widths, heights, slopes, 5.0)
    assert float((found - expected).abs().max()) <= 1e-4
    assert found[0, 0, -2:].tolist() == y[0, 0, -2:].tolist()


# Symbols.


def test_letters_become_numbers_as_in_transformers(tmp_path):
    import json

    from transformers import VitsTokenizer

    vocabulary = {"k": 0, "'": 1, "z": 2, "a": 3, " ": 4, "<unk>": 5, "b": 6}
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(vocabulary))
    settings = {"phonemize": False, "add_blank": True, "normalize": True, "is_uroman": False}
    tokenizer = VitsTokenizer(str(path), pad_token="k", **settings)
    table = from_transformers(vocabulary, settings)
    # "k" is padding, too, which makes transformers leave out a blank at the ends of a text.
    for text in ("A bakz", "Ab, za!", "b"):
        assert table.encode(text) == tokenizer(text).input_ids


def test_phonemes_become_numbers():
    table = SymbolTable(symbols=("_", "a", "ː", "", "c", "\u0327"), start=7, end=8)
    assert table.encode("aːx") == [7, 0, 1, 0, 2, 0, 8]
    assert table.encode("ç") == [7, 0, 4, 0, 5, 0, 8]  # its parts are there
    assert table.encode("") == [7, 0, 8]


def test_piper_tables():
    table = from_piper({"_": [0], "^": [1], "$": [2], " ": [3], "a": [14]})
    assert table.encode("a a") == [1, 0, 14, 0, 3, 0, 14, 0, 2]
    with pytest.raises(WeightsError, match="phoneme_id_map"):
        from_piper({"_": [0], "^": [1], "$": [2], "a": [3, 4]})
    with pytest.raises(WeightsError, match="is_uroman"):
        from_transformers({"a": 0}, {"is_uroman": True})


# Sizes.


def test_the_default_is_vits_vctk():
    """Names and shapes of all entries that inference needs."""
    from transformers import VitsConfig as HubConfig

    settings = {"vocab_size": 178, "num_speakers": 109, "speaker_embedding_size": 256,
                "sampling_rate": 22_050}  # fmt: skip
    config = VitsConfig.from_published(HubConfig(**settings).to_dict(), VitsConfig().symbols)
    assert config == VitsConfig()
    assert len(config.symbols.symbols) == 178
    with torch.device("meta"):
        published = vits_module().VitsModel(HubConfig(**settings))
        network = Vits(config)
    assert round(sum(p.numel() for p in published.parameters()) / 1e6, 1) == 39.7
    # Not zeros: a weight norm would divide by them.
    state = {n: torch.ones(v.shape) for n, v in published.state_dict().items()}
    load_strict(
        network, state, file=math, renames=RENAMES, unused=is_training_entry, fold=fold_entries
    )


def test_files_of_another_network_are_refused():
    settings = hub_vits().config.to_dict()
    with pytest.raises(WeightsError, match="hidden_act 'gelu'"):
        VitsConfig.from_published({**settings, "hidden_act": "gelu"}, SYMBOLS)
    settings.pop("flow_size")
    with pytest.raises(WeightsError, match="flow_size"):
        VitsConfig.from_published(settings, SYMBOLS)
    with pytest.raises(WeightsError, match="dilations"):
        DecoderConfig(residual_dilations=((1, 3), (1, 5)))
    with pytest.raises(ConfigError, match="phonemiser"):
        VitsSynthesizer(Vits(VitsConfig(layers=1, speakers=("a",), speaker_width=0)), None)
