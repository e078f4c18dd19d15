"""Settings of the tracker, and the sizes that follow from them.

Sources: specification sheet of B3, section 9; Boersma, "Accurate short-term analysis of the
fundamental frequency and the harmonics-to-noise ratio of a sampled sound", IFA Proceedings 17,
1993. Numbers without another source are the defaults of Praat's "To Pitch (ac)".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from voiceanon.errors import ConfigError

PERIODS = 3
"""Longest periods in a window."""

SILENCE = 0.03
"""Peak of a frame, as a share of the recording's, below which it tends to count as silent."""

VOICING = 0.45
"""Strength of the unvoiced candidate of a loud frame."""

OCTAVE_COST = 0.01
"""What an octave downwards takes off a candidate's strength."""

OCTAVE_JUMP_COST = 0.35
"""Of a change of F0 by an octave between frames 10 ms apart."""

VOICING_CHANGE_COST = 0.14
"""Of a change between voiced and unvoiced between frames 10 ms apart."""

COST_SECONDS = 0.01
"""Time between frames for which costs of changes are given."""

CANDIDATES = 15
"""At least so many per frame, the unvoiced one included."""

HIGHEST_SHARE = 0.3
"""Largest ceiling as a share of the rate: above it, maxima are refined in another way."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes in samples, unless they say otherwise; the example is 16 kHz with a floor of 40 Hz.

    Attributes:
        rate: Samples per second.
        step: Seconds between frames.
        floor: Hz; the lowest F0 that is looked for.
        ceiling: Hz; above it, a frame counts as unvoiced.
    """

    rate: int
    step: float
    floor: float
    ceiling: float

    def __post_init__(self) -> None:
        """Checks the settings."""
        if not 0 < self.floor < self.ceiling <= HIGHEST_SHARE * self.rate:
            raise ConfigError(
                f"floor, ceiling: {self.floor}, {self.ceiling} Hz at {self.rate} Hz; they have to "
                f"be positive, in this order, and at most {HIGHEST_SHARE} of the rate."
            )
        if not (math.isfinite(self.step) and self.step > 0):
            raise ConfigError(f"step: {self.step}; a positive number of seconds is due.")

    @property
    def sample_seconds(self) -> float:
        """Seconds from sample to sample."""
        return 1 / self.rate

    @property
    def window_seconds(self) -> float:
        """Seconds that a frame needs: 0.075."""
        return PERIODS / self.floor

    @property
    def half_window(self) -> int:
        """Half of the samples of a frame, and the largest lag that is computed: 599."""
        return math.floor(self.window_seconds / self.sample_seconds) // 2 - 1

    @property
    def window(self) -> int:
        """Samples of a frame: 1198."""
        return 2 * self.half_window

    @property
    def longest_period(self) -> int:
        """The mean of as many samples on either side is taken off a frame: 400."""
        return math.floor(1 / self.sample_seconds / self.floor)

    @property
    def half_period(self) -> int:
        """A frame's peak is looked for in as many samples on either side: 201."""
        return self.longest_period // 2 + 1

    @property
    def end_lag(self) -> int:
        """Lag behind the last at which a maximum counts: 401."""
        return self.window // PERIODS + 2

    @property
    def fft_size(self) -> int:
        """Points of the Fourier transform: 2048, the power of two from 1.5 frames on."""
        return 1 << (math.ceil(1.5 * self.window) - 1).bit_length()

    @property
    def voiced_candidates(self) -> int:
        """The most that a frame has: 14."""
        return max(CANDIDATES, math.floor(self.ceiling / self.floor)) - 1
