"""The aligner: how well each symbol fits each frame, after a little training on the utterance.

Source: specification sheet of B3, section 8; the network is the aligner of IMS-Toucan.

Inside, time lies before features. Convolutions are products of matrices, which give the same
gradients in every run on a GPU, too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from voiceanon.errors import ConfigError

BANDS = 80
"""Mel bands of the input (`voiceanon.components.features.slaney_log_mel`)."""

WIDTH = 512
"""Channels of each convolution, and of the recurrent layer in each direction."""

LAYERS = 5
"""Convolutions."""

SYMBOLS = 145
"""Outputs: identifiers of `voiceanon.components.text.articulatory`, some without use, and the
blank."""

BLANK = 144
"""Output of connectionist temporal classification that stands for no symbol: the last."""

STEPS = 3
"""Of training, for each utterance."""

LEARNING_RATE = 0.1
"""Of plain gradient descent, on all parameters."""

LARGEST_GRADIENT = 1.0
"""Norm over all parameters to which gradients are scaled down."""

_NORM_FLOOR = 1e-6
"""Added to the norm before it divides, as `torch.nn.utils.clip_grad_norm_` does."""

DROPOUT = 0.5
"""Share of the values behind each convolution that are zero in each step."""

_Drop = Callable[[Tensor], Tensor]


class Aligner(nn.Module):
    """Convolutions and a bidirectional recurrent layer; entries bear the published names.

    Computes in float32, under autocast, too.
    """

    def __init__(self, width: int = WIDTH) -> None:
        """Builds the network with untrained weights; ``width`` as `WIDTH` says."""
        super().__init__()
        # The published sequence counts the dropouts between the convolutions.
        self.convs = nn.ModuleDict(
            {str(2 * i): FrameBlock(width if i else BANDS, width) for i in range(LAYERS)}
        )
        self.rnn = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * width, SYMBOLS)

    def forward(self, mel: Tensor, frames: Tensor) -> Tensor:
        """Evaluates the network as it is; call `eval` on it first.

        Args:
            mel: Log-mel spectra, float32 ``(B, F, 80)``. What lies behind an item's length does
                not matter.
            frames: int64 ``(B,)``, each at least 1.

        Returns:
            Raw outputs, float32 ``(B, F, 145)``; rows behind an item have no meaning.
        """
        with torch.autocast(mel.device.type, enabled=False):
            steps = torch.arange(mel.shape[1], device=mel.device)
            behind = (steps >= frames[:, None])[..., None]
            x = mel.float().masked_fill(behind, 0.0)
            for block in self.convs.values():
                x = block(x).masked_fill(behind, 0.0)
            # Packing sorts on the host: the one value that it has to wait for.
            packed = pack_padded_sequence(x, frames.cpu(), batch_first=True, enforce_sorted=False)
            hidden, _ = pad_packed_sequence(
                self.rnn(packed)[0], batch_first=True, total_length=mel.shape[1]
            )
            return cast(Tensor, self.proj(hidden))

    def adapt(
        self,
        mel: Tensor,
        frames: Tensor,
        ids: Tensor,
        id_lengths: Tensor,
        generators: Sequence[torch.Generator],
    ) -> Tensor:
        """Evaluates for each utterance a copy of the network that was trained on it.

        Copies make a loop over the batch unavoidable. This network and its mode stay as they are;
        works under `torch.inference_mode`, too.

        Args:
            mel: As in `forward`.
            frames: int64 ``(B,)``, each at least 2.
            ids: Symbols of the transcripts, int64 ``(B, N)``. What lies behind an item's length
                does not matter.
            id_lengths: int64 ``(B,)``.
            generators: One on the CPU for each utterance; see `adapted` for what is drawn.

        Returns:
            Raw outputs, float32 ``(B, F, 145)``, zero behind each item.

        Raises:
            ConfigError: The numbers of utterances and generators differ.
        """
        if len(generators) != len(mel):
            raise ConfigError(
                f"aligner: {len(generators)} generators for {len(mel)} utterances; give one each."
            )
        logits = mel.new_zeros((*mel.shape[:2], SYMBOLS), dtype=torch.float32)
        # Each copy has shapes of its own, which the host must know.
        symbols = ids.cpu()
        sizes = zip(frames.tolist(), id_lengths.tolist(), strict=True)
        for i, (frame_count, id_count) in enumerate(sizes):
            own_mel = mel[i, :frame_count]
            network, _, _ = self.adapted(own_mel, symbols[i, :id_count], generators[i])
            logits[i, :frame_count] = network._evaluate(own_mel)
        return logits

    def adapted(
        self, mel: Tensor, ids: Tensor, generator: torch.Generator, *, dropout: float = DROPOUT
    ) -> tuple[Aligner, Tensor, Tensor]:
        """Trains a copy of the network on one utterance.

        Draws, for each step and in it for each convolution, which values are kept: a Bernoulli
        matrix ``(512, F)`` with probability ``1 - dropout``. On a CPU with MKL they are those of
        the published code, whose generator is torch's global one. Nothing is drawn with
        ``dropout=0``.

        Args:
            mel: float32 ``(F, 80)`` with F at least 2.
            ids: int64 ``(N,)``. Where they cannot fit into F frames, only the statistics of the
                batch norms are adapted.
            generator: On the CPU.
            dropout: Share of values that are zero, below 1.

        Returns:
            The copy, in evaluation mode, the losses before each step, and the norms of their
            gradients before these are scaled down, float32 ``(3,)``.
        """

        def drop(x: Tensor) -> Tensor:
            kept = torch.empty(x.shape[::-1], dtype=torch.bool, device="cpu")
            kept.bernoulli_(1.0 - dropout, generator=generator)
            return x * kept.to(x.device).T / (1.0 - dropout)

        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            torch.autocast(mel.device.type, enabled=False),
        ):
            network = copy.deepcopy(self).train().requires_grad_(True)
            network.rnn.flatten_parameters()
            parameters = list(network.parameters())
            # What inference mode made cannot take part in a graph.
            inputs, targets = mel.float().clone(), ids.cpu().clone()
            losses, norms = [], []
            for _ in range(STEPS):
                loss = network._loss(inputs, targets, drop if dropout else None)
                gradients = torch.autograd.grad(loss, parameters)
                norm = torch.nn.utils.get_total_norm(gradients)
                scale = (LARGEST_GRADIENT / (norm + _NORM_FLOOR)).clamp_max(1.0)
                with torch.no_grad():
                    for parameter, gradient in zip(parameters, gradients, strict=True):
                        parameter.sub_(LEARNING_RATE * scale * gradient)
                losses.append(loss.detach())
                norms.append(norm)
            return network.eval(), torch.stack(losses), torch.stack(norms)

    def _loss(self, mel: Tensor, ids: Tensor, drop: _Drop | None) -> Tensor:
        """Loss of connectionist temporal classification, divided by the number of symbols.

        It is computed on the CPU: on a GPU its gradients would differ from run to run.
        """
        log_probabilities = self._outputs(mel, drop).log_softmax(-1).cpu()
        lengths = torch.tensor([len(mel), len(ids)], device="cpu")
        return F.ctc_loss(
            log_probabilities,
            ids,
            lengths[0],
            lengths[1],
            blank=BLANK,
            zero_infinity=True,
        )

    def _outputs(self, mel: Tensor, drop: _Drop | None = None) -> Tensor:
        """Raw outputs ``(F, 145)`` for one utterance ``(F, 80)``."""
        x = mel
        for block in self.convs.values():
            x = block(x)
            if drop is not None:
                x = drop(x)
        hidden, _ = self.rnn(x)
        return cast(Tensor, self.proj(hidden))

    @torch.no_grad()
    def _evaluate(self, mel: Tensor) -> Tensor:
        with torch.autocast(mel.device.type, enabled=False):
            return self._outputs(mel.float())


class FrameBlock(nn.Module):
    """Convolution over three frames, rectifier, batch norm; time lies before channels."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, 3, padding=1, bias=False)
        self.bnorm = nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., F, inputs)`` to ``(..., F, outputs)``."""
        padded = F.pad(x, (0, 0, 1, 1))
        windows = torch.cat([padded[..., :-2, :], x, padded[..., 2:, :]], -1)
        rows = F.linear(windows, self.conv.weight.transpose(1, 2).flatten(1)).relu()
        return cast(Tensor, self.bnorm(rows.flatten(0, -2))).view(rows.shape)
