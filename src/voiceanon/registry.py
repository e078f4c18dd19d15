"""id -> (implementation, configuration, facts). A system's module is imported at first use."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import torch

from voiceanon import seeding
from voiceanon.anonymizer import Anonymizer
from voiceanon.components.random_weights import fill_random
from voiceanon.devices import building, check_precision, resolve_device
from voiceanon.errors import ConfigError, MissingDependencyError, UnknownSystemError
from voiceanon.hub.manifest import read_manifest
from voiceanon.pretrained import (
    MODEL_NAME,
    POOL_NAME,
    is_pretrained,
    parse_config,
    read_settings,
)
from voiceanon.types import Precision, SystemInfo

ENTRY_POINTS = "voiceanon.systems"
"""Group under which another package offers a system: ``name = "package.module:Class"``."""

_VQBN = "voiceanon.systems.vqbn_hifigan:VqBnHifiGan"
_GAN_FASTSPEECH2 = "voiceanon.systems.gan_fastspeech2:GanFastSpeech2"
_ADMIXTURE = "voiceanon.systems.admixture:Admixture"
_XVECTOR_NSF = "voiceanon.systems.xvector_nsf:XVectorNSF"
_MEAN_REVERSION = {"kind": "mean-reversion", "weight": 0.5, "window": 32}
_NOISE = {"kind": "white-noise", "power_db": 2.0}

_BUILT_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "vpc2024-b1": (_XVECTOR_NSF, {}),
    "b1-sidekit": (_XVECTOR_NSF, {"vectors": "sidekit"}),
    "vpc2024-b2": ("voiceanon.systems.mcadams:McAdams", {}),
    "vpc2024-t8-2": ("voiceanon.systems.knn_vc:KnnVC", {}),
    # T19-1 matches against all utterances of its target (results paper, section 5.4).
    "vpc2024-t19-1": ("voiceanon.systems.knn_vc:KnnVC", {"pool_seconds": None}),
    "vpc2024-b3": (_GAN_FASTSPEECH2, {}),
    "vpc2024-t12-4": (
        _GAN_FASTSPEECH2,
        {"embedding": "pool_random", "selection": "other", "prosody_range": None},
    ),
    "vpc2024-t30-1": (_GAN_FASTSPEECH2, {"embedding": "pool_farthest_mix"}),
    "vpc2024-b4": ("voiceanon.systems.codec_lm:CodecLM", {}),
    "vpc2024-b5": (_VQBN, {}),
    "vpc2024-b6": (_VQBN, {"front_end": "fbank"}),
    # Weight, window and power are not published: see the manifests.
    "vpc2024-t12-5": (_VQBN, {"f0_modifiers": "mean-reverv_0.5:32"}),
    "vpc2024-t12-6": (_VQBN, {"f0_modifiers": (_MEAN_REVERSION, _NOISE)}),
    "sa-toolkit-tdnnf-600h": (_VQBN, {"front_end": "fbank", "codes": None}),
    "sa-toolkit-tdnnf-100h": (_VQBN, {"front_end": "fbank", "codes": None}),
    "sa-toolkit-wav2vec2-100h": (_VQBN, {"codes": None}),
    "sa-toolkit-tdnnf-100h-vq-64": (_VQBN, {"front_end": "fbank", "codes": 64}),
    "sa-toolkit-tdnnf-100h-vq-256": (_VQBN, {"front_end": "fbank", "codes": 256}),
    "sa-toolkit-wav2vec2-vq-48-one-voice": (_VQBN, {"voices": False}),
    "vpc2024-t8-1": ("voiceanon.systems.asr_tts:AsrTts", {}),
    "vpc2024-t8-3": (_ADMIXTURE, {"p": 0.2}),
    "vpc2024-t8-4": (_ADMIXTURE, {"p": 0.325}),
    "vpc2024-t8-5": (_ADMIXTURE, {"p": 0.4}),
    "admixture": (_ADMIXTURE, {}),
}
"""Where a system stands, and the settings in which it differs from its family's defaults."""


@dataclass(frozen=True)
class _Entry:
    info: SystemInfo
    implementation: str | type[Anonymizer]
    options: Mapping[str, Any]


RANDOM_WEIGHTS = "random"
RANDOM_WEIGHTS_SEED = 0
RANDOM_WARNING = "RANDOM WEIGHTS: the result is noise and protects nobody; for tests only."

_registered: dict[str, _Entry] = {}


