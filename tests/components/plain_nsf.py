"""The hn-sinc-NSF generator in its plain form: one recording, everything at sample rate.

Written from section 11 of the specification sheet of B1, in its order, for tests and as what the
benchmark compares with: moving averages as depthwise convolutions, sine by a running sum with a
step back after every wrap, filters as one shifted copy of the signal per tap.
"""

import math

import torch
import torch.nn.functional as F

RATE, ORDER = 16_000, 31


def smooth(x, weight):
    """Depthwise moving average ``(1, C, L)`` with its ends repeated; an even number of taps."""
    taps = weight.shape[-1]
    padded = F.pad(x, (taps // 2 - 1, taps // 2), mode="replicate")
    return F.conv1d(padded, weight, groups=len(weight))


def condition(entries, features, hop):
    """BLSTM and convolution ``(F, 64)`` each, context ``(L, 64)``."""
    part = {k[len("m_cond.") :]: v for k, v in entries.items() if k.startswith("m_cond.")}
    lstm = torch.nn.LSTM(features.shape[1], 32, batch_first=True, bidirectional=True)
    lstm.load_state_dict(
        {k.rsplit(".", 1)[1]: v for k, v in part.items() if k.startswith("l_blstm")}
    )
    normalised = (features - entries["input_mean"]) / entries["input_std"]
    hidden = lstm(normalised[None])[0]
    narrow = F.conv1d(hidden.mT, part["l_conv1d.weight"], part["l_conv1d.bias"], padding=1).tanh()
    context = []
    for name, x in (("l_upsamp", narrow), ("l_upsamp_f0_hi", normalised[None, :, -1:].mT)):
        x = x.repeat_interleave(hop, 2)
        x = smooth(x, part[f"{name}.l_ave2.weight"])
        context.append(smooth(x, part[f"{name}.l_ave1.weight"]))
    return hidden[0], narrow[0].T, context


def cut_off(entries, channel, voiced):
    """Smoothed cut-off as a share of half the rate ``(L,)``."""
    raw = 0.2 * channel + 0.4 * voiced + 0.3
    return smooth(raw[None, None], entries["m_cond.l_cut_f_smooth.weight"])[0, 0]


def sines(f0, phases, noise):
    """``(L,)`` in Hz to ``(L, 8)``."""
    multiples = torch.arange(1, noise.shape[1] + 1)
    steps = (f0[:, None] * multiples / RATE) % 1
    steps[0, 1:] += phases[1:]
    turns = steps.cumsum(0) % 1
    wraps = torch.zeros_like(steps)
    wraps[1:] = -(turns[1:] < turns[:-1]).to(steps.dtype)
    voiced = (f0 > 0).to(noise.dtype)[:, None]
    waves = 0.1 * torch.sin(2 * math.pi * (steps + wraps).cumsum(0)) * voiced
    return waves + (0.003 * voiced + 0.1 / 3 * (1 - voiced)) * noise


def block(entries, name, signal, context):
    """One neural filter: ``(L,)`` and ``(1, 64, L)`` to ``(L,)``."""
    part = {k[len(name) :]: v for k, v in entries.items() if k.startswith(name)}
    hidden = torch.tanh(part["l_ff_1.weight"] @ signal[None])[None]
    for i in range(sum(key.startswith("l_convs") for key in part)):
        padded = F.pad(hidden, (2 * 2**i, 0))
        convolved = F.conv1d(padded, part[f"l_convs.{i}.weight"], dilation=2**i)
        hidden = hidden + convolved.tanh() + context
    hidden = (hidden * part["scale"])[0]
    hidden = torch.tanh(part["l_ff_2.weight"] @ hidden)
    return signal + torch.tanh(part["l_ff_3.weight"] @ hidden)[0]


def coefficients(cut):
    """Low and high pass of every sample, ``(L, 31)`` each."""
    n = torch.arange(ORDER, dtype=cut.dtype) - ORDER // 2
    window = 0.54 + 0.46 * torch.cos(2 * math.pi * n / ORDER)
    ideal = cut[:, None] * torch.sinc(cut[:, None] * n)
    low, high = ideal * window, ((n == 0).to(cut.dtype) - ideal) * window
    return low / low.sum(1, keepdim=True), high / (high * (-1.0) ** n).sum(1, keepdim=True)


def filtered(signal, taps):
    """Time-varying filter, one shifted copy of the signal per tap: ``(L,)``."""
    padded = F.pad(signal, (ORDER - 1, 0))
    result = torch.zeros_like(signal)
    for k in range(ORDER):
        result = result + taps[:, k] * torch.roll(padded, k)[ORDER - 1 :]
    return result


def stages(entries, features, f0, phases, sine_noise, branch_noise):
    """All stages of one recording.

    Args:
        entries: State dict of the published names.
        features: ``(F, D)``; its last column is F0.
        f0: Hz ``(F,)``.
        phases: In turns ``(8,)``.
        sine_noise: ``(L, 8)``.
        branch_noise: ``(L,)``.
    """
    hop = entries["m_cond.l_upsamp.l_ave1.weight"].shape[-1]
    blstm, conv, (upsampled, own_f0) = condition(entries, features, hop)
    context = torch.cat([upsampled[:, :-1], own_f0], 1)
    f0 = f0.repeat_interleave(hop)
    cut = cut_off(entries, upsampled[0, -1], (f0 > 0).to(f0.dtype))
    source = sines(f0, phases, sine_noise)
    harmonic = F.linear(source, entries["m_source.l_linear.weight"])[:, 0]
    harmonic = (harmonic + entries["m_source.l_linear.bias"]).tanh()
    noise = 0.1 / 3 * branch_noise
    result = {"blstm": blstm, "conv": conv, "ctx": context[0].T, "cut_f": cut, "sines": source}
    result |= {"har_source": harmonic, "noi_source": noise}
    for i in range(5):
        harmonic = block(entries, f"m_filter.l_har_blocks.{i}.", harmonic, context)
        result[f"har_b{i + 1}"] = harmonic
    noise = block(entries, "m_filter.l_noi_blocks.0.", noise, context)
    result["noi_b1"] = noise
    low, high = coefficients(cut)
    result |= {"lp_coef": low, "hp_coef": high}
    result["har_filtered"], result["noi_filtered"] = filtered(harmonic, low), filtered(noise, high)
    return result | {"wav": result["har_filtered"] + result["noi_filtered"]}
