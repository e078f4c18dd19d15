"""The training loop: resumable, and on a CPU the same with and without interruptions.

No state of a random generator is kept, as every draw follows from the seed and the epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from voiceanon.devices import arithmetic
from voiceanon.errors import ConfigError
from voiceanon.eval.attackers.checkpoints import (
    read_state,
    trained_state,
    write_state,
    write_weights,
)
from voiceanon.eval.attackers.config import AttackerConfig
from voiceanon.eval.attackers.network import MarginLoss, TrainingNetwork
from voiceanon.eval.attackers.schedule import cyclic_rate
from voiceanon.eval.attackers.segments import Segments, Window, read_batches


@dataclass(frozen=True, kw_only=True)
class EpochResult:
    """What an epoch led to.

    Attributes:
        epoch: From 1.
        loss: Mean over the training segments of the epoch, while they were learnt.
        validation_error: Share of the held-out segments that are taken for another speaker, 0 to 1.
        learning_rate: Of the last step.
    """

    epoch: int
    loss: float
    validation_error: float
    learning_rate: float


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """Where a training stands.

    Attributes:
        epoch: From 1.
        epochs: In all.
        step: Steps of this epoch that are done.
        steps: Of this epoch.
        loss: Mean over this epoch so far.
        learning_rate: Of the last step.
        result: Of the epoch, once it is validated.
    """

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    learning_rate: float
    result: EpochResult | None = None


Report: TypeAlias = Callable[[TrainingProgress], None]
"""Called after each step, and once more when an epoch is validated."""


class Trainer:
    """Trains a network on segments and keeps its best state in a folder."""

    def __init__(
        self,
        network: TrainingNetwork,
        loss: MarginLoss,
        segments: Segments,
        config: AttackerConfig,
        folder: Path,
        *,
        identity: Mapping[str, Any],
        device: torch.device,
    ) -> None:
        """Takes up a training that the folder holds, or starts one.

        Args:
            network: As it starts; moved to ``device``.
            loss: As it starts; moved to ``device``.
            segments: Of all speakers.
            config: Settings.
            folder: Gets ``training.ckpt`` and the best weights.
            identity: Plain values by name that make out this training.
            device: Where it computes.

        Raises:
            ConfigError: The folder holds another training.
            WeightsError: Its state cannot be read.
        """
        self.network, self.loss = network.to(device), loss.to(device)
        self.segments, self.config = segments, config
        self.folder, self.identity, self.device = folder, dict(identity), device
        parameters = [p for p in (*network.parameters(), *loss.parameters()) if p.requires_grad]
        self.optimiser = torch.optim.Adam(
            parameters, lr=config.base_rate, weight_decay=config.weight_decay
        )
        self.classes = torch.tensor(segments.classes, device=device)
        self.history: list[EpochResult] = []
        self.total_steps = 0
        self.step = 0
        self.loss_sum = 0.0
        state = read_state(folder)
        if state is not None:
            self._restore(state)

    @property
    def epoch(self) -> int:
        """Epoch under way, from 1."""
        return len(self.history) + 1

    def run(self, report: Report | None, checkpoint_seconds: float) -> tuple[EpochResult, ...]:
        """Trains to the end.

        Args:
            report: Gets the progress.
            checkpoint_seconds: Time between saved states; one is saved after each epoch anyway.

        Returns:
            One result for each epoch, also of those of earlier runs.

        Raises:
            ConfigError: The loss is no longer finite.
        """
        while self.epoch <= self.config.epochs:
            batches = self.segments.training_epoch(self.epoch, self.config)
            self._train_epoch(batches, report, checkpoint_seconds)
            self._finish_epoch(batches, report)
        return tuple(self.history)

    def _train_epoch(
        self,
        batches: Sequence[Sequence[Window]],
        report: Report | None,
        checkpoint_seconds: float,
    ) -> None:
        """Takes the steps of an epoch that are left."""
        left = batches[self.step :]
        heard = sum(map(len, batches[: self.step]))
        self.network.train()
        saved = time.monotonic()
        for batch, waves in zip(left, self._read(left), strict=True):
            self.loss_sum += self._learn(waves, batch) * len(batch)
            self.step += 1
            self.total_steps += 1
            heard += len(batch)
            if time.monotonic() - saved >= checkpoint_seconds:
                self._save()
                saved = time.monotonic()
            if report is not None:
                report(self._progress(len(batches), self.loss_sum / heard))

    def _learn(self, waves: Tensor, batch: Sequence[Window]) -> float:
        """Takes one step; gives its mean loss."""
        for group in self.optimiser.param_groups:
            group["lr"] = cyclic_rate(self.total_steps + 1, self.config)
        with arithmetic("float32", self.device):
            loss, _ = self.loss(self.network(waves.to(self.device)), self._classes_of(batch))
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
        # Waits for the device once a step; a step takes far longer.
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ConfigError(
                f"training: the loss is {value} in step {self.total_steps + 1}; lower max_rate "
                f"({self.config.max_rate}), and start in another folder."
            )
        return value

    def _finish_epoch(self, batches: Sequence[Sequence[Window]], report: Report | None) -> None:
        """Validates, keeps the weights if they are the best so far, and saves the state."""
        result = EpochResult(
            epoch=self.epoch,
            loss=self.loss_sum / sum(map(len, batches)),
            validation_error=self._validate(),
            learning_rate=cyclic_rate(self.total_steps, self.config),
        )
        best = min((earlier.validation_error for earlier in self.history), default=math.inf)
        if result.validation_error < best:
            write_weights(self.folder, self.network)
        self.history.append(result)
        self.step, self.loss_sum = 0, 0.0
        # After the weights: an interruption between the two repeats the validation, no more.
        self._save()
        if report is not None:
            report(TrainingProgress(
                epoch=result.epoch,
                epochs=self.config.epochs,
                step=len(batches),
                steps=len(batches),
                loss=result.loss,
                learning_rate=result.learning_rate,
                result=result,
            ))  # fmt: skip

    @torch.no_grad()
    def _validate(self) -> float:
        batches = self.segments.validation(self.config)
        self.network.eval()
        wrong = 0
        for batch, waves in zip(batches, self._read(batches), strict=True):
            with arithmetic("float32", self.device):
                embeddings = self.network(waves.to(self.device))
                _, mistaken = self.loss(embeddings, self._classes_of(batch))
            wrong += int(mistaken.sum())
        return wrong / sum(map(len, batches))

    def _read(self, batches: Sequence[Sequence[Window]]) -> Any:
        return read_batches(self.segments.utterances, batches, self.config.segment_samples)

    def _classes_of(self, batch: Sequence[Window]) -> Tensor:
        owners = torch.tensor([index for index, _ in batch], device=self.device)
        return self.classes[owners]

    def _progress(self, steps: int, loss: float) -> TrainingProgress:
        return TrainingProgress(
            epoch=self.epoch,
            epochs=self.config.epochs,
            step=self.step,
            steps=steps,
            loss=loss,
            learning_rate=cyclic_rate(self.total_steps, self.config),
        )

    def _save(self) -> None:
        write_state(self.folder, {
            "identity": self.identity,
            "network": trained_state(self.network),
            "loss": self.loss.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "history": [asdict(result) for result in self.history],
            "total_steps": self.total_steps,
            "step": self.step,
            "loss_sum": self.loss_sum,
        })  # fmt: skip

    def _restore(self, state: Mapping[str, Any]) -> None:
        found = state["identity"]
        other = [
            f"{name}: {found.get(name)} there, {self.identity.get(name)} here"
            for name in sorted({*found, *self.identity})
            if found.get(name) != self.identity.get(name)
        ]
        if other:
            raise ConfigError(
                f"{self.folder}: holds another training ({'; '.join(other)}); take another folder, "
                "or the same settings and speech to go on with it."
            )
        # Without the entries of a frozen WavLM, which stay; anything unknown is an error.
        self.network.load_state_dict({**self.network.state_dict(), **state["network"]})
        self.loss.load_state_dict(state["loss"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.history = [EpochResult(**result) for result in state["history"]]
        self.total_steps, self.step = state["total_steps"], state["step"]
        self.loss_sum = state["loss_sum"]
