"""Guards against words that nobody said.

Recognisers write something on noise and silence, too: a spurious word, a phrase of their training
data, or a loop. An anonymizer would speak it. A list of such phrases would delete real speech, so
that these guards look at amounts only. Source: specification sheet of the family, section 2; the
lower limit of the rate is ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from voiceanon.components.asr.activity import (
    FRAME_SECONDS,
    ActivityConfig,
    active_frames,
)
from voiceanon.components.asr.protocol import Recognizer, Segment, Transcript

LONGEST_PHRASE = 4
"""Words of the longest phrase whose repetitions are counted (specification sheet)."""

SLOW_FROM_SECONDS = 2.0
"""Active sound from which on few words are suspicious; a short cry may well be one word."""


@dataclass(frozen=True, kw_only=True)
class GuardConfig:
    """Limits; see the module.

    Attributes:
        activity: When sound counts as active.
        min_speech_seconds: Least active sound in a recording; with less, nothing is recognised.
        max_repeated_share: Most of the words that one phrase may take up ...
        min_repeats: ... if it occurs at least so often.
        max_words_per_second: Of active sound in the whole recording.
        min_words_per_second: Of active sound within a segment with 2 s of it or more. 243
            utterances of read speech, by adults and by children, had 1.34 and more; what
            pocketsphinx wrote on two recordings of noise, 0.36 and 0.62.
    """

    activity: ActivityConfig = field(default_factory=ActivityConfig)
    min_speech_seconds: float = 0.2
    max_repeated_share: float = 0.5
    min_repeats: int = 4
    max_words_per_second: float = 7.0
    min_words_per_second: float = 0.75


def transcribe_guarded(
    recognizer: Recognizer,
    batch: Tensor,
    lengths: Tensor,
    generators: Sequence[torch.Generator],
    config: GuardConfig,
) -> list[Transcript]:
    """Writes down recordings and throws away what the guards reject.

    Args:
        recognizer: At `activity.SAMPLE_RATE`.
        batch: As for `Recognizer.transcribe`.
        lengths: As for `Recognizer.transcribe`.
        generators: As for `Recognizer.transcribe`.
        config: Limits.

    Returns:
        A transcript per recording. Segments begin and end with active sound.
    """
    # Words and times are handled on the host: the one copy that this step needs.
    active = active_frames(batch, lengths, config.activity).cpu()
    loud = (active.sum(1) * FRAME_SECONDS >= config.min_speech_seconds).nonzero()[:, 0].tolist()
    transcripts = [Transcript(rejected=("too little sound",)) for _ in generators]
    if loud:
        rows = torch.tensor(loud, dtype=torch.int64, device=batch.device)
        heard = recognizer.transcribe(batch[rows], lengths[rows], [generators[i] for i in loud])
        for index, transcript in zip(loud, heard, strict=True):
            transcripts[index] = check(transcript, active[index], config)
    return transcripts


def check(transcript: Transcript, active: Tensor, config: GuardConfig) -> Transcript:
    """Applies the guards that need words.

    Args:
        transcript: Of one recording.
        active: Its active frames, bool ``(N,)`` on the CPU.
        config: Limits.

    Returns:
        The segments that pass, cut to the active sound within them.
    """
    rejected = list(transcript.rejected)
    kept = []
    for segment in transcript.segments:
        reason = _segment_fault(segment, active, config)
        if reason:
            rejected.append(reason)
        else:
            kept.append(_trimmed(segment, active))
    checked = replace(transcript, segments=tuple(kept), rejected=tuple(rejected))
    reason = _text_fault(checked.text, config) or _too_fast(checked, active, config)
    if reason:
        checked = replace(checked, segments=(), rejected=(*rejected, reason))
    return checked


def is_repetitive(text: str, config: GuardConfig) -> bool:
    """Whether one phrase of up to `LONGEST_PHRASE` words takes up too much of a text."""
    words = re.findall(r"[\w']+", text.lower())
    for size in range(1, LONGEST_PHRASE + 1):
        phrases = Counter(tuple(words[i : i + size]) for i in range(len(words) - size + 1))
        for phrase, _ in phrases.most_common(1):
            count = _count_apart(words, phrase)
            if count >= config.min_repeats and count * size > config.max_repeated_share * len(
                words
            ):
                return True
    return False


def _count_apart(words: list[str], phrase: tuple[str, ...]) -> int:
    """Occurrences that do not overlap."""
    count = place = 0
    while place <= len(words) - len(phrase):
        found = tuple(words[place : place + len(phrase)]) == phrase
        count += found
        place += len(phrase) if found else 1
    return count


def _text_fault(text: str, config: GuardConfig) -> str:
    return "one phrase again and again" if is_repetitive(text, config) else ""


def _segment_fault(segment: Segment, active: Tensor, config: GuardConfig) -> str:
    seconds = float(_within(segment, active).sum()) * FRAME_SECONDS
    words = len(segment.text.split())
    if seconds == 0:
        return "words without sound"
    if seconds >= SLOW_FROM_SECONDS and words < config.min_words_per_second * seconds:
        return f"{words} words in {seconds:.1f} s of sound"
    return _text_fault(segment.text, config)


def _too_fast(transcript: Transcript, active: Tensor, config: GuardConfig) -> str:
    seconds = float(active.sum()) * FRAME_SECONDS
    words = len(transcript.text.split())
    if words > config.max_words_per_second * seconds:
        return f"{words} words in {seconds:.1f} s of sound"
    return ""


def _within(segment: Segment, active: Tensor) -> Tensor:
    first, end = int(segment.start / FRAME_SECONDS), -int(-segment.end // FRAME_SECONDS)
    return active[first:end]


def _trimmed(segment: Segment, active: Tensor) -> Segment:
    """The segment from its first active frame to its last."""
    places = _within(segment, active).nonzero()[:, 0]
    first = int(segment.start / FRAME_SECONDS)
    start = (first + int(places[0])) * FRAME_SECONDS
    end = (first + int(places[-1]) + 1) * FRAME_SECONDS
    return replace(segment, start=max(segment.start, start), end=max(segment.start, end))
