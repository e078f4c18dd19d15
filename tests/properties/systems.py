"""The systems that every promise is tested with: all that are registered, and three of our own.

A system takes part by being registered. Of those that differ in settings alone, the first is tested
at every run, the others under the marker ``slow``. One that needs weights or much time says in
`REDUCED` how it is built here. Our own systems stand for what a later one may be: with other rates,
noise, a discrete step, another length, a shortest input, parameters.
"""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import signals
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon import Anonymizer, SystemInfo, list_systems, load, register, system_info
from voiceanon.audio.level import peak_gain
from voiceanon.batching import length_mask
from voiceanon.registry import system_config


def small_knn_vc() -> dict[str, Any]:
    """Random weights in small networks, and a pool of four speakers."""
    from voiceanon.components.content.wavlm_config import WavLMConfig
    from voiceanon.components.vocoder.hifigan import HiFiGanConfig

    return {
        "weights": "random",
        "layer": 2,
        "encoder": WavLMConfig(conv_channels=32, width=32, heads=4, ffn_width=64, pos_groups=4),
        "vocoder": HiFiGanConfig(
            input_width=32,
            linear_width=16,
            first_width=32,
            strides=(10, 8, 2, 2),
            kernels=(20, 16, 4, 4),
            residual_kernels=(3,),
            residual_dilations=(1, 3),
        ),
        "pool": {f"speaker {number}": signals.speech(1.0, seed=number) for number in range(4)},
    }


def small_vqbn(front_end: str, codes: int | None = 8, voices: int = 5) -> dict[str, Any]:
    """Random weights in small networks."""
    from voiceanon.components.content.bottleneck import BottleneckConfig
    from voiceanon.components.content.wav2vec2 import Wav2Vec2Sizes
    from voiceanon.components.vocoder.hifigan import HiFiGanConfig

    return {
        "weights": "random",
        "speakers": tuple(f"speaker {number}" for number in range(voices)),
        "encoder": BottleneckConfig(
            front_end=front_end,
            hidden=32,
            inner=8,
            bottleneck=16,
            codebook_size=codes,
            wav2vec2=Wav2Vec2Sizes(
                conv_channels=32, width=32, heads=2, feed_forward=64, layers=2, pos_groups=4
            ),
        ),
        "vocoder": HiFiGanConfig(
            input_width=16 + 1 + voices,
            first_width=32,
            strides=(5, 4, 4, 2, 2),
            kernels=(11, 8, 8, 4, 4),
            residual_kernels=(3,),
            residual_dilations=(1, 3),
            reflect_start=True,
        ),
    }


def small_codec_lm() -> dict[str, Any]:
    """Random weights in small networks; prompts of the published lengths."""
    from voiceanon.components.codec.encodec import EncodecConfig
    from voiceanon.components.content.hubert import HubertConfig
    from voiceanon.components.content.semantic_quantiser import SemanticQuantiserConfig
    from voiceanon.components.lm.gpt import GptConfig

    return {
        "weights": "random",
        "layer": 1,
        "hubert": HubertConfig(
            conv_channels=16, width=32, heads=2, feed_forward=64, layers=1, pos_groups=4
        ),
        "quantiser": SemanticQuantiserConfig(input_width=32, hidden=16),
        "coarse": GptConfig(layers=1, heads=2, width=16),
        "fine": GptConfig(layers=1, heads=2, width=16, vocabulary=1056),
        "codec": EncodecConfig(channels=4, width=16),
    }


def small_gan_fastspeech2() -> dict[str, Any]:
    """Random weights in small networks."""
    from voiceanon.components.acoustic.fastspeech2 import FastSpeech2Config
    from voiceanon.components.asr.branchformer.config import PhoneRecognizerConfig
    from voiceanon.components.vocoder.hifigan import HiFiGanConfig

    return {
        "weights": "random",
        "stock": 50,
        "beam": 2,
        "aligner_width": 16,
        "recognizer": PhoneRecognizerConfig(
            vocabulary=40, width=16, heads=2, blocks=1, gated_units=32, ffn_units=32,
            decoder_heads=2, decoder_ffn_units=32, decoder_layers=1,
        ),
        "acoustic": FastSpeech2Config(
            width=32, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=32,
            predictor_width=16, post_width=32,
        ),
        "vocoder": HiFiGanConfig(
            input_width=80, first_width=32, strides=(8, 6, 4, 4), kernels=(16, 12, 8, 8),
            residual_kernels=(3,), residual_dilations=(1, 3),
        ),
    }  # fmt: skip


