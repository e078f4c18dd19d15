"""A recording that is read piece by piece, and the place where the result is gathered.

Nothing here holds a converted copy of the whole recording, so that an hour costs little more
memory than a minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor

from voiceanon.audio.checks import all_finite, check_peak, describe_bad, to_float
from voiceanon.audio.level import LevelMeter
from voiceanon.audio.resample import resampled_length, resampling
from voiceanon.errors import AudioError

BLOCK_SAMPLES = 1 << 20
"""Samples per channel that are looked at in one piece."""


class Source:
    """One checked recording.

    Attributes:
        rate: Hz.
        channels: Number of channels, after mixing.
        samples: Per channel.
        device: Of the samples.
        level: Peak and RMS over all channels.
        silent: Channels that hold nothing but zeros.
    """

    def __init__(self, samples: Tensor, rate: int, *, mix: bool = False) -> None:
        """Checks a recording.

        Args:
            samples: ``(C, T)`` of any accepted type, see `checks.as_channels`.
            rate: Hz.
            mix: Average the channels into one.

        Raises:
            AudioError: Samples are not finite, or far above full scale.
        """
        self._samples = samples
        self._mix = mix and samples.shape[0] > 1
        self.rate = rate
        self.channels = 1 if self._mix else samples.shape[0]
        self.samples = samples.shape[1]
        self.device = samples.device
        self.level = LevelMeter()
        self._check()
        self.silent = tuple(c for c in range(self.channels) if self._is_silent(c))

    def read(self, channel: int, start: int, stop: int) -> Tensor:
        """Reads float32 ``(stop - start,)`` of one channel, full scale 1.0."""
        if self._mix:
            return to_float(self._samples[:, start:stop]).mean(dim=0)
        return to_float(self._samples[channel, start:stop])

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Borders of the pieces in which the recording is walked through."""
        for start in range(0, self.samples, BLOCK_SAMPLES):
            yield start, min(start + BLOCK_SAMPLES, self.samples)

    def _check(self) -> None:
        bad_count, first_bad = 0, (0, 0)
        for start, stop in self.blocks():
            block = to_float(self._samples[:, start:stop])
            if not all_finite(block):
                bad = (~torch.isfinite(block)).nonzero()
                if not bad_count:
                    channel, index = bad[bad[:, 1].argmin()].tolist()
                    first_bad = channel, start + index
                bad_count += len(bad)
            elif not bad_count:
                self._measure(block)
        if bad_count:
            raise AudioError(describe_bad(bad_count, *first_bad))

    def _measure(self, block: Tensor) -> None:
        # Mixing could hide that one channel is out of range.
        check_peak(float(block.abs().max()))
        self.level.add(block.mean(dim=0) if self._mix else block)

    def _is_silent(self, channel: int) -> bool:
        return not any(bool(self.read(channel, *span).any()) for span in self.blocks())


class TrackReader:
    """Reads one channel at the model's rate, from front to back.

    Attributes:
        samples: Length of the channel at the model's rate.
    """

    def __init__(self, source: Source, channel: int, model_rate: int) -> None:
        self._source = source
        self._channel = channel
        self._model_rate = model_rate
        self.samples = resampled_length(source.samples, source.rate, model_rate)
        self._resampling = resampling(source.rate, model_rate)
        self._consumed = 0
        self._buffer = torch.empty(0, dtype=torch.float32, device=source.device)
        self._buffer_start = 0

    def read(self, start: int, stop: int) -> Tensor:
        """Reads float32 ``(stop - start,)``; ``start`` must not go back between calls."""
        if self._source.rate == self._model_rate:
            return self._source.read(self._channel, start, stop)
        while self._buffer_start + len(self._buffer) < stop:
            end = min(self._consumed + BLOCK_SAMPLES, self._source.samples)
            block = self._source.read(self._channel, self._consumed, end)
            self._consumed = end
            fresh = self._resampling.push(block, last=end == self._source.samples)
            self._buffer = torch.cat([self._buffer, fresh])
        self._buffer = self._buffer[start - self._buffer_start :]
        self._buffer_start = start
        return self._buffer[: stop - start].clone()


class Sink:
    """Gathers the result, float32 ``(C, T)``, channel by channel and in order.

    Attributes:
        samples: Per channel, or ``None`` where only the system will tell.
    """

    def __init__(self, channels: int, samples: int | None, device: torch.device) -> None:
        """Reserves the result.

        Args:
            channels: Count.
            samples: Per channel, or ``None`` if only the system will tell.
            device: Of the result.
        """
        self.samples = samples
        self._whole = None if samples is None else _zeros(channels, samples, device)
        self._positions = [0] * channels
        self._pieces: list[deque[Tensor]] = [deque() for _ in range(channels)]
        self._device = device

    def append(self, channel: int, piece: Tensor) -> None:
        """Takes the next float32 ``(T,)`` of a channel."""
        piece = piece.to(self._device)
        start = self._positions[channel]
        self._positions[channel] += len(piece)
        if self._whole is None:
            self._pieces[channel].append(piece)
        else:
            self._whole[channel, start : start + len(piece)] = piece

    def finish(self, silent_samples: int, exact: int | None = None) -> Tensor:
        """The result.

        Args:
            silent_samples: Length where nothing was appended and lengths were left open.
            exact: Cut or fill with zeros to this length.
        """
        if self._whole is not None:
            return self._whole
        longest = exact or max(self._positions) or silent_samples
        whole = torch.empty(len(self._pieces), longest, dtype=torch.float32, device=self._device)
        for row, pieces in zip(whole, self._pieces, strict=True):
            start = 0
            # Each piece is freed as it is copied, so that there are never two results.
            while pieces and start < longest:
                piece = pieces.popleft()[: longest - start]
                row[start : start + len(piece)] = piece
                start += len(piece)
            row[start:] = 0
        return whole


def _zeros(channels: int, samples: int, device: torch.device) -> Tensor:
    return torch.zeros(channels, samples, dtype=torch.float32, device=device)
