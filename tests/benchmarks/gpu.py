"""Agreement with the CPU, speed and memory on a CUDA device, by one script for a bare machine.

    python tests/benchmarks/gpu.py [--out report.json] [--quick] [--device cuda]

It needs torch, torchaudio, transformers and numpy, and what they bring: no audio files, no
resampling, no compiled kernels. So B2 runs on the CPU with its tensor backend, and kNN-VC without
its level step (whose meter is compiled): its times lack the loudness, which is measured on the
host. All weights are random.

The exit status is 1 where a result differs from the CPU's, or a part could not be run.
"""

import argparse
import contextlib
import itertools
import json
import math
import statistics
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest import mock

sys.path.append(str(Path(__file__).resolve().parents[2] / "src"))

import numpy as np
import torch

from voiceanon import load
from voiceanon.audio.level import LevelMeter
from voiceanon.batching import pad, plan_batches
from voiceanon.components.acoustic.fastspeech2 import FastSpeech2Config
from voiceanon.components.alignment.search import durations_from_logits
from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
from voiceanon.components.asr.whisper_config import WhisperConfig
from voiceanon.components.codec.encodec import EncodecConfig
from voiceanon.components.content.bottleneck import BottleneckConfig
from voiceanon.components.content.hubert import HubertConfig
from voiceanon.components.content.semantic_quantiser import SemanticQuantiserConfig
from voiceanon.components.content.tdnnf_bottleneck import TdnnfBottleneckConfig
from voiceanon.components.content.wavlm_config import HOP_SAMPLES, WavLMConfig
from voiceanon.components.f0.praat import praat_f0
from voiceanon.components.lm.gpt import GptConfig
from voiceanon.components.lpc import tensor
from voiceanon.components.selection import neighbours
from voiceanon.components.speaker.ivector_config import IvectorConfig
from voiceanon.components.speaker.style_tokens import style_window
from voiceanon.components.speaker.tdnn_xvector import XVectorConfig
from voiceanon.components.tts.symbols import SymbolTable
from voiceanon.components.tts.vits_config import DecoderConfig, VitsConfig
from voiceanon.components.vocoder.hifigan import HiFiGanConfig
from voiceanon.devices import arithmetic
from voiceanon.hub.pool import Pool
from voiceanon.systems import mcadams
from voiceanon.systems.vqbn_hifigan import vocoder_config

RATE = 16_000
FRAMES_PER_SECOND = RATE // HOP_SAMPLES
SPEECH = np.load(Path(__file__).parents[1] / "golden" / "mcadams" / "mcadams.npz")["input"]

TOLERANCE = 1e-3
"""Of the peak: what a float32 result may differ from the CPU's."""

LEAST_EQUAL_SETS = 0.98
"""Share of frames with the same neighbours in float32. Frames of random networks in random pools
have many neighbours that are nearly as near, so that rounding may exchange the last of a set."""

LEAST_EQUAL_CODES = 0.99
"""Share of frames with the same code in float32; the rest lies between two codes."""

LEAST_EQUAL_F0 = 0.95
"""Share of frames with the same F0: the tracker has exact ties, which rounding decides."""

PRECISIONS = ("float32", "tf32", "bfloat16")

NETWORKS = {
    "content": ("wavlm", "content", "bottleneck"),
    "f0": ("f0",),
    "vocoder": ("vocoder", "codec"),
}
"""Stages, and the attributes of the systems that do their work."""

STAGES = (*NETWORKS, "between", "rest")
"""Between is what `convert` does itself, such as the matching of kNN-VC; the rest is what all
systems share: checks, padding, cutting, and the way to the device."""

REDUCED = {
    "encoder": WavLMConfig(conv_channels=32, width=64, heads=4, ffn_width=128, pos_groups=4),
    "vocoder": HiFiGanConfig(
        input_width=64,
        linear_width=32,
        first_width=64,
        strides=(10, 8, 2, 2),
        kernels=(20, 16, 4, 4),
        residual_kernels=(3, 7),
        residual_dilations=(1, 3),
    ),
}
"""Sizes of kNN-VC that two CPU cores run at once; the stages are those of the official sizes."""

REDUCED_B6 = {
    "encoder": BottleneckConfig(front_end="fbank", hidden=64, inner=16),
    "vocoder": vocoder_config(256 + 1 + 247, first_width=64),
}
"""The same for B6."""

REDUCED_B1 = {
    "xvector": XVectorConfig(hidden=(32, 32, 32, 32, 48), embedding=24),
    "ivector": IvectorConfig(width=16, gaussians=16, ivector=10),
    "bottleneck": TdnnfBottleneckConfig(ivector=10, hidden=64, inner=16, bottleneck=32),
}
"""The same for B1, but for its generator, whose filters have one size."""

REDUCED_B4 = {
    "layer": 2,
    "hubert": HubertConfig(
        conv_channels=32, width=64, heads=4, feed_forward=128, layers=2, pos_groups=4
    ),
    "quantiser": SemanticQuantiserConfig(input_width=64, hidden=32),
    "coarse": GptConfig(layers=2, heads=2, width=64),
    "fine": GptConfig(layers=2, heads=2, width=64, vocabulary=1056),
    "codec": EncodecConfig(channels=4),
}
"""The same for B4."""

REDUCED_B3 = {
    "beam": 3,
    "aligner_width": 32,
    "recognizer": PhoneRecognizerConfig(
        vocabulary=40,
        width=32,
        heads=2,
        blocks=2,
        gated_units=64,
        decoder_heads=2,
        decoder_ffn_units=64,
        decoder_layers=2,
    ),
    "acoustic": FastSpeech2Config(
        width=64,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
        feed_forward=128,
        predictor_width=32,
        post_width=64,
    ),
    "vocoder": HiFiGanConfig(
        input_width=80, first_width=64, strides=(8, 6, 4, 4), kernels=(16, 12, 8, 8)
    ),
}
"""The same for B3."""