def small_gan_fastspeech2_pool() -> dict[str, Any]:
    """The same with a pool of four speakers of both sexes, and a female source."""
    from voiceanon.hub.pool import Pool

    generator = torch.Generator().manual_seed(0)
    names = [f"speaker {number}" for number in range(4)]
    vectors = {name: torch.randn(3, 128, generator=generator) for name in names}
    sexes = dict(zip(names, "fmfm", strict=True))
    return {**small_gan_fastspeech2(), "pool": Pool(vectors, sexes), "source_sex": "f"}


def small_asr_tts() -> dict[str, Any]:
    """Random weights in small networks: windows of 1 s, voices that read letters, no guards.

    The guards would reject most of what random weights write.
    """
    from voiceanon.components.asr.whisper_config import WhisperConfig
    from voiceanon.components.tts.symbols import SymbolTable
    from voiceanon.components.tts.vits_config import DecoderConfig, VitsConfig

    return {
        "weights": "random",
        "compression_ratio": 1e9,
        "log_probability": -1e9,
        "max_repeated_share": 1.0,
        "max_words_per_second": 1e9,
        "min_words_per_second": 0.0,
        "speaking_rate": 8.0,
        "whisper": WhisperConfig(
            mel_bins=20, width=16, encoder_layers=1, encoder_heads=2, encoder_ffn=32,
            decoder_layers=1, decoder_heads=2, decoder_ffn=32, source_positions=50,
            target_positions=16, vocabulary=115, prompt=(61,), end=60, no_timestamps=63,
            suppressed=(61, 62), suppressed_first=(60,),
        ),
        "voice": VitsConfig(
            speakers=tuple(f"voice {number}" for number in range(50)), speaker_width=4,
            symbols=SymbolTable(symbols=tuple("_ abcdefghijklmnopqrstuvwxyz"), phonemes=False),
            embedded=28, width=16, layers=1, ffn=16, flow_width=8, flows=2, wavenet_layers=2,
            duration_flows=2, duration_layers=2,
            decoder=DecoderConfig(
                first_width=16, strides=(8, 8), kernels=(16, 16), residual_kernels=(3,),
                residual_dilations=((1, 3),),
            ),
        ),
    }  # fmt: skip


def small_xvector_nsf() -> dict[str, Any]:
    """Random weights in small networks; the generator's filters have one width only."""
    from voiceanon.components.content.tdnnf_bottleneck import TdnnfBottleneckConfig
    from voiceanon.components.speaker.ivector_config import IvectorConfig
    from voiceanon.components.speaker.tdnn_xvector import XVectorConfig
    from voiceanon.components.vocoder.hn_sinc_nsf import HnSincNsfConfig

    filters = {"harmonic_blocks": 2, "harmonic_convolutions": 3, "noise_convolutions": 2}
    return {
        "weights": "random",
        "missing_sex": "any",
        "candidates": 8,
        "averaged": 4,
        "xvector": XVectorConfig(hidden=(16, 16, 16, 16, 24), embedding=12),
        "ivector": IvectorConfig(width=8, gaussians=8, ivector=6),
        "bottleneck": TdnnfBottleneckConfig(ivector=6, hidden=24, inner=8, bottleneck=10),
        "generator": HnSincNsfConfig(input_width=10 + 12 + 1, **filters),
    }


def small_admixture() -> dict[str, Any]:
    """T8-1 and T8-2, both small."""
    first, second = small_asr_tts(), small_knn_vc()
    shared = {name: second.pop(name) for name in ("weights", "pool")}
    first.pop("weights")
    return {**shared, "first_options": first, "second_options": second, "p": 0.5}


VQBN: dict[str, Callable[[], dict[str, Any]]] = {
    "vpc2024-b5": lambda: small_vqbn("wav2vec2"),
    "vpc2024-b6": lambda: small_vqbn("fbank"),
    "vpc2024-t12-5": lambda: small_vqbn("wav2vec2"),
    "vpc2024-t12-6": lambda: small_vqbn("wav2vec2"),
    "sa-toolkit-tdnnf-600h": lambda: small_vqbn("fbank", codes=None),
    "sa-toolkit-tdnnf-100h": lambda: small_vqbn("fbank", codes=None),
    "sa-toolkit-wav2vec2-100h": lambda: small_vqbn("wav2vec2", codes=None),
    "sa-toolkit-tdnnf-100h-vq-64": lambda: small_vqbn("fbank"),
    "sa-toolkit-tdnnf-100h-vq-256": lambda: small_vqbn("fbank"),
    "sa-toolkit-wav2vec2-vq-48-one-voice": lambda: small_vqbn("wav2vec2", voices=0),
}

