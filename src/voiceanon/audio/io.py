"""Reading and writing audio files, through libsndfile alone.

soundfile is imported at first use, so that arrays can be anonymized where it is missing.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from voiceanon.audio.checks import check_rate
from voiceanon.audio.headers import check_complete
from voiceanon.errors import AudioError, AudioWarning
from voiceanon.files import replacing

if TYPE_CHECKING:
    import soundfile

READABLE = frozenset((
    ".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".sph", ".nist", ".aif", ".aiff", ".aifc",
    ".au", ".snd", ".w64", ".rf64", ".caf",
))  # fmt: skip
"""File endings that libsndfile reads."""

UNREADABLE = frozenset((
    ".m4a", ".aac", ".mp4", ".m4b", ".wma", ".webm", ".mkv", ".mov", ".amr", ".3gp", ".ac3",
    ".ape", ".wv",
))  # fmt: skip
"""File endings of audio and video that libsndfile does not read."""

WRITABLE = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}
"""File endings that the library writes, with libsndfile's name of the container."""

_KEPT_SUBTYPES = {
    "WAV": ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"),
    "FLAC": ("PCM_16", "PCM_24"),
    "OGG": ("VORBIS",),
}
_INTEGER_BITS = {"PCM_16": 16, "PCM_24": 24, "PCM_32": 32}


@dataclass(frozen=True)
class FileFacts:
    """What a file's header says.

    Attributes:
        sample_rate: Hz.
        samples: Per channel.
        channels: Count.
        subtype: libsndfile's name of the sample format, such as ``"PCM_16"``.
    """

    sample_rate: int
    samples: int
    channels: int
    subtype: str

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.samples / self.sample_rate


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[soundfile.SoundFile]:
    suffix = path.suffix.lower()
    if suffix in UNREADABLE:
        raise AudioError(
            f"{path}: {suffix} files are not readable here; convert the file to WAV or FLAC first, "
            "or pass its samples as an array."
        )
    if not path.is_file():
        raise AudioError(f"{path}: there is no such file.")
    if path.stat().st_size == 0:
        raise AudioError(f"{path}: the file is empty (0 bytes).")
    import soundfile

    try:
        with soundfile.SoundFile(path) as file:
            yield file
    except soundfile.LibsndfileError as error:
        raise AudioError(
            f"{path}: not readable as audio ({error.error_string.rstrip('.')}); readable are "
            f"{', '.join(sorted(READABLE))}."
        ) from error


def read_facts(path: str | os.PathLike[str]) -> FileFacts:
    """Reads a file's header.

    Raises:
        AudioError: The file is missing, empty, truncated, unreadable or of an impossible rate.
    """
    path = Path(path)
    with _opened(path) as file:
        facts = FileFacts(file.samplerate, file.frames, file.channels, file.subtype)
    check_rate(facts.sample_rate, str(path))
    if not facts.samples:
        raise AudioError(f"{path}: the file holds no samples; leave it out.")
    check_complete(path)
    return facts


def read(
    path: str | os.PathLike[str], frames: tuple[int, int] | None = None
) -> tuple[npt.NDArray[np.float32], int]:
    """Reads a file.

    Args:
        path: See `READABLE`.
        frames: First sample and sample after the last one; ``None`` for the whole file.

    Returns:
        float32 ``(C, T)``, full scale 1.0, and the rate in Hz.

    Raises:
        AudioError: The file is missing, empty, truncated or unreadable.
    """
    path = Path(path)
    facts = read_facts(path)
    start, stop = frames or (0, facts.samples)
    with _opened(path) as file:
        file.seek(start)
        data = file.read(stop - start, dtype="float32", always_2d=True)
    if len(data) < stop - start:
        raise AudioError(
            f"{path}: the file is truncated: {stop - start} samples from {start} on were expected, "
            f"{len(data)} found."
        )
    return np.ascontiguousarray(data.T), facts.sample_rate


