"""A folder in, a folder out: one voice per speaker, chosen by a secret; then the run is resumed.

Run: python examples/folder.py
"""

import json
import secrets
import tempfile
from pathlib import Path

import numpy as np
import soundfile

from voiceanon import load
from voiceanon.corpus import anonymize_folder

RATE = 16_000


def write_tone(path: Path, pitch: float) -> None:
    """Writes 1 s of a buzz with its energy below 2 kHz, in place of a recording."""
    time = np.arange(RATE) / RATE
    harmonics = pitch * np.arange(1, int(2000 / pitch))
    path.parent.mkdir(parents=True, exist_ok=True)
    wav = np.sin(2 * np.pi * np.outer(time, harmonics)).mean(axis=1)
    soundfile.write(path, wav, RATE)


def main() -> None:
    """Anonymizes two files of one speaker and one of another."""
    anon = load("b2")
    # Whoever has the secret can draw the same voices: keep it, or forget it, but never publish it.
    secret = secrets.token_bytes(32)
    with tempfile.TemporaryDirectory() as folder:
        recordings, anonymized = Path(folder, "recordings"), Path(folder, "anonymized")
        write_tone(recordings / "anna" / "1.wav", pitch=200)
        write_tone(recordings / "anna" / "2.flac", pitch=210)
        write_tone(recordings / "bert" / "1.wav", pitch=110)

        result = anonymize_folder(anon, recordings, anonymized, seed=secret, level="speaker")
        print(f"done {len(result.done)}, failed {len(result.failed)}, audio {result.seconds:g} s")
        for line in (anonymized / "report.jsonl").read_text().splitlines():
            entry = json.loads(line)
            report = entry["report"]
            print(f"{entry['output']}: speaker {report['speaker']}, seed {report['seed']}")
        alphas = {item.output: item.report["target"]["alpha"] for item in result.done}
        print("one voice per speaker:", alphas["anna/1.wav"] == alphas["anna/2.flac"])
        print("another speaker, another voice:", alphas["anna/1.wav"] != alphas["bert/1.wav"])

        again = anonymize_folder(anon, recordings, anonymized, seed=secret, level="speaker")
        print(f"second run: done {len(again.done)}, skipped {len(again.skipped)}")


if __name__ == "__main__":
    main()