REDUCED: dict[str, Callable[[], dict[str, Any]]] = {
    "vpc2024-b1": small_xvector_nsf,
    "b1-sidekit": small_xvector_nsf,
    "vpc2024-t8-2": small_knn_vc,
    "vpc2024-t19-1": small_knn_vc,
    "vpc2024-b3": small_gan_fastspeech2,
    "vpc2024-t12-4": small_gan_fastspeech2_pool,
    "vpc2024-t30-1": small_gan_fastspeech2_pool,
    "vpc2024-b4": small_codec_lm,
    **VQBN,
    "vpc2024-t8-1": small_asr_tts,
    **dict.fromkeys(("admixture", "vpc2024-t8-3", "vpc2024-t8-4", "vpc2024-t8-5"), small_admixture),
}
"""id -> options of `load` for a quick build. Every system with weights has an entry."""

SUCCESSIVE: dict[str, str] = {
    "vpc2024-b4": "each token is drawn given those before, so that one rounding changes the rest",
}
"""id -> why its results on a GPU can differ from those of another batch by more than rounding."""

BY_SOURCE: dict[str, str] = {
    "vpc2024-b1": "speakers of the pool that are far from the source are averaged",
    "b1-sidekit": "the same",
    "vpc2024-b3": "artificial voices that are like the source's are refused",
    "vpc2024-t30-1": "the voice least like the source's is taken",
}
"""id -> why the source has a say in the choice of its voice."""

LENGTH_BY_WORDS = (
    "admixture",
    "vpc2024-t8-1",
    "vpc2024-t8-3",
    "vpc2024-t8-4",
    "vpc2024-t8-5",
)
"""Systems that speak what they have recognised, as fast as they like."""

NOT_LOCAL: dict[str, str] = {}
"""id -> why a piece of its output depends on more of the input than the overlap of chunks."""


def uniform(generator: torch.Generator) -> float:
    """One number between 0 and 1, whatever the caller's default type is."""
    return torch.rand((), generator=generator, dtype=torch.float64).item()


def column(values: Sequence[float], batch: Tensor) -> Tensor:
    """One number per item, ``(B, 1)``, of the type and on the device of the batch."""
    return torch.tensor(values, dtype=batch.dtype, device=batch.device)[:, None]


@dataclass(frozen=True)
class NoConfig:
    """No settings."""


class Filter(Anonymizer):
    """Adds a filtered copy. Has parameters, a training rate, a shortest input and a level step."""

    Config = NoConfig
    info = SystemInfo(
        id="test-filter",
        aliases=("test-filter-alias",),
        summary="filter",
        sample_rate=16_000,
        min_seconds=0.1,
        overlap_seconds=0.1,
        training_rate=16_000,
    )
    taps = 65
    floor = 1e-3

    def __init__(self, config=None, info=None):
        super().__init__(config, info)
        self.filter = nn.Conv1d(1, 1, self.taps, padding=self.taps // 2)
        draws = torch.Generator().manual_seed(1)
        for parameter in self.filter.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1, generator=draws)
        self.register_buffer("limit", torch.tensor(0.9), persistent=False)

    def draw_target(self, generator, speaker):
        return {"share": uniform(generator)}

    def published_gain(self, source, results):
        if source.peak < self.floor:
            return 1.0
        return peak_gain(max(result.peak for result in results), float(self.limit))

    def convert(self, batch, lengths, targets, generators):
        share = column([target["share"] for target in targets], batch)
        wet = self.filter(batch[:, None])[:, 0]
        return (batch + share * wet) * length_mask(lengths, batch.shape[1]), lengths


