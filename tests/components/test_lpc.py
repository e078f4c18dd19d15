"""Both linear prediction backends against NumPy, SciPy and librosa."""

import librosa
import numpy as np
import pytest
import scipy.signal
import torch

from voiceanon.components.lpc import compiled, framing, tensor
from voiceanon.components.lpc.poles import BLOCK_FRAMES, warp_poles

RNG = np.random.default_rng(7)


def warp(backend, coefficients, alphas):
    if backend is compiled:
        return compiled.warp(coefficients, alphas)
    return tensor.warp(torch.from_numpy(coefficients), torch.from_numpy(alphas)).numpy()


def refilter(backend, frames, whitening, shaping):
    if backend is compiled:
        result = np.empty_like(frames)
        compiled.refilter(frames, whitening, shaping, result)
        return result
    return tensor.refilter(*map(torch.from_numpy, (frames, whitening, shaping))).numpy()


def poly_from(roots):
    return np.real(np.poly(roots))


def expected_warp(roots, alpha):
    """The warped polynomial where the roots are known."""
    roots = np.asarray(roots, dtype=complex)
    angle = np.angle(roots)
    moved = np.abs(roots) * np.exp(1j * np.sign(angle) * np.abs(angle) ** alpha)
    return poly_from(np.where(roots.imag == 0, roots, moved))


def pairs(*upper):
    return [*upper, *np.conj(upper)]


@pytest.mark.parametrize("backend", [compiled, tensor])
@pytest.mark.parametrize(("length", "order"), [(320, 20), (160, 20), (50, 3), (21, 20)])
def test_burg_equals_librosa(backend, length, order):
    frames = RNG.standard_normal((5, length)) * np.hanning(length)
    result = backend.burg(torch.from_numpy(frames) if backend is tensor else frames, order)
    for row, frame in zip(np.asarray(result), frames, strict=True):
        np.testing.assert_allclose(row, librosa.lpc(frame, order=order), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("backend", [compiled, tensor])
@pytest.mark.parametrize("value", [0.0, 1e-9, 2.0**-23, 1.0, -1e4])
def test_constant_frames_stay_finite(backend, value):
    frames = torch.full((2, 320), value, dtype=torch.float64)
    coefficients = np.asarray(backend.burg(frames if backend is tensor else frames.numpy(), 20))
    assert np.isfinite(coefficients).all()
    assert np.isfinite(warp(backend, coefficients.copy(), np.full(2, 0.5))).all()


TIME = np.arange(320) / 16000


@pytest.mark.parametrize("backend", [compiled, tensor])
@pytest.mark.parametrize(
    "signal",
    [np.sin(2 * np.pi * f * TIME) for f in (50, 237.3, 440, 2000, 7999)]
    + [TIME, np.exp(-50 * TIME), np.sin(2 * np.pi * 3e5 * TIME**2)],
)
def test_what_is_predicted_to_rounding_gives_stable_filters(backend, signal):
    # The recursion as published goes on into rounding noise: reflections above 1, then NaN.
    frames = (signal.astype(np.float32) * np.hanning(320))[None]
    coefficients = np.asarray(backend.burg(torch.from_numpy(frames), 20) if backend is tensor
                              else backend.burg(frames, 20))  # fmt: skip
    assert np.abs(np.roots(coefficients[0])).max() < 1.001
    shaped = refilter(
        backend, frames, coefficients, warp(backend, coefficients.copy(), np.array([0.5]))
    )
    assert np.isfinite(shaped).all()


@pytest.mark.parametrize("backend", [compiled, tensor])
@pytest.mark.parametrize(
    ("roots", "tolerance"),
    [
        (pairs(0.9 * np.exp(0.3j), 0.99 * np.exp(1.2j), 0.5 * np.exp(3.0j)), 1e-12),
        ([0.9, -0.8, *pairs(0.7 * np.exp(2.0j))], 1e-12),  # real roots stay, also negative ones
        ([0.5, 0.1, -0.3, -0.999], 1e-12),
        ([0.0, 0.0, 0.0, *pairs(0.9j)], 1e-9),  # vanishing coefficients at the end
        ([0.5, 0.5, *pairs(0.9 * np.exp(0.5j))], 1e-6),  # a double root: half of the digits
        (pairs(0.999999 * np.exp(0.01j), 0.999999 * np.exp(0.02j)), 1e-7),
        (pairs(*(0.95 * np.exp(1j * np.arange(1, 11) * 0.28))), 1e-10),
    ],
)
@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0, 1.2])
def test_warp_moves_angles_of_known_roots(backend, roots, tolerance, alpha):
    result = warp(backend, poly_from(roots)[None].copy(), np.array([alpha]))[0]
    np.testing.assert_allclose(result, expected_warp(roots, alpha), atol=tolerance)


