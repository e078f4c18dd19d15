"""``voiceanon demo``: the first result, without weights, data or network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from voiceanon.cli.console import say
from voiceanon.errors import MissingDependencyError

SAMPLE_RATE = 16_000
SECONDS = 3.0
F0_HZ = (105.0, 165.0)
"""Lowest and highest pitch; it goes up and down once."""

VOWELS_HZ = (
    (730.0, 1090.0, 2440.0, 3500.0, 4500.0, 5500.0),
    (270.0, 2290.0, 3010.0, 3500.0, 4500.0, 5500.0),
    (300.0, 870.0, 2240.0, 3500.0, 4500.0, 5500.0),
)
"""Formants of a, i and u: Peterson and Barney (1952), men; from the fourth on a neutral tube's."""

BANDWIDTHS_HZ = (80.0, 90.0, 120.0, 175.0, 250.0, 350.0)
PEAK = 0.5
FADE_SECONDS = 0.03
FLOOR_DB = -120.0
_FFT = 512
_OVERLAP = 384


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("demo"),
    seed: Annotated[int | None, typer.Option("--seed", help="Makes the voice repeatable.")] = None,
) -> None:
    """Anonymize a synthetic vowel with b2 and draw both."""
    figure_class = _import_figure()
    from voiceanon import load
    from voiceanon.audio import io
    from voiceanon.files import replacing

    original = make_vowels()
    anonymized, report = load("b2", device="cpu").anonymize(
        original, SAMPLE_RATE, seed=seed, return_report=True
    )
    io.write(out / "original.wav", original, SAMPLE_RATE)
    io.write(out / "anonymized.wav", anonymized, SAMPLE_RATE)
    figure = _draw(figure_class, {"original": original, "anonymized": anonymized})
    with replacing(out / "spectrogram.png") as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    say(f"{out}: original.wav, anonymized.wav, spectrogram.png; voice {dict(report.target)}")


def make_vowels() -> npt.NDArray[np.float32]:
    """Synthesizes one voice that glides through a, i and u.

    Returns:
        float32 ``(T,)`` at 16 kHz, peak 0.5.
    """
    samples = int(SECONDS * SAMPLE_RATE)
    position = np.linspace(0.0, 1.0, samples)
    lowest, highest = F0_HZ
    f0 = lowest + (highest - lowest) * np.sin(np.pi * position) ** 2
    phase = 2 * np.pi * np.cumsum(f0) / SAMPLE_RATE
    stops = np.linspace(0.0, 1.0, len(VOWELS_HZ))
    formants = [np.interp(position, stops, each) for each in zip(*VOWELS_HZ, strict=True)]
    wave = np.zeros(samples)
    for harmonic in range(1, int(SAMPLE_RATE / 2 / lowest)):
        frequency = harmonic * f0
        # Pulses of a glottis fall by 12 dB per octave; the lips give 6 dB back.
        partial = np.exp(1j * harmonic * phase) * (frequency < SAMPLE_RATE / 2) / harmonic
        for formant, bandwidth in zip(formants, BANDWIDTHS_HZ, strict=True):
            partial *= formant**2 / (formant**2 - frequency**2 + 1j * bandwidth * frequency)
        wave += partial.imag
    wave *= np.minimum(1.0, np.minimum(position, 1 - position) * SECONDS / FADE_SECONDS)
    return np.asarray(PEAK * wave / np.abs(wave).max(), dtype=np.float32)


def _import_figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "demo: matplotlib, which draws the spectrogram, is not installed; "
            "run pip install 'voiceanon[demo]'."
        ) from error
    return Figure


def _draw(figure_class: Any, waves: dict[str, Any]) -> Any:
    figure = figure_class(figsize=(9, 6), layout="constrained")
    axes = figure.subplots(len(waves), 1, sharex=True)
    for axis, (name, wave) in zip(axes, waves.items(), strict=True):
        axis.specgram(
            wave, NFFT=_FFT, Fs=SAMPLE_RATE, noverlap=_FFT * 3 // 4, scale="dB", vmin=-160
        )
        axis.set(title=name, ylabel="frequency / Hz")
    axes[-1].set_xlabel("time / s")
    return figure
