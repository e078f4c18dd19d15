"""What a corpus consists of: folders, lists, single files, names of outputs."""

import os
from pathlib import Path, PurePosixPath

import pytest
import soundfile

from voiceanon import ConfigError
from voiceanon.corpus import anonymize_folder
from voiceanon.corpus.outputs import name_outputs
from voiceanon.corpus.sources import find_sources


def keys(src, dst=Path("nowhere")):
    return sorted(item.key for item in find_sources(src, dst).items)


def name(*paths, file_format=None):
    return [str(o) for o in name_outputs([PurePosixPath(p) for p in paths], file_format)]


def test_a_folder_gives_relative_paths_without_ending_as_keys(corpus):
    assert keys(corpus) == ["ann/a1", "ann/a2", "ben/b1", "ben/deep/b2"]


def test_keys_do_not_depend_on_other_files(corpus, write_audio):
    before = keys(corpus)
    write_audio(corpus / "ann" / "a1.flac")
    write_audio(corpus / "aaa.wav")
    assert sorted([*before, "aaa", "ann/a1"]) == keys(corpus)


def test_hidden_files_and_the_output_folder_are_left_out(corpus, write_audio):
    write_audio(corpus / ".hidden.wav")
    write_audio(corpus / ".cache" / "x.wav")
    write_audio(corpus / "out" / "x.wav")
    assert keys(corpus, corpus / "out") == ["ann/a1", "ann/a2", "ben/b1", "ben/deep/b2"]


def test_files_that_are_not_audio_are_counted(corpus):
    (corpus / "notes.md").write_text("notes")
    (corpus / "ann" / "labels.csv").write_text("labels")
    assert find_sources(corpus, Path("nowhere")).not_audio == 2


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path, corpus):
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "data").symlink_to(corpus / "ann")
    (linked / "up").symlink_to(linked)
    assert keys(linked) == ["data/a1", "data/a2"]


def test_a_single_file_has_its_stem_as_key(corpus):
    assert keys(corpus / "ann" / "a1.wav") == ["a1"]


def test_a_list_has_paths_relative_to_its_own_folder(corpus):
    listing = corpus / "some.lst"
    listing.write_text("ann/a1.wav\n\n  ben/deep/b2.ogg  \n")
    assert keys(listing) == ["ann/a1", "ben/deep/b2"]
    sources = [item.source for item in find_sources(listing, Path("nowhere")).items]
    assert sources == [corpus / "ann/a1.wav", corpus / "ben/deep/b2.ogg"]


