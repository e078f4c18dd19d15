"""What `AsrTts` reads: the files of recognisers and voices in their published layouts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from voiceanon.components.asr.vocabulary import Vocabulary, published_tokens
from voiceanon.components.asr.whisper import Whisper
from voiceanon.components.asr.whisper_config import WhisperConfig
from voiceanon.components.tts.decoder import RENAMES
from voiceanon.components.tts.durations import is_training_entry
from voiceanon.components.tts.piper import config_from_piper, entries_of, rename_entries
from voiceanon.components.tts.symbols import from_transformers
from voiceanon.components.tts.vits import Vits
from voiceanon.components.tts.vits_config import VitsConfig
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.hub.convert import load_strict
from voiceanon.hub.onnx import read_onnx
from voiceanon.hub.read import read_state
from voiceanon.types import WeightFile

POCKETSPHINX = "pocketsphinx"
"""Recogniser whose models lie in its own package."""

PIPER = "piper:"
"""In front of the name of a Piper voice."""

NETWORK = "model.safetensors"
"""Name of the weights in a Hub repository, unless the manifest has another."""

WHISPER_PREFIX = "model."
WHISPER_OUTPUT = "proj_out.weight"
"""Some files hold the output layer a second time; it is that of ``decoder.embed_tokens``."""

_NETWORKS = (".safetensors", ".bin")


def with_files_of(
    weights: Sequence[WeightFile], recognizer: str, synthesizer: str
) -> tuple[WeightFile, ...]:
    """Adds the files of a recogniser or a voice that the manifest does not list.

    They lie where those of the default lie, under another repository's or voice's name; nothing
    else is known of them.

    Args:
        weights: Of the manifest; the first Hub repository is a Whisper, the second a voice.
        recognizer: A Hub repository, or `POCKETSPHINX`.
        synthesizer: A Hub repository, or `PIPER` and the name of a voice.

    Raises:
        ConfigError: A name is of no known form.
    """
    added: list[WeightFile] = []
    if recognizer != POCKETSPHINX and not _files_of(weights, recognizer):
        _check_repository("recognizer", recognizer, f"'{POCKETSPHINX}'")
        added += _like(weights, weights[0].repository, recognizer)
    if synthesizer.startswith(PIPER):
        if not _files_of(weights, synthesizer):
            added += _piper_files(weights, synthesizer.removeprefix(PIPER))
    elif not _files_of(weights, synthesizer):
        _check_repository("synthesizer", synthesizer, f"'{PIPER}' and the name of a Piper voice")
        voice = next(file.repository for file in weights if file.name == "tokenizer_config.json")
        added += [
            replace(file, name=NETWORK, address=f"{file.address.rpartition('/')[0]}/{NETWORK}")
            if file.name.endswith(_NETWORKS)
            else file
            for file in _like(weights, voice, synthesizer)
        ]
    return (*weights, *added)


def keys_of(weights: Sequence[WeightFile], part: str) -> tuple[str, ...]:
    """Keys of the files of a recogniser or a voice; none for `POCKETSPHINX`."""
    return tuple(file.key for file in _files_of(weights, part))


def _files_of(weights: Sequence[WeightFile], part: str) -> list[WeightFile]:
    if not part.startswith(PIPER):
        return [file for file in weights if file.repository == part]
    stem = part.removeprefix(PIPER)
    names = (f"{stem}.onnx", f"{stem}.onnx.json")
    return [file for file in weights if file.name.rpartition("/")[2] in names]


def _check_repository(option: str, name: str, other: str) -> None:
    owner, slash, rest = name.partition("/")
    if not (owner and slash and rest) or "/" in rest:
        raise ConfigError(
            f"{option}: {name!r} is neither a Hub repository such as 'openai/whisper-small.en' nor "
            f"{other}."
        )


def _like(weights: Sequence[WeightFile], repository: str | None, other: str) -> list[WeightFile]:
    """The files of a repository as those of another, of which nothing is known."""
    return [
        _unknown(
            file,
            repository=other,
            folder=other.rpartition("/")[2],
            address=f"{file.address.partition(f'/{repository}/')[0]}/{other}/resolve/main/{file.name}",
            licence_source=f"{file.address.partition(f'/{repository}/')[0]}/{other}",
        )
        for file in weights
        if file.repository == repository
    ]


def _unknown(file: WeightFile, **known: Any) -> WeightFile:
    return replace(
        file,
        revision="main",
        size=None,
        sha256="unknown",
        other_digest="not stated",
        licence="not stated",
        training_data="not stated",
        optional=True,
        **known,
    )


def _piper_files(weights: Sequence[WeightFile], voice: str) -> list[WeightFile]:
    """The two files of a voice such as ``"en_US-amy-medium"``."""
    model = next(file for file in weights if file.name.endswith(".onnx"))
    parts = voice.split("-")
    if len(parts) != 3 or not all(parts):
        raise ConfigError(
            f"synthesizer: {PIPER + voice!r} is no Piper voice; one is named like "
            f"'{PIPER}en_US-libritts-high'."
        )
    language, name, quality = parts
    base = f"{language.partition('_')[0]}/{language}/{name}/{quality}/{voice}.onnx"
    start = model.address.removesuffix(model.name)
    return [
        replace(_unknown(model, name=file, address=start + file), revision=model.revision)
        for file in (base, f"{base}.json")
    ]


def read_whisper(
    files: Mapping[str, Path], keys: Sequence[str], config: WhisperConfig | None
) -> tuple[Whisper, Vocabulary]:
    """Builds a Whisper in the sizes that its files state, and fills it.

    Args:
        files: Verified, by key.
        keys: Of its files.
        config: Sizes instead of those of the files.

    Raises:
        WeightsError: A file does not hold what is due.
    """
    by_name = {Path(key).name: files[key] for key in keys}
    generation = read_json(by_name["generation_config.json"])
    vocabulary = read_json(by_name["vocab.json"])
    tokens = published_tokens(vocabulary, generation.get("eos_token_id", 0))
    if config is None:
        settings = read_json(by_name["config.json"])
        text_bytes = sum(map(len, tokens))
        config = WhisperConfig.from_published(settings, generation, text_bytes)
    path = by_name[NETWORK]
    with torch.device("meta"):
        network = Whisper(config)
    load_strict(
        network,
        read_state(path),
        file=path,
        renames=((rf"^{WHISPER_PREFIX}", ""),),
        unused=lambda name: name == WHISPER_OUTPUT,
    )
    return network, Vocabulary(tokens)


def read_voice(files: Mapping[str, Path], keys: Sequence[str], config: VitsConfig | None) -> Vits:
    """Builds a voice in transformers' layout in the sizes that its files state, and fills it.

    Args:
        files: Verified, by key.
        keys: Of its files.
        config: Sizes instead of those of the files.

    Raises:
        WeightsError: A file does not hold what is due.
    """
    by_name = {Path(key).name: files[key] for key in keys}
    if config is None:
        vocabulary = read_json(by_name["vocab.json"])
        symbols = from_transformers(vocabulary, read_json(by_name["tokenizer_config.json"]))
        config = VitsConfig.from_published(read_json(by_name["config.json"]), symbols)
    path = next(path for name, path in by_name.items() if name.endswith(_NETWORKS))
    with torch.device("meta"):
        network = Vits(config)
    load_strict(
        network,
        read_state(path),
        file=path,
        renames=RENAMES,
        unused=is_training_entry,
        fold=fold_entries,
    )
    return network


def read_piper(files: Mapping[str, Path], keys: Sequence[str], config: VitsConfig | None) -> Vits:
    """Builds a Piper voice in the sizes that its files state, and fills it.

    Args:
        files: Verified, by key.
        keys: Of its two files.
        config: Sizes instead of those of the files.

    Raises:
        WeightsError: A file does not hold what is due.
    """
    model, facts = sorted((files[key] for key in keys), key=lambda path: path.suffix != ".onnx")
    exported = read_onnx(model)
    entries, settings = entries_of(exported.tensors, exported.layers)
    config = config or config_from_piper(read_json(facts), entries, settings)
    with torch.device("meta"):
        network = Vits(config)
    load_strict(network, rename_entries(entries), file=model)
    return network


def read_json(path: Path) -> dict[str, Any]:
    """Reads a file of settings.

    Raises:
        WeightsError: It is damaged, or holds something else than an object.
    """
    try:
        settings = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise WeightsError(
            f"{path}: cannot be read as JSON ({error}); delete it and fetch it again."
        ) from error
    if not isinstance(settings, dict):
        raise WeightsError(
            f"{path}: expected settings by name, found a {type(settings).__name__}; take the "
            "published file."
        )
    return settings


@lru_cache(maxsize=1)
def read_dictionary() -> Mapping[str, tuple[str, ...]]:
    """Reads the CMU dictionary in pocketsphinx's package: phones by word, the first of several."""
    models = import_module("pocketsphinx").get_model_path()
    entries: dict[str, tuple[str, ...]] = {}
    path = Path(models) / "en-us" / "cmudict-en-us.dict"
    for line in path.read_text("utf-8").splitlines():
        word, *phones = line.split()
        entries.setdefault(word, tuple(phones))
    return entries
