"""The networks of `XVectorNSF` as one module, and what lies between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from voiceanon.components.content.tdnnf_bottleneck import (
    IVECTOR_PERIOD,
    TdnnfBottleneckConfig,
    TdnnfBottleneckNet,
)
from voiceanon.components.f0.frame_count import fit_frames
from voiceanon.components.f0.yaapt import AMFM_DECOMPY, Yaapt
from voiceanon.components.features.cmn import subtract_sliding_mean
from voiceanon.components.features.compression import compress_and_restore
from voiceanon.components.features.mfcc import HIRES_MFCC, XVECTOR_MFCC, Mfcc
from voiceanon.components.speaker.ivector import OnlineIvectors
from voiceanon.components.speaker.ivector_config import IvectorConfig
from voiceanon.components.speaker.tdnn_xvector import (
    CHUNK_FRAMES,
    MIN_CHUNK_FRAMES,
    TdnnXVector,
    XVectorConfig,
)
from voiceanon.components.vad.energy import select_voiced, voiced_frames
from voiceanon.components.vocoder.hn_sinc_nsf import HnSincNsf, HnSincNsfConfig
from voiceanon.errors import ConfigError
from voiceanon.systems.xvector_nsf_config import XVectorNSFConfig

HOP_SAMPLES = 160
"""Samples between frames of content, F0 and generator: 10 ms."""

FULL_SCALE = 32_768
"""What a sample of 1 is in the published 16-bit files."""

LDA_WIDTH = 200
"""Values of a published x-vector in front of PLDA."""

SIDEKIT_WIDTH = 256
"""Values of a sidekit x-vector."""

F0_WIDTH = 1


class XVectorNSFComponents(NamedTuple):
    """Parts of the system, each usable alone; all take padded batches with lengths or frames.

    Attributes:
        xvector_mfcc: `(wav (B, T), lengths (B,)) -> (features (B, N, 30), frames (B,))`, every
            10 ms, for voice activity and x-vectors.
        content_mfcc: The same with 40 values, for i-vectors and content.
        xvector: `(voiced features, frames) -> x-vectors (B, 512)`.
        ivector: `(features, frames) -> i-vectors (B, ceil(N / 10), 100)`.
        bottleneck: `(features, frames, i-vectors) -> content (B, N, 256)`.
        f0: `(wav, lengths) -> (F0 (B, M), frames (B,))`: Hz, 0 = unvoiced, every 10 ms.
        vocoder: `(features (B, N, 769), F0 (B, N), frames, noise) -> (wav (B, 160 N), lengths)`.
    """

    xvector_mfcc: Mfcc
    content_mfcc: Mfcc
    xvector: TdnnXVector
    ivector: OnlineIvectors
    bottleneck: TdnnfBottleneckNet
    f0: Yaapt
    vocoder: HnSincNsf


class Networks(nn.Module):
    """Features, networks, F0 tracker and generator of the system; all sizes must be settled."""

    def __init__(self, config: XVectorNSFConfig) -> None:
        """Builds it, with untrained weights.

        Args:
            config: Of `with_sizes`.
        """
        super().__init__()
        self.config = config
        self.xvector = TdnnXVector(config.xvector)
        self.ivector = OnlineIvectors(config.ivector)
        self.bottleneck = TdnnfBottleneckNet(config.bottleneck)
        self.vocoder = HnSincNsf(config.generator)
        # They have no entries, but constants, which are to lie on a device.
        with torch.device("cpu"):
            self.xvector_mfcc, self.content_mfcc = Mfcc(XVECTOR_MFCC), Mfcc(HIRES_MFCC)
            self.f0 = Yaapt(AMFM_DECOMPY)

    @property
    def components(self) -> XVectorNSFComponents:
        """The parts."""
        return XVectorNSFComponents(
            self.xvector_mfcc, self.content_mfcc, self.xvector, self.ivector, self.bottleneck,
            self.f0, self.vocoder,
        )  # fmt: skip

    def xvectors(self, wav: Tensor, lengths: Tensor) -> Tensor:
        """x-vectors of recordings.

        Args:
            wav: float32 ``(B, T)`` at 16 kHz, full scale 1.0.
            lengths: int64 ``(B,)``, at least 400.

        Returns:
            float32 ``(B, S)``. Where no frame is voiced, all frames count.
        """
        features, frames = self.xvector_mfcc(wav, lengths)
        features = self._stored(features, frames)
        voiced = voiced_frames(features[..., 0], frames)
        centred = subtract_sliding_mean(features, frames)
        chosen, count = select_voiced(centred, frames, voiced)
        vectors: Tensor = self.xvector(
            chosen,
            count,
            chunk_frames=cast(int, self.config.chunk_frames),
            min_chunk_frames=cast(int, self.config.min_chunk_frames),
        )
        return vectors

    def content(
        self, wav: Tensor, lengths: Tensor, generators: Sequence[torch.Generator] = ()
    ) -> tuple[Tensor, Tensor]:
        """Content features of recordings.

        Args:
            wav: As in `xvectors`.
            lengths: As in `xvectors`.
            generators: One per item, where there is dither.

        Returns:
            float32 ``(B, N, D)``, and frames ``(B,)``.
        """
        features, frames = self.content_mfcc(
            wav, lengths, dither=self.config.dither, generators=generators
        )
        features = self._stored(features, frames)
        ivectors = self.ivector(features, frames)
        ivectors = self._stored(ivectors, -(-frames // IVECTOR_PERIOD))
        return self._stored(self.bottleneck(features, frames, ivectors), frames), frames

    def _stored(self, features: Tensor, frames: Tensor) -> Tensor:
        """Features as the published pipeline reads them from its files."""
        return compress_and_restore(features, frames) if self.config.compress else features

    def generator_inputs(
        self,
        batch: Tensor,
        lengths: Tensor,
        vectors: Tensor,
        generators: Sequence[torch.Generator] = (),
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the generator takes.

        Args:
            batch: As in `convert`.
            lengths: As in `convert`.
            vectors: Of the pseudo-speakers, float32 ``(B, D)``.
            generators: As in `content`.

        Returns:
            Features ``(B, N, C)``, F0 ``(B, N)`` in Hz, and frames ``(B,)``.
        """
        content, frames = self.content(batch, lengths, generators)
        hertz, tracked = self.f0(batch, lengths)
        f0 = fit_frames(hertz, tracked, frames, content.shape[1])
        repeated = vectors[:, None].expand(-1, content.shape[1], -1)
        return torch.cat([content, repeated, f0[..., None]], 2), f0, frames


