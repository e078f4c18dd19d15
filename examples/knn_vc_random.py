"""kNN-VC without its weights: small networks of seeded noise and a pool of two synthetic voices.

It shows how a pool is made and used. What it gives is NOISE: it protects nobody. With the published
weights, `load("t8-2", pool="pool.safetensors")` is all there is to it.

Run: python examples/knn_vc_random.py
"""

import numpy as np

from voiceanon import load
from voiceanon.components.content.wavlm_config import WavLMConfig
from voiceanon.components.vocoder.hifigan import HiFiGanConfig

RATE = 16_000

# The official networks have 1024 features per frame; 32 make this quick.
ENCODER = WavLMConfig(conv_channels=32, width=32, heads=4, ffn_width=64, pos_groups=4)
VOCODER = HiFiGanConfig(
    input_width=32,
    linear_width=16,
    first_width=32,
    strides=(10, 8, 2, 2),
    kernels=(20, 16, 4, 4),
    residual_kernels=(3,),
    residual_dilations=(1,),
)


def voice(pitch: float, seconds: float) -> np.ndarray:
    """A buzz of ``pitch`` (Hz) that swells three times a second, in place of speech."""
    time = np.arange(int(seconds * RATE)) / RATE
    harmonics = pitch * np.arange(1, int(4000 / pitch))
    buzz = np.sin(2 * np.pi * np.outer(time, harmonics)).mean(axis=1)
    return (buzz * np.sin(3 * np.pi * time) ** 2).astype("float32")


def main() -> None:
    """Makes the pool, anonymizes one recording twice, and prints the facts."""
    anon = load("t8-2", weights="random", encoder=ENCODER, vocoder=VOCODER)
    targets = {"low": [voice(100, 2), voice(110, 1)], "high": [voice(220, 2)]}
    pool = anon.make_pool(targets, sexes={"low": "m", "high": "f"})
    anon.use_pool(pool)
    for name in pool.names:
        print(f"target {name}: {len(pool.features[name])} frames of {pool.width} features")

    wav = voice(150, seconds=1)
    result, report = anon.anonymize(wav, seed=7, key="utt-1", return_report=True)
    again = anon.anonymize(wav, target="high")
    print(f"drawn: {report.target['speaker']}; pool {report.weights['pool']}")
    print(f"in {wav.shape}, out {result.shape}, named target {again.shape}")
    print(f"the last {len(result) - int(np.flatnonzero(result)[-1]) - 1} samples are zeros")
    print("this is noise:", report.weights["WavLM-Large.pt"])


if __name__ == "__main__":
    main()
