"""What `GanFastSpeech2` reads: the files in the three published archives, and Silero's.

Source: specification sheet of B3, section 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torchaudio
from torch import Tensor

from voiceanon.components.acoustic.fastspeech2 import FastSpeech2, FastSpeech2Config
from voiceanon.components.alignment.aligner import Aligner
from voiceanon.components.asr.branchformer.beam_search import SearchOptions
from voiceanon.components.asr.branchformer.config import (
    BLANK_TOKEN,
    END_TOKEN,
    SAMPLE_RATE,
    PhoneRecognizerConfig,
)
from voiceanon.components.asr.branchformer.recognizer import (
    SPACE,
    UNKNOWN_TOKEN,
    PhoneRecognizer,
)
from voiceanon.components.speaker.style_tokens import STYLE_WIDTH, StyleTokens
from voiceanon.components.speaker.wgan import WganConfig, WganGenerator
from voiceanon.components.vad.silero import SileroVad, silero_from_onnx
from voiceanon.components.vocoder.hifigan import B3_RENAMES, HiFiGan, HiFiGanConfig
from voiceanon.components.weight_norm import fold_entries
from voiceanon.errors import ConfigError, WeightsError
from voiceanon.hub import archives
from voiceanon.hub.convert import load_strict
from voiceanon.hub.onnx import read_onnx
from voiceanon.hub.paths import unpacked_folder
from voiceanon.hub.read import part_of, read, read_state, state_of
from voiceanon.hub.verify import digest_of
from voiceanon.systems.gan_fastspeech2_config import OFFICIAL_VOCODER

RECOGNIZER = "asr/asr_branchformer_tts-phn_en.zip"
STYLE = "tts/Embedding/embedding_function.pt"
ALIGNER = "tts/Aligner/aligner.pt"
ACOUSTIC = "tts/FastSpeech2_Multi/prosody_cloning.pt"
VOCODER = "tts/HiFiGAN_combined/best.pt"
GAN = "anonymization/gan_style-embed/style-embed_wgan.pt"
STOCK = "anonymization/style-embed_wgan_generated_vectors.pt"
VAD = "silero_vad.onnx"

EVERYWHERE = (RECOGNIZER, STYLE, ALIGNER, ACOUSTIC, VOCODER, VAD)
"""Files that every variant needs; `GAN` and, where it is there, `STOCK` serve B3 alone."""

PARALLEL_PREFIX = "module."
"""Of the GAN's entries: it was trained on several GPUs."""

_ANEW = "load with stock_file=False, and vectors are made by the generator."
_META = "meta.yaml"
_FIRST_PHONES = "aɐbdefhijklmnopstuvwzæðŋɑɔəɛɜɡɪɹʃʊʌʒθˈːɾ.,?!"  # noqa: RUF001


class Archive(NamedTuple):
    """What an archive of ESPnet holds.

    Attributes:
        settings: Of the training, which tell sizes and tokens.
        weights: Entries by name.
        file: Of the weights.
    """

    settings: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    file: Path


def read_archive(path: Path) -> Archive:
    """Reads an archive of ESPnet, which stays as it is; what is needed is unpacked into the cache.

    Args:
        path: A verified zip file, of which ``meta.yaml`` names the parts.

    Raises:
        WeightsError: It does not hold what is due.
    """
    folder = unpacked_folder(digest_of(path)) / "espnet"
    meta = _read_yaml(path, _META, folder / _META)
    try:
        weights = str(meta["files"]["asr_model_file"])
        settings = str(meta["yaml_files"]["asr_train_config"])
    except (KeyError, TypeError) as error:
        raise WeightsError(
            f"{path}: its {_META} names no model and no settings of a recogniser ({error!r}); take "
            "the published archive."
        ) from error
    # The archive's own paths may not decide where files are written.
    file = _unpacked(path, weights, folder / "weights.pth")
    return Archive(
        settings=_read_yaml(path, settings, folder / "config.yaml"),
        weights=read_state(file),
        file=file,
    )


def _unpacked(archive: Path, member: str, target: Path) -> Path:
    if not target.is_file():
        archives.extract(archive, member, target)
    return target


def _read_yaml(archive: Path, member: str, target: Path) -> Mapping[str, Any]:
    path = _unpacked(archive, member, target)
    # Part of huggingface-hub's requirements; it has no types.
    yaml: Any = import_module("yaml")
    try:
        settings = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, AttributeError, RecursionError, ValueError) as error:
        # Only the first is said of what is no YAML; the others come from odd values.
        raise WeightsError(
            f"{archive}: its {member} cannot be read as YAML ({error}); take the published archive."
        ) from error
    if not isinstance(settings, Mapping):
        raise WeightsError(
            f"{archive}: expected settings by name in its {member}, found a "
            f"{type(settings).__name__}; take the published archive."
        )
    return settings


