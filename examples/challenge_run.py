"""Repeats the draws of the VoicePrivacy Challenge 2024 for its baseline B2 on a Kaldi folder.

These draws are public. Use them to compare with published results, not to protect speakers.

Run: python examples/challenge_run.py
"""

import tempfile
from pathlib import Path

import numpy as np
import soundfile

from voiceanon import load
from voiceanon.corpus import anonymize_folder, challenge_alphas

RATE = 16_000
UTTERANCES = ("1272-0001", "1272-0002", "1462-0001")


def write_kaldi_folder(folder: Path) -> None:
    """Writes half a second of noise per utterance, `wav.scp` and `utt2spk`."""
    noise = np.random.default_rng(0)
    audio = folder / "audio"
    audio.mkdir(parents=True)
    for utterance in UTTERANCES:
        soundfile.write(audio / f"{utterance}.wav", noise.normal(0, 0.1, RATE // 2), RATE)
    paths = [f"{utterance} {audio / utterance}.wav\n" for utterance in UTTERANCES]
    speakers = [f"{utterance} {utterance.split('-')[0]}\n" for utterance in UTTERANCES]
    (folder / "wav.scp").write_text("".join(paths))
    (folder / "utt2spk").write_text("".join(speakers))


def main() -> None:
    """Anonymizes the folder with the challenge's coefficients."""
    # The published code fades the edges of each file; see the page of B2 for the difference.
    anon = load("b2", edges="reference")
    with tempfile.TemporaryDirectory() as temporary:
        source, result_folder = Path(temporary, "libri"), Path(temporary, "libri_mcadams")
        write_kaldi_folder(source)

        # One draw for each line of wav.scp, in its order.
        listed = [line.split()[0] for line in (source / "wav.scp").read_text().splitlines()]
        alphas = challenge_alphas(len(listed))
        targets = {
            utterance: {"alpha": float(alpha)}
            for utterance, alpha in zip(listed, alphas, strict=True)
        }
        result = anonymize_folder(anon, source, result_folder, targets=targets)

        for item in result.done:
            print(f"{item.key}: alpha = {item.report['target']['alpha']:.6f}")
        print("files:", *sorted(path.name for path in result_folder.iterdir()))


if __name__ == "__main__":
    main()