def with_sizes(config: XVectorNSFConfig, system: str) -> XVectorNSFConfig:
    """Puts official sizes where the settings leave them open.

    Args:
        config: Settings.
        system: Id, for messages.

    Raises:
        ConfigError: A part does not take what another one gives.
    """
    xvector = config.xvector or XVectorConfig()
    bottleneck = config.bottleneck or TdnnfBottleneckConfig()
    target = SIDEKIT_WIDTH if config.vectors == "sidekit" else xvector.embedding
    ivector = config.ivector or IvectorConfig(ivector=bottleneck.ivector)
    generator = config.generator or HnSincNsfConfig(
        input_width=bottleneck.bottleneck + target + F0_WIDTH
    )
    sized = replace(
        config,
        chunk_frames=config.chunk_frames or CHUNK_FRAMES,
        min_chunk_frames=config.min_chunk_frames or MIN_CHUNK_FRAMES,
        backend_width=config.backend_width or min(LDA_WIDTH, xvector.embedding),
        xvector=xvector,
        ivector=ivector,
        bottleneck=bottleneck,
        generator=generator,
    )
    pairs = {
        "features of the x-vector network": (xvector.inputs, XVECTOR_MFCC.cepstra),
        "features of the i-vector extractor": (ivector.inputs, HIRES_MFCC.cepstra),
        "features of the content network": (bottleneck.inputs, HIRES_MFCC.cepstra),
        "i-vector of the content network": (bottleneck.ivector, ivector.ivector),
        "samples per frame of the generator": (generator.hop_samples, HOP_SAMPLES),
    }
    if config.vectors == "kaldi":
        pairs["x-vector of the generator"] = (target_width(sized), xvector.embedding)
    wrong = [f"{name}: {found}, {due} due" for name, (found, due) in pairs.items() if found != due]
    if wrong or target_width(sized) < 1:
        raise ConfigError(
            f"{system}: sizes do not belong together ({'; '.join(wrong)}); the generator takes "
            f"{generator.input_width} values per frame, content and F0 are "
            f"{bottleneck.bottleneck} + {F0_WIDTH} of them."
        )
    return sized


def embedding_width(config: XVectorNSFConfig) -> int:
    """Values of the x-vector that is compared; sizes must be settled."""
    return cast(XVectorConfig, config.xvector).embedding


def target_width(config: XVectorNSFConfig) -> int:
    """Values of the vector that the generator takes; sizes must be settled."""
    content = cast(TdnnfBottleneckConfig, config.bottleneck).bottleneck
    return cast(HnSincNsfConfig, config.generator).input_width - content - F0_WIDTH


def pool_width(config: XVectorNSFConfig) -> int:
    """Values of a speaker of the pool: the x-vector, and the generator's if it is another one."""
    return embedding_width(config) + (target_width(config) if config.vectors == "sidekit" else 0)


def truncate_to_16_bits(wav: Tensor) -> Tensor:
    """Clips samples and cuts them off to 16 bits, as the published program writes them."""
    return (wav * FULL_SCALE).clamp(-FULL_SCALE, FULL_SCALE - 1).trunc() / FULL_SCALE
