"""YAAPT as SA-toolkit has it, for batches on any device.

One stage per file, in their order: `signals` (band-pass), `energy` (voicing flag), `harmonics` and
`peaks` (candidates of the spectrum), `spectral_track`, `correlation` (candidates of the normalised
cross-correlation), `merge`, `viterbi` (dynamic programming, also of the spectral track). `tracker`
puts them together.

Sources: SA-toolkit, `satools/hifigan/yaapt.py`, commit 22c298e (specification sheet of B5 and B6,
section 6); Zahorian and Hu, "A spectral/temporal method for robust fundamental frequency tracking",
J. Acoust. Soc. Am. 123(6), 2008, of which it departs in several places.
"""

from voiceanon.components.f0.yaapt.constants import HOP_SAMPLES
from voiceanon.components.f0.yaapt.tracker import Yaapt

__all__ = ["HOP_SAMPLES", "Yaapt"]
