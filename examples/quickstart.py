"""One array in, one array out, and the report of what was done.

Run: python examples/quickstart.py
"""

import numpy as np

from voiceanon import load

RATE = 44_100
"""Any rate from 4 to 384 kHz will do; the result has the same one."""


def vowel(pitch: float, seconds: float) -> np.ndarray:
    """A crude vowel: harmonics of ``pitch`` (Hz), strong near the resonances of an "ah"."""
    time = np.arange(int(seconds * RATE)) / RATE
    harmonics = pitch * np.arange(1, int(4000 / pitch))
    gains = sum(np.exp(-(((harmonics - formant) / 150) ** 2)) for formant in (700, 1200, 2600))
    return 0.1 * (gains * np.sin(2 * np.pi * np.outer(time, harmonics))).sum(axis=1)


def main() -> None:
    """Anonymizes a vowel of 2 s and prints the facts."""
    anon = load("b2")
    wav = vowel(pitch=120, seconds=2)
    result, report = anon.anonymize(
        wav, sample_rate=RATE, seed=7, key="vowel-1", return_report=True
    )
    again = anon.anonymize(wav, sample_rate=RATE, seed=7, key="vowel-1")
    print(f"system      {report.system} on {report.device}")
    print(f"in          {wav.shape} {wav.dtype} at {RATE} Hz")
    print(f"out         {result.shape} {result.dtype} at {report.sample_rate} Hz")
    print(f"voice       alpha = {report.target['alpha']:.4f}")
    print(f"level step  {report.gain_db:+.1f} dB")
    print(f"same seed and key, same samples: {np.array_equal(result, again)}")


if __name__ == "__main__":
    main()
