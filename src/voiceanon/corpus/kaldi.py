"""Kaldi data folders: ``wav.scp``, ``segments``, ``utt2spk`` and the tables beside them.

Commands in ``wav.scp`` are never run. ``flac -c -d -s PATH |``, as the VoicePrivacy Challenge
writes it, is understood and replaced by reading ``PATH``; any other command makes its utterance
fail with a reason.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

from voiceanon.corpus.items import Item
from voiceanon.errors import ConfigError
from voiceanon.files import replacing

WAV_SCP = "wav.scp"
UTT2SPK = "utt2spk"
SPK2UTT = "spk2utt"
SEGMENTS = "segments"
WAV_FOLDER = "wav"

_REWRITTEN = frozenset((WAV_SCP, UTT2SPK, SPK2UTT, SEGMENTS))
_MEASURED = frozenset(("utt2dur", "utt2num_frames", "frame_shift"))
"""Tables that were measured on the original audio; the same is true of ``reco2...``."""
_TRIALS = "trials"

_FLAC_LONG = {"--decode": "d", "--stdout": "c", "--silent": "s", "--totally-silent": "s"}
_FLAC_LETTERS = frozenset("dcs")
_FLAC_NEEDED = frozenset("dc")


def read_items(folder: Path) -> tuple[Item, ...]:
    """Reads the utterances of a Kaldi folder; opens no audio file.

    The outputs are named ``wav/<utterance>.wav``, since Kaldi reads plain paths as WAV only.

    Raises:
        ConfigError: A table is malformed, or an utterance id cannot be a file name.
    """
    recordings = dict(read_table(folder / WAV_SCP))
    if (folder / SEGMENTS).is_file():
        spans = {u: _parse_segment(folder, u, rest) for u, rest in read_table(folder / SEGMENTS)}
    else:
        spans = {recording: (recording, None) for recording in recordings}
    speakers = dict(read_table(folder / UTT2SPK)) if (folder / UTT2SPK).is_file() else {}
    if not spans:
        raise ConfigError(f"src: {folder} lists no utterances; its tables are empty.")
    return tuple(
        _make_item(folder, utterance, recordings.get(recording), segment, speakers.get(utterance))
        for utterance, (recording, segment) in spans.items()
    )


def read_table(path: Path) -> Iterator[tuple[str, str]]:
    """Reads lines of a key and the rest.

    Raises:
        ConfigError: The file is not UTF-8, or a key stands there twice.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a UTF-8 table ({error}); convert it to UTF-8.") from error
    seen = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        key, *rest = line.strip().split(maxsplit=1)
        if key in seen:
            raise ConfigError(f"{path}, line {number}: {key} stands there twice; keep one line.")
        seen.add(key)
        yield key, "".join(rest)


def parse_location(text: str) -> Path:
    """Finds the file in the second field of ``wav.scp``; runs nothing.

    Raises:
        ConfigError: It is a command other than the decoding of one FLAC file.
    """
    if not text.endswith("|"):
        return Path(text)
    refusal = ConfigError(
        f"the command {text!r} is not run; only 'flac -c -d -s PATH |' is understood. Write its "
        "output to a file and list the file."
    )
    try:
        program, *words = shlex.split(text[:-1])
    except ValueError as error:
        raise refusal from error
    options = [_FLAC_LONG.get(word, word[1:]) for word in words if word.startswith("-")]
    paths = [word for word in words if not word.startswith("-")]
    letters = set("".join(options))
    if PurePosixPath(program).name != "flac" or len(paths) != 1:
        raise refusal
    if not _FLAC_NEEDED <= letters <= _FLAC_LETTERS:
        raise refusal
    return Path(paths[0])


def write_tables(
    src: Path, dst: Path, outputs: Mapping[str, PurePosixPath], failed: Collection[str]
) -> None:
    """Writes the tables of the anonymized folder, restricted to what was anonymized.

    Args:
        src: Kaldi folder of the originals.
        dst: Kaldi folder of the results. Its ``wav.scp`` names the files as ``dst`` was written: a
            relative ``dst`` gives paths relative to the current folder, as is usual in Kaldi.
        outputs: Path below ``dst`` of each utterance that is there.
        failed: Utterances that are not there.
    """
    _write(dst / WAV_SCP, [f"{key} {(dst / outputs[key]).as_posix()}" for key in sorted(outputs)])
    lost_speakers: set[str] = set()
    if (src / UTT2SPK).is_file():
        speakers = dict(read_table(src / UTT2SPK))
        kept = {u: speakers[u] for u in sorted(outputs.keys() & speakers.keys())}
        lost_speakers = set(speakers.values()) - set(kept.values())
        _write(dst / UTT2SPK, [f"{utterance} {speaker}" for utterance, speaker in kept.items()])
        _write(dst / SPK2UTT, _invert(kept))
    for table in sorted(src.iterdir()):
        if _is_carried_over(table):
            _write(dst / table.name, _restrict(table, set(failed), lost_speakers))


def _make_item(
    folder: Path,
    utterance: str,
    location: str | None,
    segment: tuple[float, float] | None,
    speaker: str | None,
) -> Item:
    if "/" in utterance or "\\" in utterance:
        raise ConfigError(
            f"{folder}: the utterance id {utterance!r} holds a path separator, so it cannot name "
            "an output file; rename the utterance."
        )
    source, problem = None, None
    if location is None:
        problem = f"{SEGMENTS} names a recording that {WAV_SCP} does not list."
    else:
        try:
            source = _locate(folder, parse_location(location))
        except ConfigError as error:
            problem = str(error)
    return Item(
        key=utterance,
        source=source,
        name=PurePosixPath(WAV_FOLDER, f"{utterance}.wav"),
        speaker=speaker,
        segment=segment,
        problem=problem,
    )


def _locate(folder: Path, path: Path) -> Path:
    return path if path.is_absolute() or os.path.exists(path) else folder / path


def _parse_segment(
    folder: Path, utterance: str, text: str
) -> tuple[str, tuple[float, float] | None]:
    try:
        recording, start, end = text.split()
        return recording, (float(start), float(end))
    except ValueError as error:
        raise ConfigError(
            f"{folder / SEGMENTS}: {utterance} {text!r} is not 'utterance recording start end' "
            "with times in seconds; split recordings of several channels before."
        ) from error


def _invert(speakers: Mapping[str, str]) -> list[str]:
    utterances: dict[str, list[str]] = {}
    for utterance, speaker in speakers.items():
        utterances.setdefault(speaker, []).append(utterance)
    return [f"{speaker} {' '.join(utterances[speaker])}" for speaker in sorted(utterances)]


def _is_carried_over(path: Path) -> bool:
    """Tables bear no ending; everything else (features, audio, logs) is of the original."""
    name = path.name
    return (
        path.is_file()
        and "." not in name
        and name not in _REWRITTEN | _MEASURED
        and not name.startswith("reco2")
    )


def _restrict(table: Path, failed: set[str], lost_speakers: set[str]) -> list[str]:
    """The lines of a table whose utterance or speaker is still there."""
    lines = table.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    rows = [(line, line.split()) for line in lines if line.strip()]
    if table.name.startswith(_TRIALS):
        # Their first field is a speaker of another folder, the one with the enrolment.
        return [line for line, fields in rows if not failed.intersection(fields[1:2])]
    return [line for line, fields in rows if fields[0] not in failed | lost_speakers]


def _write(path: Path, lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")
