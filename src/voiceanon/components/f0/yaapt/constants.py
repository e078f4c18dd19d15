"""Numbers that several stages share; all from section 6 of the specification sheet of B5 and B6.

B1 has the same, but for `HOP_SAMPLES` and `F0_MAX` (see `config`).
"""

RATE = 16_000
"""Samples per second."""

HOP_SAMPLES = 320
"""Samples between frames: 20 ms."""

FRAME_SAMPLES = 560
"""Samples of a frame: 35 ms. The spectral track takes frames of twice that."""

FFT_SIZE = 8192
"""Points of the Fourier transform of both kinds of frames."""

BIN_HZ = RATE / FFT_SIZE
"""Hz between bins: 1.953125."""

F0_MIN = 60.0
"""Hz; the lowest F0 that is looked for."""

F0_MAX = 400.0
"""Hz; the highest."""

MIN_FRAMES = 4
"""Frames that a recording needs: the spectral track copies its third and fourth frame."""
