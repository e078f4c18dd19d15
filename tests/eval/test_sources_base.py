"""What all sources share: recordings, labels, manifests, missing packages."""

import re
from dataclasses import fields
from importlib.resources import files

import numpy as np
import pytest
import signals
import torch

from voiceanon.audio import io
from voiceanon.errors import AudioError
from voiceanon.eval.sources.base import NOT_CHALLENGE
from voiceanon.eval.sources.manifest import list_sources, read_source
from voiceanon.eval.sources.waves import SAMPLE_RATE, embed_batches, open_wave, open_waves

# Recordings.


def test_all_forms_of_a_recording_are_the_same(tmp_path):
    wave = (torch.round(signals.speech(0.3, SAMPLE_RATE) * 32768) / 32768).float()
    path = tmp_path / "a.wav"
    io.write(path, wave.numpy(), SAMPLE_RATE)
    forms = [
        wave,
        wave.numpy(),
        wave.double(),
        wave[None],
        torch.stack([wave, wave]),
        path,
        str(path),
        {"array": wave.numpy(), "sampling_rate": SAMPLE_RATE},
        (wave * 32768).to(torch.int16),
    ]
    for form in forms:
        found = open_wave(form)
        assert found.dtype == torch.float32
        assert torch.equal(found, wave)


def test_other_rates_are_resampled(tmp_path):
    path = tmp_path / "a.flac"
    io.write(path, signals.tone(0.5, 22_050).numpy(), 22_050)
    found = open_wave(path)
    assert len(found) == 8000
    middle = slice(1000, 7000)
    expected = torch.as_tensor(signals.tone(0.5, SAMPLE_RATE))
    assert (found[middle] - expected[middle]).abs().max() < 2e-3


def test_recordings_that_cannot_be_opened_are_numbered(tmp_path):
    good = signals.speech(0.2, SAMPLE_RATE)
    bad = good.clone()
    bad[7] = torch.nan
    for wrong, message in (
        (bad, "1 samples are NaN"),
        (tmp_path / "none.wav", "there is no such file"),
        (good[:10], "10 samples .* too short for the model"),
    ):
        with pytest.raises(AudioError, match=f"recording 1: .*{message}"):
            open_waves([good, wrong], min_seconds=0.1, label="the model")


def test_batches_are_undone():
    waves = [torch.full((n,), float(n)) for n in (50, 10, 40, 20, 30)]

    def network(wav, lengths):
        assert wav.shape[1] == lengths.max()
        assert len(wav) <= 2
        assert torch.is_inference_mode_enabled()
        return torch.stack([wav.sum(1) / lengths, lengths.float()], 1)

    result = embed_batches(
        network, waves, width=2, batch_seconds=80 / SAMPLE_RATE, device=torch.device("cpu")
    )
    assert result.dtype == np.float32
    assert result.tolist() == [[n, n] for n in (50, 10, 40, 20, 30)]


# Manifests.


@pytest.mark.parametrize("name", list_sources())
def test_manifests_are_complete(name):
    info = read_source(name)
    assert info.id == name
    for field in fields(info):
        value = getattr(info, field.name)
        assert value, field.name
        if isinstance(value, str):
            assert value == value.strip()
    for file in info.weights:
        assert file.address.startswith("https://")
        assert file.address.endswith(f"/{file.name}")
        assert "{" not in file.address
        assert "https://" in file.licence_source
        assert re.fullmatch(r"[0-9a-f]{64}|unknown", file.sha256)
        assert file.training_data == info.training_data
        if file.repository:
            end = f"/{file.repository}/resolve/{file.revision}/{file.name}"
            assert file.address.endswith(end)
    keys = [file.key for file in info.weights]
    assert len(keys) == len(set(keys))


def test_only_the_challenges_models_bear_its_name():
    challenge = {"vpc2024-asv-eval", "vpc2024-asr-eval", "vpc2024-ser-eval"}
    assert challenge <= set(list_sources())
    for name in list_sources():
        label = read_source(name).label
        assert (name in challenge) == ("of the VoicePrivacy Challenge 2024" in label)
        if name not in challenge | {"speechbrain-asr-wav2vec2-librispeech"}:
            assert label.endswith(NOT_CHALLENGE)


def test_manifests_hold_no_empty_text():
    for name in list_sources():
        text = (files("voiceanon.eval") / "manifests" / f"{name}.json").read_text("utf-8")
        assert not re.search(r":\s*(\"\s*\"|\{\})", text)
