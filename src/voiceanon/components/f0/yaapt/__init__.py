"""YAAPT as SA-toolkit and as AMFM_decompy have it, for batches on any device.

One stage per file, in their order: `signals` (band-pass), `energy` (voicing flag), `harmonics` and
`peaks` (candidates of the spectrum), `spectral_track`, `correlation` (candidates of the normalised
cross-correlation), `merge`, `viterbi` (dynamic programming, also of the spectral track). `tracker`
puts them together. Where the published algorithm and SA-toolkit's port of it have little in common,
the former stands in a file `stock_...`; `config` says which one a tracker is.

Sources: SA-toolkit, `satools/hifigan/yaapt.py`, commit 22c298e (specification sheet of B5 and B6,
section 6); Zahorian and Hu, "A spectral/temporal method for robust fundamental frequency tracking",
J. Acoust. Soc. Am. 123(6), 2008, of which it departs in several places; AMFM_decompy 1.0.8.1,
`pYAAPT.py`, MIT licence (specification sheet of B1, section 8).
"""

from voiceanon.components.f0.yaapt.config import AMFM_DECOMPY, SA_TOOLKIT, YaaptConfig
from voiceanon.components.f0.yaapt.constants import HOP_SAMPLES
from voiceanon.components.f0.yaapt.tracker import Yaapt

__all__ = ["AMFM_DECOMPY", "HOP_SAMPLES", "SA_TOOLKIT", "Yaapt", "YaaptConfig"]