def output_subtype(source_subtype: str | None, suffix: str) -> str:
    """Sample format for an output file: the source's if the container has it, else 16 bit."""
    container = WRITABLE[suffix]
    kept = _KEPT_SUBTYPES[container]
    return source_subtype if source_subtype in kept else kept[0]


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises `ConfigError`'s sibling `AudioError` where the ending is none that we write."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITABLE:
        raise AudioError(
            f"{path}: cannot write {suffix or 'a file without an ending'}; writable are "
            f"{', '.join(WRITABLE)}."
        )


def write(
    path: str | os.PathLike[str],
    wav: npt.NDArray[np.float32],
    sample_rate: int,
    subtype: str | None = None,
) -> None:
    """Writes a file atomically: it appears whole or not at all, and carries no metadata tags.

    Where the format is integer (or Vorbis, whose readers clip) and the peak exceeds full scale, the
    whole file is scaled down, with an `AudioWarning` that states the gain.

    Args:
        path: ``.wav``, ``.flac`` or ``.ogg``; missing folders are made.
        wav: float32 ``(T,)`` or ``(C, T)``, full scale 1.0.
        sample_rate: Hz.
        subtype: libsndfile's name of the sample format; ``None`` is 16 bit (Vorbis for OGG).

    Raises:
        AudioError: The ending is unknown, or the container cannot hold this rate or format.
    """
    import soundfile

    path = Path(path)
    check_writable(path)
    suffix = path.suffix.lower()
    subtype = output_subtype(subtype, suffix)
    data = _fit_full_scale(np.atleast_2d(wav), subtype, path)
    with replacing(path) as temporary:
        try:
            _write_samples(temporary, data, sample_rate, WRITABLE[suffix], subtype)
        except soundfile.LibsndfileError as error:
            raise AudioError(
                f"{path}: {WRITABLE[suffix]} cannot hold {subtype} at {sample_rate} Hz with "
                f"{len(data)} channels ({error.error_string.rstrip('.')}); write WAV instead."
            ) from error


def _fit_full_scale(
    data: npt.NDArray[np.float32], subtype: str, path: Path
) -> npt.NDArray[np.float32]:
    if subtype in ("FLOAT", "DOUBLE"):
        return data
    bits = _INTEGER_BITS.get(subtype, 16)
    limit = 1.0 - 2.0 ** (1 - bits)
    peak = float(np.abs(data).max(initial=0.0))
    if peak <= 1.0:
        return data
    gain = limit / peak
    warnings.warn(
        f"{path}: the peak {peak:.3f} is above full scale; the whole file was scaled by "
        f"{20 * np.log10(gain):.2f} dB.",
        AudioWarning,
        stacklevel=3,
    )
    return data * np.float32(gain)


def _write_samples(
    path: Path, data: npt.NDArray[np.float32], sample_rate: int, container: str, subtype: str
) -> None:
    import soundfile

    samples: npt.NDArray[Any] = data.T
    if subtype in _INTEGER_BITS:
        samples = _quantize(samples, _INTEGER_BITS[subtype])
    with soundfile.SoundFile(
        path, "w", sample_rate, data.shape[0], subtype=subtype, format=container
    ) as file:
        file.write(samples)
    if container == "WAV" and subtype in ("FLOAT", "DOUBLE"):
        _erase_peak_time(path)


def _quantize(samples: npt.NDArray[np.float32], bits: int) -> npt.NDArray[Any]:
    """Rounds to ``bits`` so that reading (division by 2^(bits-1)) gives the same float back.

    libsndfile multiplies by 2^15 - 1 but divides by 2^15; it takes 24 bit from the top of int32.
    """
    scale = 2.0 ** (bits - 1)
    whole = np.clip(np.rint(samples.astype(np.float64) * scale), -scale, scale - 1)
    if bits == 16:
        return whole.astype(np.int16)
    return (whole * 2.0 ** (32 - bits)).astype(np.int32)


def _erase_peak_time(path: Path) -> None:
    """Sets the time of writing, which libsndfile puts into float WAV files, to zero."""
    with path.open("r+b") as file:
        head = file.read(4096)
        position = head.find(b"PEAK", 0, head.find(b"data"))
        if position >= 0:
            file.seek(position + 12)
            file.write(b"\0\0\0\0")
