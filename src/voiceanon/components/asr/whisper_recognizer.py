"""Whisper as a recogniser: windows along long recordings, checks, segments.

A recording of up to one window (30 s) is padded with silence. A longer one is walked through: each
window begins where the words of the last one ended, as the predicted times tell. Windows of
different recordings share batches.

Sources: `transcribe` of the original code and transformers' `generate` (walk, checks, thresholds);
specification sheet of the family, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from voiceanon.components.asr.log_mel import LogMel
from voiceanon.components.asr.protocol import Segment, Transcript
from voiceanon.components.asr.vocabulary import Vocabulary
from voiceanon.components.asr.whisper import Whisper
from voiceanon.components.asr.whisper_config import (
    FRAMES_PER_POSITION,
    HOP_SAMPLES,
    SAMPLE_RATE,
    WhisperConfig,
)
from voiceanon.components.asr.whisper_decoding import (
    TokenRules,
    compression_ratio,
    write,
)

WINDOWS_AT_ONCE = 16
"""Windows in one batch: what the decoder keeps of 16 takes 4.7 GB with medium.en in float32."""

WINDOWS_ON_CPU = 4
"""The same on a CPU, where batches help the decoder, which reads all weights for each token."""

_POSITION_SECONDS = FRAMES_PER_POSITION * HOP_SAMPLES / SAMPLE_RATE


@dataclass(frozen=True, kw_only=True)
class WhisperChecks:
    """When the words of a window are thrown away.

    Attributes:
        temperatures: A window that fails is written again at the next one; 0 is greedy. What fails
            at the last one is thrown away.
        compression_ratio: Largest; see `whisper_decoding.compression_ratio`.
        log_probability: Least mean of the tokens' natural logarithms.
        no_speech: Probability of no speech above which a window with less than that is skipped
            without another try.
    """

    temperatures: tuple[float, ...] = (0.0,)
    compression_ratio: float = 1.35
    log_probability: float = -1.0
    no_speech: float = 0.6


@dataclass
class _Walk:
    """One recording on its way.

    Attributes:
        row: Its place in the batch.
        frames: Mel frames that it has.
        seek: First frame of the next window.
        pieces: Start and end in seconds and the tokens of each segment so far.
        rejected: Why windows were thrown away.
    """

    row: int
    frames: int
    seek: int = 0
    pieces: list[tuple[float, float, list[int]]] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)


class WhisperRecognizer(nn.Module):
    """Recogniser for English; see `protocol.Recognizer`.

    Attributes:
        sample_rate: Rate that it takes, in Hz.
        checks: When the words of a window are thrown away.
    """

    sample_rate = SAMPLE_RATE

    def __init__(
        self, network: Whisper, vocabulary: Vocabulary, checks: WhisperChecks | None = None
    ) -> None:
        """Puts the parts together.

        Args:
            network: Encoder and decoder.
            vocabulary: Its tokens.
            checks: The suggested ones if left out.
        """
        super().__init__()
        self.network = network
        self.vocabulary = vocabulary
        self.checks = checks or WhisperChecks()
        self.log_mel = LogMel(network.config.mel_bins)
        self.rules = TokenRules(network.config)

    @property
    def config(self) -> WhisperConfig:
        """Sizes and special tokens."""
        return self.network.config

    def transcribe(
        self, batch: Tensor, lengths: Tensor, generators: Sequence[torch.Generator]
    ) -> list[Transcript]:
        """Writes down recordings; see `protocol.Recognizer.transcribe`.

        Draws nothing at temperature 0. Above, each window draws as many numbers as it may have
        tokens.
        """
        features = self.log_mel(batch, lengths, self.config.window_samples)
        frames = (lengths // HOP_SAMPLES).tolist()
        walks = [_Walk(row, count) for row, count in enumerate(frames)]
        size = WINDOWS_ON_CPU if batch.device.type == "cpu" else WINDOWS_AT_ONCE
        while ahead := [walk for walk in walks if walk.seek < walk.frames]:
            for first in range(0, len(ahead), size):
                self._step(ahead[first : first + size], features, generators)
        return self._transcripts(walks)

    def _step(
        self, walks: list[_Walk], features: Tensor, generators: Sequence[torch.Generator]
    ) -> None:
        """Writes one window of each walk, again at the next temperature where a check fails."""
        encoded = self.network.encoder(self._windows(walks, features))
        rows = list(range(len(walks)))
        for attempt, temperature in enumerate(self.checks.temperatures):
            chosen = torch.tensor(rows, dtype=torch.int64, device=encoded.device)
            chances = None
            if temperature > 0:
                drawn = [self._chances(generators[walks[row].row]) for row in rows]
                chances = torch.stack(drawn).to(encoded.device)
            written = write(
                self.network,
                self.rules,
                encoded[chosen],
                temperature=temperature,
                chances=chances,
            )
            failed = []
            for row, tokens, count, mean, no_speech in zip(
                rows,
                written.tokens.tolist(),
                written.counts.tolist(),
                written.log_probability.tolist(),
                written.no_speech.tolist(),
                strict=True,
            ):
                fault, final = self._fault(tokens, count, mean, no_speech)
                if not fault:
                    self._advance(walks[row], tokens[:count])
                elif final or attempt + 1 == len(self.checks.temperatures):
                    walks[row].rejected.append(fault)
                    walks[row].seek += self.config.window_frames
                else:
                    failed.append(row)
            rows = failed
            if not rows:
                break

    def _chances(self, generator: torch.Generator) -> Tensor:
        return torch.rand(self.config.most_tokens, generator=generator, dtype=torch.float32)

    def _windows(self, walks: list[_Walk], features: Tensor) -> Tensor:
        """Cuts out the windows, ``(B, mel_bins, window_frames)``."""
        size = self.config.window_frames
        device = features.device
        rows = torch.tensor([walk.row for walk in walks], device=device)[:, None, None]
        seeks = torch.tensor([walk.seek for walk in walks], device=device)[:, None, None]
        ends = torch.tensor([walk.frames for walk in walks], device=device)[:, None, None]
        places = seeks + torch.arange(size, device=device)
        bands = torch.arange(features.shape[1], device=device)[:, None]
        windows = features[rows, bands, places.clamp_max(features.shape[2] - 1)]
        # Behind a long recording the published programs have the value 0, which is no silence.
        return windows.masked_fill((places >= ends) & (ends > size), 0.0)

    def _fault(
        self, tokens: list[int], count: int, log_probability: float, no_speech: float
    ) -> tuple[str, bool]:
        """What is wrong with a window's words, and whether there is no use in another try."""
        checks = self.checks
        with_end = tokens[: count + 1]
        ratio = compression_ratio(with_end, self.config.vocabulary)
        unlikely = log_probability < checks.log_probability
        if unlikely and no_speech > checks.no_speech:
            return f"no speech (probability {no_speech:.2f})", True
        if unlikely:
            return f"unlikely words (mean log probability {log_probability:.2f})", False
        if ratio > checks.compression_ratio:
            return f"repetitions (compression ratio {ratio:.2f})", False
        return "", False

    def _advance(self, walk: _Walk, tokens: list[int]) -> None:
        """Takes the segments of a window and moves on to the next."""
        pieces, moved = cut_segments(tokens, self.config, walk.frames - walk.seek)
        offset = walk.seek * HOP_SAMPLES / SAMPLE_RATE
        walk.pieces += [(offset + start, offset + end, words) for start, end, words in pieces]
        walk.seek += moved

    def _transcripts(self, walks: list[_Walk]) -> list[Transcript]:
        texts = iter(self.vocabulary.decode([p[2] for walk in walks for p in walk.pieces]))
        transcripts = []
        for walk in walks:
            segments = []
            # Times can lie in the silence behind a recording.
            last = walk.frames * HOP_SAMPLES / SAMPLE_RATE
            for start, end, _ in walk.pieces:
                text = next(texts).strip()
                if text:
                    start, end = min(start, last), min(end, last)
                    segments.append(Segment(start=start, end=max(start, end), text=text))
            transcripts.append(Transcript(segments=tuple(segments), rejected=tuple(walk.rejected)))
        return transcripts