def register(
    implementation: type[Anonymizer], info: SystemInfo | None = None, **options: Any
) -> None:
    """Makes a system known to `load` in this process.

    Args:
        implementation: The class.
        info: Facts; ``None`` if they stand in the class as ``info``.
        **options: Settings in which this system differs from the defaults of ``Config``.

    Raises:
        ConfigError: A name is taken, is not lower case, or an option is unknown.
    """
    info = implementation.info if info is None else info
    _check_options(implementation, info.id, options)
    taken = _names()
    for name in (info.id, *info.aliases):
        if name != name.lower() or not name:
            raise ConfigError(f"register: the name {name!r} must be lower case.")
        if name in taken:
            raise ConfigError(f"register: the name {name!r} is taken by {taken[name].info.id}.")
    _registered[info.id] = _Entry(info, implementation, options)


def list_systems() -> tuple[str, ...]:
    """Canonical ids of all systems, sorted; those of other packages by entry point name."""
    known = _names()
    offered = {name for name in _offered() if name not in known}
    return tuple(sorted({entry.info.id for entry in known.values()} | offered))


def system_info(name: str) -> SystemInfo:
    """Facts about a system, without building it.

    Args:
        name: Id or alias.

    Raises:
        UnknownSystemError: There is no such system.
    """
    return _find(name).info


def system_config(name: str) -> Any:
    """The settings with which `load` builds a system if no option is given.

    Args:
        name: Id or alias.

    Raises:
        UnknownSystemError: There is no such system.
        MissingDependencyError: A package that the system needs is not installed.
    """
    entry = _find(name)
    return _implementation(entry).Config(**entry.options)


def load(
    name: str | os.PathLike[str],
    *,
    device: str | torch.device = "auto",
    precision: Precision = "float32",
    weights: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
    token: str | bool | None = None,
    pool: object = None,
    **options: Any,
) -> Anonymizer:
    """Builds a system.

    Args:
        name: Id or alias, such as ``"b2"``; see `list_systems`. Or a folder that
            `Anonymizer.save_pretrained` wrote.
        device: ``"auto"`` (CUDA if there is any, else the CPU), ``"cpu"``, ``"cuda"``,
            ``"cuda:N"`` or ``"mps"``.
        precision: Arithmetic of the networks: ``"float32"``, ``"tf32"``, ``"bfloat16"``,
            ``"float16"``.
        weights: Folder with the published files; ``None`` for the cache, which is filled from the
            published addresses; ``"random"`` for seeded noise in the official sizes, which
            protects nobody and is for tests, benchmarks and dry runs.
        local_files_only: Never use the network.
        token: Access token of the Hugging Face Hub, as its own library takes it.
        pool: Target speakers, for systems that have them: a pool, its path, or reference speech by
            speaker name.
        **options: Fields of the system's ``Config``.

    Raises:
        UnknownSystemError: There is no such system.
        ConfigError: An option, the device, the precision or the pool does not fit.
        MissingDependencyError: A package that the system needs is not installed.
        WeightsError: A weight file is missing, damaged or not the published one.
    """
    check_precision(precision)
    where = resolve_device(device)
    system = _load(
        name, where, weights, pool, options, local_files_only=local_files_only, token=token
    )
    system.precision = precision
    return system


def _load(
    name: str | os.PathLike[str],
    where: torch.device,
    weights: str | os.PathLike[str] | None,
    pool: object,
    options: Mapping[str, Any],
    *,
    local_files_only: bool,
    token: str | bool | None,
) -> Anonymizer:
    """Builds a system, fills it, moves it, and gives it its pool."""
    folder = Path(name)
    # A folder that happens to bear a system's name does not take its place.
    known = str(name).lower() in {*_names(), *_offered()}
    saved = read_settings(folder) if not known and is_pretrained(folder) else None
    if saved and weights is not None:
        raise ConfigError(f"weights: {folder} holds its own; leave weights out.")
    entry = _find(saved["system"] if saved else str(name))
    implementation = _implementation(entry)
    _check_options(implementation, entry.info.id, options)
    defaults = saved["config"] if saved else entry.options
    config = parse_config(implementation.Config, {**defaults, **options})
    with building():
        system = implementation(config, entry.info)
        if system.members:
            place = folder if saved else weights
            remote = {"local_files_only": local_files_only, "token": token}
            system.use_members(_load_members(system, where, place, saved=bool(saved), **remote))
        elif saved:
            _load_saved(system, folder, saved["weights"])
            pool = folder / POOL_NAME if pool is None and (folder / POOL_NAME).is_file() else pool
        elif weights == RANDOM_WEIGHTS:
            _fill_random(system)
        elif entry.info.weights:
            _load_published(system, weights, local_files_only, token)
        elif weights is not None:
            raise ConfigError(f"weights: {entry.info.id} has none; leave weights out.")
    system.to(where).eval().requires_grad_(False)
    if pool is not None:
        system.use_pool(pool)
    return system


