"""What several promises need."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import voiceanon

SRC = Path(voiceanon.__file__).parents[1]
TESTS = Path(__file__).parents[1]

TOLERANCE = 1e-4
"""Share of the peak by which results of one system on two ways may differ."""

narrow_band_allowed = pytest.mark.filterwarnings(
    "ignore:.*the published weights were trained on speech:voiceanon.AudioWarning"
)
"""For tests at low rates; the warning has a test of its own."""


def run_python(code, *args, **environment):
    """Runs code in a fresh interpreter that knows `properties`; gives its output lines as JSON."""
    path = os.pathsep.join([str(SRC), str(TESTS)])
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_tensor(result):
    return torch.from_numpy(result) if isinstance(result, np.ndarray) else result


def chunk_limit(system, seconds):
    """A limit for chunks that is as short as wanted, or as the system allows."""
    return max(seconds, 2.2 * system.info.overlap_seconds)


def rms(wav):
    return float(as_tensor(wav).double().square().mean().sqrt())


def error(result, expected):
    """Largest difference, as a share of the peak of what was expected."""
    result, expected = as_tensor(result), as_tensor(expected)
    assert result.shape == expected.shape
    return float((result - expected).abs().max() / expected.abs().max().clamp_min(1e-12))


def assert_close(result, expected, tolerance=TOLERANCE):
    assert error(result, expected) <= tolerance


def assert_follows(system, result, expected):
    """Equal up to rounding; a system with discrete steps may choose otherwise now and then."""
    result, expected = as_tensor(result), as_tensor(expected)
    assert result.shape == expected.shape
    peak = expected.abs().max().clamp_min(1e-12)
    near = ((result - expected).abs() <= TOLERANCE * peak).float().mean()
    assert near >= (0.999 if system.info.discrete else 1.0)


def assert_sound(system, result, wav):
    """float32, finite, the input's shape; only the channels where the length is not kept."""
    result = as_tensor(result)
    assert result.dtype == torch.float32
    assert bool(torch.isfinite(result).all())
    assert result.ndim == wav.ndim
    assert result.shape[:-1] == wav.shape[:-1]
    assert result.shape[-1] > 0
    if system.info.keeps_length:
        assert result.shape == wav.shape