REDUCED_T8_1 = {
    "whisper": WhisperConfig(
        mel_bins=20,
        width=64,
        encoder_layers=2,
        encoder_heads=2,
        encoder_ffn=128,
        decoder_layers=2,
        decoder_heads=2,
        decoder_ffn=128,
        source_positions=50,
        target_positions=32,
        vocabulary=358,
        prompt=(301,),
        end=300,
        no_timestamps=306,
        suppressed=(301, 302, 303, 304, 305),
        suppressed_first=(300,),
    ),
    "voice": VitsConfig(
        symbols=SymbolTable(symbols=tuple("_ abcdefghijklmnopqrstuvwxyz"), phonemes=False),
        embedded=28,
        speaker_width=16,
        width=32,
        layers=2,
        ffn=64,
        flow_width=32,
        decoder=DecoderConfig(
            first_width=32,
            residual_kernels=(3,),
            residual_dilations=((1, 3),),
        ),
    ),
    # Random durations are long.
    "speaking_rate": 8.0,
}
"""The same for T8-1."""

NO_GUARDS = {
    "phonemizer": "rules",
    "compression_ratio": 1e9,
    "log_probability": -1e9,
    "max_repeated_share": 1.0,
    "max_words_per_second": 1e9,
    "min_words_per_second": 0.0,
}
"""Options of T8-1: random weights write what no guard lets pass, and no package is there that
writes phonemes."""


@dataclass(frozen=True)
class Amount:
    """How much is measured.

    Attributes:
        options: Of `load`, for the speed of kNN-VC.
        systems: Systems of quantised bottlenecks whose speed is measured, and options of `load`.
        check_seconds: Utterances of the comparison with the CPU, from the shortest.
        check_precisions: In which the official sizes are compared.
        utterance_seconds: Shortest and longest utterance of the speed rows.
        batches: Utterances that are converted at once.
        pool_seconds: Reference speech per target speaker.
        speakers: Of the larger pool.
        codec_lm: Options of `load` for B4.
        codec_lm_seconds: Shortest and longest utterance of B4's speed rows.
        codec_lm_batches: Utterances of B4 that are converted at once.
        asr_tts: Options of `load` for T8-1.
        gan_fastspeech2: Options of `load` for B3.
        xvector_nsf: Options of `load` for B1.
        runs: Timed runs, after one that is not timed; of B3, B4 and T8-1, one.
    """

    options: dict
    systems: dict
    check_seconds: tuple
    check_precisions: tuple
    utterance_seconds: tuple
    batches: tuple
    pool_seconds: float
    speakers: int
    codec_lm: dict
    codec_lm_seconds: tuple
    codec_lm_batches: tuple
    asr_tts: dict
    gan_fastspeech2: dict
    xvector_nsf: dict
    runs: int = 3


FULL = Amount(
    options={},
    systems={"b5": {}, "b6": {}},
    check_seconds=(0.6, 1.3, 2.1),
    check_precisions=PRECISIONS,
    utterance_seconds=(6.0, 12.0),
    batches=(1, 16, 64),
    pool_seconds=300.0,
    speakers=8,
    codec_lm={},
    codec_lm_seconds=(2.0, 4.0),
    codec_lm_batches=(1, 16),
    asr_tts={},
    gan_fastspeech2={},
    xvector_nsf={},
)
QUICK = Amount(
    options=REDUCED,
    systems={"b6": REDUCED_B6},
    check_seconds=(0.3, 0.5, 0.8),
    check_precisions=("float32",),
    utterance_seconds=(0.6, 1.2),
    batches=(1, 4),
    pool_seconds=10.0,
    speakers=3,
    codec_lm=REDUCED_B4,
    codec_lm_seconds=(0.4, 0.8),
    codec_lm_batches=(1, 3),
    asr_tts=REDUCED_T8_1,
    gan_fastspeech2=REDUCED_B3,
    xvector_nsf=REDUCED_B1,
)


# Systems and their input.


