"""Two systems and a probability: each utterance goes to one of them, as its seed decides.

As anonymization systems: T8-3, T8-4 and T8-5 of the VoicePrivacy Challenge 2024 (results paper,
section 5; arXiv:2409.08913), T8-1 with probability 0.2, 0.325, 0.4, else T8-2. Table 7 of the paper
calls this the probability of T8-2; its results say the opposite (specification sheet of kNN-VC,
section 9). The chosen system gets the recording as it came; nothing is mixed.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from voiceanon import seeding
from voiceanon.anonymizer import Anonymizer
from voiceanon.batching import pad, plan_batches, unpad
from voiceanon.chunking import ChunkJoiner, plan_chunks
from voiceanon.errors import ConfigError
from voiceanon.types import SystemInfo, Target

ROLES = ("first", "second")

_SECRET_BYTES = 32
"""Drawn from an item's generator where its pieces need generators of their own."""


@dataclass(frozen=True, kw_only=True)
class AdmixtureConfig:
    """Settings; the defaults are those of T8-3.

    Attributes:
        first: Id or alias of a system.
        second: Id or alias of another system, at the same rate.
        p: Probability that an utterance goes to the first.
        first_options: Options of `voiceanon.load` for the first: fields of its ``Config``. Once
            loaded, its complete settings.
        second_options: The same for the second.
    """

    first: str = "t8-1"
    second: str = "t8-2"
    p: float = 0.2
    first_options: Mapping[str, Any] = field(default_factory=dict)
    second_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the probability.

        Raises:
            ConfigError: It is none.
        """
        if not 0 <= self.p <= 1:
            raise ConfigError(f"p: {self.p!r} is no probability; use a number from 0 to 1.")


class Admixture(Anonymizer):
    """Two systems; the target is ``{"system": id, "target": that system's target}``.

    Attributes:
        first: The first system, once loaded.
        second: The second.
    """

    Config = AdmixtureConfig
    config: AdmixtureConfig
    first: Anonymizer
    second: Anonymizer

    # Members.

    @property
    def members(self) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Names and options of both systems, by role."""
        config = self.config
        return {
            "first": (config.first, config.first_options),
            "second": (config.second, config.second_options),
        }

    def use_members(self, members: Mapping[str, Anonymizer]) -> None:
        """Takes both systems, and their facts.

        Args:
            members: Loaded systems by role.

        Raises:
            ConfigError: They are the same system, or have different rates.
        """
        self.first, self.second = (members[role] for role in ROLES)
        one, two = self.first.info, self.second.info
        if one.id == two.id:
            raise ConfigError(f"second: {two.id} is the first system, too; name another one.")
        if one.sample_rate != two.sample_rate:
            raise ConfigError(
                f"second: {two.id} works at {two.sample_rate} Hz, {one.id} at {one.sample_rate} "
                "Hz; take two systems of the same rate."
            )
        self.config = dataclasses.replace(
            self.config,
            first_options=dataclasses.asdict(self.first.config),
            second_options=dataclasses.asdict(self.second.config),
        )
        self.weight_digests = {
            f"{member.info.id}/{key}": digest
            for member in (self.first, self.second)
            for key, digest in member.weight_digests.items()
        }
        self.info = _joint_facts(self.info, one, two)

    def _member(self, system: str) -> Anonymizer:
        return self.first if system == self.first.info.id else self.second

    def use_pool(self, pool: object) -> None:
        """Hands target speakers to the systems that take them; see `Anonymizer.use_pool`."""
        takers = self._pool_systems()
        if not takers:
            super().use_pool(pool)
        for member in takers:
            member.use_pool(pool)
            digest = member.weight_digests["pool"]
            name = f"{member.info.id}/pool"
            self.weight_digests = {**self.weight_digests, name: digest}

    def make_pool(
        self, references: Mapping[str, Any], *, sexes: Mapping[str, str] | None = None
    ) -> Any:
        """Makes a pool for the first system that takes one; see `Anonymizer.make_pool`."""
        for member in self._pool_systems():
            return member.make_pool(references, sexes=sexes)
        return super().make_pool(references, sexes=sexes)

    def _pool_systems(self) -> list[Anonymizer]:
        members = (self.first, self.second)
        return [m for m in members if type(m).use_pool is not Anonymizer.use_pool]

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Writes both systems into folders of their own, beside the settings of the mixture."""
        super().save_pretrained(folder)
        for role, member in zip(ROLES, (self.first, self.second), strict=True):
            member.save_pretrained(Path(folder) / role)

    # Targets.

    def draw_target(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws the system with one number, then a target of each, of which one is kept.

        Both draw, so that a system that cannot (for lack of a pool) says so at once, rather than
        now and then.
        """
        chance = float(torch.rand((), generator=generator, dtype=torch.float64))
        targets = [m.draw_target(generator, speaker) for m in (self.first, self.second)]
        place = 0 if chance < self.config.p else 1
        return {
            "system": (self.first, self.second)[place].info.id,
            "target": dict(targets[place]),
        }

    def parse_target(self, target: object) -> Target:
        """Accepts ``{"system": name, "target": target}``."""
        known = {
            name: member
            for member in (self.first, self.second)
            for name in (member.info.id, *member.info.aliases)
        }
        system = target.get("system") if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping) or system not in known or "target" not in target:
            raise ConfigError(
                f"target: {target!r} does not fit {self.info.id}; it takes "
                "{'system': name, 'target': ...} with one of " + f"{', '.join(known)}."
            )
        member = known[system]
        return {"system": member.info.id, "target": dict(member.parse_target(target["target"]))}

    def settle_targets(
        self, batch: Tensor, lengths: Tensor, targets: Sequence[Target]
    ) -> list[Target]:
        """Each system completes its own; see `Anonymizer.settle_targets`."""
        settled = list(targets)
        for member in (self.first, self.second):
            own = [i for i, t in enumerate(targets) if self._member(t["system"]) is member]
            if own:
                longest = int(min(_longest_samples(member), batch.shape[1]))
                inner = member.settle_targets(
                    batch[own, :longest],
                    lengths[own].clamp(max=longest),
                    [targets[index]["target"] for index in own],
                )
                for index, target in zip(own, inner, strict=True):
                    settled[index] = {**targets[index], "target": dict(target)}
        return settled

    def level_step_of(self, target: Target) -> Anonymizer:
        """The system whose level step a voice gets: the one that it went to."""
        member = self._member(target["system"])
        return member.level_step_of(target["target"]) if isinstance(member, Admixture) else member

    # Conversion.

    @property
    def hop_samples(self) -> int:
        """Chunks begin where both systems may begin."""
        return math.lcm(self.first.hop_samples, self.second.hop_samples)

    def convert(
        self,
        batch: Tensor,
        lengths: Tensor,
        targets: Sequence[Target],
        generators: Sequence[torch.Generator],
    ) -> tuple[Tensor, Tensor]:
        """Converts a padded batch; see `Anonymizer.convert`.

        Each system gets its items together. Draws what the chosen system draws; where that one
        cuts what it gets, `_SECRET_BYTES` numbers instead, from which its pieces draw.
        """
        targets = self.settle_targets(batch, lengths, targets)
        waves = unpad(batch, lengths)
        results = [Tensor()] * len(waves)
        for member in (self.first, self.second):
            own = [i for i, t in enumerate(targets) if self._member(t["system"]) is member]
            converted = _convert_all(
                member,
                [waves[index] for index in own],
                [targets[index]["target"] for index in own],
                [generators[index] for index in own],
            )
            for index, result in zip(own, converted, strict=True):
                results[index] = result
        counts = torch.tensor([len(result) for result in results], device=batch.device)
        return pad_sequence(results, batch_first=True), counts


