"""Sizes of an i-vector extractor, and its entries from what the published files hold.

Source: specification sheet of the x-vector family, sections 6 and 15.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from voiceanon.errors import WeightsError


@dataclass(frozen=True, kw_only=True)
class IvectorConfig:
    """Sizes of an extractor; the defaults are the published ones (section 6).

    Attributes:
        inputs: Features of a frame, C.
        context: Frames on each side that are spliced (``splice_opts``).
        width: Features after the projection of spliced frames, D.
        gaussians: G.
        ivector: Values of an i-vector, S.
    """

    inputs: int = 40
    context: int = 3
    width: int = 40
    gaussians: int = 512
    ivector: int = 100

    @property
    def spliced(self) -> int:
        """Values of a frame with its neighbours."""
        return (2 * self.context + 1) * self.inputs

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the entries."""
        gaussians, width, size = self.gaussians, self.width, self.ivector
        return {
            "projection": (width, self.spliced + 1),
            "gconsts": (gaussians,),
            "means_invvars": (gaussians, width),
            "inv_vars": (gaussians, width),
            "linear_terms": (gaussians, width, size),
            "quadratic_terms": (gaussians, size, size),
            "prior_offset": (),
            "global_mean": (self.inputs,),
        }


def ivector_entries(
    *,
    lda: Tensor,
    weights: Tensor,
    means_invvars: Tensor,
    inv_vars: Tensor,
    projections: Tensor,
    inverse_covariances: Tensor,
    prior_offset: float,
    cmvn_stats: Tensor,
) -> dict[str, Tensor]:
    """Turns what the published files hold into the entries of an extractor.

    Args:
        lda: ``(D, spliced + 1)`` of `final.mat`, the offset last.
        weights: ``(G,)`` of `final.dubm`.
        means_invvars: ``(G, D)`` of `final.dubm`, means over variances.
        inv_vars: ``(G, D)`` of `final.dubm`.
        projections: ``(G, D, S)`` of `final.ie`.
        inverse_covariances: ``(G, D, D)`` of `final.ie`.
        prior_offset: Of `final.ie`.
        cmvn_stats: ``(2, C + 1)`` of `global_cmvn.stats`: sums with their count, then squares.

    Returns:
        float64 tensors with the names of `IvectorConfig.shapes`.
    """
    mean_terms, variances = means_invvars.double(), inv_vars.double()
    # Like Kaldi, do not trust the constants that the file holds.
    gconsts = (
        weights.double().log()
        - 0.5 * mean_terms.shape[1] * math.log(2 * math.pi)
        + 0.5 * variances.log().sum(1)
        - 0.5 * (mean_terms.square() / variances).sum(1)
    )
    linear = inverse_covariances.double() @ projections.double()
    stats = cmvn_stats.double()
    return {
        "projection": lda.double(),
        "gconsts": gconsts,
        "means_invvars": mean_terms,
        "inv_vars": variances,
        "linear_terms": linear,
        "quadratic_terms": projections.double().mT @ linear,
        "prior_offset": gconsts.new_tensor(prior_offset),
        "global_mean": stats[0, :-1] / stats[0, -1],
    }


def random_entries(config: IvectorConfig, generator: torch.Generator) -> dict[str, Tensor]:
    """Seeded noise in place of published entries, for tests, benchmarks and dry runs.

    Args:
        config: Sizes.
        generator: On the CPU; gives the projection, the Gaussians' means, then `projections`.
    """

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")

    gaussians, width, size = config.gaussians, config.width, config.ivector
    lda = noise(width, config.spliced + 1) / math.sqrt(config.spliced)
    means = noise(gaussians, width)
    ones = torch.ones_like(means)
    identity = torch.eye(width, dtype=torch.float64, device="cpu")
    return ivector_entries(
        lda=lda,
        weights=ones[:, 0] / gaussians,
        means_invvars=means,
        inv_vars=ones,
        projections=noise(gaussians, width, size) / math.sqrt(size),
        inverse_covariances=identity.expand(gaussians, -1, -1),
        prior_offset=_RANDOM_OFFSET,
        cmvn_stats=torch.cat((0 * lda[:2, : config.inputs], ones[:2, :1]), dim=1),
    )


def config_from_entries(entries: Mapping[str, Sequence[int]]) -> IvectorConfig:
    """Reads the sizes of an extractor from the shapes of its entries.

    Args:
        entries: Shapes by name.

    Raises:
        WeightsError: The parts do not belong together.
    """
    (inputs,), (width, spliced) = entries["global_mean"], entries["projection"]
    gaussians, _, size = entries["linear_terms"]
    config = IvectorConfig(
        inputs=inputs,
        context=((spliced - 1) // inputs - 1) // 2,
        width=width,
        gaussians=gaussians,
        ivector=size,
    )
    for name, shape in config.shapes.items():
        if tuple(entries[name]) != shape:
            raise WeightsError(
                f"i-vector extractor: {name!r} has the shape {tuple(entries[name])}, but {shape} "
                "would fit the other parts. Take final.mat, final.dubm, final.ie and "
                "global_cmvn.stats from one published package."
            )
    return config


_RANDOM_OFFSET = 10.0
