"""The draws of the VoicePrivacy Challenge for its baseline B2, number by number.

The challenge draws all McAdams coefficients of a data set from one stream, in the order of its
``wav.scp``. To meet its numbers, hand them on as targets::

    utterances = [line.split()[0] for line in open("data/libri_dev_enrolls/wav.scp")]
    alphas = challenge_alphas(len(utterances))
    targets = {u: {"alpha": float(a)} for u, a in zip(utterances, alphas, strict=True)}
    anonymize_folder(load("b2"), "data/libri_dev_enrolls", "out", targets=targets)

These draws are public: whoever knows the order of the files knows the coefficients. Use them to
repeat published results, not to protect speakers.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from voiceanon.errors import ConfigError

ALPHA_RANGE = (0.5, 0.9)
"""Bounds of the uniform draw (VPC 2024, ``configs/anon_mcadams.yaml``)."""

_SEED_HEX_DIGITS = 8


def challenge_alphas(n: int, name: str = "VPC2024") -> npt.NDArray[np.float64]:
    """The challenge's McAdams coefficients for a data set of ``n`` utterances.

    Args:
        n: Number of utterances.
        name: Text that the challenge makes its seed of.

    Returns:
        float64 ``(n,)``, in the order of ``wav.scp``.

    Raises:
        ConfigError: ``n`` is negative.

    Example:
        >>> challenge_alphas(3).round(6).tolist()
        [0.687588, 0.567471, 0.759241]
    """
    if n < 0:
        raise ConfigError(f"n: got {n}; a data set has 0 or more utterances.")
    seed = int(hashlib.sha256(name.encode()).hexdigest()[:_SEED_HEX_DIGITS], 16)
    return np.random.default_rng(seed).uniform(*ALPHA_RANGE, size=n)


def challenge_speaker_alpha(speaker: str) -> float:
    """The challenge's McAdams coefficient of a speaker, for speaker-level anonymization."""
    return float(challenge_alphas(1, speaker)[0])
