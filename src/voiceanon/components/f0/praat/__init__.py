"""F0 as Praat's "To Pitch (ac)" finds it, for batches on any device.

In the order of the steps: `frames` (windows), `correlation` (normalised autocorrelation),
`candidates` (its maxima, refined by `maximum`), `path` (dynamic programming). `tracker` puts them
together; `settings` holds the numbers.

Sources: specification sheet of B3, section 9; Boersma, "Accurate short-term analysis of the
fundamental frequency and the harmonics-to-noise ratio of a sampled sound", IFA Proceedings 17,
1993.
"""

from voiceanon.components.f0.praat.tracker import praat_f0

__all__ = ["praat_f0"]
