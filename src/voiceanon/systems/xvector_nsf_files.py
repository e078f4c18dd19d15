"""What `XVectorNSF` reads: Kaldi models, the generator's checkpoint, and the pool of speakers.

Source: specification sheet of the x-vector family, sections 1, 5 to 7, 9, 14 and 15.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from voiceanon import seeding
from voiceanon.components.content.tdnnf_bottleneck import SHIFTS, merge_lda
from voiceanon.components.speaker.ivector_config import ivector_entries
from voiceanon.components.speaker.tdnn_xvector import CONTEXTS, LOST_FRAMES
from voiceanon.errors import WeightsError
from voiceanon.hub import kaldi
from voiceanon.hub.pool import Pool
from voiceanon.hub.read import read, state_of
from voiceanon.systems.xvector_nsf_config import SEXES, Vectors

_MODELS = "exp/models"
_EXTRACTOR = f"{_MODELS}/1_asr_am/exp/nnet3_cleaned/extractor"
_XVECTORS = f"{_MODELS}/2_xvect_extr/exp/xvector_nnet_1a"
_POOL = "anon_pool/train_other_500"

BOTTLENECK_FILE = f"{_MODELS}/1_asr_am/exp/chain_cleaned/tdnn_1d_sp/prefinal-l.raw"
IVECTOR_FILE = f"{_EXTRACTOR}/final.ie"
UBM_FILE = f"{_EXTRACTOR}/final.dubm"
SPLICE_FILE = f"{_EXTRACTOR}/final.mat"
CMVN_FILE = f"{_EXTRACTOR}/global_cmvn.stats"
XVECTOR_FILE = f"{_XVECTORS}/final.raw"
PLDA_FILE = f"{_XVECTORS}/plda"
LDA_FILE = f"{_XVECTORS}/transform.mat"
MEAN_FILE = f"{_XVECTORS}/mean.vec"
CHUNK_FILES = (f"{_XVECTORS}/min_chunk_size", f"{_XVECTORS}/max_chunk_size")
POOL_FILE = f"{_POOL}/xvectors/spk_xvector.ark"
SEXES_FILE = f"{_POOL}/spk2gender"
GENERATOR_FILES: Mapping[Vectors, str] = {
    "kaldi": f"{_MODELS}/5_joint_tts_nsf_hifigan/trained_network_G.pt",
    "sidekit": "models/B1b_sidekit/hifigan_nsf_trained_network.pt",
}
SIDEKIT_POOL_FILE = "data/xvectors_libritts_train_other_500/spk_xvector.ark"

POOL_SPEAKERS = 1160
"""Speakers of LibriTTS train-other-500: 600 male, 560 female."""

RANDOM_MALES = 600
"""Speakers of a pool of noise that are male, as in the published one."""

_RANDOM_SEED = 0

_LARGEST_CHUNK = 100_000
"""Frames, ten times the chunk of the training recipe; what short chunks are filled up to costs."""


def weight_keys(vectors: Vectors) -> tuple[str, ...]:
    """Keys of all files that the system needs."""
    shared = (
        BOTTLENECK_FILE, IVECTOR_FILE, UBM_FILE, SPLICE_FILE, CMVN_FILE, XVECTOR_FILE, PLDA_FILE,
        LDA_FILE, MEAN_FILE, *CHUNK_FILES, POOL_FILE, SEXES_FILE, GENERATOR_FILES[vectors],
    )  # fmt: skip
    return (*shared, SIDEKIT_POOL_FILE) if vectors == "sidekit" else shared


def read_bottleneck(path: Path) -> dict[str, Tensor]:
    """Reads the entries of the content network, in the form that is prepared for use.

    Raises:
        WeightsError: It is no such network, or one with another wiring.
    """
    model = kaldi.read_nnet3(path)
    for layer, shift in enumerate(SHIFTS, start=2):
        for part, wanted in (("linear", (-shift, 0)), ("affine", (0, shift))):
            name = f"tdnnf{layer}.{part}"
            component = model.components.get(name)
            found = None if component is None else component.fields.get("TimeOffsets")
            _check_offsets(path, name, found, wanted if shift else (0,))
    entries = kaldi.nnet3_entries(model)
    if "lda.weight" in entries:
        names = [f"{part}.{end}" for part in ("lda", "tdnn1.affine") for end in ("weight", "bias")]
        _check_product(path, names[0], names[2], entries)
        _check_there(path, names, entries)
    return merge_lda(entries)


def read_xvector_network(path: Path) -> dict[str, Tensor]:
    """Reads the entries of the x-vector network, those behind the x-vector among them.

    Raises:
        WeightsError: It is no such network, or one with another wiring.
    """
    model = kaldi.read_nnet3(path)
    for layer, wanted in enumerate(CONTEXTS, start=1):
        name = f"tdnn{layer}.affine"
        _check_offsets(path, name, _offsets(model.node(name).input), wanted)
    return kaldi.nnet3_entries(model)


def read_ivector_extractor(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Reads the entries of the i-vector extractor.

    Args:
        files: By key.

    Raises:
        WeightsError: A file is none of an extractor, or the files do not belong together.
    """
    extractor = kaldi.read_ivector_extractor(files[IVECTOR_FILE])
    ubm = kaldi.read_diag_gmm(files[UBM_FILE])
    splice = kaldi.read_matrix(files[SPLICE_FILE])
    stats = kaldi.read_matrix(files[CMVN_FILE])
    gaussians, width, _ = extractor.projections.shape
    if ubm.inv_vars.shape != (gaussians, width) or len(splice) != width:
        raise WeightsError(
            f"{files[IVECTOR_FILE]}: {gaussians} Gaussians in {width} dimensions, but "
            f"{tuple(ubm.inv_vars.shape)} in {files[UBM_FILE]} and {len(splice)} dimensions in "
            f"{files[SPLICE_FILE]}. Take all of them from one package."
        )
    if len(stats) != 2 or stats.shape[1] < 2 or not float(stats[0, -1]) > 0:
        raise WeightsError(
            f"{files[CMVN_FILE]}: expected two rows of sums with their count, found "
            f"{tuple(stats.shape)}; take the published file."
        )
    if (splice.shape[1] - 1) % (stats.shape[1] - 1):
        raise WeightsError(
            f"{files[SPLICE_FILE]}: {splice.shape[1]} columns do not fit frames of "
            f"{stats.shape[1] - 1} features, as in {files[CMVN_FILE]}, and an offset."
        )
    return ivector_entries(
        lda=splice,
        weights=ubm.weights,
        means_invvars=ubm.means_invvars,
        inv_vars=ubm.inv_vars,
        projections=extractor.projections,
        inverse_covariances=extractor.inverse_covariances,
        prior_offset=extractor.prior_offset,
        cmvn_stats=stats,
    )


