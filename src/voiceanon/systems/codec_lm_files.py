"""What B4 reads: HuBERT, the semantic quantiser, Bark in two layouts, and the prompts of voices.

Source: specification sheet of the codec language model, sections 1 and 8.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from voiceanon import seeding
from voiceanon.components.codec import encodec
from voiceanon.components.codec.encodec import EncodecConfig
from voiceanon.components.lm.coarse import COARSE_CONFIG
from voiceanon.components.lm.fine import FINE_CONFIG
from voiceanon.components.lm.gpt import GptConfig
from voiceanon.components.lm.prompts import Voice, trim
from voiceanon.components.lm.tokens import CODEBOOK_SIZE, CODEBOOKS, SEMANTIC_TOKENS
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.hub.convert import rename
from voiceanon.hub.read import part_of, read, state_of
from voiceanon.types import SystemInfo

BarkFile = Literal["bark/pytorch_model.bin", "coarse_2.pt"]
"""The Hub's file with all of Bark, or the original ones, of which this is the first."""

PromptFiles = Literal["npz", "npy"]
"""One file for each voice, of the authors' repository, or three, beside Bark in the Hub's."""

HUBERT_FILE = "hubert-base-ls960/pytorch_model.bin"
HUBERT_SETTINGS = "hubert-base-ls960/config.json"
QUANTISER_FILE = "quantifier_hubert_base_ls960_14.pth"
HUB_BARK: BarkFile = "bark/pytorch_model.bin"
BARK_SETTINGS = "bark/config.json"
COARSE_FILE: BarkFile = "coarse_2.pt"
FINE_FILE = "fine_2.pt"
CODEC_FILE = "encodec_24khz-d7cc33bc.th"

PROMPT_PARTS = ("semantic", "coarse", "fine")
HUB_PROMPTS = "speaker_embeddings/v2"
"""Folder of the prompts in the Hub's repository of Bark."""

_HUB_PARTS = {
    "semantic.": None,
    "coarse_acoustics.": "coarse",
    "fine_acoustics.": "fine",
    "codec_model.": "codec",
}
"""Prefixes in the Hub's file (section 1.1); B4 has no use for the first, which reads text."""

_FINE_CODEBOOKS = {"n_codes_total": CODEBOOKS, "n_codes_given": 1}
"""Settings of the fine model that are built (section 1.1)."""

_RANDOM_SEED = 0
_RANDOM_SEMANTIC, _RANDOM_FRAMES = 350, 525
"""Lengths of random prompts: enough for every limit; published ones have 192 to 697 semantic tokens
and half as many again frames (section 1.1)."""


class Bark(NamedTuple):
    """Bark as it was read.

    Attributes:
        entries: Of ``"coarse"``, ``"fine"`` and ``"codec"``, by published name without prefix;
            those of the codec bear the Hub's names.
        files: Where each of them came from.
        coarse: Sizes.
        fine: Sizes.
        codec: Sizes.
    """

    entries: Mapping[str, dict[str, Tensor]]
    files: Mapping[str, Path]
    coarse: GptConfig
    fine: GptConfig
    codec: EncodecConfig


def bark_keys(bark_file: BarkFile) -> tuple[str, ...]:
    """Keys of the files that hold Bark and its codec."""
    if bark_file == HUB_BARK:
        return (HUB_BARK, BARK_SETTINGS)
    return (COARSE_FILE, FINE_FILE, CODEC_FILE)


def read_bark(files: Mapping[str, Path], bark_file: BarkFile) -> Bark:
    """Reads Bark's coarse and fine models and the codec.

    Args:
        files: By key, those of `bark_keys` among them.
        bark_file: Which layout.

    Raises:
        WeightsError: A file does not hold what is due, or belongs to another architecture.
    """
    reader = _read_hub_bark if bark_file == HUB_BARK else _read_original_bark
    try:
        return reader(files)
    except ConfigError as error:
        raise WeightsError(f"{files[bark_keys(bark_file)[0]]}: {error}") from error


def _read_hub_bark(files: Mapping[str, Path]) -> Bark:
    path, settings = files[HUB_BARK], read(files[BARK_SETTINGS])
    entries: dict[str, dict[str, Tensor]] = {part: {} for part in ("coarse", "fine", "codec")}
    strangers = []
    for name, value in state_of(read(path), file=path).items():
        prefix = next((prefix for prefix in _HUB_PARTS if name.startswith(prefix)), None)
        if prefix is None:
            strangers.append(name)
        elif (part := _HUB_PARTS[prefix]) is not None:
            entries[part][name.removeprefix(prefix)] = value
    if strangers or not all(entries.values()):
        raise WeightsError(
            f"{path}: expected entries under {', '.join(_HUB_PARTS)} only, found "
            f"{', '.join(f'{len(found)} for {part}' for part, found in entries.items())} and "
            f"{len(strangers)} others ({', '.join(strangers[:3])}). Take the published file."
        )
    fine = _settings_of(settings, "fine_acoustics_config")
    _check_fine(fine)
    return Bark(
        entries,
        dict.fromkeys(entries, path),
        GptConfig.from_published(_settings_of(settings, "coarse_acoustics_config"), COARSE_CONFIG),
        GptConfig.from_published(fine, FINE_CONFIG),
        EncodecConfig.from_published(_settings_of(settings, "codec_config")),
    )