def _longest_samples(member: Anonymizer) -> float:
    """Most that the shared steps hand to a system at once."""
    info = member.info
    if info.chunk_seconds is None:
        return math.inf
    return (info.chunk_seconds + 2 * info.overlap_seconds) * member.sample_rate


def _convert_all(
    member: Anonymizer,
    waves: Sequence[Tensor],
    targets: Sequence[Target],
    generators: Sequence[torch.Generator],
) -> list[Tensor]:
    """Converts waveforms with one system, in its own batches and pieces."""
    longest = _longest_samples(member)
    results = [Tensor()] * len(waves)
    short = [index for index, wave in enumerate(waves) if len(wave) <= longest]
    capacity = member.batch_seconds * member.sample_rate
    for batch in plan_batches([len(waves[index]) for index in short], capacity):
        chosen = [short[place] for place in batch]
        padded, lengths = pad([waves[index] for index in chosen], waves[0].device)
        converted = member.convert(
            padded,
            lengths,
            [targets[index] for index in chosen],
            [generators[index] for index in chosen],
        )
        for index, result in zip(chosen, unpad(*converted), strict=True):
            results[index] = result
    for index in set(range(len(waves))) - set(short):
        results[index] = _convert_long(member, waves[index], targets[index], generators[index])
    return results