def read_backend(files: Mapping[str, Path]) -> dict[str, Tensor]:
    """Reads what compares x-vectors, under the names of `Plda`.

    Raises:
        WeightsError: A file is damaged, or the files do not belong together.
    """
    plda = kaldi.read_plda(files[PLDA_FILE])
    if not bool((plda.psi >= 0).all()):
        raise WeightsError(
            f"{files[PLDA_FILE]}: holds variances that are negative or no numbers; take the "
            "published file."
        )
    mean, transform = kaldi.read_vector(files[MEAN_FILE]), kaldi.read_matrix(files[LDA_FILE])
    if transform.shape != (len(plda.mean), len(mean) + 1):
        raise WeightsError(
            f"{files[LDA_FILE]}: expected a matrix of {(len(plda.mean), len(mean) + 1)}, as "
            f"{files[PLDA_FILE]} and {files[MEAN_FILE]} want it, found {tuple(transform.shape)}; "
            "take all of them from one package."
        )
    return {
        "mean": mean,
        "transform": transform,
        "centre": plda.mean,
        "matrix": plda.transform,
        "spread": plda.psi,
    }


def read_chunk_sizes(files: Mapping[str, Path]) -> tuple[int, int]:
    """Reads the smallest and the usual number of frames of a chunk of the x-vector network.

    Raises:
        WeightsError: A file holds no such number.
    """
    sizes = []
    # What a chunk is filled up to must leave a frame that sees all of its context.
    for key, smallest in zip(CHUNK_FILES, (LOST_FRAMES + 1, 1), strict=True):
        text = _text(files[key]).strip()
        number = int(text) if len(text) < 10 and text.isascii() and text.isdigit() else 0
        if not smallest <= number <= _LARGEST_CHUNK:
            raise WeightsError(
                f"{files[key]}: expected a number of frames from {smallest} to {_LARGEST_CHUNK}, "
                f"found {text[:40]!r}; take the published file."
            )
        sizes.append(number)
    return sizes[0], sizes[1]


def read_generator(path: Path) -> dict[str, Tensor]:
    """Reads the entries of the generator: bare, or under ``state_dict``, of one or several GPUs.

    Raises:
        WeightsError: It is no such checkpoint.
    """
    data = read(path)
    inside = isinstance(data, Mapping) and "state_dict" in data
    state = state_of(data, *(("state_dict",) if inside else ()), file=path)
    state = {name.removeprefix("module."): value for name, value in state.items()}
    for name, wanted in (("output_mean", 0.0), ("output_std", 1.0)):
        if name in state and not bool((state[name] == wanted).all()):
            raise WeightsError(
                f"{path}: {name} is {state[name].flatten()[:3].tolist()}, {wanted} is known; take "
                "the published file."
            )
    return state


