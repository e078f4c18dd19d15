"""The acoustic model of B1.a: content, speaker and F0 to log-mel frames, one after the other.

Source: specification sheet of B1, section 13, the form in PyTorch (`am_nsf_pytorch` of the
challenge of 2022). The older form, of the C++ toolkit CURRENNT with weights as JSON, is another
network: its recurrent layers have peepholes, and it is not built here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from voiceanon.errors import WeightsError

FEEDBACK_SCALE = 0.1
"""Factor of the frame that is fed back."""

POST_KERNEL = 5
"""Taps of the causal convolutions behind the recurrence."""

POST_CONVOLUTIONS = 5
"""Number of those; a noisy gate stands between each two."""


@dataclass(frozen=True, kw_only=True)
class AutoregressiveMelConfig:
    """Sizes.

    Attributes:
        input_width: Features per frame, with the speaker's vector and F0.
        mels: Bands of a frame.
        hidden: Width of the two linear layers in front.
        recurrent: Width of each direction of the recurrent layer behind them.
        feedback: Width of the two recurrent layers that get the last frame.
    """

    input_width: int = 769
    mels: int = 80
    hidden: int = 512
    recurrent: int = 128
    feedback: int = 512

    @classmethod
    def from_entries(cls, entries: Mapping[str, Tensor]) -> AutoregressiveMelConfig:
        """Reads the sizes off a state dict with the published names.

        Raises:
            WeightsError: It lacks the entries that tell them.
        """
        names = (
            "m_base.0.weight",
            "m_base.4.weight_hh_l0",
            "m_fb_proc.0.m_lstm.weight_hh_l0",
            "m_fb_proc_out.weight",
        )
        missing = [name for name in names if name not in entries]
        if missing:
            raise WeightsError(
                f"acoustic model: the weights have no entry {missing[0]!r}; the file of B1.a's "
                "acoustic model in PyTorch has it. Check that it is not another network's."
            )
        first, recurrent, feedback, last = (entries[name] for name in names)
        return cls(
            input_width=first.shape[1],
            mels=last.shape[0],
            hidden=first.shape[0],
            recurrent=recurrent.shape[1],
            feedback=feedback.shape[1],
        )


@dataclass(frozen=True, eq=False)
class GateNoise:
    """Random numbers of the gates, uniform from -1 to 1; behind an item's end they do not matter.

    Attributes:
        feedback: For the frames that are fed back, float32 ``(B, N, mels)``.
        post: For the gates behind the recurrence, float32 ``(4, B, mels, N)``.
    """

    feedback: Tensor
    post: Tensor


def draw_gate_noise(
    frames: Tensor, generators: Sequence[torch.Generator], *, mels: int = 80
) -> GateNoise:
    """Draws for each item from its own generator, in the order of the published program.

    That is, frame by frame for the feedback, then gate by gate.

    Args:
        frames: int64 ``(B,)``.
        generators: One for each item.
        mels: Bands of a frame.

    Returns:
        Tensors on the device of ``frames``; 0 behind an item's end.
    """
    # Draws are as long as the item, which the host has to know.
    counts = frames.tolist()
    size, gates, device = max(counts), POST_CONVOLUTIONS - 1, generators[0].device
    feedback = torch.zeros(len(counts), size, mels, dtype=torch.float32, device=device)
    post = torch.zeros(gates, len(counts), mels, size, dtype=torch.float32, device=device)
    for i, (count, generator) in enumerate(zip(counts, generators, strict=True)):
        for target in (feedback[i, :count], *post[:, i, :, :count]):
            draw = torch.rand(
                target.shape, generator=generator, dtype=torch.float32, device=generator.device
            )
            target.copy_(2 * draw - 1)
    return GateNoise(feedback.to(frames.device), post.to(frames.device))


class AutoregressiveMel(nn.Module):
    """Features to log-mel frames; entries bear the published names."""

    input_mean: Tensor
    input_std: Tensor
    output_mean: Tensor
    output_std: Tensor

    def __init__(self, config: AutoregressiveMelConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or AutoregressiveMelConfig()
        width, mels = config.input_width, config.mels
        self.register_buffer("input_mean", torch.zeros(width))
        self.register_buffer("input_std", torch.ones(width))
        self.register_buffer("output_mean", torch.zeros(mels))
        self.register_buffer("output_std", torch.ones(mels))
        self.m_base = nn.Sequential(
            nn.Linear(width, config.hidden),
            nn.Tanh(),
            nn.Linear(config.hidden, config.hidden),
            nn.Tanh(),
            nn.LSTM(config.hidden, config.recurrent, batch_first=True, bidirectional=True),
        )
        self.m_fdback = _Feedback(mels)
        self.m_fb_proc = nn.ModuleList(
            _Recurrent(size, config.feedback)
            for size in (2 * config.recurrent + mels, config.feedback)
        )
        self.m_fb_proc_out = nn.Linear(config.feedback, mels)
        self.m_post = _PostNet(mels)

    def forward(self, features: Tensor, frames: Tensor, noise: GateNoise) -> Tensor:
        """Computes the frames; an item of a batch gives what it gives alone, but for rounding.

        Args:
            features: float32 ``(B, N, D)``, not normalised; what lies behind an item's end does not
                matter.
            frames: int64 ``(B,)``, each at least 1.
            noise: For N frames; see `draw_gate_noise`.

        Returns:
            Natural logarithm of mel magnitudes of samples on the scale of 16-bit integers, float32
            ``(B, N, mels)``, 0 behind each item.
        """
        behind = torch.arange(features.shape[1], device=frames.device) >= frames[:, None]
        normalised = (features.float() - self.input_mean).div_(self.input_std)
        normalised.masked_fill_(behind[..., None], 0)
        with torch.autocast(features.device.type, enabled=False):
            mel = self.generate(self.base(normalised, frames), noise.feedback)
            mel = mel + self.m_post(mel, noise.post)
        mel = mel * self.output_std + self.output_mean
        return cast(Tensor, mel.masked_fill_(behind[..., None], 0))

    def base(self, features: Tensor, frames: Tensor) -> Tensor:
        """The layers in front of the feedback.

        Args:
            features: Normalised, ``(B, N, D)``, finite everywhere.
            frames: int64 ``(B,)``.

        Returns:
            ``(B, N, 2 * recurrent)``, 0 behind each item.
        """
        hidden = self.m_base[:-1](features)
        # The recurrence needs the lengths on the host.
        packed = pack_padded_sequence(hidden, frames.cpu(), batch_first=True, enforce_sorted=False)
        recurrent = self.m_base[-1](packed)[0]
        size = features.shape[1]
        return pad_packed_sequence(recurrent, batch_first=True, total_length=size)[0]

    def generate(self, base: Tensor, noise: Tensor) -> Tensor:
        """Frames one after the other, each with the one before it as an input.

        Args:
            base: Result of `base`, ``(B, N, 2 * recurrent)``.
            noise: See `GateNoise`, ``(B, N, mels)``.

        Returns:
            Normalised frames ``(B, N, mels)``, in front of the post-net.
        """
        first, second = (cast(_Recurrent, layer).weights() for layer in self.m_fb_proc)
        # What does not depend on the frame before is computed for all frames at once, and linear
        # layers that follow each other are one.
        weight, bias = self.m_fdback.joined()
        by_base, by_feedback = first.given[:, : base.shape[2]], first.given[:, base.shape[2] :]
        fixed = F.linear(base, by_base, first.bias + by_feedback @ bias)
        first_weight = torch.cat([by_feedback @ weight, first.hidden], 1).T
        second_weight = torch.cat([second.given, second.hidden], 1).T
        gates = torch.sigmoid(noise)
        frame = base.new_zeros(len(base), self.config.mels)
        state = [base.new_zeros(len(base), self.config.feedback) for _ in range(4)]
        result = []
        for fixed_here, gate in zip(fixed.unbind(1), gates.unbind(1), strict=True):
            fed_back = torch.tanh(FEEDBACK_SCALE * frame) * gate
            first_sum = torch.addmm(fixed_here, torch.cat([fed_back, state[0]], 1), first_weight)
            state[:2] = _step(first_sum, state[1])
            second_input = torch.cat([state[0], state[2]], 1)
            state[2:] = _step(torch.addmm(second.bias, second_input, second_weight), state[3])
            frame = self.m_fb_proc_out(state[2])
            result.append(frame)
        return torch.stack(result, 1)


def _step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step of a long short-term memory: hidden state and cell."""
    put_in, forget, new, put_out = gates.chunk(4, 1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(put_in) * torch.tanh(new)
    return torch.sigmoid(put_out) * torch.tanh(cell), cell


class _Weights(NamedTuple):
    """Of a recurrent layer: for its input and for its own state, and the sum of both biases."""

    given: Tensor
    hidden: Tensor
    bias: Tensor


class _Recurrent(nn.Module):
    """Holder of a recurrent layer's entries."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.m_lstm = nn.LSTM(width, hidden)

    def weights(self) -> _Weights:
        """The entries as tensors."""
        given, hidden, first_bias, second_bias = self.m_lstm.all_weights[0]
        return _Weights(given, hidden, first_bias + second_bias)


class _Feedback(nn.Module):
    """Two linear layers, with nothing between them, behind the gate of the feedback."""

    def __init__(self, mels: int) -> None:
        super().__init__()
        self.m_fb_trans = nn.ModuleList([nn.Linear(mels, mels), nn.Linear(mels, mels)])

    def joined(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of both as one layer."""
        first, second = (cast(nn.Linear, layer) for layer in self.m_fb_trans)
        return second.weight @ first.weight, second.weight @ first.bias + second.bias


class _PostNet(nn.Module):
    """Causal convolutions over the frames with noisy gates between them."""

    def __init__(self, mels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(POST_CONVOLUTIONS):
            # Gates, which have no weights, count in the published names.
            layers += [_CausalConvolution(mels), nn.Identity()]
        self.m_post = nn.ModuleList(layers[:-1])

    def forward(self, mel: Tensor, noise: Tensor) -> Tensor:
        """``(B, N, mels)``, with the noise ``(4, B, mels, N)`` of `GateNoise`, to the same."""
        first, *others = self.m_post[::2]
        x = first(mel.mT)
        for convolution, gate in zip(others, noise, strict=True):
            x = convolution(torch.tanh(x) * torch.sigmoid(gate))
        return cast(Tensor, x.mT)


class _CausalConvolution(nn.Module):
    """A convolution that looks back only."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.m_cnn = nn.Conv1d(channels, channels, POST_KERNEL)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, C, N)`` to the same."""
        return cast(Tensor, self.m_cnn(F.pad(x, (POST_KERNEL - 1, 0))))