@pytest.mark.parametrize("backend", [compiled, tensor])
def test_warp_equals_numpy_roots_on_noise(backend):
    frames = RNG.standard_normal((300, 320))
    coefficients = compiled.burg(frames, 20)
    alphas = RNG.uniform(0.5, 1.2, len(frames))
    result = warp(backend, coefficients, alphas)
    for row, a, alpha in zip(result, coefficients, alphas, strict=True):
        np.testing.assert_allclose(row, expected_warp(np.roots(a), alpha), atol=1e-9)


@pytest.mark.parametrize("backend", [compiled, tensor])
def test_refilter_equals_scipy(backend):
    frames = RNG.standard_normal((4, 100))
    whitening = np.stack([poly_from(pairs(*(0.9 * np.exp(1j * RNG.uniform(0, 3, 5)))))] * 4)
    shaping = np.stack([poly_from(pairs(*(0.8 * np.exp(1j * RNG.uniform(0, 3, 5)))))] * 4)
    result = refilter(backend, frames, whitening, shaping)
    for row, frame, b, a in zip(result, frames, whitening, shaping, strict=True):
        np.testing.assert_allclose(row, scipy.signal.lfilter(b, a, frame), atol=1e-9)


@pytest.mark.parametrize("count", [1, BLOCK_FRAMES - 1, BLOCK_FRAMES, 3 * BLOCK_FRAMES + 1])
def test_backends_agree_and_blocks_leave_no_trace(count):
    frames = torch.from_numpy(RNG.standard_normal((count, 320)) * np.hanning(320))
    alphas = torch.from_numpy(RNG.uniform(0.5, 0.9, count))
    result = warp_poles(frames, alphas, 20, 1e-7)
    whitening = tensor.burg(frames + 1e-7, 20)
    expected = tensor.refilter(frames, whitening, tensor.warp(whitening, alphas))
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-8 * float(expected.abs().max()))
    alone = warp_poles(frames[-1:], alphas[-1:], 20, 1e-7)
    assert torch.equal(result[-1:], alone)


@pytest.mark.parametrize(("length", "hop"), [(320, 160), (441, 220), (7, 7), (10, 3)])
def test_overlap_add_equals_a_loop(length, hop):
    frames = torch.from_numpy(RNG.standard_normal((2, 5, length)))
    expected = torch.zeros(2, 4 * hop + length, dtype=torch.float64)
    for m in range(5):
        expected[:, m * hop : m * hop + length] += frames[:, m]
    torch.testing.assert_close(framing.overlap_add(frames, hop), expected)


def test_squared_windows_add_up_to_1():
    squares = framing.analysis_window(320, 160).square().expand(1, 20, 320)
    inside = framing.overlap_add(squares, 160)[0, 320:-320]
    assert (inside - 1).abs().max() < 0.004


@pytest.mark.gpu
def test_gpu_equals_cpu():
    frames = torch.from_numpy(RNG.standard_normal((500, 320)) * np.hanning(320))
    alphas = torch.from_numpy(RNG.uniform(0.5, 0.9, 500))
    cpu = warp_poles(frames, alphas, 20, 1e-7)
    gpu = warp_poles(frames.cuda(), alphas.cuda(), 20, 1e-7).cpu()
    torch.testing.assert_close(gpu, cpu, rtol=0, atol=1e-8 * float(cpu.abs().max()))