def tokens_of(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Pieces of text by number, from a recogniser's settings."""
    return tuple(str(token) for token in settings.get("token_list") or ())


def artificial_tokens(count: int) -> tuple[str, ...]:
    """Pieces of text that stand in where there are no weights to say them.

    Args:
        count: With start, end, blank and unknown; at least 4.
    """
    phones = [
        *_FIRST_PHONES,
        *(SPACE + phone for phone in _FIRST_PHONES),
        *(a + b for a in _FIRST_PHONES for b in _FIRST_PHONES),
    ]
    return (BLANK_TOKEN, UNKNOWN_TOKEN, SPACE, *phones[: count - 4], END_TOKEN)


def load_recognizer(
    path: Path,
    config: PhoneRecognizerConfig | None,
    tokens: Sequence[str] | None,
    options: SearchOptions,
) -> PhoneRecognizer:
    """Builds the recogniser in the sizes that its archive states, and fills it.

    Args:
        path: Of the archive.
        config: Sizes instead of those of the archive.
        tokens: Pieces of text instead of those of the archive.
        options: Of the search.

    Raises:
        WeightsError: The archive does not hold what is due.
    """
    archive = read_archive(path)
    with _naming(path):
        config = config or PhoneRecognizerConfig.from_published(archive.settings)
    with torch.device("meta"):
        network = PhoneRecognizer(config, tokens or tokens_of(archive.settings), options)
    load_strict(network, archive.weights, file=archive.file)
    return network


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Says in which file the sizes stand that are refused."""
    try:
        yield
    except (ConfigError, WeightsError) as error:
        raise WeightsError(f"{path}: {error}") from error


def _sizes_of(state: Mapping[str, Tensor], name: str, count: int, path: Path) -> Sequence[int]:
    """Shape of an entry that has ``count`` dimensions."""
    shape = tuple(part_of(state, name, file=path).shape)
    if len(shape) != count:
        raise WeightsError(
            f"{path}: the entry {name!r} has the shape {shape}; {count} dimensions are due. Take "
            "the published file."
        )
    return shape


def load_vad(path: Path) -> SileroVad:
    """Reads the voice activity detector."""
    network = SileroVad()
    load_strict(network, silero_from_onnx(read_onnx(path)), file=path)
    return network


def load_style(path: Path) -> StyleTokens:
    """Reads the network of style vectors."""
    network = StyleTokens()
    load_strict(network, read_state(path, "style_emb_func"), file=path)
    return network


def load_aligner(path: Path, width: int | None) -> Aligner:
    """Reads the aligner; the file also holds what served its training.

    Args:
        path: A verified file.
        width: Channels instead of those of the entries.
    """
    state = read_state(path, "asr_model")
    _, both_directions = _sizes_of(state, "proj.weight", 2, path)
    network = Aligner(width or both_directions // 2)
    load_strict(network, state, file=path)
    return network


def load_acoustic(path: Path, config: FastSpeech2Config | None) -> FastSpeech2:
    """Reads the acoustic model; the file's default speaker vector is not used.

    Args:
        path: A verified file.
        config: Sizes instead of those of the entries.
    """
    state = read_state(path, "model")
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    with _naming(path):
        config = config or FastSpeech2Config.from_entries(shapes)
    with torch.device("meta"):
        network = FastSpeech2(config)
    load_strict(network, state, file=path)
    return network


def load_vocoder(path: Path, config: HiFiGanConfig | None) -> HiFiGan:
    """Reads the vocoder.

    Args:
        path: A verified file.
        config: Sizes instead of the official ones in the widths of the entries; nothing in the
            file tells strides and dilations.
    """
    state = read_state(path, "generator")
    if config is None:
        width, bands, _ = _sizes_of(state, "input_conv.weight_v", 3, path)
        with _naming(path):
            config = replace(OFFICIAL_VOCODER, first_width=width, input_width=bands)
    with torch.device("meta"):
        network = HiFiGan(config)
    load_strict(network, state, file=path, renames=B3_RENAMES, fold=fold_entries)
    return network


def load_gan(path: Path, config: WganConfig | None) -> WganGenerator:
    """Reads the generator of style vectors; the file also holds its critic.

    Args:
        path: A verified file.
        config: Sizes and scale instead of those of the file.
    """
    data = read(path)
    if config is None:
        parameters = part_of(data, "model_parameters", file=path)
        mean, std = (part_of(data, name, file=path) for name in ("mean", "std"))
        with _naming(path):
            config = WganConfig.from_published(parameters, mean=mean, std=std)
    if config.width != STYLE_WIDTH:
        raise WeightsError(
            f"{path}: its vectors have {config.width} values; {STYLE_WIDTH} are due. Take the "
            "published file for style embeddings."
        )
    network = WganGenerator(config)
    state = {
        name.removeprefix(PARALLEL_PREFIX): value
        for name, value in state_of(data, "generator_state_dict", file=path).items()
    }
    load_strict(network, state, file=path)
    return network


def read_stock(path: Path) -> Tensor | None:
    """Reads a stock of vectors, float32 ``(S, 128)``.

    In one of the two published layouts, the place of the stock is that of the generator in the
    other: then ``None`` is given.

    Raises:
        WeightsError: The vectors are not what is due.
    """
    vectors = read(path)
    if isinstance(vectors, Mapping):
        return None
    shown = tuple(vectors.shape) if isinstance(vectors, Tensor) else type(vectors).__name__
    if not isinstance(vectors, Tensor) or vectors.shape[1:] != (STYLE_WIDTH,) or not len(vectors):
        raise WeightsError(
            f"{path}: expected vectors of {STYLE_WIDTH} values, found {shown}; {_ANEW}"
        )
    if not bool(vectors.isfinite().all()):
        raise WeightsError(f"{path}: some of its vectors {shown} are not finite; {_ANEW}")
    return vectors.float()


def fill_mel_matrix(recognizer: PhoneRecognizer) -> None:
    """Sets the recogniser's bands, an entry of its weights, to what they are there."""
    matrix = recognizer.frontend.logmel.melmat
    bands = torchaudio.functional.melscale_fbanks(
        matrix.shape[0],
        0.0,
        SAMPLE_RATE / 2,
        matrix.shape[1],
        SAMPLE_RATE,
        norm="slaney",
        mel_scale="slaney",
    )
    matrix.copy_(bands)
