"""Content codes and F0 of B6 without its weights: small networks of seeded noise.

It shows the parts of a system, which can be used alone. With the published weights,
`load("b6").components` is all there is to it; the codes here mean nothing. F0 needs no weights: the
one that is printed is right.

Run: python examples/content_and_f0.py
"""

import numpy as np
import torch

from voiceanon import load
from voiceanon.components.content.bottleneck import BottleneckConfig
from voiceanon.components.f0.normalization import normalize_f0
from voiceanon.systems.vqbn_hifigan import vocoder_config

RATE = 16_000

# The official networks are wider; these are quick. 257 + 2: bottleneck, F0 and two speakers.
ENCODER = BottleneckConfig(front_end="fbank", hidden=64, inner=16)
VOCODER = vocoder_config(257 + 2, first_width=32)


def voice(pitch: float, seconds: float) -> torch.Tensor:
    """A buzz of ``pitch`` (Hz) between two gaps, in place of speech."""
    time = np.arange(int(seconds * RATE)) / RATE
    harmonics = pitch * np.arange(1, int(4000 / pitch))
    buzz = (np.sin(2 * np.pi * np.outer(time, harmonics)) / np.sqrt(harmonics)).sum(axis=1)
    sounding = (time > 0.2) & (time < seconds - 0.2)
    return torch.from_numpy((0.3 * buzz / np.abs(buzz).max() * sounding).astype("float32"))


def main() -> None:
    """Takes two recordings of different lengths apart and puts one together again."""
    anon = load(
        "b6", device="cpu", weights="random", encoder=ENCODER, vocoder=VOCODER, speakers=("a", "b")
    )
    waves = [voice(120, 1.0), voice(200, 1.5)]
    wav = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True)
    lengths = torch.tensor([len(each) for each in waves])

    with torch.inference_mode():
        content = anon.components.content(wav, lengths)
        hertz, frames = anon.components.f0(wav, lengths)
        print(f"vectors {tuple(content.vectors.shape)}, frames {content.lengths.tolist()}")
        print(f"codes of the first: {len(content.codes[0].unique())} different ones")
        for row, count in zip(hertz, frames.tolist(), strict=True):
            voiced = row[:count][row[:count] > 0]
            print(f"F0: {len(voiced)} of {count} frames voiced, median {voiced.median():.0f} Hz")

        f0 = normalize_f0(hertz, frames)[:, : content.vectors.shape[1], None]
        speaker = torch.tensor([0.0, 1.0]).expand(*f0.shape[:2], 2)
        features = torch.cat([content.vectors, f0, speaker], dim=2)
        _, counts = anon.components.vocoder(features, content.lengths)
    print(f"vocoder: {counts.tolist()} samples, for {lengths.tolist()}")


if __name__ == "__main__":
    main()
