"""`b4` held to the original's complete chain, with networks of seeded weights."""

import dataclasses
import json

import numpy as np
import pytest
import signals
import torch
from golden.codec_lm_files import (
    FOLDER,
    VOICES,
    coarse_entries,
    codec_entries,
    hub_bark_entries,
    original_bark,
    prompt,
    write,
    write_prompts,
)

from voiceanon import ConfigError, WeightsError, load, system_info
from voiceanon.components.codec.encodec import EncodecConfig
from voiceanon.components.content.hubert import HubertConfig
from voiceanon.components.content.semantic_quantiser import SemanticQuantiserConfig
from voiceanon.components.lm.gpt import GptConfig
from voiceanon.components.lm.tokens import SEMANTIC_TOKENS
from voiceanon.registry import system_config
from voiceanon.systems.codec_lm_files import random_voices, voice_digests

CHAIN = np.load(FOLDER / "chain.npz")
SOURCE = CHAIN["wave16k"]
GREEDY = {"coarse_temperature": None, "fine_temperature": None}
WAV_TOLERANCE = 1e-5
"""Of the peak, which is 1.3 to 1.5."""


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VOICEANON_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("weights"))


def build(folder, **options):
    return load("b4", weights=folder, device="cpu", **{"voices": VOICES, **options})