def _load_members(
    system: Anonymizer,
    where: torch.device,
    place: str | os.PathLike[str] | None,
    *,
    saved: bool,
    **remote: Any,
) -> dict[str, Anonymizer]:
    """Loads the systems that a mixture is made of, each from a folder of its own if there is one.

    Args:
        system: The mixture.
        where: Device.
        place: What `load` got as ``weights``, or the folder of a saved mixture.
        saved: Which of the two.
        **remote: As for `load`.
    """
    found = {}
    for role, (name, options) in system.members.items():
        weights = place if not saved and system_info(name).weights else None
        if saved:
            name, options = str(Path(str(place)) / role), {}
        elif weights not in (None, RANDOM_WEIGHTS) and (Path(str(weights)) / name).is_dir():
            weights = Path(str(weights)) / name
        found[role] = _load(name, where, weights, None, options, **remote)
    return found


def _load_saved(system: Anonymizer, folder: Path, digests: dict[str, str]) -> None:
    from voiceanon.hub.convert import load_strict
    from voiceanon.hub.read import read_state

    path = folder / MODEL_NAME
    if system.info.weights:
        system.build()
        load_strict(system, read_state(path), file=path)
    system.weight_digests = digests
    if RANDOM_WARNING in digests.values():
        _warn_of_random(system)


def _load_published(
    system: Anonymizer,
    weights: str | os.PathLike[str] | None,
    local_files_only: bool,
    token: str | bool | None,
) -> None:
    # Imported here, since systems without weights need no client of the Hub.
    from voiceanon.hub.resolve import resolve
    from voiceanon.hub.verify import digest_of

    files = resolve(
        system.info,
        weights=None if weights is None else Path(weights),
        local_files_only=local_files_only,
        token=token,
        names=system.weight_keys,
    )
    system.load_weights(files)
    system.weight_digests = {key: digest_of(path) for key, path in files.items()}


def _fill_random(system: Anonymizer) -> None:
    if not system.info.weights:
        raise ConfigError(f"weights: {system.info.id} has none; leave weights out.")
    secret = seeding.seed_secret(RANDOM_WEIGHTS_SEED)
    system.build()
    fill_random(system, seeding.generator(seeding.stream(secret, "random weights")))
    system.weight_digests = dict.fromkeys(system.weight_keys, RANDOM_WARNING)
    _warn_of_random(system)


def _warn_of_random(system: Anonymizer) -> None:
    system.info = replace(system.info, notes=(RANDOM_WARNING, *system.info.notes))
    warnings.warn(f"{system.info.id}: {RANDOM_WARNING}", UserWarning, stacklevel=5)


@cache
def _built_in() -> dict[str, _Entry]:
    return {
        system_id: _Entry(read_manifest(system_id), place, options)
        for system_id, (place, options) in _BUILT_IN.items()
    }


@cache
def _offered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _names() -> dict[str, _Entry]:
    entries = [*_built_in().values(), *_registered.values()]
    return {name: entry for entry in entries for name in (entry.info.id, *entry.info.aliases)}


def _find(name: str) -> _Entry:
    known = _names()
    wanted = name.lower()
    if wanted in known:
        return known[wanted]
    if wanted in _offered():
        implementation = _offered()[wanted].load()
        return _Entry(implementation.info, implementation, {})
    names = sorted({*known, *_offered()})
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise UnknownSystemError(f"system: {name!r} is unknown{hint} Known are {', '.join(names)}.")


def _implementation(entry: _Entry) -> type[Anonymizer]:
    if not isinstance(entry.implementation, str):
        return entry.implementation
    module, _, name = entry.implementation.partition(":")
    try:
        implementation: type[Anonymizer] = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{entry.info.id}: the package {error.name!r} is not installed; install it, or "
            "reinstall voiceanon with its dependencies."
        ) from error
    return implementation


def _check_options(
    implementation: type[Anonymizer], system_id: str, options: Mapping[str, Any]
) -> None:
    allowed = [field.name for field in fields(implementation.Config)]
    unknown = [name for name in options if name not in allowed]
    if unknown:
        raise ConfigError(
            f"{system_id}: unknown option {', '.join(map(repr, unknown))}; its options are "
            f"{', '.join(allowed)}."
        )