def load_knn_vc(device, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the one about random weights
        system = load("t8-2", device=device, weights="random", **options)
    # The meter of the level step is compiled, and counts also where no level step follows.
    system.new_meter = LevelMeter
    return system


def load_vqbn(name, device, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the one about random weights
        return load(name, device=device, weights="random", **options)


def load_codec_lm(device, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the one about random weights
        return load("b4", device=device, weights="random", **options)


def load_asr_tts(device, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the one about random weights
        return load("t8-1", device=device, weights="random", **NO_GUARDS, **options)


def load_gan_fastspeech2(device, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the one about random weights
        return load("b3", device=device, weights="random", **options)


def load_xvector_nsf(device, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the one about random weights
        return load("b1", device=device, weights="random", missing_sex="any", **options)


def load_b2(device):
    return load("b2", device=device)


def tensor_backend(device):
    """Lets B2 use its tensor backend on the CPU, too; elsewhere it does so by itself."""
    if device.type != "cpu":
        return contextlib.nullcontext()
    return mock.patch.object(mcadams, "warp_poles", warp_by_tensors)


def warp_by_tensors(frames, alphas, order, offset):
    whitening = tensor.burg(frames + offset, order)
    return tensor.refilter(frames, whitening, tensor.warp(whitening, alphas))


def make_pool(speakers, seconds, width):
    """Random frames: the time of the search does not depend on what they are."""
    generator = torch.Generator().manual_seed(1)
    count = int(seconds * FRAMES_PER_SECOND)
    return Pool({
        f"speaker {number}": torch.randn(count, width, generator=generator)
        for number in range(speakers)
    })  # fmt: skip


def make_waves(all_seconds):
    """Float32 waves, each another piece of speech."""
    return [
        np.resize(np.roll(SPEECH, -4001 * number), int(seconds * RATE))
        for number, seconds in enumerate(all_seconds)
    ]


def mixed_seconds(count, low, high):
    """Lengths spread evenly, and always the same ones; a single utterance is rather long."""
    if count == 1:
        return [low + (high - low) * 2 / 3]
    return np.random.default_rng(0).permutation(np.linspace(low, high, count)).tolist()


def hold(system, seconds):
    """Lets one batch hold this many seconds, padding included."""
    system.info = replace(system.info, batch_seconds=seconds)


# Agreement with the CPU.


@dataclass
class Captured:
    """What a system made of utterances: audio, encoder frames, and neighbours, on the CPU."""

    audio: list
    features: list
    indices: list


def capture(system, batches):
    """Converts batches of utterances of rising lengths, and notes what happened inside."""
    noted = Captured([], [], [])

    def note_features(module, inputs, output):
        features, frames = output
        rows = zip(features.float().cpu(), frames.tolist(), strict=True)
        noted.features += [row[:count] for row, count in rows]

    def note_indices(pool, indices):
        noted.indices.append(indices.cpu())
        return average(pool, indices)

    average = neighbours.average
    handle = system.wavlm.register_forward_hook(note_features)
    try:
        with mock.patch.object(neighbours, "average", note_indices):
            for waves in batches:
                hold(system, len(waves) * len(waves[-1]) / RATE + 1)
                noted.audio += system.anonymize_batch(
                    waves, targets=["speaker 0"] * len(waves), loudness="none"
                )
    finally:
        handle.remove()
    counts = [len(frames) for frames in noted.features]
    noted.indices = list(torch.cat(noted.indices).split(counts))
    return noted


def compare(result, expected, context):
    """How far two results of kNN-VC lie apart, the audio where no different frame reaches."""
    same, kept, error = [], [], 0.0
    peak = max(float(np.abs(wav).max()) for wav in expected.audio)
    for wav, wanted, mine, theirs in zip(
        result.audio, expected.audio, result.indices, expected.indices, strict=True
    ):
        equal = (mine.sort(dim=1).values == theirs.sort(dim=1).values).all(dim=1)
        comparable = np.ones(len(wav), bool)
        for frame in (~equal).nonzero()[:, 0].tolist():
            start = frame * HOP_SAMPLES
            comparable[max(0, start + context[0]) : max(0, start + context[1])] = False
        difference = np.abs(wav - wanted)[comparable]
        error = max(error, float(difference.max(initial=0.0)) / peak)
        same.append(equal)
        kept.append(comparable)
    scale = max(float(frames.abs().max()) for frames in expected.features)
    return {
        "features": max(
            float((mine - theirs).abs().max()) / scale
            for mine, theirs in zip(result.features, expected.features, strict=True)
        ),
        "equal_choices": float(torch.cat(same).double().mean()),
        "compared_samples": float(np.concatenate(kept).mean()),
        "audio": error,
    }


def check_knn_vc(name, device, amount, options, precisions):
    """Batches on the device against single utterances on the CPU in float32."""
    waves = make_waves(amount.check_seconds)
    cpu = load_knn_vc("cpu", **options)
    pool = make_pool(1, 30, cpu.wavlm.config.width)
    cpu.use_pool(pool)
    expected = capture(cpu, [[wav] for wav in waves])
    context = cpu.vocoder.config.context_samples
    del cpu
    system = load_knn_vc(device, **options)
    system.use_pool(pool)

    def check(precision):
        system.precision = precision
        row = {"system": name, "precision": precision}
        row |= compare(capture(system, [waves]), expected, context)
        passed = row["audio"] <= TOLERANCE and row["equal_choices"] >= LEAST_EQUAL_SETS
        return row | {"passed": passed if precision == "float32" else None}

    for precision in precisions:
        yield partial(check, precision)


def vqbn_features(system, padded, lengths):
    """Content, F0 in Hz, and what the vocoder gets; of items with one and the same speaker."""
    content = system.content(padded, lengths)
    hertz, frames = system.f0(padded, lengths)
    targets = [{"speaker": system.speakers[0]}] * len(lengths)
    f0 = system._input_f0(padded, lengths, content.lengths, [torch.Generator() for _ in targets])
    one_hot = system._one_hot(targets, padded)[:, None].expand(-1, f0.shape[1], -1)
    return content, hertz, frames, torch.cat([content.vectors, f0[..., None], one_hot], dim=2)


@torch.inference_mode()
def check_vqbn(name, device, amount, options, precisions):
    """Each stage on the device against the CPU in float32; the vocoder from the CPU's features."""
    waves = [torch.from_numpy(wav) for wav in make_waves(amount.check_seconds)]
    cpu = load_vqbn(name, "cpu", **options)
    padded, lengths = pad(waves, torch.device("cpu"))
    content, hertz, frames, features = vqbn_features(cpu, padded, lengths)
    wav, _ = cpu.vocoder(features, content.lengths)
    del cpu
    system = load_vqbn(name, device, **options)
    inside = torch.arange(content.codes.shape[1]) < content.lengths[:, None]
    voiced = torch.arange(hertz.shape[1]) < frames[:, None]

    @torch.inference_mode()
    def check(precision):
        with arithmetic(precision, device):
            there = padded.to(device), lengths.to(device)
            mine, f0, *_ = vqbn_features(system, *there)
            result, _ = system.vocoder(features.to(device), content.lengths.to(device))
        row = {"system": f"{name} {'reduced' if options else 'official'}", "precision": precision}
        row["equal_choices"] = float((mine.codes.cpu() == content.codes)[inside].double().mean())
        row["equal_f0"] = float(((f0.cpu() - hertz).abs() < 0.1)[voiced].double().mean())
        row["audio"] = float((result.cpu() - wav).abs().max() / wav.abs().max())
        passed = (
            row["audio"] <= TOLERANCE
            and row["equal_choices"] >= LEAST_EQUAL_CODES
            and row["equal_f0"] >= LEAST_EQUAL_F0
        )
        return row | {"passed": passed if precision == "float32" else None}

    for precision in precisions:
        yield partial(check, precision)


@dataclass
class Spoken:
    """What each stage of B4 makes of what the CPU made in the stage before."""

    features: torch.Tensor
    choices: torch.Tensor
    audio: torch.Tensor


def codec_lm_stages(system, given, device):
    """Features; the most likely semantic, coarse and fine token everywhere; audio."""
    given = {name: value.to(device) for name, value in given.items()}
    parts = system.components
    features, _ = parts.content(given["wav"], given["lengths"])
    semantic = parts.quantiser(given["features"])
    tokens = given["coarse tokens"]
    cache = parts.coarse.new_cache(*tokens.shape)
    hidden = parts.coarse.whole(parts.coarse.input_embeds_layer(tokens), cache)
    coarse = [parts.coarse.code_logits(hidden, book).argmax(-1) for book in (0, 1)]
    fine = [parts.fine(given["codes"], book).argmax(-1) for book in range(2, 8)]
    audio, _ = parts.codec(given["codes"][..., :100], torch.full_like(given["lengths"], 100))
    choices = torch.cat([choice.flatten() for choice in (semantic, *coarse, *fine)])
    return Spoken(*(value.float().cpu() for value in (features, choices, audio)))


@torch.inference_mode()
def check_codec_lm(device, amount, options, precisions):
    """Each stage on the device against the CPU in float32, from the same tokens."""
    waves = [torch.from_numpy(wav) for wav in make_waves(amount.check_seconds)]
    cpu = load_codec_lm("cpu", **options)
    wav, lengths = pad(waves, torch.device("cpu"))
    features, _ = cpu.content(wav, lengths)
    draws = torch.Generator().manual_seed(0)
    given = {
        "wav": wav,
        "lengths": lengths,
        "features": features,
        "coarse tokens": torch.randint(12_048, (len(waves), 887), generator=draws),
        "codes": torch.randint(1024, (len(waves), 8, 1024), generator=draws),
    }
    expected = codec_lm_stages(cpu, given, "cpu")
    del cpu
    system = load_codec_lm(device, **options)
    frames = torch.arange(features.shape[1]) < ((lengths - 400) // HOP_SAMPLES + 1)[:, None]

    @torch.inference_mode()
    def check(precision):
        with arithmetic(precision, device):
            mine = codec_lm_stages(system, given, device)
        row = {"system": f"b4 {'reduced' if options else 'official'}", "precision": precision}
        scale = expected.features[frames].abs().max()
        row["features"] = float((mine.features - expected.features)[frames].abs().max() / scale)
        row["equal_choices"] = float((mine.choices == expected.choices).double().mean())
        row["audio"] = float((mine.audio - expected.audio).abs().max() / expected.audio.abs().max())
        passed = (
            max(row["features"], row["audio"]) <= TOLERANCE
            and row["equal_choices"] >= LEAST_EQUAL_CODES
        )
        return row | {"passed": passed if precision == "float32" else None}

    for precision in precisions:
        yield partial(check, precision)


def gan_fastspeech2_stages(system, given, device):
    """Each stage of B3 from what the CPU gave to it; likeliest tokens and durations; F0."""
    given = {name: value.to(device) for name, value in given.items()}
    parts = system.components
    mel, frames = parts.log_mel(given["wav"], given["lengths"])
    fractions = torch.full_like(given["lengths"], 0.5, dtype=torch.float32)
    symbols = given["symbols"], given["symbol_counts"], given["speakers"]
    prosody = given["durations"], given["pitch"], given["energy"]
    stages = {
        "encoded": parts.recognizer.encode(given["wav"], given["lengths"])[0],
        "vad": parts.vad(given["wav"], given["lengths"])[0],
        "mel": mel,
        "style": parts.style(style_window(given["mel"], frames, fractions)),
        "aligned": parts.aligner(given["mel"], frames),
        "spoken": parts.acoustic(*symbols, *prosody).mel,
        "audio": parts.vocoder(given["mel"], frames)[0],
    }
    tokens = parts.recognizer.ctc(given["encoded"]).argmax(-1)
    durations = durations_from_logits(
        given["aligned"], frames, given["ids"], torch.full_like(frames, given["ids"].shape[1])
    )
    f0, _ = praat_f0(given["wav"], given["lengths"])
    choices = torch.cat([tokens.flatten(), durations.flatten()])
    return {n: v.float().cpu() for n, v in stages.items()}, choices.cpu(), f0.float().cpu()


@torch.inference_mode()
def check_gan_fastspeech2(device, amount, options, precisions):
    """Each stage on the device against the CPU in float32; utterances of one length."""
    (wav,) = [torch.from_numpy(wav) for wav in make_waves(amount.check_seconds[-1:])]
    cpu = load_gan_fastspeech2("cpu", **options)
    batch = torch.stack([wav, wav.flip(0)])
    draws = torch.Generator().manual_seed(0)
    given = {"wav": batch, "lengths": torch.full((2,), len(wav))}
    mel, frames = cpu.log_mel(batch, given["lengths"])
    given |= {
        "mel": mel,
        "encoded": cpu.recognizer.encode(batch, given["lengths"])[0],
        "aligned": cpu.aligner(mel, frames),
        "ids": torch.randint(111, (2, 12), generator=draws),
        "symbols": torch.randint(2, (2, 12, 62), generator=draws).float(),
        "symbol_counts": torch.tensor([12, 7]),
        "durations": torch.randint(9, (2, 12), generator=draws),
        "speakers": torch.randn(2, 128, generator=draws),
        "pitch": torch.rand(2, 12, generator=draws),
        "energy": torch.rand(2, 12, generator=draws),
    }
    expected, choices, hertz = gan_fastspeech2_stages(cpu, given, "cpu")
    del cpu
    system = load_gan_fastspeech2(device, **options)

    @torch.inference_mode()
    def check(precision):
        with arithmetic(precision, device):
            mine, chosen, f0 = gan_fastspeech2_stages(system, given, device)
        row = {"system": f"b3 {'reduced' if options else 'official'}", "precision": precision}
        for name, value in expected.items():
            row[name] = float((mine[name] - value).abs().max() / value.abs().max())
        row["equal_choices"] = float((chosen == choices).double().mean())
        row["equal_f0"] = float(((f0 - hertz).abs() < 0.1).double().mean())
        passed = (
            max(row[name] for name in expected) <= TOLERANCE
            and row["equal_choices"] >= LEAST_EQUAL_CODES
            and row["equal_f0"] >= LEAST_EQUAL_F0
        )
        return row | {"passed": passed if precision == "float32" else None}

    for precision in precisions:
        yield partial(check, precision)


def asr_tts_stages(system, given, device):
    """Log-mel bands, encoder, likeliest tokens, durations and waveforms, from the same inputs."""
    given = {name: value.to(device) for name, value in given.items()}
    recognizer, voice = system.recognizer, system.synthesizer.network
    config = recognizer.config
    mel = recognizer.log_mel(given["wav"], given["lengths"], config.window_samples)
    encoded = recognizer.network.encoder(given["mel"])
    decoder = recognizer.network.decoder
    memory = decoder.start(given["encoded"])
    hidden = decoder(given["tokens"], memory, config.most_tokens)
    speaker = voice.speaker(range(len(given["wav"])))
    noise = torch.zeros_like(given["symbols"])[:, None].repeat(1, 2, 1).float()
    _, _, durations = voice.read(given["symbols"], given["symbol_lengths"], speaker, noise)
    audio = voice.speak(given["frames"], given["frame_lengths"], speaker)
    choices = recognizer.network.logits(hidden).argmax(-1)
    stages = {"mel": mel, "encoded": encoded, "durations": durations, "audio": audio}
    return {n: v.float().cpu() for n, v in stages.items()}, choices.cpu()


@torch.inference_mode()
def check_asr_tts(device, amount, options, precisions):
    """Each stage on the device against the CPU in float32."""
    waves = [torch.from_numpy(wav) for wav in make_waves(amount.check_seconds)]
    cpu = load_asr_tts("cpu", **options)
    config, voice = cpu.config.whisper, cpu.config.voice
    wav, lengths = pad(waves, torch.device("cpu"))
    draws = torch.Generator().manual_seed(0)
    mel = cpu.recognizer.log_mel(wav, lengths, config.window_samples)[..., : config.window_frames]
    count = len(waves)
    given = {
        "wav": wav,
        "lengths": lengths,
        "mel": mel,
        "encoded": cpu.recognizer.network.encoder(mel),
        "tokens": torch.randint(config.end, (count, config.most_tokens), generator=draws),
        "symbols": torch.randint(voice.embedded, (count, 120), generator=draws),
        "symbol_lengths": torch.tensor([120, 40, 77][:count]),
        "frames": torch.randn(count, voice.flow_width, 100, generator=draws),
        "frame_lengths": torch.tensor([100, 31, 64][:count]),
    }
    expected, choices = asr_tts_stages(cpu, given, "cpu")
    del cpu
    system = load_asr_tts(device, **options)

    @torch.inference_mode()
    def check(precision):
        with arithmetic(precision, device):
            mine, chosen = asr_tts_stages(system, given, device)
        row = {"system": f"t8-1 {'reduced' if options else 'official'}", "precision": precision}
        for name, value in expected.items():
            row[name] = float((mine[name] - value).abs().max() / value.abs().max())
        row["equal_choices"] = float((chosen == choices).double().mean())
        passed = (
            max(row[name] for name in expected) <= TOLERANCE
            and row["equal_choices"] >= LEAST_EQUAL_CODES
        )
        return row | {"passed": passed if precision == "float32" else None}

    for precision in precisions:
        yield partial(check, precision)


def xvector_nsf_stages(system, given, device):
    """x-vectors, i-vectors, content and audio, each from the CPU's input; F0 and candidates."""
    given = {name: value.to(device) for name, value in given.items()}
    networks = system.networks
    wav, lengths, frames = given["wav"], given["lengths"], given["frames"]
    hertz, _ = networks.f0(wav, lengths)
    vectors = networks.xvectors(wav, lengths)
    # Drawn on the CPU, for each item alone.
    noise = networks.vocoder.draw_noise(
        frames, [torch.Generator().manual_seed(number) for number in range(len(frames))]
    )
    audio, _ = networks.vocoder(given["inputs"], given["f0"], frames, noise)
    stages = {
        "x-vectors": vectors,
        "i-vectors": networks.ivector(given["features"], frames),
        "content": networks.bottleneck(given["features"], frames, given["ivectors"]),
        "audio": audio,
    }
    ranked = system._pool_here().ranked(given["vectors"], [""] * len(wav), system.config)
    return {n: v.float().cpu() for n, v in stages.items()}, hertz.cpu(), ranked


@torch.inference_mode()
def check_xvector_nsf(device, amount, options, precisions):
    """Each stage on the device against the CPU in float32."""
    waves = [torch.from_numpy(wav) for wav in make_waves(amount.check_seconds)]
    cpu = load_xvector_nsf("cpu", **options)
    wav, lengths = pad(waves, torch.device("cpu"))
    features, frames = cpu.networks.content_mfcc(wav, lengths)
    vectors = cpu.networks.xvectors(wav, lengths)
    averages = cpu._pool_here().averages([cpu.pool.names[:9]] * len(waves))
    inputs, f0, _ = cpu.networks.generator_inputs(wav, lengths, averages)
    given = {
        "wav": wav,
        "lengths": lengths,
        "frames": frames,
        "features": features,
        "ivectors": cpu.networks.ivector(features, frames),
        "vectors": vectors,
        "inputs": inputs,
        "f0": f0,
    }
    expected, hertz, ranked = xvector_nsf_stages(cpu, given, "cpu")
    del cpu
    system = load_xvector_nsf(device, **options)
    inside = torch.arange(features.shape[1]) < frames[:, None]
    for name in ("i-vectors", "content"):
        # What lies behind an item has no meaning.
        step = -(-features.shape[1] // expected[name].shape[1])
        expected[name][~inside[:, ::step][:, : expected[name].shape[1]]] = 0

    @torch.inference_mode()
    def check(precision):
        with arithmetic(precision, device):
            mine, f0, chosen = xvector_nsf_stages(system, given, device)
        row = {"system": f"b1 {'reduced' if options else 'official'}", "precision": precision}
        for name, value in expected.items():
            apart = (mine[name] - value).abs().where(value != 0, 0)
            row[name] = float(apart.max() / value.abs().max())
        equal = np.array(chosen) == np.array(ranked)
        row["equal_choices"] = float(equal.mean())
        row["equal_f0"] = float(((f0 - hertz).abs() < 0.1).double().mean())
        passed = (
            max(row[name] for name in expected) <= TOLERANCE
            and row["equal_choices"] >= LEAST_EQUAL_CODES
            and row["equal_f0"] >= LEAST_EQUAL_F0
        )
        return row | {"passed": passed if precision == "float32" else None}

    for precision in precisions:
        yield partial(check, precision)


def check_b2(device, amount):
    waves = make_waves(amount.check_seconds)
    targets = [{"alpha": alpha} for alpha in np.linspace(0.5, 0.9, len(waves)).tolist()]
    cpu = load_b2("cpu")
    with tensor_backend(cpu.device):
        expected = [
            cpu.anonymize(wav, target=target, loudness="none")
            for wav, target in zip(waves, targets, strict=True)
        ]

    def check():
        with tensor_backend(device):
            results = load_b2(device).anonymize_batch(waves, targets=targets, loudness="none")
        peak = max(float(np.abs(wav).max()) for wav in expected)
        error = max(
            float(np.abs(wav - wanted).max()) / peak
            for wav, wanted in zip(results, expected, strict=True)
        )
        passed = error <= TOLERANCE
        return {"system": "b2", "precision": "float64", "audio": error, "passed": passed}

    yield check


# Speed and memory.


class Clock:
    """Times on a device: by its events where it has them, by a clock of the host elsewhere."""

    def __init__(self, device, now=time.perf_counter):
        self._now = now
        self._device = device
        self._cuda = device.type == "cuda"

    def mark(self):
        if not self._cuda:
            return self._now()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, first, second):
        """Seconds between two marks, once the device has come past them."""
        return first.elapsed_time(second) / 1000 if self._cuda else second - first

    def wait(self):
        """Waits for the device and gives the host's time."""
        if self._cuda:
            torch.cuda.synchronize(self._device)
        return self._now()

    def held_gib(self):
        """Memory in tensors now, or `None` where the device does not tell; restarts `peak_gib`."""
        if not self._cuda:
            return None
        torch.cuda.reset_peak_memory_stats(self._device)
        return torch.cuda.memory_allocated(self._device) / 2**30

    def peak_gib(self):
        """Most memory in tensors since then, those that were held included."""
        return torch.cuda.max_memory_allocated(self._device) / 2**30 if self._cuda else None


@contextlib.contextmanager
def marks(system, clock):
    """Lists the stage and the marks in front of and behind it, in the order of the work."""
    listed = []

    def begin(stage, *_):
        listed.append([stage, clock.mark()])

    def end(*_):
        listed[-1].append(clock.mark())

    handles = [
        handle
        for stage, names in NETWORKS.items()
        for network in (getattr(getattr(system, "networks", system), name, None) for name in names)
        if isinstance(network, torch.nn.Module)
        for handle in (
            network.register_forward_pre_hook(partial(begin, stage)),
            network.register_forward_hook(end),
        )
    ]
    try:
        yield listed
    finally:
        for handle in handles:
            handle.remove()


def stage_seconds(listed, clock):
    """Seconds by stage; between the networks of one batch, too, whose last is the vocoder."""
    seconds = dict.fromkeys((*NETWORKS, "between"), 0.0)
    before = None
    for stage, first, last in listed:
        seconds[stage] += clock.between(first, last)
        if before is not None:
            seconds["between"] += clock.between(before, first)
        before = None if stage == "vocoder" else last
    return seconds


def measure(facts, system, waves, targets, clock, runs):
    """The run of median time, all through the public call; arrays come from the host.

    Args:
        facts: What the row begins with.
        system: With its precision set, and the seconds that a batch may hold.
        waves: Utterances.
        targets: One for each.
        clock: Of the system's device.
        runs: Timed runs.
    """

    def convert():
        system.anonymize_batch(waves, targets=targets, loudness="none")

    convert()
    clock.wait()
    held = clock.held_gib()
    walls, stages = [], []
    for _ in range(runs):
        start = clock.wait()
        with marks(system, clock) as listed:
            convert()
        walls.append(clock.wait() - start)
        stages.append(stage_seconds(listed, clock))
    wall = statistics.median_low(walls)
    lengths = [len(wav) / RATE for wav in waves]
    batches = plan_batches(lengths, system.info.batch_seconds)
    row = facts | {
        "utterances": len(waves),
        "precision": system.precision,
        "batch_seconds": system.info.batch_seconds,
        "seconds": sum(lengths),
        "batches": len(batches),
        "padded_seconds": sum(len(batch) * lengths[batch[-1]] for batch in batches),
        "wall_seconds": walls,
        "times_real_time": sum(lengths) / wall,
        "held_gib": held,
        "peak_gib": clock.peak_gib(),
    }
    inside = stages[walls.index(wall)]
    if any(inside.values()):
        parts = inside | {"rest": wall - sum(inside.values())}
        row["shares"] = {name: part / wall for name, part in parts.items()}
    return row


def sets_of_waves(amount):
    """Utterances by batch, each with the seconds that hold all of them at once."""
    return sets_of(amount.batches, *amount.utterance_seconds)


def sets_of(counts, low, high):
    """The same for some numbers of utterances, of ``low`` to ``high`` seconds."""
    for count in counts:
        waves = make_waves(mixed_seconds(count, low, high))
        yield count, waves, math.ceil(count * max(map(len, waves)) / RATE) + 1


def time_knn_vc(device, amount):
    clock = Clock(device)
    system = load_knn_vc(device, **amount.options)
    default = system.info.batch_seconds
    size = "reduced" if amount.options else "official"
    for speakers in (1, amount.speakers):
        system.use_pool(make_pool(speakers, amount.pool_seconds, system.wavlm.config.width))
        for (count, waves, capacity), precision in itertools.product(
            sets_of_waves(amount), PRECISIONS
        ):
            if count < speakers:
                continue
            targets = [f"speaker {i % speakers}" for i in range(count)]
            # The largest set also in the batches that the library makes by itself.
            for held in [capacity] + [default] * (count == amount.batches[-1] and speakers == 1):
                hold(system, held)
                system.precision = precision
                facts = {"system": f"t8-2 {size}", "speakers": speakers}
                yield partial(measure, facts, system, waves, targets, clock, amount.runs)


def time_vqbn(device, amount):
    clock = Clock(device)
    for name, options in amount.systems.items():
        system = load_vqbn(name, device, **options)
        facts = {"system": f"{name} {'reduced' if options else 'official'}", "speakers": None}
        for (count, waves, capacity), precision in itertools.product(
            sets_of_waves(amount), PRECISIONS
        ):
            targets = [system.speakers[i % len(system.speakers)] for i in range(count)]
            hold(system, capacity)
            system.precision = precision
            yield partial(measure, facts, system, waves, targets, clock, amount.runs)


def time_codec_lm(device, amount):
    clock = Clock(device)
    system = load_codec_lm(device, cached_pieces=0, **amount.codec_lm)
    facts = {"system": f"b4 {'reduced' if amount.codec_lm else 'official'}", "speakers": None}
    for (count, waves, capacity), precision in itertools.product(
        sets_of(amount.codec_lm_batches, *amount.codec_lm_seconds), PRECISIONS
    ):
        targets = [system.voices[i % len(system.voices)] for i in range(count)]
        hold(system, capacity)
        system.precision = precision
        yield partial(measure, facts, system, waves, targets, clock, 1)


def time_asr_tts(device, amount):
    """Random weights never end a text, so that each window costs its most tokens, 224."""
    clock = Clock(device)
    system = load_asr_tts(device, **amount.asr_tts)
    facts = {"system": f"t8-1 {'reduced' if amount.asr_tts else 'official'}", "speakers": None}
    for (count, waves, capacity), precision in itertools.product(sets_of_waves(amount), PRECISIONS):
        speakers = system.synthesizer.speakers
        targets = [speakers[i % len(speakers)] for i in range(count)]
        hold(system, capacity)
        system.precision = precision
        yield partial(measure, facts, system, waves, targets, clock, 1)


def time_gan_fastspeech2(device, amount):
    """With random weights a text is as long as it may be, 25 tokens per second."""
    clock = Clock(device)
    system = load_gan_fastspeech2(device, **amount.gan_fastspeech2)
    size = "reduced" if amount.gan_fastspeech2 else "official"
    facts = {"system": f"b3 {size}", "speakers": None}
    for (count, waves, capacity), precision in itertools.product(
        sets_of(amount.codec_lm_batches, *amount.utterance_seconds), PRECISIONS
    ):
        hold(system, capacity)
        system.precision = precision
        targets = [{"vector": number} for number in range(count)]
        yield partial(measure, facts, system, waves, targets, clock, 1)


def time_xvector_nsf(device, amount):
    clock = Clock(device)
    system = load_xvector_nsf(device, **amount.xvector_nsf)
    size = "reduced" if amount.xvector_nsf else "official"
    facts = {"system": f"b1 {size}", "speakers": None}
    for (count, waves, capacity), precision in itertools.product(sets_of_waves(amount), PRECISIONS):
        # Ranks, so that the search is measured, too.
        targets = [{"ranks": list(range(0, 200, 2)), "sex": ""}] * count
        hold(system, capacity)
        system.precision = precision
        yield partial(measure, facts, system, waves, targets, clock, amount.runs)


def time_b2(device, amount):
    clock = Clock(device)
    system = load_b2(device)

    def measure_b2(*arguments):
        with tensor_backend(device):
            return measure(*arguments) | {"precision": "float64"}

    for count, waves, capacity in sets_of_waves(amount):
        targets = [{"alpha": alpha} for alpha in np.linspace(0.5, 0.9, count).tolist()]
        hold(system, capacity)
        facts = {"system": "b2", "speakers": None}
        yield partial(measure_b2, facts, system, waves, targets, clock, amount.runs)


# Report.


def describe_environment(device):
    facts = {"device": str(device), "torch": torch.__version__, "cuda": torch.version.cuda}
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["gpu_gib"] = torch.cuda.get_device_properties(device).total_memory / 2**30
        facts["cudnn"] = torch.backends.cudnn.version()
    facts["threads"] = torch.get_num_threads()
    return facts


def table(header, rows):
    """Lines of text, numbers to the right."""
    cells = [header, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )


def check_table(rows):
    header = ["system", "precision", "features", "choices", "F0", "samples", "audio", ""]
    verdicts = {True: "passed", False: "FAILED", None: "(for information)"}
    return table(header, [
        [
            row["system"],
            row["precision"],
            f"{row['features']:.1e}" if "features" in row else "-",
            f"{row['equal_choices']:.2%}" if "equal_choices" in row else "-",
            f"{row['equal_f0']:.2%}" if "equal_f0" in row else "-",
            f"{row['compared_samples']:.1%}" if "compared_samples" in row else "-",
            f"{row['audio']:.1e}",
            verdicts[row["passed"]],
        ]
        for row in rows
    ])  # fmt: skip


def speed_table(rows):
    header = ["system", "speakers", "utterances", "batches", "precision", "audio s", "padding %"]
    header += ["x real time", "peak GiB", *(f"{name} %" for name in STAGES)]
    lines = []
    for row in rows:
        shares = row.get("shares", {})
        lines.append([
            row["system"],
            str(row["speakers"] or "-"),
            str(row["utterances"]),
            str(row["batches"]),
            row["precision"],
            f"{row['seconds']:.0f}",
            f"{100 * (1 - row['seconds'] / row['padded_seconds']):.0f}",
            f"{row['times_real_time']:.1f}",
            "-" if row["peak_gib"] is None else f"{row['peak_gib']:.2f}",
            *(f"{100 * shares[name]:.0f}" if shares else "-" for name in STAGES),
        ])  # fmt: skip
    return table(header, lines)


def attempt(work, errors):
    """Gives what ``work`` gives, or `None` where it fails."""
    try:
        return work()
    except Exception:
        traceback.print_exc()
        errors.append(traceback.format_exc())
        return None


def both_sizes(check, device, amount, reduced, options):
    """Parts of a run: a check in reduced sizes, and in official ones where no options are given."""
    parts = [("checks", check(device, amount, reduced, PRECISIONS))]
    if not options:
        parts.append(("checks", check(device, amount, options, amount.check_precisions)))
    return parts


def run(device, amount, out):
    """Makes all rows; one that fails does not keep the others from being made."""
    start = time.perf_counter()
    errors = []
    facts = attempt(partial(describe_environment, device), errors)
    report = {"environment": facts, "checks": [], "speed": [], "errors": errors}
    parts = [
        ("checks", check_b2(device, amount)),
        ("checks", check_knn_vc("t8-2 reduced", device, amount, REDUCED, PRECISIONS)),
        ("checks", check_knn_vc("t8-2 official", device, amount, {}, amount.check_precisions)),
        ("checks", check_vqbn("b6", device, amount, REDUCED_B6, PRECISIONS)),
        *(
            ("checks", check_vqbn(name, device, amount, {}, amount.check_precisions))
            for name, options in amount.systems.items()
            if not options
        ),
        *both_sizes(check_codec_lm, device, amount, REDUCED_B4, amount.codec_lm),
        *both_sizes(check_gan_fastspeech2, device, amount, REDUCED_B3, amount.gan_fastspeech2),
        *both_sizes(check_asr_tts, device, amount, REDUCED_T8_1, amount.asr_tts),
        *both_sizes(check_xvector_nsf, device, amount, REDUCED_B1, amount.xvector_nsf),
        ("speed", time_xvector_nsf(device, amount)),
        ("speed", time_codec_lm(device, amount)),
        ("speed", time_gan_fastspeech2(device, amount)),
        ("speed", time_asr_tts(device, amount)),
        ("speed", time_b2(device, amount)),
        ("speed", time_vqbn(device, amount)),
        ("speed", time_knn_vc(device, amount)),
    ]
    for kind, works in parts:
        while work := attempt(partial(next, works, None), errors):
            row = attempt(work, errors)
            if row is not None:
                report[kind].append(row)
                done = {name: value for name, value in row.items() if name != "wall_seconds"}
                print(f"{time.perf_counter() - start:6.1f} s", json.dumps(done), flush=True)
        report["total_seconds"] = time.perf_counter() - start
        # After each part, so that a run that is stopped leaves what it has.
        if out is not None:
            out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the report, JSON")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the script out")
    parser.add_argument("--device", default="cuda", help="cuda (default), cuda:N or cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            parser.error("there is no CUDA device here; --device cpu --quick tries the script out")
        if device.index is not None:
            torch.cuda.set_device(device)
    report = run(device, QUICK if options.quick else FULL, options.out)
    print("\n", report["environment"], sep="")
    print("\nAgainst single utterances on the CPU in float32, parts of the peak:\n")
    print(check_table(report["checks"]))
    print("\nSpeed, medians of runs, without the level step:\n")
    print(speed_table(report["speed"]))
    failed = [row for row in report["checks"] if row["passed"] is False]
    print(
        f"\n{report['total_seconds']:.0f} s, {len(failed)} checks failed, "
        f"{len(report['errors'])} could not be run"
    )
    return 1 if failed or report["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