def _read_original_bark(files: Mapping[str, Path]) -> Bark:
    paths = {"coarse": files[COARSE_FILE], "fine": files[FINE_FILE], "codec": files[CODEC_FILE]}
    data = {part: read(paths[part]) for part in ("coarse", "fine")}
    arguments = {part: part_of(data[part], "model_args", file=paths[part]) for part in data}
    _check_fine(arguments["fine"])
    entries = {part: state_of(data[part], "model", file=paths[part]) for part in data}
    codec = state_of(read(paths["codec"]), file=paths["codec"])
    entries["codec"] = rename(codec, encodec.ORIGINAL_RENAMES, file=paths["codec"])
    return Bark(
        entries,
        paths,
        GptConfig.from_published(arguments["coarse"], COARSE_CONFIG),
        GptConfig.from_published(arguments["fine"], FINE_CONFIG),
        EncodecConfig(),
    )


def _settings_of(settings: Any, part: str) -> Mapping[str, Any]:
    """A part of ``config.json``, or nothing where it leaves it out."""
    found = settings.get(part, {}) if isinstance(settings, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _check_fine(settings: Mapping[str, Any]) -> None:
    for name, built in _FINE_CODEBOOKS.items():
        if settings.get(name, built) != built:
            raise ConfigError(
                f"Bark's fine model: the setting {name!r} is {settings[name]}; only {built} is "
                "built here."
            )


# Voices.


@cache
def voice_digests() -> dict[str, tuple[str, str, str]]:
    """SHA-256 of the semantic, coarse and fine part of each published voice (section 1.1).

    Of the arrays as 16-bit integers, least byte first, row by row.
    """
    text = (package_files("voiceanon.hub") / "bark_voices_v2.json").read_text("utf-8")
    return {name: tuple(digests) for name, digests in json.loads(text).items()}


def check_voices(names: Sequence[str]) -> None:
    """Raises `ConfigError` where a name is none of the published voices, or there is none."""
    unknown = [name for name in names if name not in voice_digests()]
    if unknown or not names or len(set(names)) < len(names):
        raise ConfigError(
            f"voices: {', '.join(unknown or names) or 'none'}; different ones of "
            f"{', '.join(voice_digests())} are due."
        )


def prompt_members(info: SystemInfo) -> dict[str, str]:
    """Keys of the prompts in the archive of Bark's repository, by voice."""
    return {PurePosixPath(member).stem: member for file in info.weights for member in file.members}


def read_prompt_npz(path: Path, voice: str) -> Voice:
    """Reads a prompt of Bark's repository: one file with three arrays.

    Raises:
        WeightsError: An array is missing or another one than published.
    """
    data = read(path)
    arrays = [part_of(data, f"{part}_prompt", file=path) for part in PROMPT_PARTS]
    return _checked_voice(voice, arrays, [path] * len(arrays))


def read_prompt_npy(snapshot: Path, voice: str) -> Voice:
    """Reads a prompt of the Hub's repository: three files in a folder of the snapshot.

    Args:
        snapshot: Folder with Bark's own file.
        voice: Its name.

    Raises:
        WeightsError: A file is missing or another one than published.
    """
    folder = snapshot / HUB_PROMPTS
    paths = [folder / f"{voice}_{part}_prompt.npy" for part in PROMPT_PARTS]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise WeightsError(
            f"{missing[0]}: the prompt of voice {voice} is missing. Fetch it with 'hf download "
            f"suno/bark --include \"{HUB_PROMPTS}/*\"', or load with prompt_files='npz'."
        )
    return _checked_voice(voice, [read(path) for path in paths], paths)


def _checked_voice(voice: str, arrays: Sequence[Any], paths: Sequence[Path]) -> Voice:
    """A prompt, once it has been compared with what is published."""
    for part, array, path, expected in zip(
        PROMPT_PARTS, arrays, paths, voice_digests()[voice], strict=True
    ):
        found = prompt_digest(array) if isinstance(array, Tensor) else f"a {type(array).__name__}"
        if found != expected:
            raise WeightsError(
                f"{path}: the {part} part of voice {voice} should have SHA-256 {expected} "
                f"as 16-bit integers, found {found}. Take the file of folder v2; those beside that "
                "folder are an older version under the same names."
            )
    return trim(*arrays)


def prompt_digest(array: Tensor) -> str:
    """SHA-256 of an array of tokens, as in `voice_digests`."""
    return hashlib.sha256(np.ascontiguousarray(array.numpy(), "<i2").tobytes()).hexdigest()


def random_voices(count: int) -> list[Voice]:
    """Prompts of random tokens in the form of published ones, always the same."""
    secret = seeding.seed_secret(_RANDOM_SEED)
    generator = seeding.generator(seeding.stream(secret, "random prompts"))

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=generator, device="cpu")

    voices = []
    for _ in range(count):
        codes = draw(CODEBOOK_SIZE, CODEBOOKS, _RANDOM_FRAMES)
        voices.append(trim(draw(SEMANTIC_TOKENS, _RANDOM_SEMANTIC), codes[:2], codes))
    return voices
