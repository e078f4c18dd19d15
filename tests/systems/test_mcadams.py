"""`b2` held to outputs of the published code, stage by stage and as a whole."""

from pathlib import Path

import numpy as np
import pytest
import torch

from voiceanon import ConfigError, load
from voiceanon.components.lpc import compiled, framing, tensor

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "mcadams" / "mcadams.npz")
EPS = 2.0**-23


def convert(system, wav, alpha):
    batch = torch.from_numpy(wav)[None]
    lengths = torch.tensor([len(wav)])
    result, result_lengths = system.convert(batch, lengths, [{"alpha": alpha}], [None])
    assert result_lengths.tolist() == [len(wav)]
    return result[0].numpy()


def assert_near_peak(result, expected, tolerance):
    assert np.abs(result - expected).max() <= tolerance * np.abs(expected).max()


@pytest.fixture(scope="module")
def reference():
    return load("b2", device="cpu", edges="reference")


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9, 1.0, 1.2])
def test_convert_equals_the_published_code(reference, alpha):
    # 1e-5 of the peak: the published code adds frames up in float32.
    result = convert(reference, GOLDEN["input"], alpha)
    assert_near_peak(result, GOLDEN[f"output_alpha_{alpha}"], 1e-5)


def test_convert_equals_the_published_code_at_8_khz():
    system = load("b2", device="cpu", edges="reference", sample_rate=8000)
    assert system.sample_rate == 8000
    result = convert(system, GOLDEN["input_8k"], 0.7)
    assert_near_peak(result, GOLDEN["output_8k_alpha_0.7"], 1e-5)


def test_convert_equals_the_published_code_on_a_synthetic_signal(reference):
    result = convert(reference, GOLDEN["deterministic_input"], 0.7)
    assert_near_peak(result, GOLDEN["deterministic_output_alpha_0.7"], 1e-5)


def test_published_level_step_writes_the_published_file(reference):
    result = reference.anonymize(GOLDEN["input"], target={"alpha": 0.7})
    expected = GOLDEN["output_int16_alpha_0.7"].astype(np.int32)
    # The published code cuts decimals off; one step of 16 bit is that difference and rounding.
    assert np.abs(result * 32768 - expected).max() <= 1.01


def golden_frames():
    wav = torch.from_numpy(GOLDEN["input"])[None] + EPS
    window = framing.analysis_window(320, 160)
    return framing.split(wav, 320, 160)[0][GOLDEN["frame_index"]] * window


def test_window():
    window = framing.analysis_window(320, 160).numpy()
    np.testing.assert_allclose(window, GOLDEN["window"], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("backend", [compiled, tensor])
def test_linear_prediction(backend):
    frames = golden_frames() + EPS
    result = backend.burg(frames if backend is tensor else frames.numpy(), 20)
    np.testing.assert_allclose(np.asarray(result), GOLDEN["lpc"], rtol=1e-9)


@pytest.mark.parametrize("backend", [compiled, tensor])
def test_warped_coefficients(backend):
    coefficients, alphas = (
        torch.from_numpy(GOLDEN["lpc"]),
        torch.full((6,), 0.7, dtype=torch.float64),
    )
    if backend is compiled:
        result = compiled.warp(coefficients.numpy(), alphas.numpy())
    else:
        result = tensor.warp(coefficients, alphas).numpy()
    np.testing.assert_allclose(result, GOLDEN["lpc_alpha_0.7"], rtol=1e-7)


@pytest.mark.parametrize("length", [1, 2, 159, 160, 161, 319, 320, 321, 479, 480, 4000, 4001])
def test_alpha_1_gives_the_input_back_up_to_the_edges(length):
    # 0.3 %: the squared symmetric window does not add up to exactly 1.
    wav = GOLDEN["input"][8000 : 8000 + length]
    result = convert(load("b2", device="cpu"), wav, 1.0)
    assert_near_peak(result, wav, 0.004)


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100])
def test_alpha_1_gives_the_input_back_at_other_rates(rate):
    wav = GOLDEN["input"][8000:16000]
    result = convert(load("b2", device="cpu", sample_rate=rate), wav, 1.0)
    assert_near_peak(result, wav, 0.04)