@pytest.fixture(scope="module")
def system(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEANON_CACHE", str(tmp_path_factory.mktemp("cache")))
        return build(folder)


@pytest.fixture(scope="module")
def greedy(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEANON_CACHE", str(tmp_path_factory.mktemp("cache")))
        return build(folder, **GREEDY)


def speech(count):
    """Pieces of 0.02 to 0.8 s of speech, the first as short as they can be."""
    lengths = (400, 8000, 12_345, 3333)[:count]
    return [torch.from_numpy(np.roll(SOURCE, 997 * i))[:n] for i, n in enumerate(lengths)]


def padded(waves, padding=0.0):
    lengths = torch.tensor([len(wav) for wav in waves])
    batch = torch.full((len(waves), int(lengths.max())), padding, dtype=waves[0].dtype)
    for row, wav in zip(batch, waves, strict=True):
        row[: len(wav)] = wav
    return batch, lengths


# The chain.


@torch.inference_mode()
def test_semantic_tokens(greedy):
    batch = torch.from_numpy(SOURCE)[None], torch.tensor([len(SOURCE)])
    (tokens,) = greedy.semantic_tokens(*batch)
    assert tokens.tolist() == CHAIN["semantic"].tolist()


@torch.inference_mode()
def test_stages_from_stored_tokens(greedy):
    parts = greedy.components
    tokens = torch.from_numpy(CHAIN["semantic"]).long()[None]
    voice = parts.prompts(torch.tensor([greedy.voices.index("zh_speaker_9")]))
    coarse, frames = parts.coarse.generate(tokens, torch.tensor([68]), voice)
    assert coarse[0].tolist() == CHAIN["coarse"].tolist()
    codes = parts.fine.generate(coarse, frames, voice)
    assert codes[0].tolist() == CHAIN["fine"].tolist()
    wav, _ = parts.codec(codes, frames)
    assert np.abs(wav[0].numpy() - CHAIN["wave_out24k"]).max() <= WAV_TOLERANCE


def test_the_whole_chain(greedy):
    result, report = greedy.anonymize(SOURCE, target="zh_speaker_9", return_report=True)
    expected = CHAIN["wave_out16k"]
    assert result.shape == expected.shape
    assert np.abs(result - expected).max() <= WAV_TOLERANCE * np.abs(expected).max()
    assert report.gain_db == 0
    assert report.target == {"voice": "zh_speaker_9"}


@pytest.mark.parametrize(
    "options",
    [{"bark_file": "coarse_2.pt"}, {"prompt_files": "npy"}],
    ids=["original names of Bark", "prompts of the Hub"],
)
def test_other_layouts_give_the_same(folder, greedy, options):
    other = build(folder, **GREEDY, **options)
    assert other.config.coarse == greedy.config.coarse
    for name, value in greedy.state_dict().items():
        assert torch.allclose(other.state_dict()[name], value, atol=1e-7), name


def test_sizes_come_from_the_files(system):
    config = system.config
    assert (config.hubert.width, config.hubert.conv_channels) == (48, 32)
    assert (config.quantiser.input_width, config.quantiser.hidden) == (48, 64)
    assert (config.coarse.layers, config.coarse.width, config.coarse.heads) == (2, 64, 2)
    assert (config.fine.layers, config.fine.vocabulary) == (2, 1056)
    assert config.codec.channels == 32
    assert system.voices == config.voices == VOICES


# Batches and draws.


def small(**options):
    """Random weights at sizes that cost little in float64."""
    return load(
        "b4",
        device="cpu",
        weights="random",
        layer=1,
        hubert=HubertConfig(
            conv_channels=16, width=32, heads=2, feed_forward=64, layers=1, pos_groups=4
        ),
        quantiser=SemanticQuantiserConfig(input_width=32, hidden=16),
        coarse=GptConfig(layers=2, heads=2, width=32),
        fine=GptConfig(layers=2, heads=2, width=32, vocabulary=1056),
        codec=EncodecConfig(channels=4, width=16),
        **options,
    )


@pytest.mark.filterwarnings("ignore:.*RANDOM WEIGHTS")
def test_a_batch_equals_single_runs_in_any_order():
    """In float64, where no rounding decides between tokens; with what should not count."""
    system = small(cached_pieces=0).double()
    waves = [wav.double() for wav in speech(4)]
    targets = [{"voice": name} for name in (*VOICES, None)]

    def run(order, padding=0.0):
        draws = [torch.Generator().manual_seed(item) for item in order]
        batch = padded([waves[item] for item in order], padding)
        with torch.inference_mode():
            result, ends = system.convert(*batch, [targets[item] for item in order], draws)
        assert result.dtype == torch.float32
        return [row[:end] for row, end in zip(result, ends.tolist(), strict=True)]

    alone = [run([item])[0] for item in range(4)]
    for order, rows in (([2, 3, 0, 1], 32), ([0, 1, 2, 3], 3)):
        system.config = dataclasses.replace(system.config, rows=rows)
        for item, result in zip(order, run(order, torch.nan), strict=True):
            assert result.shape == alone[item].shape
            assert float((result - alone[item]).abs().max()) <= 1e-6


def test_a_batch_on_the_cpu_is_single_runs(system):
    waves = speech(3)
    keys = list("abc")
    results = system.anonymize_batch(waves, seed=1, keys=keys)
    for key, wav, result in zip(keys, waves, results, strict=True):
        assert torch.equal(system.anonymize(wav, seed=1, key=key), result)


def test_seeds_decide_the_words_of_the_voice_too(system):
    wav = speech(2)[1]
    results = [
        system.anonymize(wav, seed=seed, key=key, target=VOICES[0])
        for seed, key in ((1, "a"), (1, "a"), (2, "a"), (1, "b"))
    ]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert not torch.equal(results[0], results[3])


@pytest.mark.parametrize("samples", [400, 720, 8000, 16_000])
def test_lengths_are_those_of_the_codec(system, samples):
    wav = torch.from_numpy(SOURCE)[:samples]
    frames = 750 * ((samples - 400) // 320 + 1) // 499
    result = system.anonymize(wav, seed=1)
    assert len(result) == -(-320 * frames * 2 // 3)
    assert system.anonymize(wav, seed=1, match_length=True).shape == wav.shape


def test_chunks_have_one_voice_and_draws_of_their_own(system):
    half = torch.from_numpy(SOURCE)[:9600]
    whole = torch.cat([half, half])
    result, report = system.anonymize(whole, seed=1, chunk_seconds=0.6, return_report=True)
    assert report.chunks == 2
    first, second = result.split(len(result) // 2)
    assert not torch.equal(first, second)
    alone = system.anonymize(half, seed=1, target=report.target)
    assert torch.equal(first, alone)


def test_remainders_of_chunks_are_long_enough(system):
    """Pieces of any length down to one sample."""
    wav = torch.from_numpy(SOURCE)
    with torch.inference_mode():
        for samples in (1, 399):
            draws = [torch.Generator().manual_seed(0)]
            batch = wav[None, :samples], torch.tensor([samples])
            result, ends = system.convert(*batch, [{"voice": VOICES[0]}], draws)
            assert ends.tolist() == [result.shape[1]] == [214]
            assert result.isfinite().all()


# The cache of semantic tokens.


class Counting:
    """Counts how many recordings HuBERT sees."""

    def __init__(self, system):
        self.seen = []
        self.handle = system.content.register_forward_hook(
            lambda module, inputs, output: self.seen.append(len(inputs[0]))
        )

    def __enter__(self):
        return self.seen

    def __exit__(self, *_):
        self.handle.remove()


def test_another_voice_needs_no_second_encoding(folder):
    system, plain = build(folder), build(folder, cached_pieces=0)
    first, second = speech(3)[1:]
    system.anonymize(first, seed=1, target=VOICES[0])
    with Counting(system) as seen:
        result = system.anonymize(first, seed=1, target=VOICES[1])
        assert seen == []
        batch = padded([first, second, 0.5 * first, 0.25 * first], torch.nan)
        with torch.inference_mode():
            tokens = system.semantic_tokens(*batch)
            assert seen == [3]
            for line, expected in zip(tokens, plain.semantic_tokens(*batch), strict=True):
                assert torch.equal(line, expected)
    assert torch.equal(result, plain.anonymize(first, seed=1, target=VOICES[1]))


@torch.inference_mode()
def test_the_cache_forgets(folder):
    system = build(folder, cached_pieces=2)
    first, second, third = speech(3)
    with Counting(system) as seen:
        for wav in (first, second, first, third, first, second):
            system.semantic_tokens(*padded([wav]))
        assert len(seen) == 4
        system.precision = "bfloat16"
        system.semantic_tokens(*padded([second]))
        assert len(seen) == 5
        system.to("cpu")
        system.semantic_tokens(*padded([second]))
        assert len(seen) == 6


# Voices and targets.


def test_voices_are_drawn_evenly(system):
    draws = [
        system.draw_target(torch.Generator().manual_seed(seed), None)["voice"]
        for seed in range(300)
    ]
    assert sorted(set(draws)) == list(VOICES)
    assert min(draws.count(name) for name in VOICES) > 70


def test_targets(system):
    for target in ("en_speaker_0", {"voice": "en_speaker_0"}):
        assert system.parse_target(target) == {"voice": "en_speaker_0"}
    assert system.parse_target({"voice": None}) == {"voice": None}
    for target in ("en_speaker_1", {"voice": 3}, {}, {"speaker": "en_speaker_0"}, 3):
        with pytest.raises(ConfigError, match=r"no voice of vpc2024-b4.*en_speaker_0"):
            system.parse_target(target)
    made_up = [system.anonymize(speech(1)[0], seed=s, target={"voice": None}) for s in (1, 1, 2)]
    assert torch.equal(made_up[0], made_up[1])
    assert not torch.equal(made_up[0], made_up[2])


def test_the_published_voices():
    names = list(voice_digests())
    languages = ["de", "en", "es", "fr", "hi", "it", "ja", "ko", "pl", "pt", "ru", "tr", "zh"]
    assert names == [f"{language}_speaker_{i}" for language in languages for i in range(10)]
    digests = json.loads((FOLDER / "voices_v2.json").read_text())
    for name, (semantic, coarse, fine) in voice_digests().items():
        sha256 = digests[name]["sha256"]
        assert (semantic, coarse, fine) == (sha256["semantic"], sha256["coarse"], sha256["fine"])


def test_random_voices_have_the_form_of_published_ones():
    one, two = random_voices(2)
    assert one.lengths == two.lengths == (209, 626, 512)
    assert not torch.equal(one.fine, two.fine)
    assert torch.equal(random_voices(1)[0].semantic, one.semantic)
    assert int(one.semantic.max()) < SEMANTIC_TOKENS


# What is refused.


def test_a_prompt_of_the_first_version_is_refused(tmp_path, folder):
    """As it lies there, packed or not, whole folder or single files."""
    linked(folder, tmp_path)
    write_prompts(tmp_path)
    broken = {f"{part}_prompt": prompt("ru_speaker_1", part) for part in ("semantic", "coarse")}
    broken["fine_prompt"] = prompt("en_speaker_0", "fine")
    np.savez(tmp_path / "ru_speaker_1.npz", **broken)
    with pytest.raises(WeightsError, match=r"ru_speaker_1.npz: the fine part.*older version"):
        build(tmp_path)
    assert build(tmp_path, voices=("en_speaker_0",)).voices == ("en_speaker_0",)
    path = tmp_path / "bark/speaker_embeddings/v2/zh_speaker_9_coarse_prompt.npy"
    path.unlink()
    with pytest.raises(WeightsError, match=r"(?s)zh_speaker_9_coarse_prompt.npy.*hf download"):
        build(tmp_path, prompt_files="npy")
    np.save(path, prompt("zh_speaker_9", "coarse")[:, 1:])
    with pytest.raises(WeightsError, match=r"zh_speaker_9_coarse_prompt.npy: the coarse part"):
        build(tmp_path, prompt_files="npy")


def linked(folder, place):
    """Links to all files of a folder, in the same places."""
    for path in folder.rglob("*"):
        if path.is_file():
            link = place / path.relative_to(folder)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    return place


def changed(folder, tmp_path, name, change):
    """A copy of the folder in which one file holds something else."""
    linked(folder, tmp_path)
    (tmp_path / name).unlink()
    torch.save(change(), tmp_path / name)
    return tmp_path


def replaced(name, value):
    return hub_bark_entries() | {name: value}


def without(entries, name):
    return {key: value for key, value in entries.items() if key != name}


def rearranged(**model_args):
    data = original_bark("coarse", coarse_entries())
    return data | {"model_args": data["model_args"] | model_args}


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (
            "bark/pytorch_model.bin",
            lambda: replaced("vocoder.weight", torch.zeros(1)),
            "1 others .vocoder.weight",
        ),
        (
            "bark/pytorch_model.bin",
            lambda: {"semantic.lm_head.weight": torch.zeros(1)},
            "0 for coarse, 0 for fine, 0 for codec",
        ),
        (
            "bark/pytorch_model.bin",
            lambda: without(hub_bark_entries(), "coarse_acoustics.lm_head.weight"),
            r"missing from the file:\n  lm_head.weight",
        ),
        (
            "bark/pytorch_model.bin",
            lambda: (
                hub_bark_entries() | {"fine_acoustics.lm_heads.3.weight": torch.zeros(1056, 64)}
            ),
            "lm_heads.3.weight.*must be equal",
        ),
        (
            "bark/pytorch_model.bin",
            lambda: replaced("codec_model.decoder.layers.0.conv.more", torch.zeros(1)),
            r"of no use to the network:\n  layers.0.conv.more",
        ),
        ("coarse_2.pt", lambda: {"model": coarse_entries()}, "model_args"),
        ("coarse_2.pt", lambda: rearranged(n_layer=3), r"missing from the file:\n  layers.2"),
        ("coarse_2.pt", lambda: rearranged(bias=True), "coarse_2.pt: .*'bias' is true"),
        (
            "fine_2.pt",
            lambda: {"model": {}, "model_args": {"n_codes_given": 2}},
            "'n_codes_given' is 2",
        ),
        (
            "encodec_24khz-d7cc33bc.th",
            lambda: without(codec_entries(), "decoder.model.15.conv.conv.bias"),
            r"missing from the file:\n  layers.15.conv.bias",
        ),
        (
            "quantifier_hubert_base_ls960_14.pth",
            lambda: {"a": torch.zeros(1)},
            "semantic quantiser",
        ),
    ],
)
def test_a_file_that_does_not_fit(folder, tmp_path, name, change, words):
    place = changed(folder, tmp_path, name, change)
    hub = name.startswith(("bark", "quantifier"))
    with pytest.raises(WeightsError, match=words):
        build(place, bark_file="bark/pytorch_model.bin" if hub else "coarse_2.pt")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("layer", 0, "layer: 0 is too small"),
        ("rows", 0, "rows: 0 is too small"),
        ("cached_pieces", -1, "cached_pieces: -1"),
        ("coarse_temperature", 0.0, "coarse_temperature: 0.0"),
        ("fine_temperature", -1.0, "fine_temperature: -1.0"),
        ("voices", ("en_speaker_0", "nobody"), "voices: nobody"),
        ("voices", (), "voices: none"),
        ("voices", ("en_speaker_0", "en_speaker_0"), "voices: en_speaker_0"),
        ("bark_file", "bark.pt", "bark_file: 'bark.pt'"),
        ("prompt_files", "json", "prompt_files: 'json'"),
    ],
)
def test_settings_that_do_not_fit(option, value, words):
    with pytest.raises(ConfigError, match=words):
        load("b4", device="cpu", **{option: value})


# Facts.


def test_saved_and_loaded(system, tmp_path):
    system.save_pretrained(tmp_path / "saved")
    again = load(tmp_path / "saved", device="cpu")
    assert again.config == system.config
    assert again.weight_digests == system.weight_digests
    wav = speech(1)[0]
    assert torch.equal(again.anonymize(wav, seed=1), system.anonymize(wav, seed=1))
    other = load(tmp_path / "saved", device="cpu", coarse_temperature=None)
    assert not torch.equal(other.anonymize(wav, seed=1), system.anonymize(wav, seed=1))


def test_reports_name_the_networks_files(system):
    _, report = system.anonymize(speech(1)[0], seed=1, return_report=True)
    assert list(report.weights) == [
        "hubert-base-ls960/pytorch_model.bin",
        "hubert-base-ls960/config.json",
        "quantifier_hubert_base_ls960_14.pth",
        "bark/pytorch_model.bin",
        "bark/config.json",
    ]
    assert all(len(digest) == 64 for digest in report.weights.values())


def test_the_system_is_described():
    info = system_info("b4")
    assert info.id == "vpc2024-b4"
    assert not info.keeps_length
    assert "Not verified against published weights" in info.notes[0]
    assert {(r.metric, r.value) for r in info.published if "test" in r.condition} == {
        ("EER", 30.27), ("WER", 5.9), ("UAR", 42.78),
    }  # fmt: skip
    needed = [file.key for file in info.weights if not file.optional]
    assert len(needed) == 6
    config = system_config("b4")
    assert (config.coarse_temperature, config.fine_temperature, config.layer) == (0.7, 0.5, 9)


def test_random_weights_at_a_reduced_size():
    with pytest.warns(UserWarning, match="RANDOM WEIGHTS"):
        system = small()
    assert len(system.voices) == 130
    result = system.anonymize(signals.speech(0.3), seed=1)
    assert result.isfinite().all()
    assert float(result.abs().max()) > 0


def test_parts_that_do_not_belong_together(system):
    config = dataclasses.replace(system.config.quantiser, input_width=47)
    with pytest.raises(ConfigError, match=r"quantiser: .*47 features"):
        load("b4", device="cpu", weights="random", hubert=system.config.hubert, quantiser=config)
