"""P2, P30: file formats, and files that are no audio."""

import os
import time

import numpy as np
import pytest
import signals
import soundfile

from properties import systems
from properties.helpers import assert_close, narrow_band_allowed
from voiceanon import AudioError

READ = {
    "wav 16": ("in.wav", "WAV", "PCM_16"),
    "wav 24": ("in.wav", "WAV", "PCM_24"),
    "wav 32": ("in.wav", "WAV", "PCM_32"),
    "wav 8": ("in.wav", "WAV", "PCM_U8"),
    "wav float": ("in.wav", "WAV", "FLOAT"),
    "wav double": ("in.WAV", "WAV", "DOUBLE"),
    "wav mu-law": ("in.wav", "WAV", "ULAW"),
    "wav extensible": ("in.wav", "WAVEX", "PCM_16"),
    "flac": ("in.flac", "FLAC", "PCM_16"),
    "flac 24": ("in.flac", "FLAC", "PCM_24"),
    "ogg": ("in.ogg", "OGG", "VORBIS"),
    "opus": ("in.opus", "OGG", "OPUS"),
    "mp3": ("in.mp3", "MP3", "MPEG_LAYER_III"),
    "sphere": ("in.sph", "NIST", "PCM_16"),
    "aiff": ("in.aiff", "AIFF", "PCM_16"),
}
WRITTEN = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}

pytestmark = [
    narrow_band_allowed,
    pytest.mark.filterwarnings("ignore:.*scaled by:voiceanon.AudioWarning"),
]


def make(folder, kind, channels=1, rate=16_000):
    name, container, subtype = READ[kind]
    wav = np.stack([signals.speech(0.6, rate, seed=seed).numpy() for seed in range(channels)])
    folder.mkdir(exist_ok=True)
    path = folder / name
    soundfile.write(path, wav.T, rate, subtype, format=container)
    return path


@pytest.mark.parametrize("kind", READ)
def test_every_format_is_read(passing, tmp_path, kind):
    path = make(tmp_path, kind)
    samples, rate = soundfile.read(path, dtype="float32")
    result = passing.anonymize(path, seed=1)
    assert rate == 16_000
    assert np.array_equal(result, passing.anonymize(samples, rate, seed=1))


@pytest.mark.parametrize("suffix", WRITTEN)
@pytest.mark.parametrize("kind", ["wav 16", "wav float", "flac", "ogg", "mp3"])
def test_every_format_is_written(passing, tmp_path, kind, suffix):
    src, dst = make(tmp_path, kind, channels=2), tmp_path / f"out{suffix}"
    report = passing.anonymize_file(src, dst, seed=1)
    expected = passing.anonymize(src, seed=1)
    facts = soundfile.info(dst)
    assert (facts.samplerate, facts.channels, facts.format) == (16_000, 2, WRITTEN[suffix])
    assert facts.frames == expected.shape[1] == report.samples
    written = soundfile.read(dst, dtype="float32")[0].T
    expected = expected / max(1.0, np.abs(expected).max())
    if suffix != ".ogg":
        assert_close(written, expected)
    else:  # Vorbis is lossy
        assert np.corrcoef(written.ravel(), expected.ravel())[0, 1] > 0.99


@pytest.mark.parametrize(
    ("kind", "suffix", "subtype"),
    [
        ("wav 16", ".wav", "PCM_16"),
        ("wav 24", ".wav", "PCM_24"),
        ("wav 32", ".wav", "PCM_32"),
        ("wav float", ".wav", "FLOAT"),
        ("wav double", ".wav", "DOUBLE"),
        ("wav 8", ".wav", "PCM_16"),
        ("wav mu-law", ".wav", "PCM_16"),
        ("flac 24", ".flac", "PCM_24"),
        ("wav float", ".flac", "PCM_16"),
        ("wav 24", ".flac", "PCM_24"),
        ("mp3", ".wav", "PCM_16"),
        ("flac", ".ogg", "VORBIS"),
    ],
)
def test_the_sample_format_is_kept_where_the_container_has_it(tmp_path, kind, suffix, subtype):
    dst = tmp_path / f"out{suffix}"
    systems.PassThrough().anonymize_file(make(tmp_path, kind), dst)
    assert soundfile.info(dst).subtype == subtype


