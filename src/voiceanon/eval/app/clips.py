"""Short recordings to listen to, an original and its copy each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from voiceanon.audio import io
from voiceanon.eval.app.copies import Subject
from voiceanon.eval.sources.waves import SAMPLE_RATE

CLIPS = "clips"
"""Folder of the recordings below that of the results."""

CLIP_SECONDS = 6.0
"""Longer recordings are cut."""

WANTED_SECONDS = 3.0
"""A recording at least this long is preferred."""


def write_clips(
    subject: Subject, names: Sequence[str], count: int, out: Path, prefix: str
) -> list[dict[str, str]]:
    """Writes pairs, at most one of each speaker.

    Args:
        subject: Originals and copies.
        names: Utterances to choose from.
        count: Number of pairs, 0 or more.
        out: Folder of the results.
        prefix: Of the names of the files.

    Returns:
        Utterance, speaker, and the paths of ``original`` and ``anonymized`` below ``out``.
    """
    pairs = []
    for number, name in enumerate(choose(subject, names, count)):
        pair = {"utterance": name, "speaker": subject.corpus.speakers.get(name, "not known")}
        for side in ("original", "anonymized"):
            wave = subject.waves(side, [name])[name][: int(CLIP_SECONDS * SAMPLE_RATE)]
            path = Path(CLIPS, f"{prefix}-{number}-{side}.flac")
            io.write(out / path, wave, SAMPLE_RATE)
            pair[side] = path.as_posix()
        pairs.append(pair)
    return pairs


def choose(subject: Subject, names: Sequence[str], count: int) -> list[str]:
    """Utterances: of each speaker the first one by name that is long enough, if there is one."""
    if not count:
        return []
    waves = subject.waves("original", names)
    by_speaker: dict[str, list[str]] = {}
    for name in sorted(names):
        by_speaker.setdefault(subject.corpus.speakers.get(name, name), []).append(name)
    chosen: list[str] = []
    for own in by_speaker.values():
        long = (name for name in own if waves.seconds(name) >= WANTED_SECONDS)
        chosen.append(next(long, own[0]))
        if len(chosen) == count:
            break
    return chosen
