"""Content encoders of B5 and B6: the bottleneck of an acoustic model, quantised or not.

A front end (filter bank or wav2vec 2.0), a TDNN-F up to the bottleneck, and a vector quantiser if
the file has one. What follows the bottleneck, the acoustic model's decision, is left out.

Sources: specification sheet of B5 and B6, sections 2 to 5, 10 and 11; of the releases without a
quantiser: `egs/asr/librispeech/local/chain/tuning/tdnnf.py` and `tdnnf_wav2vec2.py` of SA-toolkit,
whose bottleneck is the same map without anything behind it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from voiceanon.components.content.filter_bank import FilterBank, subtract_mean
from voiceanon.components.content.tdnnf import (
    TdnnfBottleneck,
    TdnnfLayer,
    edge_frames,
)
from voiceanon.components.content.wav2vec2 import (
    TORCHAUDIO_RENAMES,
    Wav2Vec2,
    Wav2Vec2Sizes,
)
from voiceanon.components.edges import repeat_edges
from voiceanon.components.weight_norm import FOLDED, SPELLINGS
from voiceanon.errors import ConfigError, WeightsError

FrontEnd = Literal["fbank", "wav2vec2"]

HOP_SAMPLES = 320
"""Samples (16 kHz) between frames of the bottleneck (section 1)."""

ALIGNMENT_SAMPLES = 240
"""Samples to add before dividing by the hop (sections 1 and 4)."""

MIN_SAMPLES = 400
"""The shortest input: one frame of either front end (sections 3 and 4)."""

FBANK_LAYERS = ((3, 1),) * 3 + ((1, 2),) + ((3, 1),) * 8
"""Context in frames and stride of each layer behind the filter bank (section 3)."""

WAV2VEC2_LAYERS = ((3, 1),) * 3
"""The same behind wav2vec 2.0 (section 4)."""

MISSING_FRAMES = 1
"""Frames that wav2vec 2.0 gives less than there are hops; the last one is repeated (section 4)."""

HEAD_WIDTH = 64
"""Features of an attention head of wav2vec 2.0, in every published size: 1024 / 16."""


@dataclass(frozen=True, kw_only=True)
class BottleneckConfig:
    """Sizes of an encoder; the defaults are those of B6.

    Attributes:
        front_end: ``"fbank"`` (B6) or ``"wav2vec2"`` (B5); tells the layers of the TDNN-F, too.
        hidden: Features between layers.
        inner: Features between the two maps of a layer.
        bottleneck: Features of the bottleneck, D.
        codebook_size: Rows of the codebook; ``None`` for no quantiser.
        wav2vec2: Sizes of wav2vec 2.0, where it is the front end.

    Raises:
        ConfigError: There is no such front end.
    """

    front_end: FrontEnd = "fbank"
    hidden: int = 1024
    inner: int = 128
    bottleneck: int = 256
    codebook_size: int | None = 48
    wav2vec2: Wav2Vec2Sizes = field(default_factory=Wav2Vec2Sizes)

    def __post_init__(self) -> None:
        """Checks the name of the front end."""
        if self.front_end not in get_args(FrontEnd):
            raise ConfigError(
                f"front_end: {self.front_end!r} is not one of {', '.join(get_args(FrontEnd))}."
            )

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """Context and stride of each layer of the TDNN-F."""
        return WAV2VEC2_LAYERS if self.front_end == "wav2vec2" else FBANK_LAYERS

    @property
    def bottleneck_layer(self) -> str:
        """Name of the layer with the bottleneck: the first is ``tdnn1``, then ``tdnnfs.0``, ..."""
        return f"tdnnfs.{2 * (len(self.layers) - 2)}"


class Bottleneck(NamedTuple):
    """What is said, frame by frame.

    Attributes:
        vectors: float32 ``(B, N, D)``, N the frames of T samples; behind an item's length finite
            and without meaning.
        codes: Rows of the codebook, int64 ``(B, N)``; ``None`` without a quantiser.
        lengths: Frames of each item, int64 ``(B,)``.
    """

    vectors: Tensor
    codes: Tensor | None
    lengths: Tensor


class BottleneckEncoder(nn.Module):
    """Waveforms to bottleneck frames, one every `HOP_SAMPLES` samples.

    Entries have the published names without the prefix ``bn_extractor.``, those of wav2vec 2.0
    after `renames`, and with the weight norm of its positional convolution folded
    (`voiceanon.components.weight_norm.fold_entries`); `is_unused_entry` tells the published entries
    that the encoder does without.

    All but wav2vec 2.0 runs in float32, under autocast, too.
    """

    fbank: FilterBank
    preprocessor: Wav2Vec2

    def __init__(self, config: BottleneckConfig | None = None) -> None:
        """Builds the encoder with untrained weights.

        Args:
            config: B6 if left out.
        """
        super().__init__()
        self.config = config = config or BottleneckConfig()
        if config.front_end == "wav2vec2":
            self.preprocessor = Wav2Vec2(config.wav2vec2)
            width = config.wav2vec2.width
        else:
            self.fbank = FilterBank()
            width = self.fbank.config.bins
        (first_context, first_stride), *middle, (last_context, _) = config.layers
        self.tdnn1 = TdnnfLayer(
            width, config.inner, config.hidden, context=first_context, stride=first_stride
        )
        self.tdnnfs = nn.Sequential()
        for context, stride in middle:
            self.tdnnfs.append(
                TdnnfLayer(
                    config.hidden, config.inner, config.hidden, context=context, stride=stride
                )
            )
            # In place of dropout, which has a number in the published names.
            self.tdnnfs.append(nn.Identity())
        self.tdnnfs.append(
            TdnnfBottleneck(
                config.hidden, config.bottleneck, config.codebook_size, context=last_context
            )
        )

    @property
    def renames(self) -> tuple[tuple[str, str], ...]:
        """Patterns and replacements that turn published names into those of the entries."""
        return TORCHAUDIO_RENAMES if self.config.front_end == "wav2vec2" else ()

    def forward(self, wav: Tensor, lengths: Tensor) -> Bottleneck:
        """Encodes; a padded batch gives what its items give one by one.

        Args:
            wav: float32 ``(B, T)``, 16 kHz, full scale 1.0. The values in the padding do not
                matter.
            lengths: Samples of each item, int64 ``(B,)``, `MIN_SAMPLES` to T. The caller guarantees
                the lower bound.
        """
        after = before = edge_frames(self.config.layers)
        if self.config.front_end == "wav2vec2":
            features, counts = self.preprocessor(wav, lengths)
            after += MISSING_FRAMES
        else:
            features, counts = self.fbank(wav, lengths)
            features = subtract_mean(features, counts)
        with torch.autocast(wav.device.type, enabled=False):
            x = self.tdnn1(repeat_edges(features, counts, before, after))
            vectors, codes = self.tdnnfs(x)
        return Bottleneck(vectors, codes, frame_count(lengths))


def frame_count(samples: Tensor) -> Tensor:
    """Bottleneck frames of recordings: int64 samples of any shape, at least `MIN_SAMPLES`.

    Both front ends give the same: half as many as the filter bank, rounded up, and one more than
    wav2vec 2.0.
    """
    return (samples + ALIGNMENT_SAMPLES).div(HOP_SAMPLES, rounding_mode="floor")


def config_from_entries(entries: Mapping[str, Sequence[int]]) -> BottleneckConfig:
    """Reads the sizes of an encoder from its published entries.

    Args:
        entries: Shapes by published name without the prefix ``bn_extractor.``; other entries do
            not matter.

    Raises:
        WeightsError: The layers are neither those of B6 nor those of B5.
    """
    wav2vec2 = any(name.startswith(_PREPROCESSOR) for name in entries)
    layout = BottleneckConfig(front_end="wav2vec2" if wav2vec2 else "fbank")
    found = [name for name in entries if re.fullmatch(_LAYER, name)]
    if len(found) != len(layout.layers):
        raise WeightsError(
            f"content encoder: {len(found)} layers (entries 'tdnn1' and 'tdnnfs.<number>') behind "
            f"the front end {layout.front_end!r}; {len(layout.layers)} are known there. Take the "
            "file of B5, of B6 or of one of their siblings."
        )
    last = f"{layout.bottleneck_layer}.tdnn."
    codebook = f"{last}{_CODEBOOK}"
    hidden, inner = _shape(entries, "tdnn1.tdnn.linearA.weight", 2)
    return BottleneckConfig(
        front_end=layout.front_end,
        hidden=hidden,
        inner=inner,
        bottleneck=_shape(entries, f"{last}linearB.inner_nat.weight", 2)[0],
        codebook_size=_shape(entries, codebook, 2)[0] if codebook in entries else None,
        wav2vec2=_wav2vec2_sizes(entries) if wav2vec2 else Wav2Vec2Sizes(),
    )


def is_unused_entry(name: str, config: BottleneckConfig) -> bool:
    """Tells whether a published entry plays no part in the bottleneck.

    Args:
        name: Without the prefix ``bn_extractor.``.
        config: Of the encoder.
    """
    last = config.bottleneck_layer
    behind = tuple(f"{last}.{part}." for part in ("tdnn.linearA", "bn", "bottleneck_func"))
    training = f"{last}.tdnn.bottleneck_func.quant._ema_"
    return name.startswith((*_UNUSED, *behind, training)) or name.endswith(_COUNTER)


_PREPROCESSOR = "preprocessor."
_LAYER = r"tdnn(1|fs\.\d+)\.tdnn\.linearB\.inner_nat\.weight"
_CODEBOOK = "bottleneck_func.quant._embedding.weight"
_COUNTER = ".num_batches_tracked"

_UNUSED = (
    "tdnnfs_after.",
    "prefinal_chain.",
    "prefinal_xent.",
    "chain_output.",
    "xent_output.",
    f"{_PREPROCESSOR}encoder.transformer.layer_norm.",
    f"{_PREPROCESSOR}masked_spec_embed",
)
"""Beginnings of entries that every encoder does without (section 2.2)."""


def _wav2vec2_sizes(entries: Mapping[str, Sequence[int]]) -> Wav2Vec2Sizes:
    """Reads the sizes of wav2vec 2.0 from torchaudio's names and their shapes."""
    encoder = f"{_PREPROCESSOR}encoder."
    layer = re.compile(re.escape(f"{encoder}transformer.layers.") + r"(\d+)\.")
    width, channels = _shape(entries, f"{encoder}feature_projection.projection.weight", 2)
    position = f"{encoder}transformer.pos_conv_embed.conv."
    spellings = [position + ending for ending in (*(v for _, v in SPELLINGS), FOLDED)]
    spelling = next((name for name in spellings if name in entries), spellings[0])
    _, group_width, kernel = _shape(entries, spelling, 3)
    if width % HEAD_WIDTH or width % group_width:
        raise WeightsError(
            f"content encoder: wav2vec 2.0 of width {width} with groups of {group_width} channels; "
            f"the width must be a multiple of both the groups' and a head's, {HEAD_WIDTH}. Take a "
            "published file."
        )
    return Wav2Vec2Sizes(
        conv_channels=channels,
        width=width,
        heads=width // HEAD_WIDTH,
        feed_forward=_shape(
            entries, f"{encoder}transformer.layers.0.feed_forward.intermediate_dense.weight", 2
        )[0],
        layers=len({found[1] for name in entries if (found := layer.match(name))}),
        pos_kernel=kernel,
        pos_groups=width // group_width,
    )


def _shape(entries: Mapping[str, Sequence[int]], name: str, dimensions: int) -> tuple[int, ...]:
    """Shape of an entry that must be there."""
    shape = tuple(entries.get(name, ()))
    if len(shape) != dimensions or 0 in shape:
        found = f"has the shape {shape}" if name in entries else "is missing"
        raise WeightsError(
            f"content encoder: the entry {name!r} {found}; {dimensions} dimensions are due. Take "
            "the file of B5, of B6 or of one of their siblings."
        )
    return shape
