"""What a file's header announces, against what is there."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

from voiceanon.errors import AudioError


def check_complete(path: Path) -> None:
    """Raises where a RIFF or NIST header announces more bytes than there are.

    libsndfile shortens such files in silence.

    Raises:
        AudioError: The file is truncated.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        magic = file.read(12)
        if magic[:4] == b"RIFF" and magic[8:] == b"WAVE":
            end = _riff_data_end(file, size)
        elif magic[:7] == b"NIST_1A":
            end = _nist_data_end(file)
        else:
            return
    if end > size:
        raise AudioError(
            f"{path}: the file is truncated: its header announces {end} bytes, there are {size}."
        )


def _riff_data_end(file: IO[bytes], size: int) -> int:
    position = 12
    while position + 8 <= size:
        file.seek(position)
        name, length = struct.unpack("<4sI", file.read(8))
        if name == b"data":
            # Programs that write into a pipe leave the length open, as 0 or all ones.
            return position + 8 + (0 if length >= 0x7FFFFFFF else length)
        position += 8 + length + length % 2
    return position


def _nist_data_end(file: IO[bytes]) -> int:
    file.seek(8)
    header_bytes = int(file.readline())
    file.seek(0)
    fields = {}
    for line in file.read(header_bytes).decode("latin-1").splitlines():
        words = line.split(maxsplit=2)
        if len(words) == 3:
            fields[words[0]] = words[2]
    if fields.get("sample_coding", "pcm") not in ("pcm", "ulaw", "alaw"):
        return 0  # compressed: samples do not tell bytes
    samples = int(fields.get("sample_count", 0)) * int(fields.get("channel_count", 1))
    return header_bytes + samples * int(fields.get("sample_n_bytes", 2))