def read_pool(files: Mapping[str, Path], vectors: Vectors) -> Pool:
    """Reads the pool: the x-vector of each speaker, and the one that the generator takes behind it.

    Args:
        files: By key.
        vectors: See `Vectors`.

    Returns:
        One row per speaker: the Kaldi x-vector; with ``"sidekit"``, the other one behind it.

    Raises:
        WeightsError: A file is damaged, or the files do not belong together.
    """
    features = _speakers(files[POOL_FILE])
    sexes = _sexes(files[SEXES_FILE])
    missing = sorted(features.keys() - sexes.keys())
    if missing:
        raise WeightsError(
            f"{files[SEXES_FILE]}: says nothing of {len(missing)} speakers of {files[POOL_FILE]} "
            f"({', '.join(missing[:3])}); take both from one package."
        )
    if vectors == "sidekit":
        others = _speakers(files[SIDEKIT_POOL_FILE])
        missing = sorted(features.keys() - others.keys())
        if missing:
            raise WeightsError(
                f"{files[SIDEKIT_POOL_FILE]}: lacks {len(missing)} speakers of "
                f"{files[POOL_FILE]} ({', '.join(missing[:3])}); take the published file."
            )
        features = {name: torch.cat([row, others[name]], 1) for name, row in features.items()}
    return Pool(features, {name: sexes[name] for name in features}, {"pool": _POOL})


def random_generator(part: str) -> torch.Generator:
    """Noise in place of a part of the weights; always the same."""
    secret = seeding.seed_secret(_RANDOM_SEED)
    return seeding.generator(seeding.stream(secret, "random weights of B1", part))


def random_pool(width: int) -> Pool:
    """A pool of noise in the official size; always the same one.

    Args:
        width: Values of a speaker.
    """
    generator = random_generator("pool")
    rows = torch.randn(POOL_SPEAKERS, 1, width, generator=generator, dtype=torch.float32)
    names = [f"{number:04}" for number in range(POOL_SPEAKERS)]
    sexes = {name: SEXES[int(name) < RANDOM_MALES] for name in names}
    return Pool(dict(zip(names, rows, strict=True)), sexes, {"pool": "random"})


def _speakers(path: Path) -> dict[str, Tensor]:
    """Vectors of an archive, as float32 ``(1, D)``; some archives hold matrices of one row."""
    found = {}
    for name, value in kaldi.read_ark(path).items():
        row = value.float().reshape(1, -1)
        if value.ndim == 2 and len(value) != 1:
            raise WeightsError(
                f"{path}: {name} has {len(value)} rows, one vector per speaker is due; take the "
                "archive of speakers, not that of utterances."
            )
        if not bool(row.isfinite().all()):
            raise WeightsError(f"{path}: the vector of {name} is not finite.")
        found[name] = row
    widths = {row.shape[1] for row in found.values()}
    if len(widths) != 1 or 0 in widths:
        raise WeightsError(f"{path}: expected vectors of one width, found widths {sorted(widths)}.")
    return found


def _sexes(path: Path) -> dict[str, str]:
    """Sex by speaker, from lines of a name and ``f`` or ``m``."""
    sexes: dict[str, str] = {}
    for line in _text(path).splitlines():
        words = line.split()
        if words and (len(words) != 2 or words[1] not in SEXES):
            raise WeightsError(f"{path}: expected a name and 'f' or 'm', found {line[:60]!r}.")
        if words and sexes.setdefault(words[0], words[1]) != words[1]:
            raise WeightsError(f"{path}: says 'f' and 'm' of {words[0]}; take the published file.")
    return sexes


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WeightsError(f"{path}: cannot be read as text ({error}).") from error


def _offsets(descriptor: kaldi.Descriptor | None) -> tuple[float, ...]:
    """Frames that a node sees of another one, relative to its own."""
    if descriptor is None:
        return ()
    parts: Iterable[object] = [descriptor]
    if descriptor.name == "Append":
        parts = descriptor.arguments
    found = []
    for part in parts:
        offset: object = 0.0
        if isinstance(part, kaldi.Descriptor) and part.name == "Offset":
            offset = part.arguments[-1] if part.arguments else None
        found.append(offset if isinstance(offset, float) else float("nan"))
    return tuple(found)


def _check_offsets(path: Path, name: str, found: object, wanted: Sequence[float]) -> None:
    if found != tuple(wanted):
        raise WeightsError(
            f"{path}: the layer {name} sees frames {found}, {tuple(wanted)} are known; take the "
            "published file."
        )


def _check_there(path: Path, names: Sequence[str], entries: Mapping[str, Tensor]) -> None:
    missing = [name for name in names if name not in entries]
    if missing:
        raise WeightsError(f"{path}: there is no {', '.join(missing)}; take the published file.")


def _check_product(path: Path, first: str, second: str, entries: Mapping[str, Tensor]) -> None:
    """Sees that the second of two maps takes what the first one gives."""
    _check_there(path, [first, second], entries)
    if entries[second].shape[1] != len(entries[first]):
        raise WeightsError(
            f"{path}: {second} {tuple(entries[second].shape)} does not take what {first} "
            f"{tuple(entries[first].shape)} gives; take the published file."
        )