def test_padded_edges_agree_with_the_published_ones_inside():
    wav = GOLDEN["input"]
    padded = convert(load("b2", device="cpu"), wav, 0.7)
    expected = GOLDEN["output_alpha_0.7"]
    assert_near_peak(padded[320:-320], expected[320:-320], 1e-5)
    assert np.abs(expected[:3]).max() < np.abs(padded[:3]).max()


@pytest.mark.parametrize("edges", ["padded", "reference"])
def test_batch_equals_single_bit_for_bit(edges):
    system = load("b2", device="cpu", edges=edges)
    waves = [GOLDEN["input"][start : start + n] for start, n in ((0, 100), (50, 32000), (9, 5000))]
    batch = torch.zeros(3, 32000)
    for row, wav in zip(batch, waves, strict=True):
        row[: len(wav)] = torch.from_numpy(wav.copy())
    batch[0, 100:] = 9.0  # what lies behind an item's length must not matter
    lengths = torch.tensor([len(wav) for wav in waves])
    targets = [{"alpha": alpha} for alpha in (0.5, 0.7, 0.9)]
    result, _ = system.convert(batch, lengths, targets, [None] * 3)
    for row, wav, target in zip(result, waves, targets, strict=True):
        assert np.array_equal(row[: len(wav)].numpy(), convert(system, wav, target["alpha"]))
        assert not row[len(wav) :].any()


def test_chunks_give_the_whole():
    system = load("b2", device="cpu")
    wav = np.tile(GOLDEN["input"], 3)
    options = {"target": {"alpha": 0.6}, "loudness": "none"}
    whole = system.anonymize(wav, chunk_seconds=None, **options)
    for seconds in (0.5, 0.7777, 3.0):
        chunked, report = system.anonymize(
            wav, chunk_seconds=seconds, return_report=True, **options
        )
        assert report.chunks > 1
        assert_near_peak(chunked, whole, 1e-6)


def test_thread_count_changes_nothing():
    system = load("b2", device="cpu")
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(system.anonymize(GOLDEN["input"], seed=3))
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_silence_is_not_raised_to_full_scale():
    system = load("b2", device="cpu")
    noise = 5e-4 * np.random.default_rng(0).standard_normal(16000).clip(-1, 1).astype(np.float32)
    result, report = system.anonymize(noise, seed=0, return_report=True)
    assert report.gain_db == 0.0
    assert np.abs(result).max() < 1e-2


def test_draw_is_uniform_in_the_published_range():
    system = load("b2", device="cpu")
    draws = [
        system.draw_target(torch.Generator().manual_seed(seed), None)["alpha"]
        for seed in range(2000)
    ]
    assert 0.5 <= min(draws) < 0.502
    assert 0.898 < max(draws) < 0.9
    assert abs(np.mean(draws) - 0.7) < 4 * 0.4 / np.sqrt(12 * 2000)


@pytest.mark.parametrize(
    "target",
    [0.7, "0.7", {}, {"alpha": "0.7"}, {"alpha": 0}, {"alpha": -1}, {"alpha": float("nan")},
     {"alpha": float("inf")}, {"alpha": True}, {"alpha": 0.7, "beta": 1}],
)  # fmt: skip
def test_bad_targets_are_refused(target):
    with pytest.raises(ConfigError, match="alpha"):
        load("b2", device="cpu").anonymize(GOLDEN["input"], target=target)


@pytest.mark.parametrize(
    ("option", "value"),
    [("alpha_min", 0.0), ("alpha_max", 0.4), ("alpha_max", float("inf")), ("order", 0),
     ("order", 320), ("hop_seconds", 0.0), ("hop_seconds", 0.03), ("edges", "soft"),
     ("sample_rate", 100)],
)  # fmt: skip
def test_bad_settings_are_refused(option, value):
    with pytest.raises(ValueError, match=option):
        load("b2", **{option: value})