def test_an_absolute_path_in_a_list_loses_its_leading_slash(tmp_path, corpus):
    path = corpus / "ann" / "a1.wav"
    assert keys([path]) == [str(path.with_suffix(""))[1:]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["../x.wav"], "leads upwards"),
        (["."], "names no file"),
        (["/"], "names no file"),
        (["a/../../x.wav"], "leads upwards"),
        (["x.wav", "./x.wav"], "listed twice"),
        ([], "the list is empty"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(tmp_path, lines, message):
    listing = tmp_path / "list.txt"
    listing.write_text("\n".join(lines))
    for source in (listing, lines):
        with pytest.raises(ConfigError, match=message):
            find_sources(source, tmp_path / "out")


def test_what_is_no_corpus_is_refused(tmp_path):
    (tmp_path / "notes.md").write_text("notes")
    for source, message in (
        (tmp_path / "missing", "no file or folder"),
        (tmp_path / "notes.md", "neither audio nor a list"),
        (tmp_path, "no audio in"),
    ):
        with pytest.raises(ConfigError, match=message):
            find_sources(source, tmp_path / "out")


def test_endings_stay_where_they_are_writable():
    assert name("a.wav", "b.FLAC", "c.ogg") == ["a.wav", "b.FLAC", "c.ogg"]
    assert name("a.mp3", "b.sph", "c.v2.aiff", "d") == ["a.flac", "b.flac", "c.v2.flac", "d.flac"]
    assert name("a.mp3", "b.wav", file_format="ogg") == ["a.ogg", "b.ogg"]


def test_outputs_that_clash_keep_their_endings():
    assert name("a.mp3", "a.flac", "b.mp3") == ["a.mp3.flac", "a.flac.flac", "b.flac"]
    assert name("x/a.wav", "a.wav") == ["x/a.wav", "a.wav"]
    assert name("a.wav", "a.flac", file_format="wav") == ["a.wav.wav", "a.flac.wav"]


def test_outputs_that_clash_with_a_renamed_one_keep_their_endings_too():
    names = ["a.mp3", "a.flac", "a.flac.flac", "a.flac.mp3", "a"]
    outputs = name(*names)
    assert len(set(outputs)) == len(names)
    assert outputs == list(reversed(name(*reversed(names))))


def test_files_that_clash_are_all_anonymized_with_one_voice(anon, tmp_path, write_audio, contents):
    for ending in ("mp3", "flac", "aiff"):
        write_audio(tmp_path / "in" / f"a.{ending}", rate=16_000)
    result = anonymize_folder(anon, tmp_path / "in", tmp_path / "out", seed=1)
    assert sorted(contents(tmp_path / "out")) == ["a.aiff.flac", "a.flac.flac", "a.mp3.flac"]
    assert {r.key for r in result.done} == {"a"}
    assert len({r.report["target"]["alpha"] for r in result.done}) == 1


def test_originals_are_never_overwritten(anon, corpus, contents):
    before = contents(corpus)
    listing = corpus / "list.txt"
    listing.write_text("ann/a1.wav\nben/b1.wav\n")
    for source, output, message in (
        (corpus, corpus, "is the input folder"),
        (listing, corpus, "is one of the inputs"),
        (corpus / "ann" / "a1.wav", corpus / "ann", "is one of the inputs"),
    ):
        with pytest.raises(ConfigError, match=message):
            anonymize_folder(anon, source, output, seed=1)
    listing.unlink()
    assert contents(corpus) == before
    assert not list(corpus.rglob("report.jsonl"))


def test_a_link_does_not_hide_that_an_original_would_be_overwritten(anon, tmp_path, corpus):
    (tmp_path / "linked").symlink_to(corpus / "ann")
    with pytest.raises(ConfigError, match="is one of the inputs"):
        anonymize_folder(anon, tmp_path / "linked" / "a1.wav", corpus / "ann", seed=1)


@pytest.mark.parametrize(
    ("source", "subtype", "output", "kept"),
    [
        ("a.wav", "PCM_24", "a.wav", "PCM_24"),
        ("a.wav", "FLOAT", "a.wav", "FLOAT"),
        ("a.wav", "ULAW", "a.wav", "PCM_16"),
        ("a.flac", "PCM_24", "a.flac", "PCM_24"),
        ("a.ogg", "VORBIS", "a.ogg", "VORBIS"),
        ("a.mp3", "MPEG_LAYER_III", "a.flac", "PCM_16"),
        ("a.aiff", "PCM_24", "a.flac", "PCM_24"),
    ],
)
def test_sample_format_rate_and_channels_stay(
    anon, tmp_path, write_audio, source, subtype, output, kept
):
    path = write_audio(tmp_path / source, rate=22_050, channels=2, subtype=subtype)
    anonymize_folder(anon, path, tmp_path / "out", seed=1)
    before, after = soundfile.info(path), soundfile.info(tmp_path / "out" / output)
    assert (after.samplerate, after.channels, after.frames) == (22_050, 2, before.frames)
    assert after.subtype == kept


def test_a_file_name_that_is_not_utf_8_ends_neither_run_nor_report(anon, tmp_path, corpus):
    odd = os.fsdecode(os.path.join(os.fsencode(corpus), b"caf\xe9.wav"))
    (corpus / "ann" / "a1.wav").rename(odd)
    (corpus / "list.txt").write_bytes(b"caf\xe9.wav\nben/b1.wav\n")
    for source, done in ((corpus, 3), (corpus / "list.txt", 1)):
        result = anonymize_folder(anon, source, tmp_path / str(done), seed=1)
        assert len(result.done) == done
        assert [(r.key, r.source) for r in result.failed] == [("caf\udce9", odd)]
        again = anonymize_folder(anon, source, tmp_path / str(done), seed=1)
        assert len(again.skipped) == done
