"""Models by the names that the command line has for them; each is built when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from voiceanon.errors import ConfigError
from voiceanon.eval.app.published import published_name
from voiceanon.eval.sources.base import EmotionClassifier, Recognizer, SpeakerEmbedder
from voiceanon.types import Level

GE2E, ECAPA, CHALLENGE = "ge2e", "ecapa-voxceleb", "challenge"
POCKETSPHINX, WHISPER = "pocketsphinx", "whisper-"
TRAINED_HERE = "trained-here"

ATTACKERS = (GE2E, ECAPA, CHALLENGE)
RECOGNIZERS = (POCKETSPHINX, f"{WHISPER}SIZE", CHALLENGE)
CLASSIFIERS = (TRAINED_HERE, CHALLENGE)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Where models come from and run.

    Attributes:
        device: As in `voiceanon.load`.
        weights: Folder with published weight files; ``None`` for the cache.
        local_files_only: Never use the network.
    """

    device: str = "auto"
    weights: Path | None = None
    local_files_only: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """As arguments of the functions that load models."""
        return {
            "device": self.device,
            "weights": self.weights,
            "local_files_only": self.local_files_only,
        }


def check_choices(
    *,
    attacker: str = GE2E,
    recognizer: str = POCKETSPHINX,
    classifier: str = TRAINED_HERE,
) -> None:
    """Checks names of models before any work is done.

    Raises:
        ConfigError: One is unknown.
    """
    if not recognizer.startswith(WHISPER):
        _check("--recognizer", recognizer, RECOGNIZERS)
    _check("--attacker", attacker, ATTACKERS)
    _check("--classifier", classifier, CLASSIFIERS)


def load_attacker(name: str, options: ModelOptions) -> SpeakerEmbedder:
    """Builds an attacker that was trained on original speech.

    Args:
        name: One of `ATTACKERS`.
        options: Where it comes from and runs.

    Raises:
        MissingDependencyError: A package is missing.
        WeightsError: Weights are missing.
    """
    if name == GE2E:
        from voiceanon.eval.sources.resemblyzer import Ge2eEmbedder

        return Ge2eEmbedder(device=options.device)
    from voiceanon.eval.sources.ecapa_embedder import load_asv_eval, load_ecapa_voxceleb

    load = load_asv_eval if name == CHALLENGE else load_ecapa_voxceleb
    return load(**options.arguments)


def load_semi_informed(
    folder: Path, options: ModelOptions, *, system: str, level: Level
) -> SpeakerEmbedder:
    """Loads an attacker that `voiceanon.eval.attackers.train_attacker` made.

    Args:
        folder: Of the attacker.
        options: Where it runs, and where WavLM's weights are, if it needs them.
        system: Id or name of the system that is attacked.
        level: What shares a pseudo-voice in its speech.

    Raises:
        ConfigError: It was trained on other speech than that of this system at this level.
        WeightsError: The folder holds no attacker.
    """
    from voiceanon.eval.attackers import load_attacker as load_trained

    trained = load_trained(folder, **options.arguments)
    facts = trained.facts
    if (published_name(facts.system), facts.level) != (published_name(system), level):
        raise ConfigError(
            f"--semi-informed: {folder} was trained on {facts.training_data}, but {system}, level "
            f"{level}, is attacked; train an attacker on speech that this system anonymized."
        )
    return trained


def load_recognizers(name: str, options: ModelOptions) -> tuple[Recognizer, ...]:
    """Builds equal recognizers: one for each thread where they are light, else one.

    Args:
        name: One of `RECOGNIZERS`.
        options: Where they come from and run.

    Raises:
        ConfigError: There is no such size.
        MissingDependencyError: A package is missing.
        WeightsError: Weights are missing.
    """
    if name == POCKETSPHINX:
        from voiceanon.eval.sources.pocketsphinx import PocketsphinxRecognizer

        # Its decoder runs on one core, and lets other threads run.
        return tuple(PocketsphinxRecognizer() for _ in range(torch.get_num_threads()))
    if name == CHALLENGE:
        from voiceanon.eval.sources.asr_eval import load_asr_eval

        return (load_asr_eval(**options.arguments),)
    from voiceanon.eval.sources.whisper import load_whisper

    return (load_whisper(name.removeprefix(WHISPER), **options.arguments),)


def load_classifier(folds: Mapping[str, str], options: ModelOptions) -> EmotionClassifier:
    """Builds the challenge's emotion classifier.

    Args:
        folds: Fold of each speaker.
        options: Where it comes from and runs.

    Raises:
        ConfigError: No folds are known.
        WeightsError: Weights are missing.
    """
    from voiceanon.eval.sources.ser_eval import load_ser_eval

    if not folds:
        raise ConfigError(
            f"--classifier {CHALLENGE}: the fold of each speaker is not known; put the table "
            "spk2fold into the folder of the originals."
        )
    return load_ser_eval(folds, **options.arguments)


def _check(option: str, name: str, allowed: tuple[str, ...]) -> None:
    if name not in allowed:
        raise ConfigError(f"{option}: {name!r} is none of {', '.join(allowed)}.")
