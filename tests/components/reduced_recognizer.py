"""The reduced recogniser of the stored values."""

import json
from pathlib import Path

import numpy as np
import torch
from golden.seeded_weights import seeded_state_dict

from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
from voiceanon.components.asr.branchformer.recognizer import PhoneRecognizer

GOLDEN = Path(__file__).parents[1] / "golden" / "gan_fastspeech2"
STORED = {name: torch.from_numpy(value) for name, value in np.load(GOLDEN / "asr.npz").items()}

LETTERS = "abcdefghijklmnopqrstuvwxyz\u0251\u025b\u026a\u0283\u028a\u02c8\u02cc\u02d0,.?"
PIECES = [f"\u2581{c}" if i % 5 == 0 else c for i, c in enumerate(LETTERS)]
TOKENS = ["<blank>", "<unk>", *PIECES, "<sos/eos>"]

SETTINGS = {
    "token_list": TOKENS,
    "token_type": "bpe",
    "frontend": "default",
    "frontend_conf": {"fs": "16k", "n_fft": 512, "hop_length": 160},
    "normalize": "global_mvn",
    "normalize_conf": {"stats_file": "exp/asr_stats/train/feats_stats.npz"},
    "encoder": "branchformer",
    "encoder_conf": {
        "output_size": 32,
        "attention_heads": 4,
        "cgmlp_linear_units": 64,
        "num_blocks": 2,
    },
    "decoder": "transformer",
    "decoder_conf": {"attention_heads": 4, "linear_units": 64, "num_blocks": 2},
}
"""As a `config.yaml` would have them; what is left out is ESPnet's default."""

E_SETTINGS = SETTINGS | {
    "encoder": "e_branchformer",
    "encoder_conf": SETTINGS["encoder_conf"]
    | {"use_ffn": True, "macaron_ffn": True, "linear_units": 64, "merge_conv_kernel": 31},
}


def entries(name):
    shapes = json.loads((GOLDEN / f"entries_{name}.json").read_text())
    return {entry: tuple(shape) for entry, shape in shapes.items()}


def mel_matrix():
    import librosa

    matrix = librosa.filters.mel(sr=16000, n_fft=512, n_mels=80, fmin=0, fmax=8000)
    return torch.from_numpy(matrix.T.copy())


def reduced(settings=SETTINGS):
    """A recogniser with seeded weights and the stored mean and deviation."""
    model = PhoneRecognizer(PhoneRecognizerConfig.from_published(settings), TOKENS).eval()
    weights = seeded_state_dict({k: tuple(v.shape) for k, v in model.state_dict().items()})
    weights["frontend.logmel.melmat"] = mel_matrix()
    if "normalize.mean" in weights:
        weights |= {"normalize.mean": STORED["mean"], "normalize.std": STORED["std"]}
    model.load_state_dict(weights)
    return model


def utterance():
    """The stored recording, not normalised, (T,)."""
    audio = np.load(GOLDEN / "audio.npz")
    return torch.from_numpy(audio["wave"]) * float(audio["peak"])
