"""Global style tokens: one vector for the voice of an utterance, from 256 frames of its log-mel.

Sources: specification sheet of B3, sections 3 and 4; entry names of ``embedding_function.pt``.
Architecture: Wang et al., "Style Tokens", ICML 2018.

The published extractor is never switched to evaluation mode and sees one utterance at a time: its
batch norms normalise with the statistics of that utterance. So they are instance norms here, which
makes an item of a batch independent of the others.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.rows import take_rows

WINDOW_FRAMES = 256
"""Frames of log-mel that the encoder sees, 4.1 s (section 4)."""

REPEATED_FRAMES = 512
"""Shorter spectrograms are repeated until they have at least as many frames (section 4)."""

STYLE_WIDTH = 128
"""Values of a vector (section 4)."""

_CHANNELS = (1, 32, 32, 64, 64, 128, 128)
_KERNEL, _STRIDE, _PADDING = 3, 2, 1
_BANDS_LEFT = 2
"""Mel positions behind the last convolution."""

_TOKENS, _TOKEN_WIDTH = 10, 32
_HEADS = 4


class StyleTokens(nn.Module):
    """Turns windows of log-mel into style vectors.

    Entries have the names of ``embedding_function.pt``; the running statistics among them are
    loaded, so that loading is strict, and not used. Computes in float32 under autocast, too.
    """

    def __init__(self) -> None:
        """Builds the network with untrained weights."""
        super().__init__()
        self.gst = nn.ModuleDict({"ref_enc": ReferenceEncoder(), "stl": TokenLayer()})

    def forward(self, windows: Tensor) -> Tensor:
        """Gives one vector for each window.

        Args:
            windows: log10 of magnitudes, float32 ``(B, 256, 80)``, as `style_window` cuts them.

        Returns:
            float32 ``(B, 128)``, of no fixed norm.
        """
        with torch.autocast(windows.device.type, enabled=False):
            vectors: Tensor = self.gst["stl"](self.gst["ref_enc"](windows))
            return vectors


class ReferenceEncoder(nn.Module):
    """Six strided convolutions and a GRU, whose last state sums up the window."""

    def __init__(self) -> None:
        """Builds the layers."""
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(_CHANNELS):
            layers += [
                nn.Conv2d(inputs, outputs, _KERNEL, _STRIDE, _PADDING, bias=False),
                UtteranceNorm(outputs),
                nn.ReLU(),
            ]
        self.convs = nn.Sequential(*layers)
        self.gru = nn.GRU(_CHANNELS[-1] * _BANDS_LEFT, STYLE_WIDTH, batch_first=True)

    def forward(self, windows: Tensor) -> Tensor:
        """Turns ``(B, 256, 80)`` into ``(B, 128)``."""
        maps = self.convs(windows[:, None])
        _, state = self.gru(maps.transpose(1, 2).flatten(2))
        last: Tensor = state[0]
        return last


class UtteranceNorm(nn.BatchNorm2d):
    """Batch norm of a batch of one utterance, for each item of a batch on its own."""

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, C, N, M)`` into the same, with the biased variance over N and M."""
        return F.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)


class TokenLayer(nn.Module):
    """Attention of the encoder's state to ten learnt tokens."""

    def __init__(self) -> None:
        """Builds the layer."""
        super().__init__()
        self.gst_embs = nn.Parameter(torch.randn(_TOKENS, _TOKEN_WIDTH))
        self.mha = TokenAttention()

    def forward(self, state: Tensor) -> Tensor:
        """Turns ``(B, 128)`` into ``(B, 128)``."""
        vectors: Tensor = self.mha(state, self.gst_embs.tanh())
        return vectors


class TokenAttention(nn.Module):
    """Attention of one query per item to tokens that all items share."""

    def __init__(self) -> None:
        """Builds the linear maps."""
        super().__init__()
        self.linear_q = nn.Linear(STYLE_WIDTH, STYLE_WIDTH)
        self.linear_k = nn.Linear(_TOKEN_WIDTH, STYLE_WIDTH)
        self.linear_v = nn.Linear(_TOKEN_WIDTH, STYLE_WIDTH)
        self.linear_out = nn.Linear(STYLE_WIDTH, STYLE_WIDTH)

    def forward(self, query: Tensor, tokens: Tensor) -> Tensor:
        """Turns queries ``(B, 128)`` and tokens ``(K, 32)`` into ``(B, 128)``."""
        heads = self.linear_q(query).unflatten(-1, (_HEADS, -1))
        keys = self.linear_k(tokens).unflatten(-1, (_HEADS, -1))
        values = self.linear_v(tokens).unflatten(-1, (_HEADS, -1))
        scores = torch.einsum("bhd,khd->bhk", heads, keys) / heads.shape[-1] ** 0.5
        attended = torch.einsum("bhk,khd->bhd", scores.softmax(-1), values)
        vectors: Tensor = self.linear_out(attended.flatten(1))
        return vectors


def style_window(mel: Tensor, frames: Tensor, fractions: Tensor) -> Tensor:
    """Cuts the window that `StyleTokens` sees out of each spectrogram.

    A spectrogram of fewer than `WINDOW_FRAMES` frames is first repeated along time until it has
    `REPEATED_FRAMES` or more; one of exactly `WINDOW_FRAMES` is taken as it is.

    Args:
        mel: ``(B, F, D)``; what lies behind an item's frames is not looked at.
        frames: Of each item, int64 ``(B,)``, 1 to F.
        fractions: Where the window starts, ``(B,)``, 0 up to but not 1: the start is
            ``floor(fraction * (available - 256))``, so that a uniform fraction gives a uniform
            start, the very last one excluded, as published.

    Returns:
        ``(B, 256, D)``.
    """
    copies = -(-REPEATED_FRAMES // frames)
    available = torch.where(frames < WINDOW_FRAMES, copies * frames, frames)
    starts = available - WINDOW_FRAMES
    first = (fractions.to(mel.device) * starts).floor().long()
    first = torch.minimum(first, (starts - 1).clamp_min(0))
    steps = torch.arange(WINDOW_FRAMES, device=mel.device)
    rows = (first[:, None] + steps) % frames[:, None]
    return take_rows(mel, rows)
