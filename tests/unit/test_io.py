import struct

import numpy as np
import pytest
import soundfile

from voiceanon import AudioError, AudioWarning
from voiceanon.audio import io

RNG = np.random.default_rng(3)


def noise(channels=1, samples=4000, peak=0.9):
    wav = RNG.uniform(-1, 1, (channels, samples)).astype(np.float32)
    return wav * np.float32(peak / np.abs(wav).max())


@pytest.mark.parametrize(
    ("name", "subtype", "step"),
    [("a.wav", None, 2**-16), ("a.wav", "PCM_24", 2**-24), ("a.wav", "PCM_32", 2**-24),
     ("a.wav", "FLOAT", 0), ("a.wav", "DOUBLE", 0), ("a.flac", None, 2**-16),
     ("a.flac", "PCM_24", 2**-24), ("a.FLAC", "FLOAT", 2**-16)],
)  # fmt: skip
def test_written_samples_come_back(tmp_path, name, subtype, step):
    wav = noise(2)
    io.write(tmp_path / "new" / name, wav, 22050, subtype)
    result, rate = io.read(tmp_path / "new" / name)
    assert rate == 22050
    assert result.dtype == np.float32
    assert np.abs(result - wav).max() <= step
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]


@pytest.mark.parametrize("bits", [16, 24])
def test_integers_survive_reading_and_writing(tmp_path, bits):
    whole = np.array([[-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1, 12345]])
    io.write(
        tmp_path / "a.wav", (whole / 2.0 ** (bits - 1)).astype(np.float32), 16000, f"PCM_{bits}"
    )
    stored, _ = soundfile.read(tmp_path / "a.wav", dtype="int32")
    assert (stored >> (32 - bits)).tolist() == whole[0].tolist()


def test_ogg_is_close(tmp_path):
    time = np.arange(16000) / 16000
    wav = (0.5 * np.sin(2 * np.pi * 440 * time)).astype(np.float32)
    io.write(tmp_path / "a.ogg", wav, 16000)
    result, _ = io.read(tmp_path / "a.ogg")
    assert result.shape == (1, 16000)
    assert np.abs(result[0, 1000:-1000] - wav[1000:-1000]).max() < 0.05


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg"])
def test_overshoot_is_scaled_with_a_warning(tmp_path, name):
    wav = noise(2, peak=2.0)
    with pytest.warns(AudioWarning, match=r"-6\.02 dB"):
        io.write(tmp_path / name, wav, 16000)
    result, _ = io.read(tmp_path / name)
    if name != "a.ogg":
        np.testing.assert_allclose(result, wav / 2, atol=2**-14)


def test_floats_keep_their_overshoot(tmp_path):
    wav = noise(peak=2.0)
    io.write(tmp_path / "a.wav", wav, 16000, "FLOAT")
    assert np.array_equal(io.read(tmp_path / "a.wav")[0], wav)


def test_full_scale_is_not_touched(tmp_path):
    io.write(tmp_path / "a.wav", np.array([1.0, -1.0, 0.5], np.float32), 16000)
    assert io.read(tmp_path / "a.wav")[0].tolist() == [[32767 / 32768, -1.0, 0.5]]


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_float_files_do_not_hold_the_time_of_writing(tmp_path, subtype):
    # libsndfile stamps them with the clock, and equal audio shall give equal bytes.
    io.write(tmp_path / "a.wav", noise(), 16000, subtype)
    data = (tmp_path / "a.wav").read_bytes()
    position = data.index(b"PEAK")
    assert data[position + 12 : position + 16] == b"\0\0\0\0"


def truncate(path, share=0.5):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.sph"])
def test_truncated_files_are_refused(tmp_path, name):
    path = tmp_path / name
    soundfile.write(
        path, noise(samples=48000)[0], 16000, format="NIST" if name == "a.sph" else None
    )
    io.read(path)
    truncate(path)
    with pytest.raises(AudioError, match=name):
        io.read(path)


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF])
def test_open_lengths_as_programs_write_them_into_pipes(tmp_path, length):
    path = tmp_path / "a.wav"
    soundfile.write(path, noise()[0], 16000)
    data = bytearray(path.read_bytes())
    position = data.index(b"data") + 4
    data[position : position + 4] = struct.pack("<I", length)
    path.write_bytes(data)
    if length:
        assert io.read(path)[0].shape == (1, 4000)
    else:
        with pytest.raises(AudioError, match="no samples"):
            io.read(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.wav", b"", "empty"),
        ("a.wav", b"not audio at all, but text", "not readable"),
        ("a.m4a", b"\0\0\0\x20ftypM4A ", "convert"),
        ("a.MP4", b"", "convert"),
    ],
)
def test_what_is_no_audio_is_refused_by_name(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AudioError, match=rf"{name}.*{message}"):
        io.read(tmp_path / name)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(AudioError, match="no such file"):
        io.read(tmp_path / "a.wav")
    with pytest.raises(AudioError, match="no such file"):
        io.read(tmp_path)


@pytest.mark.parametrize("name", ["a.mp3", "a.txt", "a"])
def test_unwritable_endings_are_refused(tmp_path, name):
    with pytest.raises(AudioError, match="writable"):
        io.write(tmp_path / name, noise(), 16000)
    assert not list(tmp_path.iterdir())


def test_a_failing_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.flac"
    path.write_bytes(b"before")
    with pytest.raises(AudioError, match="channels"):
        io.write(path, noise(channels=9), 16000)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_facts_of_a_header(tmp_path):
    io.write(tmp_path / "a.wav", noise(2, 24000), 48000, "PCM_24")
    facts = io.read_facts(tmp_path / "a.wav")
    assert facts == io.FileFacts(48000, 24000, 2, "PCM_24")
    assert facts.seconds == 0.5


@pytest.mark.parametrize(
    ("source", "suffix", "expected"),
    [("PCM_24", ".wav", "PCM_24"), ("PCM_24", ".ogg", "VORBIS"), ("FLOAT", ".flac", "PCM_16"),
     ("ULAW", ".wav", "PCM_16"), ("MPEG_LAYER_III", ".flac", "PCM_16"), (None, ".flac", "PCM_16")],
)  # fmt: skip
def test_sample_format_of_outputs(source, suffix, expected):
    assert io.output_subtype(source, suffix) == expected
