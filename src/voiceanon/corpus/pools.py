"""Pools of target speakers, built from a corpus of their speech."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from voiceanon._version import __version__
from voiceanon.anonymizer import Anonymizer
from voiceanon.audio import io
from voiceanon.audio.forms import open_audio
from voiceanon.audio.source import Source
from voiceanon.corpus import kaldi
from voiceanon.corpus.items import Item
from voiceanon.corpus.plan import cut_frames
from voiceanon.corpus.sources import Sources, find_sources
from voiceanon.errors import AudioError, AudioWarning, ConfigError
from voiceanon.hub.pool import Pool, write_pool

POOL_ENDING = ".safetensors"
"""Ending of pool files; by it they are read."""

SPK2GENDER = "spk2gender"
"""Table of a Kaldi folder with the sex of its speakers."""

SEX_WORDS = {"f": "f", "female": "f", "m": "m", "male": "m", "": ""}
"""Ways to write a sex, in lower case, and how a pool writes it; empty for not known."""

_SECONDS = "seconds"
"""Fact of a pool: JSON text with the reference speech of each speaker, in seconds."""

_NOWHERE = Path(os.devnull)
"""An output folder that no walk meets: a pool is a file, and nothing has to be left out."""

_SHOWN = 3
"""Names that an error message gives as examples."""


def build_pool(
    anon: Anonymizer,
    src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    dst: str | os.PathLike[str] | None = None,
    *,
    speakers: Mapping[str, str] | None = None,
    sexes: Mapping[str, str] | None = None,
    on_speaker: Callable[[str, int, int], None] | None = None,
) -> Pool:
    """Makes a pool of target speakers out of a corpus of their speech.

    All recordings are looked at first. One that cannot be used is left out with an `AudioWarning`.
    Then the speakers are worked on one after the other, in the order of their names, and each one's
    recordings in the order of their keys, so that the same corpus always gives the same pool.

    Args:
        anon: Of `voiceanon.load`, a system that has target speakers.
        src: As in `anonymize_folder`: a folder, in which the first folder below it names the
            speaker; a list or sequence of paths; or a Kaldi folder with ``utt2spk``. Keys are as
            there, too.
        dst: File to write, ``.safetensors``; ``None`` to only return the pool.
        speakers: Speaker of each key, instead of what ``src`` says. Needed for lists and for flat
            folders.
        sexes: ``"f"``, ``"m"``, ``"female"`` or ``"male"`` of speakers, in either case; may name
            more speakers than there are. ``None``: ``spk2gender`` of a Kaldi folder, or not known.
        on_speaker: Called before each speaker is worked on, with its name, its number from 1 on,
            and the number of speakers.

    Returns:
        The pool, for ``pool=`` of `voiceanon.load`. Its facts name the source, the number of
        speakers, and the seconds of each as they were used: after trimming, and up to the most that
        the system takes.

    Raises:
        ConfigError: The system has no target speakers, ``src`` holds no audio, a recording has no
            speaker, a speaker no recording that can be used, or an option does not fit.
    """
    if type(anon).make_pool is Anonymizer.make_pool:
        # Says that there are no target speakers, before any file is read.
        anon.make_pool({})
    target = None if dst is None else _check_target(Path(dst))
    sources = find_sources(src, _NOWHERE)
    groups = _by_speaker(sources.items, speakers)
    known = _find_sexes(sources, sexes, list(groups))
    for speaker, items in groups.items():
        # No comprehension: with one, warnings would point here in some versions of Python.
        groups[speaker] = _usable(speaker, items, anon)
    features: dict[str, Tensor] = {}
    facts: dict[str, str] = {}
    for number, (speaker, items) in enumerate(groups.items(), start=1):
        if on_speaker is not None:
            on_speaker(speaker, number, len(groups))
        part: Pool = anon.make_pool({speaker: [_open(item) for item in items]})
        features |= part.features
        facts |= part.facts
    facts |= {
        "source": _describe(src),
        "speakers": str(len(features)),
        "version": __version__,
    }
    if "rows" not in facts:
        # Rows are frames, unless the system says that they are something else.
        frame = anon.hop_samples / anon.sample_rate
        seconds = {name: round(len(frames) * frame, 2) for name, frames in features.items()}
        facts[_SECONDS] = json.dumps(seconds, ensure_ascii=False)
    pool = Pool(features, known, facts)
    if target is not None:
        write_pool(target, pool)
    return pool


def pool_seconds(pool: Pool) -> dict[str, float]:
    """Reference speech of each speaker in seconds, as `build_pool` noted it; empty if it did not.

    Args:
        pool: Any pool.
    """
    try:
        seconds = json.loads(pool.facts.get(_SECONDS, "{}"))
        return {name: float(seconds[name]) for name in pool.names if name in seconds}
    except (ValueError, TypeError):
        # Facts are for people; another program may have written this one.
        return {}


def parse_sexes(sexes: Mapping[str, str], origin: str = "sexes") -> dict[str, str]:
    """Brings sexes to the form that pools and systems use.

    Args:
        sexes: ``"f"``, ``"m"``, ``"female"`` or ``"male"`` by speaker, in either case.
        origin: Where they stand, for messages.

    Returns:
        ``"f"`` or ``"m"`` by speaker.

    Raises:
        ConfigError: Another word stands there.
    """
    for speaker, word in sexes.items():
        if str(word).lower() not in SEX_WORDS:
            raise ConfigError(
                f"{origin}: {word!r} of speaker {speaker!r} is not 'f', 'm', 'female' or 'male'; "
                "leave out speakers whose sex is not known."
            )
    return {speaker: SEX_WORDS[word.lower()] for speaker, word in sexes.items()}


def _check_target(dst: Path) -> Path:
    if dst.suffix.lower() != POOL_ENDING or dst.is_dir():
        raise ConfigError(
            f"dst: {dst} cannot be a pool file; name a file that ends in {POOL_ENDING}."
        )
    return dst


def _by_speaker(
    items: Sequence[Item], speakers: Mapping[str, str] | None
) -> dict[str, Sequence[Item]]:
    """Recordings by speaker, both sorted."""
    groups: dict[str, list[Item]] = {}
    nobody = []
    for item in sorted(items, key=lambda item: item.identity):
        speaker = item.speaker if speakers is None else speakers.get(item.key)
        if speaker:
            groups.setdefault(speaker, []).append(item)
        else:
            nobody.append(item.key)
    if nobody:
        more = ", ..." if len(nobody) > _SHOWN else ""
        raise ConfigError(
            f"speakers: {len(nobody)} of {len(items)} recordings have no speaker "
            f"({', '.join(map(repr, nobody[:_SHOWN]))}{more}). Put each speaker's recordings into "
            "a folder of its own, or name the speaker of each key with speakers=, on the command "
            "line with --speakers."
        )
    for speaker in groups:
        _check_name(speaker)
    return {speaker: groups[speaker] for speaker in sorted(groups)}


def _check_name(speaker: str) -> None:
    """Refuses what a pool file cannot hold before any time is spent on it."""
    try:
        speaker.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"speakers: the name {speaker!r} is not UTF-8, as names in a pool are; rename the "
            "folder, or name its speaker with speakers=."
        ) from error


def _find_sexes(
    sources: Sources, sexes: Mapping[str, str] | None, speakers: Sequence[str]
) -> dict[str, str]:
    """Sexes of the speakers that are there."""
    if sexes is None:
        table = None if sources.kaldi_folder is None else sources.kaldi_folder / SPK2GENDER
        if table is None or not table.is_file():
            return {}
        known = parse_sexes(dict(kaldi.read_table(table)), str(table))
    else:
        known = parse_sexes(sexes)
        if known and not known.keys() & set(speakers):
            raise ConfigError(
                f"sexes: none of the speakers here ({', '.join(map(repr, speakers[:_SHOWN]))}, "
                f"{len(speakers)} in all) is among those whose sex is given, such as "
                f"{next(iter(known))!r}; use the same names."
            )
    return {speaker: known[speaker] for speaker in speakers if speaker in known}


def _usable(speaker: str, items: Sequence[Item], anon: Anonymizer) -> Sequence[Item]:
    """The recordings of a speaker that can be read; warns of the others."""
    usable = []
    faults = []
    for item in items:
        try:
            opened = open_audio(_open(item), None, anon.sample_rate)
            Source(opened.samples, opened.rate, mix=True)
        except AudioError as error:
            faults.append(f"{item.key}: {error}")
        else:
            usable.append(item)
    if not usable:
        raise ConfigError(
            f"pool: speaker {speaker!r} has no recording that can be used ({len(items)} cannot, "
            f"such as {faults[0]}). Replace them, or leave the speaker out."
        )
    for fault in faults:
        warnings.warn(f"left out of speaker {speaker!r}: {fault}", AudioWarning, stacklevel=3)
    return usable


def _open(item: Item) -> Path | dict[str, Any]:
    """A whole file as its path, a segment of a file as its samples.

    Raises:
        AudioError: The corpus names no file, or the segment cannot be read.
    """
    if item.source is None:
        raise AudioError(str(item.problem))
    if item.segment is None:
        return item.source
    samples, rate = io.read(item.source, cut_frames(item, io.read_facts(item.source)))
    return {"array": samples, "sampling_rate": rate}


def _describe(src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> str:
    """Name of a folder or list, without the path to it, which is nobody's business."""
    if isinstance(src, (str, os.PathLike)):
        return Path(os.path.abspath(src)).name
    return f"a list of {len(src)} recordings"
