"""`t8-2` held to the original's complete chain, with reduced networks of seeded weights."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon import AudioWarning, ConfigError, load
from voiceanon.components.content.wavlm_config import WavLMConfig
from voiceanon.components.vocoder.hifigan import HiFiGanConfig
from voiceanon.hub.pool import Pool, read_pool, write_pool

GOLDEN = Path(__file__).parents[1] / "golden" / "knn_vc"
CHAIN = np.load(GOLDEN / "chain_small.npz")
SOURCE = (np.load(GOLDEN / "input.npz")["utt_int16"] / 32768).astype(np.float32)
VOCODER = {
    "hubert_dim": 64,
    "hifi_dim": 32,
    "upsample_initial_channel": 64,
    "upsample_rates": [10, 8, 2, 2],
    "upsample_kernel_sizes": [20, 16, 4, 4],
}


def entries(name):
    shapes = json.loads((GOLDEN / name).read_text())
    return seeded_state_dict({entry: tuple(shape) for entry, shape in shapes.items()})


def write_weights(folder):
    """The published files under their published names and layouts, in a reduced size."""
    settings = json.loads((GOLDEN / "config_wavlm_small.json").read_text())["original"]
    torch.save(
        {"cfg": settings, "model": entries("entries_wavlm_small.json")}, folder / "WavLM-Large.pt"
    )
    vocoder = {"generator": entries("entries_hifigan_small.json")}
    torch.save(vocoder, folder / "prematch_g_02500000.pt")
    (folder / "config_v1_wavlm.json").write_text(json.dumps(VOCODER))
    return folder


def stretched(rate):
    """The reference speech of the stored chain: the source at another speed, between zeros."""
    signal = SOURCE.astype(np.float64)
    positions = np.arange(0, len(signal) - 1, rate)
    wave = np.interp(positions, np.arange(len(signal)), signal)
    return np.pad(wave, 8000).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VOICEANON_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def system(folder):
    system = load("t8-2", weights=folder, device="cpu")
    system.use_pool({"target": [stretched(1.15), stretched(0.9)]})
    return system


def test_sizes_come_from_the_files(system):
    assert system.config.encoder.width == 64
    assert system.config.vocoder.first_width == 64
    assert len(system.wavlm.encoder.layers) == 6
    assert set(system.weight_digests) == {"WavLM-Large.pt", "prematch_g_02500000.pt", "pool"}


def test_pool_equals_the_stored_matching_set(system):
    features = system.pool.features["target"]
    assert features.shape == CHAIN["matching_set"].shape
    assert np.abs(features.numpy() - CHAIN["matching_set"]).max() <= 2e-5


def test_the_whole_chain(system):
    result, report = system.anonymize(SOURCE, target="target", return_report=True)
    assert result.shape == SOURCE.shape
    # The original ends with the last whole frame; zeros follow here.
    published = len(CHAIN["output"])
    assert np.abs(result[:published] - CHAIN["output"]).max() <= 1e-5
    assert not result[published:].any()
    assert report.gain_db == pytest.approx(-16 - float(CHAIN["raw_lkfs"]), abs=1e-3)
    assert report.target == {"speaker": "target"}


def test_the_vocoder_output_without_the_level_step(system):
    result = system.anonymize(SOURCE, target="target", loudness="none")
    assert np.abs(result[: len(CHAIN["raw"])] - CHAIN["raw"]).max() <= 1e-5


def test_half_precision_pools_are_near(folder):
    system = load("t8-2", weights=folder, device="cpu", pool_dtype="float16")
    system.use_pool({"target": [stretched(1.15), stretched(0.9)]})
    assert system.pool.features["target"].dtype == torch.float16
    result = system.anonymize(SOURCE, target="target")[: len(CHAIN["output"])]
    assert np.corrcoef(result, CHAIN["output"])[0, 1] > 0.999


def test_a_batch_of_different_lengths_and_targets_equals_single_runs(folder):
    system = load("t8-2", weights=folder, device="cpu")
    system.use_pool({"a": stretched(1.15), "b": stretched(0.9)})
    waves = [SOURCE[start : start + n] for start, n in ((0, 400), (9000, 28000), (5000, 9601))]
    names = ["b", "a", "b"]
    together = system.anonymize_batch(waves, targets=names)
    for wav, name, result in zip(waves, names, together, strict=True):
        alone = system.anonymize(wav, target=name)
        assert np.abs(result - alone).max() <= 1e-4 * max(1.0, np.abs(alone).max())


def test_short_and_silent_recordings_keep_their_level(system):
    _, report = system.anonymize(SOURCE[8000:14000], target="target", return_report=True)
    assert report.gain_db == 0.0  # less than 0.4 s: no loudness
    zeros, report = system.anonymize(np.zeros(20000, np.float32), return_report=True)
    assert not zeros.any()
    assert report.gain_db == 0.0


def test_loudness_is_that_of_equal_channels_together(system):
    mono, one = system.anonymize(SOURCE, target="target", return_report=True)
    stereo, two = system.anonymize(np.stack([SOURCE] * 2), target="target", return_report=True)
    assert two.gain_db == pytest.approx(one.gain_db)
    assert np.array_equal(stereo[0], stereo[1])
    assert np.abs(stereo[0] - mono).max() <= 1e-5


def random_pool(names="abcd"):
    draws = torch.Generator().manual_seed(0)
    features = {name: torch.randn(30, 64, generator=draws) for name in names}
    return Pool(features, {"a": "f", "b": "m", "c": "f"}, {"source": "noise"})


def test_targets_are_drawn_from_the_pool_evenly(folder):
    system = load("t8-2", weights=folder, device="cpu", pool=random_pool())
    draws = [
        system.draw_target(torch.Generator().manual_seed(seed), None)["speaker"]
        for seed in range(400)
    ]
    counts = [draws.count(name) for name in "abcd"]
    assert sum(counts) == 400
    assert min(counts) > 60


@pytest.mark.parametrize(("rule", "sex", "expected"), [("same", "f", "ac"), ("other", "f", "b")])
def test_selection_by_sex(folder, rule, sex, expected):
    system = load(
        "t8-2", weights=folder, device="cpu", pool=random_pool(), selection=rule,
        source_sexes={"anna": sex},
    )  # fmt: skip
    draws = {
        system.anonymize(SOURCE[:800], seed=n, speaker="anna", return_report=True)[1].target[
            "speaker"
        ]
        for n in range(30)
    }
    assert draws == set(expected)
    with pytest.raises(ConfigError, match="source_sexes"):
        system.anonymize(SOURCE[:800], seed=1, speaker="unknown")


def test_without_a_pool_the_way_to_one_is_told(folder):
    system = load("t8-2", weights=folder, device="cpu")
    for options in ({}, {"target": "anna"}):
        with pytest.raises(ConfigError, match="voiceanon pool build"):
            system.anonymize(SOURCE, **options)


def test_unknown_targets_get_the_list(system):
    for target in ("nobody", {"speaker": "nobody"}, {"alpha": 0.7}, 3):
        with pytest.raises(ConfigError, match="its speakers are target"):
            system.anonymize(SOURCE, target=target)


@pytest.mark.parametrize("pool", [3, {}, {"a": torch.zeros(100)}, Pool({"a": torch.zeros(3, 5)})])
def test_pools_that_do_not_fit_are_refused(folder, pool):
    system = load("t8-2", weights=folder, device="cpu")
    with pytest.raises(ConfigError, match="pool"):
        system.use_pool(pool)
    with pytest.raises(ConfigError, match="no target speakers"):
        load("b2").use_pool(random_pool())


def test_pools_of_other_weights_are_refused(folder):
    system = load("t8-2", weights=folder, device="cpu")
    features = {"a": torch.zeros(3, 64)}
    for facts in ({"encoder": "0" * 64}, {"layer": "12"}):
        with pytest.raises(ConfigError, match="build the pool with this system"):
            system.use_pool(Pool(features, facts=facts))


def test_a_pool_in_a_file(folder, tmp_path):
    pool = random_pool()
    write_pool(tmp_path / "new" / "pool.safetensors", pool)
    again = read_pool(tmp_path / "new" / "pool.safetensors")
    assert again.names == pool.names
    assert again.sexes == pool.sexes
    assert again.facts == pool.facts
    assert again.digest() == pool.digest()
    results = [
        load("t8-2", weights=folder, device="cpu", pool=each).anonymize(SOURCE, seed=3)
        for each in (pool, tmp_path / "new" / "pool.safetensors")
    ]
    assert np.array_equal(*results)


def test_reference_speech_is_capped(folder):
    system = load("t8-2", weights=folder, device="cpu", pool_seconds=1.0, trim_level=0)
    pool = system.make_pool({"a": [stretched(1.0), stretched(0.9)]})
    assert len(pool.features["a"]) == 49  # one second, less the first frame's context


def test_saved_and_loaded(system, tmp_path):
    system.save_pretrained(tmp_path / "mine")
    names = {path.name for path in (tmp_path / "mine").iterdir()}
    assert names == {"config.json", "model.safetensors", "pool.safetensors"}
    again = load(tmp_path / "mine", device="cpu")
    assert again.config == system.config
    assert again.weight_digests == system.weight_digests
    expected = system.anonymize(SOURCE, seed=1)
    assert np.array_equal(again.anonymize(SOURCE, seed=1), expected)


def test_signal_processing_is_saved_and_loaded_too(tmp_path):
    load("b2", alpha_max=0.6).save_pretrained(tmp_path / "b2")
    assert load(str(tmp_path / "b2")).config.alpha_max == 0.6
    assert load(str(tmp_path / "b2"), alpha_max=0.7).config.alpha_max == 0.7


def test_random_weights_are_seeded_and_said_so():
    small = {
        "encoder": WavLMConfig(conv_channels=32, width=32, heads=4, ffn_width=64, pos_groups=4),
        "vocoder": HiFiGanConfig(
            input_width=32, linear_width=16, first_width=32, strides=(10, 8, 2, 2),
            kernels=(20, 16, 4, 4), residual_kernels=(3,), residual_dilations=(1,),
        ),
    }  # fmt: skip
    pool = {"a": stretched(1.0)}
    results = []
    for _ in range(2):
        with pytest.warns(UserWarning, match="RANDOM WEIGHTS"):
            system = load("t8-2", weights="random", device="cpu", pool=pool, **small)
        result, report = system.anonymize(SOURCE, seed=0, return_report=True)
        assert "RANDOM WEIGHTS" in report.weights["WavLM-Large.pt"]
        assert "RANDOM WEIGHTS" in system.info.notes[0]
        results.append(result)
    assert np.array_equal(*results)
    with pytest.raises(ConfigError, match="weights"):
        load("b2", weights="random")


def test_saved_noise_says_so_again(tmp_path):
    small = WavLMConfig(conv_channels=32, width=32, heads=4, ffn_width=64, pos_groups=4)
    vocoder = HiFiGanConfig(
        input_width=32, first_width=32, strides=(20, 16), kernels=(40, 32), residual_kernels=(3,)
    )
    with pytest.warns(UserWarning, match="RANDOM WEIGHTS"):
        system = load("t8-2", weights="random", device="cpu", encoder=small, vocoder=vocoder)
    system.save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="RANDOM WEIGHTS"):
        assert "RANDOM WEIGHTS" in load(tmp_path, device="cpu").info.notes[0]
    with pytest.raises(ConfigError, match="leave weights out"):
        load(tmp_path, weights=tmp_path)


def test_a_folder_does_not_take_the_place_of_a_system(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load("b2", alpha_max=0.6).save_pretrained("b2")
    assert load("b2").config.alpha_max == 0.9
    assert load("./b2").config.alpha_max == 0.6


def test_narrow_band_speech_is_warned_of_once(folder, monkeypatch):
    from voiceanon import recording

    monkeypatch.setattr(recording, "_warned_narrow_band", set())
    system = load("t8-2", weights=folder, device="cpu", pool=random_pool())
    with pytest.warns(AudioWarning, match="8000 Hz"):
        system.anonymize(SOURCE[:8000], 8000)
    system.anonymize(SOURCE[:8000], 8000)


@pytest.mark.parametrize(
    ("option", "value"),
    [("layer", 0), ("neighbours", 0), ("encoder_file", "x.pt"), ("vocoder_file", "x.pt"),
     ("selection", "any"), ("pool_seconds", 0.0), ("pool_dtype", "bfloat16")],
)  # fmt: skip
def test_bad_settings_are_refused(folder, option, value):
    with pytest.raises(ConfigError, match=option):
        load("t8-2", weights=folder, **{option: value})
