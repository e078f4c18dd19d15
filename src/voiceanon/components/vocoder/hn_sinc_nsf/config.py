"""Sizes and published constants of the generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from voiceanon.errors import WeightsError

RATE = 16_000
"""Samples per second."""

CHANNELS = 64
"""Width of the context and of the filter blocks."""

MOST_CONVOLUTIONS = 12
"""Of a block in a file; the published ones have 10. Each looks back twice as far as the one before,
so that a few more would take all memory."""


@dataclass(frozen=True, kw_only=True)
class HnSincNsfConfig:
    """Sizes; the defaults are those of B1 (specification sheet of B1, sections 1.2, 11 and 13).

    Attributes:
        input_width: Features per frame, with the speaker's vector and F0: 256 + 512 + 1 in B1, with
            other x-vectors 256 + 256 + 1, behind the acoustic model of B1.a 80 + 512 + 1.
        hop_samples: Samples per frame.
        harmonics: Sines of the source.
        harmonic_blocks: Filter blocks, one behind the other, of the harmonic branch; the noise
            branch has one.
        harmonic_convolutions: Convolutions of each of those blocks; dilations are 1, 2, 4, ...
        noise_convolutions: The same of the block of the noise branch.
        noise_scale: Factor behind the convolutions of the noise branch where no file sets it: 0.2,
            in B1.a 0.1.
    """

    input_width: int = 769
    hop_samples: int = 160
    harmonics: int = 8
    harmonic_blocks: int = 5
    harmonic_convolutions: int = 10
    noise_convolutions: int = 5
    noise_scale: float = 0.2

    @classmethod
    def from_entries(cls, entries: Mapping[str, Tensor]) -> HnSincNsfConfig:
        """Reads the sizes off a state dict with the published names.

        Raises:
            WeightsError: It lacks the entries that tell them, or they are of another kind.
        """
        names = (
            "input_mean",
            "m_cond.l_upsamp.l_ave1.weight",
            "m_source.l_linear.weight",
            f"{_HARMONIC}0.l_convs.0.weight",
            f"{_NOISE}0.l_convs.0.weight",
        )
        missing = [name for name in names if name not in entries]
        if missing:
            raise WeightsError(
                f"hn-sinc-NSF: the weights have no entry {missing[0]!r}; a file of this generator, "
                "such as trained_network_G.pt, has it. Check that it is not another network's."
            )
        width, average, linear = (entries[name] for name in names[:3])
        for name, entry, sizes in zip(names, (width, average, linear), (1, 3, 2), strict=False):
            if entry.ndim != sizes or 0 in entry.shape:
                raise WeightsError(
                    f"hn-sinc-NSF: the entry {name!r} has the shape {tuple(entry.shape)}; {sizes} "
                    "sizes above 0 are due. Check that it is not another network's."
                )
        convolutions = [_count(entries, f"{branch}0.l_convs.") for branch in (_HARMONIC, _NOISE)]
        if max(convolutions) > MOST_CONVOLUTIONS:
            raise WeightsError(
                f"hn-sinc-NSF: {max(convolutions)} convolutions in a block; {MOST_CONVOLUTIONS} "
                "are the most. Check that it is not another network's."
            )
        return cls(
            input_width=width.shape[0],
            hop_samples=average.shape[-1],
            harmonics=linear.shape[-1],
            harmonic_blocks=_count(entries, _HARMONIC),
            harmonic_convolutions=convolutions[0],
            noise_convolutions=convolutions[1],
        )


_HARMONIC, _NOISE = "m_filter.l_har_blocks.", "m_filter.l_noi_blocks."


def _count(entries: Mapping[str, Tensor], prefix: str) -> int:
    """Layers whose numbers stand behind the prefix in names of entries."""
    ends = (name.removeprefix(prefix) for name in entries if name.startswith(prefix))
    return len({end.split(".")[0] for end in ends})
