"""The hn-sinc-NSF generator of B1: a neural source-filter vocoder, for batches on any device.

One idea per file, in the order of the signal: `condition` (recurrent network, context and cut-off)
with `smoothing`, `source` with its `noise`, `filter_blocks`, `sinc_filters`; `generator` puts them
together. It has nothing of HiFi-GAN: B1's training only took over its discriminators.

Sources: specification sheet of B1, sections 0 and 11, where also the published file's entries are;
Wang, Takaki and Yamagishi, "Neural source-filter waveform models for statistical parametric speech
synthesis", IEEE/ACM TASLP 28, 2020; Wang and Yamagishi, "Neural harmonic-plus-noise waveform model
with trainable maximum voice frequency for text-to-speech synthesis", SSW 2019.
"""

from voiceanon.components.vocoder.hn_sinc_nsf.config import HnSincNsfConfig
from voiceanon.components.vocoder.hn_sinc_nsf.generator import HnSincNsf
from voiceanon.components.vocoder.hn_sinc_nsf.noise import NsfNoise, draw_noise

__all__ = ["HnSincNsf", "HnSincNsfConfig", "NsfNoise", "draw_noise"]
