"""Online i-vectors: a speaker's position in a space of Gaussian means, as it becomes known.

Every ten frames the i-vector is estimated from all frames so far. Frames are assigned to Gaussians
by mean-normalised features, and counted with features that are not.

Sources: specification sheet of the x-vector family, section 6; `ivector-extract-online2` and
`src/online2/online-ivector-feature.cc` of Kaldi (Apache 2.0), which name the settings below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.components.edges import repeat_edges
from voiceanon.components.speaker.conjugate_gradient import approach
from voiceanon.components.speaker.ivector_config import IvectorConfig

PERIOD = 10
"""Frames between i-vectors (``--ivector-period``)."""

BEST_GAUSSIANS = 5
"""Gaussians to which a frame is assigned at most (``--num-gselect``)."""

MIN_POSTERIOR = 0.025
"""Gaussians with a smaller share of a frame do not count (``--min-post``)."""

POSTERIOR_SCALE = 0.1
"""Weight of a frame, since neighbours are alike (``--posterior-scale``)."""

REMEMBERED_FRAMES = 1000
"""Frames that a speaker's statistics are shrunk to between utterances
(``--max-remembered-frames``)."""

CMN_FRAMES = 600
"""Frames whose mean is subtracted, up to the present one (``--cmn-window``)."""

SPEAKER_FRAMES = 600
"""Frames of a speaker's previous utterances that may fill a shorter window
(``--speaker-frames``)."""

GLOBAL_FRAMES = 200
"""Frames of the training data that may fill it then (``--global-frames``)."""

GROUP = 32
"""I-vectors whose statistics are held at once: 8 MB per recording at the published sizes."""


class SpeakerState(NamedTuple):
    """What is known of a speaker after an utterance; one row per recording of a batch.

    Attributes:
        linear: float64 ``(B, S)``.
        quadratic: float64 ``(B, S, S)``.
        occupancy: Frames in both, times `POSTERIOR_SCALE`; float64 ``(B,)``.
        feature_sum: Sum of features, float64 ``(B, C)``.
        feature_frames: Frames in it, float64 ``(B,)``.
    """

    linear: Tensor
    quadratic: Tensor
    occupancy: Tensor
    feature_sum: Tensor
    feature_frames: Tensor


class OnlineIvectors(nn.Module):
    """Features to i-vectors. Computes in float64.

    `ivector_config.ivector_entries` makes the entries from what the published files hold, or
    `ivector_config.random_entries` from noise. Until they are loaded, all are zero, and so are the
    i-vectors.
    """

    projection: Tensor
    gconsts: Tensor
    means_invvars: Tensor
    inv_vars: Tensor
    linear_terms: Tensor
    quadratic_terms: Tensor
    prior_offset: Tensor
    global_mean: Tensor

    def __init__(self, config: IvectorConfig | None = None) -> None:
        """Makes room for the entries.

        Args:
            config: The published sizes if left out.
        """
        super().__init__()
        self.config = config = config or IvectorConfig()
        for name, shape in config.shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    def forward(self, feats: Tensor, frames: Tensor) -> Tensor:
        """Computes i-vectors of recordings of which nothing else is known.

        Args:
            feats: MFCC, float32 ``(B, F, C)``. Rows behind a recording do not matter.
            frames: Frames of each recording, int64 ``(B,)``, at least 1.

        Returns:
            float32 ``(B, ceil(F / PERIOD), S)``, without the offset of the prior. Rows behind a
            recording's ``ceil(frames / PERIOD)`` are finite and have no meaning.
        """
        return self.adapt(feats, frames)[0]

    def adapt(
        self, feats: Tensor, frames: Tensor, state: SpeakerState | None = None
    ) -> tuple[Tensor, SpeakerState]:
        """Computes i-vectors and carries a speaker's statistics from utterance to utterance.

        Args:
            feats: As in `forward`.
            frames: As in `forward`.
            state: After the speaker's previous utterance; ``None`` before the first.

        Returns:
            I-vectors as in `forward`, and the state for the speaker's next utterance.
        """
        state = state or self._fresh(feats)
        padded = repeat_edges(feats, frames, 0, 0).double()
        raw = self.project(padded, frames)
        normalised = self.project(self.subtract_mean(padded, state), frames)
        # Frames behind the last i-vector enter neither an i-vector nor the speaker's statistics.
        last = (frames - 1) // PERIOD * PERIOD
        steps = torch.arange(feats.shape[1], device=feats.device)
        statistics = self._statistics(raw, normalised, steps <= last[:, None])
        ivectors, linear, quadratic = self._estimate(statistics, state)
        beyond = steps >= frames[:, None]
        after = SpeakerState(
            linear,
            quadratic,
            state.occupancy + POSTERIOR_SCALE * (last + 1).double(),
            state.feature_sum + padded.masked_fill(beyond[..., None], 0.0).sum(1),
            state.feature_frames + frames,
        )
        return ivectors, self._limit(after)

    def subtract_mean(self, feats: Tensor, state: SpeakerState) -> Tensor:
        """Subtracts the mean of the last frames, filled up by older and by general ones.

        Args:
            feats: float64 ``(B, F, C)``.
            state: Of the speakers.

        Returns:
            float64 ``(B, F, C)``.
        """
        sums = F.pad(feats.cumsum(1), (0, 0, 1, 0))
        ends = torch.arange(1, feats.shape[1] + 1, device=feats.device)
        total = sums[:, 1:] - sums[:, (ends - CMN_FRAMES).clamp_min(0)]
        count = ends.clamp_max(CMN_FRAMES).double()
        known = state.feature_frames[:, None]
        older = torch.minimum((CMN_FRAMES - count).clamp_max(SPEAKER_FRAMES), known)
        speaker_mean = state.feature_sum / known.clamp_min(1)
        general = (CMN_FRAMES - count - older).clamp_max(GLOBAL_FRAMES)
        total = total + older[..., None] * speaker_mean[:, None]
        total = total + general[..., None] * self.global_mean
        return feats - total / (count + older + general)[..., None]

    def project(self, feats: Tensor, frames: Tensor) -> Tensor:
        """Splices frames with their neighbours and projects them.

        Args:
            feats: float64 ``(B, F, C)``.
            frames: int64 ``(B,)``.

        Returns:
            float64 ``(B, F, D)``.
        """
        context = self.config.context
        edged = repeat_edges(feats, frames, context, context)
        spliced = edged.unfold(1, 2 * context + 1, 1).transpose(2, 3).flatten(2)
        return F.linear(spliced, self.projection[:, :-1], self.projection[:, -1])

    def posteriors(self, normalised: Tensor) -> Tensor:
        """Assigns frames to Gaussians.

        Args:
            normalised: float64 ``(..., D)``.

        Returns:
            float64 ``(..., G)``; the sum over G is `POSTERIOR_SCALE`.
        """
        likelihood = F.linear(normalised, self.means_invvars, self.gconsts)
        likelihood = likelihood - 0.5 * F.linear(normalised.square(), self.inv_vars)
        best, chosen = likelihood.topk(min(BEST_GAUSSIANS, self.config.gaussians))
        share = (best - best[..., :1]).exp()
        # Against the best first, then against the sum of those that are left.
        share = share.masked_fill(share <= MIN_POSTERIOR, 0.0)
        share = share.masked_fill(share < MIN_POSTERIOR * share.sum(-1, keepdim=True), 0.0)
        share = POSTERIOR_SCALE * share / share.sum(-1, keepdim=True)
        return torch.zeros_like(likelihood).scatter_(-1, chosen, share)

    def _statistics(
        self, raw: Tensor, normalised: Tensor, counts: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """What the frames up to each i-vector add to those up to the one before it.

        Args:
            raw: float64 ``(B, F, D)``.
            normalised: float64 ``(B, F, D)``.
            counts: Whether a frame counts, bool ``(B, F)``.

        Yields:
            ``(B, V, S)`` and ``(B, V, S, S)`` for the next V i-vectors, `GROUP` at most.
        """
        count = -(-raw.shape[1] // PERIOD)
        # The first i-vector has one new frame, every other one `PERIOD`.
        last = PERIOD * (count - 1) + 1
        raw, normalised, weight = (
            F.pad(x[:, :last], (0, 0, PERIOD - 1, 0)).view(len(x), count, PERIOD, -1)
            for x in (raw, normalised, counts[..., None].double())
        )
        for start in range(0, count, GROUP):
            group = slice(start, start + GROUP)
            posteriors = self.posteriors(normalised[:, group]) * weight[:, group]
            moments = posteriors.mT @ raw[:, group]
            linear = moments.flatten(2) @ self.linear_terms.flatten(0, 1)
            quadratic = posteriors.sum(2) @ self.quadratic_terms.flatten(1)
            yield linear, quadratic.view(*linear.shape, -1)

    def _estimate(
        self, statistics: Iterable[tuple[Tensor, Tensor]], state: SpeakerState
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Estimates i-vectors one after the other, each from where the last one ended.

        Args:
            statistics: As `_statistics` gives them.
            state: Of the speakers.

        Returns:
            float32 ``(B, V, S)``, and the linear and the quadratic term of all frames.
        """
        linear, quadratic = state.linear, state.quadratic
        current = self._prior().expand_as(linear)
        found = []
        for first, second in statistics:
            for i in range(first.shape[1]):
                linear = linear + first[:, i]
                quadratic = quadratic + second[:, i]
                current = approach(quadratic, linear, current)
                found.append(current)
        ivectors = torch.stack(found, dim=1) - self._prior()
        return ivectors.float(), linear, quadratic

    def _prior(self) -> Tensor:
        """The i-vector of which nothing is known, float64 ``(S,)``."""
        return F.pad(self.prior_offset[None], (0, self.config.ivector - 1))

    def _fresh(self, feats: Tensor) -> SpeakerState:
        """The state of speakers of whom nothing is known."""
        batch, size = len(feats), self.config.ivector
        identity = torch.eye(size, dtype=torch.float64, device=feats.device)
        nothing = identity.new_zeros(batch)
        return SpeakerState(
            self._prior().expand(batch, -1),
            identity.expand(batch, -1, -1),
            nothing,
            identity.new_zeros(batch, self.config.inputs),
            nothing,
        )

    def _limit(self, state: SpeakerState) -> SpeakerState:
        """Shrinks statistics to `REMEMBERED_FRAMES`, but for what they have from the prior."""
        share = (REMEMBERED_FRAMES * POSTERIOR_SCALE / state.occupancy).clamp_max(1)
        lost = 1 - share
        identity = torch.eye(self.config.ivector, dtype=share.dtype, device=share.device)
        feature_share = (REMEMBERED_FRAMES / state.feature_frames).clamp_max(1)
        return SpeakerState(
            share[:, None] * state.linear + lost[:, None] * self._prior(),
            share[:, None, None] * state.quadratic + lost[:, None, None] * identity,
            share * state.occupancy,
            feature_share[:, None] * state.feature_sum,
            feature_share * state.feature_frames,
        )