@pytest.mark.parametrize("rate", [8_000, 11_127, 44_100, 48_000, 96_000])
@pytest.mark.parametrize("kind", ["wav 16", "flac"])
def test_files_keep_their_rate_and_length(system, tmp_path, kind, rate):
    src = make(tmp_path, kind, rate=rate)
    dst = tmp_path / f"out{src.suffix}"
    report = system.anonymize_file(str(src), str(dst), seed=1)
    before, after = soundfile.info(src), soundfile.info(dst)
    assert after.samplerate == before.samplerate == report.sample_rate == rate
    if system.info.keeps_length:
        assert after.frames == before.frames


def test_options_of_anonymize_hold_for_files(passing, tmp_path):
    src, dst = make(tmp_path, "wav float", channels=2), tmp_path / "out.wav"
    options = {"seed": b"s", "key": "a", "loudness": "keep", "mix_channels": True}
    report = passing.anonymize_file(src, dst, speaker="me", level="speaker", **options)
    expected = passing.anonymize(src, speaker="me", level="speaker", **options)
    assert (report.speaker, report.level, report.channels) == ("me", "speaker", 1)
    assert_close(soundfile.read(dst, dtype="float32")[0], expected[0], 1e-6)


def test_two_runs_write_the_same_bytes(passing, tmp_path):
    sources = [make(tmp_path, kind) for kind in ("wav 16", "flac")]
    sources.append(make(tmp_path / "float", "wav float"))
    contents = []
    for run in ("first", "second"):
        outputs = [tmp_path / run / f"{n}{src.suffix}" for n, src in enumerate(sources)]
        for src, dst in zip(sources, outputs, strict=True):
            passing.anonymize_file(src, dst, seed=1)
        contents.append([dst.read_bytes() for dst in outputs])
        time.sleep(1.1)  # libsndfile writes the second into some headers
    assert contents[0] == contents[1]


def test_metadata_are_not_carried_over(tmp_path):
    src, dst = tmp_path / "in.flac", tmp_path / "out.flac"
    with soundfile.SoundFile(src, "w", 16_000, 1) as file:
        file.title = file.artist = "Jane Doe"
        file.write(signals.speech(0.3).numpy())
    systems.PassThrough().anonymize_file(src, dst)
    assert b"Jane Doe" in src.read_bytes()
    assert b"Jane Doe" not in dst.read_bytes()


def test_missing_folders_are_made(passing, tmp_path):
    dst = tmp_path / "a" / "b" / "out.wav"
    passing.anonymize_file(make(tmp_path, "wav 16"), dst)
    assert [path.name for path in dst.parent.iterdir()] == ["out.wav"]


def truncated(path, share=0.5):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    return path


def bad_file(folder, kind):
    if kind == "truncated":
        return truncated(make(folder, "wav 16"))
    if kind == "truncated header":
        path = make(folder, "wav 16")
        path.write_bytes(path.read_bytes()[:30])
        return path
    if kind == "truncated flac":
        return truncated(make(folder, "flac"))
    if kind == "truncated sphere":
        return truncated(make(folder, "sphere"))
    if kind == "no samples":
        path = folder / "none.wav"
        soundfile.write(path, np.zeros(0, np.float32), 16_000)
        return path
    if kind == "missing":
        return folder / "missing.wav"
    if kind == "folder":
        path = folder / "folder.wav"
        path.mkdir()
        return path
    if kind == "slow":
        path = folder / "slow.wav"
        soundfile.write(path, signals.noise(0.1).numpy(), 2_000)
        return path
    if kind == "not finite":
        path = folder / "nan.wav"
        wav = signals.speech(0.3).numpy()
        wav[10] = np.nan
        soundfile.write(path, wav, 16_000, "FLOAT")
        return path
    contents = {
        "text": ("text.wav", b"this is not audio\n" * 20),
        "empty": ("empty.wav", b""),
        "binary": ("binary.flac", bytes(range(256)) * 8),
        "m4a": ("song.m4a", b"\x00\x00\x00\x20ftypM4A \x00\x00\x00\x00" + bytes(400)),
        "video": ("film.mp4", b"\x00\x00\x00\x20ftypisom" + bytes(400)),
    }
    name, content = contents[kind]
    path = folder / name
    path.write_bytes(content)
    return path