def cut_segments(
    tokens: list[int], config: WhisperConfig, frames: int
) -> tuple[list[tuple[float, float, list[int]]], int]:
    """Cuts the tokens of one window at the times between them.

    Args:
        tokens: Without ``end``.
        config: Special tokens.
        frames: Mel frames of the recording from the beginning of the window on.

    Returns:
        Start and end in seconds from the window's beginning and the text tokens of each segment;
        and by how many frames to move on.
    """
    size = min(frames, config.window_frames)
    is_time = [token >= config.first_time for token in tokens]
    cuts = [i + 1 for i in range(len(tokens) - 1) if is_time[i] and is_time[i + 1]]
    closed = is_time[-2:] == [False, True]
    if not cuts:
        times = [token for token in tokens if token > config.first_time]
        end = _seconds(times[-1], config) if times else size * HOP_SAMPLES / SAMPLE_RATE
        return [(0.0, end, _words(tokens, config))], size
    if closed:
        cuts.append(len(tokens))
    pieces = [
        (
            _seconds(tokens[first], config),
            _seconds(tokens[last - 1], config),
            _words(tokens[first:last], config),
        )
        for first, last in zip([0, *cuts], cuts, strict=False)
    ]
    if closed:
        return pieces, size
    # Words behind the last pair of times are cut off by the window's end: they come again.
    return pieces, (tokens[cuts[-1] - 1] - config.first_time) * FRAMES_PER_POSITION


def _seconds(time: int, config: WhisperConfig) -> float:
    return (time - config.first_time) * _POSITION_SECONDS


def _words(tokens: list[int], config: WhisperConfig) -> list[int]:
    return [token for token in tokens if token < config.end]
