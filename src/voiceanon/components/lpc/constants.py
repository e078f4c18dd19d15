"""Numbers that both backends share."""

TINY = 2.2250738585072014e-308
"""Smallest normal float64; keeps 0/0 at 0."""

EXHAUSTED = 1e-12
"""Share of a frame's energy below which its residual is rounding noise, and Burg's recursion ends:
from there on reflections would exceed 1 and the filters blow up. Digital silence and noiseless
tones get there; of 300 recorded files none came below 5e-8."""

MAX_ITERATIONS = 60
"""Bound of the Ehrlich-Aberth iteration; speech needs 5 to 16."""

TOLERANCE = 1e-8
"""Relative step at which a root is final: convergence is cubic, so the next would be rounding."""

REAL_TOLERANCE = 1e-8
"""A root whose imaginary part is below this share of its magnitude is real. A pair nearer to the
axis is a double root to within what float64 resolves."""

START_ANGLE = 0.7
"""Turns the ring of starting points (radians), so that it is not symmetric to the real axis:
a conjugate pair could never part into two real roots."""

START_RADIUS_MIN = 1e-3
"""Least radius of that ring."""