class Codes(Anonymizer):
    """Codes the level of each frame and plays noise at it: a discrete step, and random draws."""

    Config = NoConfig
    info = SystemInfo(
        id="test-codes",
        aliases=("test-codes-alias",),
        summary="codes",
        sample_rate=24_000,
        discrete=True,
        overlap_seconds=0.05,
    )
    hop_samples = 240
    steps_per_octave = 4
    octaves = 24

    def draw_target(self, generator, speaker):
        return {"colour": uniform(generator) - 0.5}

    def convert(self, batch, lengths, targets, generators):
        size, hop = batch.shape[1], self.hop_samples
        frames = F.pad(batch, (0, -size % hop)).unfold(1, hop, hop)
        octave = torch.log2(frames.square().mean(2).sqrt() + 2.0**-self.octaves)
        codes = torch.round(octave * self.steps_per_octave)
        level = torch.exp2(codes / self.steps_per_octave).repeat_interleave(hop, 1)[:, :size]
        noise = torch.zeros_like(batch)
        for row, length, target, generator in zip(
            noise, lengths.tolist(), targets, generators, strict=True
        ):
            draws = torch.randn(length + 1, generator=generator, dtype=torch.float32)
            row[:length] = draws[1:] + target["colour"] * draws[:-1]
        return level * noise, lengths


class Stretch(Anonymizer):
    """Makes 125 samples of every 100: a system that does not keep the length."""

    Config = NoConfig
    info = SystemInfo(
        id="test-stretch",
        aliases=("test-stretch-alias",),
        summary="stretch",
        sample_rate=22_050,
        keeps_length=False,
        overlap_seconds=0.1,
    )
    hop_samples = 100
    block_out = 125

    def draw_target(self, generator, speaker):
        return {"gain": 0.5 + uniform(generator)}

    def convert(self, batch, lengths, targets, generators):
        hop = self.hop_samples
        blocks = F.pad(batch, (0, -batch.shape[1] % hop)).unfold(1, hop, hop)
        longer = F.interpolate(blocks, size=self.block_out, mode="linear").flatten(1)
        gain = column([target["gain"] for target in targets], batch)
        counts = -(-lengths // hop) * self.block_out
        return gain * longer * length_mask(counts, longer.shape[1]), counts


OWN: tuple[type[Anonymizer], ...] = (Filter, Codes, Stretch)
SYSTEM_IDS = (*list_systems(), *(system.info.id for system in OWN))


REPRESENTATIVES = {"vpc2024-b1", "vpc2024-b5", "vpc2024-b6"}
"""Systems that stand for their family; B6 has another content encoder than B5."""


def _siblings() -> set[str]:
    """Registered systems that are another one in other settings: the same kind of `Config`."""
    families: dict[type[Any], str] = {}
    for name in sorted(list_systems(), key=lambda name: name not in REPRESENTATIVES):
        families.setdefault(type(system_config(name)), name)
    return set(list_systems()) - set(families.values()) - REPRESENTATIVES


SIBLINGS = _siblings()
FAMILY_IDS = tuple(name for name in SYSTEM_IDS if name not in SIBLINGS)


def register_own() -> None:
    """Makes our own systems known to `load`."""
    for system in OWN:
        register(system)


def build(name: str, **options: Any) -> Anonymizer:
    """Loads a system as it is tested here."""
    info = system_info(name)
    if info.weights and info.id not in REDUCED:
        raise LookupError(f"{info.id} has weights; say in REDUCED how it is built in these tests")
    with torch.device("cpu"):  # the reference speech, where a test has another default
        reduced = REDUCED[info.id]() if info.id in REDUCED else {}
    with warnings.catch_warnings():
        if reduced:
            warnings.simplefilter("ignore")  # the one about random weights
        return load(name, **{"device": "cpu", **reduced, **options})


class PassThrough(Anonymizer):
    """Hands back what comes in and notes what it was asked for; for tests of the shared steps."""

    Config = NoConfig

    def __init__(self, change: Callable[[Tensor], Tensor] = lambda batch: batch, **facts: Any):
        """Builds the system.

        Args:
            change: What is done to a batch.
            facts: Fields of `SystemInfo`.
        """
        info = SystemInfo(id="test-pass", summary="pass", sample_rate=16_000)
        super().__init__(info=dataclasses.replace(info, **facts))
        self.change = change
        self.batches: list[Tensor] = []
        self.lengths: list[list[int]] = []
        self.targets: list[Sequence[Any]] = []
        self.draws: list[list[float]] = []

    def draw_target(self, generator, speaker):
        return {"number": uniform(generator), "speaker": speaker}

    def convert(self, batch, lengths, targets, generators):
        self.batches.append(batch.clone())
        self.lengths.append(lengths.tolist())
        self.targets.append(list(targets))
        self.draws.append([uniform(draws) for draws in generators])
        return self.change(batch), lengths
