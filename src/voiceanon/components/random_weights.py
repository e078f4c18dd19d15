"""Seeded noise in place of weights, for tests, benchmarks and dry runs."""

from __future__ import annotations

import math

import torch
from torch import nn


def fill_random(module: nn.Module, generator: torch.Generator) -> None:
    """Fills all parameters so that signals keep their size through the network.

    Matrices and kernels get normal values of standard deviation 1 / sqrt(inputs), scales 1, and
    biases small normal values.

    Args:
        module: On the CPU.
        generator: The only source of randomness; entries are filled in the order of their names.
    """
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim > 1:
                parameter.copy_(noise / math.sqrt(parameter[0].numel()))
            elif name.endswith("bias"):
                parameter.copy_(0.1 * noise)
            else:
                parameter.copy_(1 + 0.1 * noise)