def _convert_long(
    member: Anonymizer, wave: Tensor, target: Target, generator: torch.Generator
) -> Tensor:
    """Converts a waveform in pieces, joined as the shared steps join those of the system alone."""
    info, rate = member.info, member.sample_rate
    overlap = int(info.overlap_seconds * rate) if info.keeps_length else 0
    chunk = int((info.chunk_seconds or 0) * rate)
    plan = plan_chunks(len(wave), chunk, overlap, member.hop_samples)
    drawn = torch.randint(256, (_SECRET_BYTES,), generator=generator, dtype=torch.int64)
    secret = bytes(drawn.tolist())
    joiner = ChunkJoiner(plan) if info.keeps_length else None
    parts = []
    for index in range(len(plan)):
        first, end = plan.span(index)
        own = seeding.generator(seeding.stream(secret, "piece", str(index)))
        padded, lengths = pad([wave[first:end]], wave.device)
        (result,) = unpad(*member.convert(padded, lengths, [target], [own]))
        parts.append(result if joiner is None else joiner.push(result))
    return torch.cat(parts)


def _joint_facts(info: SystemInfo, one: SystemInfo, two: SystemInfo) -> SystemInfo:
    """What holds for a mixture of two systems."""
    both = (one, two)
    keeps_length = one.keeps_length and two.keeps_length
    chunks = [each.chunk_seconds for each in both if each.chunk_seconds is not None]
    # What does not keep time is not cross-faded by the shared steps: pieces are left as long as
    # possible, and a system that cannot take them cuts and fades within.
    chunk = (min if keeps_length else max)(chunks) if len(chunks) == len(both) else None
    rates = [each.training_rate for each in both if each.training_rate is not None]
    files = {file.key: file for each in both for file in each.weights}
    return dataclasses.replace(
        info,
        sample_rate=one.sample_rate,
        min_seconds=max(one.min_seconds, two.min_seconds),
        keeps_length=keeps_length,
        discrete=one.discrete or two.discrete,
        chunk_seconds=chunk,
        overlap_seconds=max(each.overlap_seconds for each in both) if keeps_length else 0.0,
        batch_seconds=max(each.batch_seconds for each in both),
        cpu_batch_seconds=max(each.cpu_batch_seconds or each.batch_seconds for each in both),
        training_rate=max(rates) if rates else None,
        weights=tuple(files.values()),
        notes=(*info.notes, *(f"{each.id}: {note}" for each in both for note in each.notes)),
        guesses=tuple(f"{each.id}: {name}" for each in both for name in each.guesses),
    )