BAD = (
    "truncated",
    "truncated header",
    "truncated flac",
    "truncated sphere",
    "no samples",
    "missing",
    "folder",
    "slow",
    "not finite",
    "text",
    "empty",
    "binary",
    "m4a",
    "video",
)


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_raises_one_error_that_names_it(passing, tmp_path, kind):
    path = bad_file(tmp_path, kind)
    with pytest.raises(AudioError) as caught:
        passing.anonymize(path)
    assert str(path) in str(caught.value)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(AudioError) as caught:
        passing.anonymize_file(path, tmp_path / "new" / "out.wav")
    assert str(path) in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_leaves_an_earlier_output_alone(tmp_path, kind):
    dst = tmp_path / "out.wav"
    dst.write_bytes(b"earlier")
    path = bad_file(tmp_path, kind)
    with pytest.raises(AudioError):
        systems.PassThrough().anonymize_file(path, dst)
    assert dst.read_bytes() == b"earlier"


@pytest.mark.parametrize("kind", ["m4a", "video"])
def test_unreadable_formats_name_the_ending_and_the_way_out(tmp_path, kind):
    path = bad_file(tmp_path, kind)
    with pytest.raises(AudioError, match=rf"\{path.suffix} .*convert.*array"):
        systems.PassThrough().anonymize(path)


def test_a_bad_file_in_a_list_is_named_before_any_model_runs(tmp_path):
    good, bad = make(tmp_path, "flac"), bad_file(tmp_path, "text")
    passing = systems.PassThrough()
    with pytest.raises(AudioError, match=f"item 1: {bad}"):
        passing.anonymize_batch([good, bad, good])
    assert passing.batches == []


@pytest.mark.parametrize("name", ["out.mp3", "out.m4a", "out", "out.txt", ".wav"])
def test_other_endings_are_refused_before_any_model_runs(tmp_path, name):
    passing = systems.PassThrough()
    with pytest.raises(AudioError, match=f"{name}: cannot write.*.wav, .flac, .ogg"):
        passing.anonymize_file(make(tmp_path, "wav 16"), tmp_path / name)
    assert passing.batches == []
    assert not (tmp_path / name).exists()


def test_what_a_container_cannot_hold_leaves_nothing(tmp_path):
    src = tmp_path / "in.wav"
    soundfile.write(src, np.zeros((4_000, 9)) + 0.1, 16_000)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(AudioError, match=r"out\.flac: FLAC cannot hold .*9 channels.*WAV"):
        systems.PassThrough().anonymize_file(src, tmp_path / "out.flac")
    assert sorted(tmp_path.iterdir()) == before


def test_the_source_is_never_overwritten(passing, tmp_path):
    src = make(tmp_path, "wav 16")
    content = src.read_bytes()
    link, hard = tmp_path / "link.wav", tmp_path / "hard.wav"
    link.symlink_to(src)
    os.link(src, hard)
    for dst in (src, str(src), tmp_path / "." / "in.wav", link, hard):
        with pytest.raises(AudioError, match="one file"):
            passing.anonymize_file(src, dst)
    assert src.read_bytes() == content
