"""ASR_eval and SER_eval against SpeechBrain's stored values, and their published layouts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from source_files import (
    ASR_WIDTH,
    CHARACTERS,
    GOLDEN,
    SMALL_LARGE,
    UTT,
    asr_files,
    asr_head_entries,
    checkpoint,
    encoder_entries,
    entries,
    label_file,
    ser_files,
    write_files,
    write_zip,
)

from voiceanon.errors import AudioError, ConfigError, WeightsError
from voiceanon.eval.sources import asr_eval
from voiceanon.eval.sources.asr_eval import (
    ASR_HUB,
    AsrNetwork,
    greedy_paths,
    load_asr_eval,
    load_asr_hub,
)
from voiceanon.eval.sources.manifest import read_source
from voiceanon.eval.sources.ser_eval import SerNetwork, load_ser_eval
from voiceanon.eval.sources.wav2vec2 import BASE, LARGE_LV60, Encoder, read_labels

STORED = np.load(GOLDEN / "asr_ser_heads.npz")

TOLERANCE = 1e-5
"""Of values of the order 1; the goldens allow 1e-4."""

EMOTIONS = ("neu", "ang", "hap", "sad")


@pytest.fixture(scope="module", autouse=True)
def no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VOICEANON_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def asr_folder(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("asr"), asr_files())


@pytest.fixture(scope="module")
def asr(asr_folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VOICEANON_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load_asr_eval(weights=asr_folder, device="cpu")


@pytest.fixture(scope="module")
def ser_folder(tmp_path_factory):
    """Five folds; the labels of the second stand in another order."""
    files = {}
    for fold in "12345":
        labels = EMOTIONS[::-1] if fold == "2" else EMOTIONS
        files |= {f"exp/ser/fold_{fold}/CKPT+2{fold}/{n}": d for n, d in ser_files(labels).items()}
    return write_files(tmp_path_factory.mktemp("ser"), files)


def close(found, name, tolerance=TOLERANCE):
    expected = torch.from_numpy(STORED[name])
    assert found.shape == expected.shape
    assert (found - expected).abs().max() < tolerance


def batch():
    wav = torch.zeros(2, 24_000)
    wav[0], wav[1, :16_000] = UTT[:24_000], UTT[8000:24_000]
    return wav, torch.tensor([24_000, 16_000])


# Golden values.


def test_recognizer(asr):
    network = asr._network
    wav, lengths = batch()
    close(network.encoder(wav, lengths), "asr_wav2vec2_out")
    log_probs = network(wav, lengths)
    close(log_probs, "asr_log_probs")
    paths = greedy_paths(log_probs, lengths, 24_000)
    assert paths[0] == STORED["asr_greedy_0"].tolist()
    assert paths[1] == STORED["asr_greedy_1"].tolist()
    alone = network(wav[1:, :16_000], lengths[1:])
    close(alone, "asr_log_probs_second_alone")
    # What is padded changes, as published: the reason for the order and size of batches.
    assert (log_probs[1, :49] - alone[0]).abs().max() > 0.05


def test_classifier(ser_folder):
    network = load_ser_eval({"s": "1"}, weights=ser_folder, device="cpu")._networks["1"]
    for i, wav in enumerate((UTT[None, :24_000], UTT[None, 8000:24_000])):
        encoded = network.encoder(wav, torch.tensor([wav.shape[1]]))
        close(encoded, f"ser_wav2vec2_out_{i}")
        close(encoded.mean(1), f"ser_pooled_{i}")
        close(network(wav), f"ser_prob_{i}")


# Recognizer.


def text_of(path):
    return " ".join("".join(CHARACTERS[c] for c in path).split())


def test_texts_are_those_of_batches_from_long_to_short(asr):
    waves = [UTT[8000:24_000], UTT[:24_000]]
    expected = [text_of(STORED[f"asr_greedy_{i}"]) for i in (1, 0)]
    assert asr.transcribe(waves) == expected
    assert asr.transcribe(waves[::-1]) == expected[::-1]
    assert asr.transcribe([]) == []


def test_with_batches_of_one_a_text_is_that_of_the_recording_alone(asr_folder):
    alone = load_asr_eval(weights=asr_folder, batch_size=1, device="cpu")
    waves = [UTT[8000:24_000], UTT[:24_000], UTT[:9000]]
    assert alone.transcribe(waves) == [alone.transcribe([wave])[0] for wave in waves]
    path = STORED["asr_log_probs_second_alone"][0].argmax(-1)
    kept = [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
    assert alone.transcribe(waves)[0] == text_of(kept)
    assert "batch_size=1" in alone.identity


def test_greedy_paths():
    best = torch.tensor([[0, 5, 5, 0, 5, 6, 6, 7], [4, 4, 4, 4, 3, 3, 3, 3]])
    log_probs = torch.nn.functional.one_hot(best, 8).float()
    assert greedy_paths(log_probs, torch.tensor([800, 400]), 800) == [[5, 5, 6, 7], [4]]


def test_references_are_normalised_as_the_challenge_does(asr):
    assert asr.normalise("It's here, now!  Yes.") == "IT'S HERE NOW YES"


@pytest.mark.parametrize("layout", ["archive", "unpacked"])
def test_asr_eval_is_read_from_its_layouts(asr, asr_folder, tmp_path, layout):
    files = {f"exp/asr/{path.name}": path.read_bytes() for path in asr_folder.iterdir()}
    if layout == "archive":
        # In an archive there is no place for sizes of our own: they are the official ones.
        write_zip(tmp_path / "asr.zip", files)
        with pytest.raises(WeightsError, match="does not fit Wav2Vec2Model"):
            load_asr_eval(weights=tmp_path, device="cpu")
        return
    recognizer = load_asr_eval(weights=write_files(tmp_path, files), device="cpu")
    assert recognizer.label.startswith("ASR_eval")
    wave = UTT[:24_000]
    assert recognizer.transcribe([wave]) == asr.transcribe([wave])


def test_hub_model_is_held_to_its_digest(asr, asr_folder, tmp_path, monkeypatch):
    folder = tmp_path / "asr-wav2vec2-librispeech"
    write_files(folder, {path.name: path.read_bytes() for path in asr_folder.iterdir()})
    with pytest.raises(WeightsError, match=r"asr\.ckpt: expected 8526821 bytes"):
        load_asr_hub(weights=tmp_path)
    info = read_source(ASR_HUB)
    files = tuple(replace(file, size=None, sha256="unknown") for file in info.weights)
    monkeypatch.setattr(asr_eval, "read_source", lambda _: replace(info, weights=files))
    recognizer = load_asr_hub(weights=tmp_path, device="cpu")
    assert "source of its ASR_eval" in recognizer.label
    assert recognizer.transcribe([UTT[:24_000]]) == asr.transcribe([UTT[:24_000]])


def test_files_of_two_models_do_not_fit(asr_folder, tmp_path):
    files = {path.name: path.read_bytes() for path in asr_folder.iterdir()}
    write_files(tmp_path, {**files, "tokenizer.ckpt": label_file(CHARACTERS[:-1])})
    with pytest.raises(WeightsError, match="an output of 30 characters is due"):
        load_asr_eval(weights=tmp_path)


def test_recordings_that_are_too_short_are_named(asr, asr_folder):
    with pytest.raises(AudioError, match="recording 1: audio: 399 samples"):
        asr.transcribe([UTT, UTT[:399]])
    with pytest.raises(ConfigError, match="batch_size: 0"):
        load_asr_eval(weights=asr_folder, batch_size=0)


# Classifier.


def test_each_speaker_is_judged_by_its_fold(ser_folder):
    folds = {"anna": "1", "ben": "2"}
    classifier = load_ser_eval(folds, weights=ser_folder, device="cpu")
    assert classifier.emotions == ("ang", "hap", "neu", "sad")
    best = int(STORED["ser_prob_0"].argmax())
    wave = UTT[:24_000]
    found = classifier.classify([wave, wave, wave], ["anna", "ben", "anna"])
    assert found == [EMOTIONS[best], EMOTIONS[::-1][best], EMOTIONS[best]]
    assert classifier.classify([], []) == []


def test_speakers_and_folds_must_be_known(ser_folder):
    classifier = load_ser_eval({"anna": "1"}, weights=ser_folder, device="cpu")
    with pytest.raises(ConfigError, match=r"speakers: 1 \(carl\)"):
        classifier.classify([UTT], ["carl"])
    with pytest.raises(ConfigError, match="2 for 1 recordings"):
        classifier.classify([UTT], ["anna", "anna"])
    with pytest.raises(ConfigError, match=r"folds: 1 \(6\)"):
        load_ser_eval({"anna": "6"}, weights=ser_folder)
    with pytest.raises(ConfigError, match="there are none"):
        load_ser_eval({}, weights=ser_folder)


def test_code_in_the_archive_is_not_run(ser_folder, tmp_path):
    """`custom_interface.py` lies there; only tensors and labels are read."""
    files = {
        path.relative_to(ser_folder).as_posix(): path.read_bytes()
        for path in ser_folder.rglob("*")
        if path.is_file() and "fold_1" in path.parts
    }
    trap = tmp_path / "ran"
    code = f"open({str(trap)!r}, 'w')\n".encode()
    write_files(tmp_path / "w", {**files, "exp/ser/fold_1/CKPT+21/custom_interface.py": code})
    load_ser_eval({"anna": "1"}, weights=tmp_path / "w", device="cpu")
    assert not trap.exists()


# Published files.


def test_all_published_entries_fit():
    with torch.device("meta"):
        large = Encoder(LARGE_LV60)
        base = Encoder(BASE)
        network = AsrNetwork({**LARGE_LV60, "num_hidden_layers": 1}, 1024, 31)
        head = SerNetwork({**BASE, "num_hidden_layers": 1}, 4)
    for encoder, name in ((large, "asr"), (base, "ser")):
        published = entries(f"entries_{name}_wav2vec2.ckpt.json")
        assert {k: list(v) for k, v in encoder_entries(encoder).items()} == published
    published = entries("entries_asr_asr.ckpt.json")
    assert {k: list(v) for k, v in asr_head_entries(network).items()} == published
    assert entries("entries_ser_model.ckpt.json") == {"0.w.weight": list(head.output.weight.shape)}


def test_labels(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_bytes(label_file([" ", "'", "A => 7", '"']))
    assert read_labels(path) == (" ", "'", "A => 7", '"')
    path.write_text("'a' => 0\n'b' => 2\n====\n")
    with pytest.raises(WeightsError, match=r"are \[0, 2\]"):
        read_labels(path)
    path.write_text("print('x') => 0\n")
    with pytest.raises(WeightsError, match="cannot be read as labels"):
        read_labels(path)
    path.write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(WeightsError, match="labels"):
        read_labels(path)


def test_width_of_the_head_is_read_from_its_file(asr):
    assert asr._network.layers[0].out_features == ASR_WIDTH
    assert asr._network.encoder.model.config.num_hidden_layers == SMALL_LARGE["num_hidden_layers"]


def test_pickles_that_would_run_code_are_refused(asr_folder, tmp_path):
    files = {path.name: path.read_bytes() for path in asr_folder.iterdir()}
    write_files(tmp_path, {**files, "asr.ckpt": checkpoint({"1.w.weight": pytest.approx(1)})})
    with pytest.raises(WeightsError, match="could run code"):
        load_asr_eval(weights=tmp_path)
