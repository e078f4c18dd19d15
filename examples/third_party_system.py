"""A complete system outside the package: class, registration, use.

It only tilts the spectrum, by an amount drawn per utterance. It is NOT private: it shows where the
parts of a system go.

Run: python examples/third_party_system.py
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from voiceanon import Anonymizer, SystemInfo, load, register


@dataclass(frozen=True)
class TiltConfig:
    """Settings: ``tilt_max`` is the largest tilt that is drawn, without unit."""

    tilt_max: float = 0.9


class Tilt(Anonymizer):
    """First-order filter ``y[n] = x[n] - tilt * x[n - 1]``."""

    Config = TiltConfig
    info = SystemInfo(id="example-tilt", summary="Spectral tilt; not private", sample_rate=16_000)

    def draw_target(self, generator, speaker):
        """Draws ``{"tilt": float}`` with one number."""
        return {"tilt": self.config.tilt_max * torch.rand((), generator=generator).item()}

    def convert(self, batch, lengths, targets, generators):
        """Filters ``(B, T)``. No sample looks ahead, so padding behind an item cannot reach it."""
        tilt = torch.tensor([target["tilt"] for target in targets], device=batch.device)
        return batch - tilt[:, None] * F.pad(batch, (1, -1)), lengths


register(Tilt)

if __name__ == "__main__":
    anon = load("example-tilt", tilt_max=0.5)
    wavs = [torch.randn(16_000) / 10, torch.randn(4_000) / 10]
    results, reports = anon.anonymize_batch(wavs, keys=["a", "b"], seed=7, return_reports=True)
    for wav, result, report in zip(wavs, results, reports, strict=True):
        alone = anon.anonymize(wav, key=report.key, seed=7)
        print(report.key, len(result), dict(report.target), torch.equal(result, alone))
