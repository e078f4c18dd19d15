"""Which speaker vector a recording gets: from a stock of artificial ones, or from a pool.

A voice is first drawn, then settled: some rules compare it with the source's own vector, which is
known once its sound is there. Both forms are targets, and both stand in reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from voiceanon import seeding
from voiceanon.components.asr.branchformer.config import is_whole
from voiceanon.components.selection.farthest import draw_dimensions, farthest, mix_dimensions
from voiceanon.components.selection.kmeans import kmeans
from voiceanon.components.selection.neighbours import PreparedPool
from voiceanon.components.selection.rejection import choose_dissimilar
from voiceanon.components.selection.targets import OTHER_SEX, candidates
from voiceanon.errors import ConfigError
from voiceanon.hub.pool import Pool
from voiceanon.systems.gan_fastspeech2_config import GanFastSpeech2Config
from voiceanon.types import Target

CENTROID_SEED = 0
"""Of k-means, so that a pool always has the same centroids (ours)."""


def draw_fraction(generator: torch.Generator) -> float:
    """Where the window of the source's vector lies, from 0 up to but not 1."""
    return torch.rand((), generator=generator, dtype=torch.float64, device="cpu").item()


def window_of(target: Target) -> float | None:
    """Where the window of the source's vector lies, or ``None`` for a settled target."""
    return cast("float | None", target.get("window"))


def draw_noise(config: GanFastSpeech2Config, width: int) -> Tensor:
    """Draws what the stock is made from, always the same for one seed: float32 ``(S, width)``."""
    secret = seeding.seed_secret(config.stock_seed)
    return torch.randn(
        config.stock,
        width,
        generator=seeding.generator(seeding.stream(secret, "stock of vectors")),
        dtype=torch.float32,
        device="cpu",
    )


class StockVoices:
    """Artificial vectors: ``{"candidates": [...], "window": w}``, settled ``{"vector": n}``."""

    def __init__(self, stock: Tensor, config: GanFastSpeech2Config) -> None:
        """Takes the stock, float32 ``(S, D)`` on the CPU."""
        self._stock = stock
        self._config = config

    def draw(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws the vectors that are tried, in their order, and the window of the source's."""
        places = torch.randint(
            len(self._stock), (self._config.tries,), generator=generator, device="cpu"
        )
        return {"candidates": places.tolist(), "window": draw_fraction(generator)}

    def parse(self, target: object) -> Target:
        """Accepts the number of a vector, and both forms of a target."""
        if isinstance(target, Mapping) and "candidates" in target:
            places = target["candidates"]
            if not isinstance(places, Sequence) or not places:
                raise ConfigError(f"target: candidates {places!r}; numbers of vectors are due.")
            for place in places:
                self._check(place)
            return {"candidates": list(places), "window": _window(target)}
        place = target.get("vector") if isinstance(target, Mapping) else target
        self._check(place)
        return {"vector": place}

    def settle(self, sources: Tensor, targets: Sequence[Target]) -> list[Target]:
        """Takes the first candidate that is not like the source, ``(B, D)``, or the last one."""
        rows = [torch.tensor(target["candidates"], device="cpu") for target in targets]
        most = max(map(len, rows))
        # Where one row has fewer candidates, its last one may be tried again: nothing changes.
        places = torch.stack([row[torch.arange(most).clamp_max(len(row) - 1)] for row in rows])
        tried = self._stock[places].flatten(0, 1).to(sources.device)
        numbers = torch.arange(len(tried), device=sources.device).view(places.shape)
        chosen = choose_dissimilar(sources, tried, numbers, threshold=self._config.threshold)
        return [{"vector": place} for place in places.flatten()[chosen.cpu()].tolist()]

    def vectors(self, targets: Sequence[Target], device: torch.device) -> Tensor:
        """Speaker vectors of settled targets, float32 ``(B, D)``."""
        places = [target["vector"] for target in targets]
        return self._stock[places].to(device)

    def _check(self, place: object) -> None:
        if not is_whole(place) or not 0 <= place < len(self):
            raise ConfigError(
                f"target: {place!r} is no vector of the stock; they are numbered from 0 to "
                f"{len(self) - 1}."
            )

    def __len__(self) -> int:
        """Vectors of the stock."""
        return len(self._stock)


class PoolVoices:
    """Vectors of real speakers.

    Targets, and what settled ones hold in place of ``window``:

    - ``pool_random``: ``{"speaker": name, "vector": n}``, settled as drawn;
    - ``pool_farthest_mix``: ``{"sex", "window", "centroid", "dimensions"}``; ``speaker``,
      ``vector``;
    - ``pool_farthest_mean``: ``{"sex", "window", "ranks"}``; ``vectors``, pairs of speaker and
      number.
    """

    def __init__(self, pool: Pool, config: GanFastSpeech2Config) -> None:
        """Lines up the vectors of all speakers, sorted by name."""
        self._pool = pool
        self._config = config
        self._rows = [(name, row) for name in pool.names for row in range(len(pool.features[name]))]
        self._places = {row: place for place, row in enumerate(self._rows)}
        self._vectors = torch.cat([pool.features[name].float() for name in pool.names])
        self._places_by_sex: dict[str | None, list[int]] = {}
        self._prepared: dict[str | None, PreparedPool] = {}
        self._centroids = self._vectors[:0]
        if config.embedding == "pool_farthest_mix":
            secret = seeding.seed_secret(CENTROID_SEED)
            generator = seeding.generator(seeding.stream(secret, "centroids of a pool"))
            self._centroids = kmeans(self._vectors, config.centroids, generator)

    def draw(self, generator: torch.Generator, speaker: str | None) -> Target:
        """Draws what the rule leaves to chance.

        Raises:
            ConfigError: The sex of the source is needed and not known, or no vector is allowed.
        """
        config = self._config
        sex = self._wanted_sex(config.sex_of(speaker))
        places = self._places_of(sex)
        if config.embedding == "pool_random":
            number = int(torch.randint(len(places), (), generator=generator, device="cpu"))
            return dict(zip(("speaker", "vector"), self._rows[places[number]], strict=True))
        drawn: dict[str, Any] = {"sex": sex, "window": draw_fraction(generator)}
        if config.embedding == "pool_farthest_mean":
            count = min(config.farthest, len(places))
            order = torch.randperm(count, generator=generator, device="cpu")
            return {**drawn, "ranks": order[: config.averaged].sort().values.tolist()}
        centroid = torch.randint(len(self._centroids), (), generator=generator, device="cpu")
        width = self._vectors.shape[1]
        replaced = draw_dimensions(width, round(config.mixed_share * width), generator)
        return {
            **drawn,
            "centroid": int(centroid),
            "dimensions": replaced.nonzero().flatten().tolist(),
        }

    def _wanted_sex(self, source_sex: str | None) -> str | None:
        """Sex of the speakers that the rule allows; ``None`` for any."""
        rule = self._config.selection
        if rule == "random":
            return None
        if source_sex is None:
            raise ConfigError(
                f"selection: the rule {rule!r} needs the sex of the source speaker. Load with "
                "source_sex='f' or 'm', or with source_sexes={speaker: sex} and pass speaker=..."
            )
        sexes = {name: self._pool.sex(name) for name in self._pool.names}
        return sexes[candidates(sexes, rule, source_sex)[0]]

    def parse(self, target: object) -> Target:
        """Accepts the name of a speaker, for its first vector, and both forms of a target."""
        if isinstance(target, str):
            target = {"speaker": target, "vector": 0}
        kind = self._config.embedding
        forms = {
            "pool_random": ({"speaker", "vector"},),
            "pool_farthest_mix": (
                {"sex", "window", "centroid", "dimensions"},
                {"speaker", "vector", "centroid", "dimensions"},
                {"speaker", "vector"},
            ),
            "pool_farthest_mean": (
                {"sex", "window", "ranks"},
                {"vectors"},
                {"speaker", "vector"},
            ),
        }[kind]
        if not isinstance(target, Mapping) or set(target) not in forms:
            shown = " or ".join(", ".join(sorted(form)) for form in forms)
            raise ConfigError(
                f"target: {target!r} is no voice of {kind}; a dictionary with {shown} is due, or "
                "the name of a speaker."
            )
        self._check(target)
        return dict(target)

    def _check(self, target: Mapping[str, Any]) -> None:
        """Raises `ConfigError` where a value is none that could be drawn or settled."""
        if "speaker" in target:
            self._place((target["speaker"], target["vector"]))
        if "vectors" in target:
            _some("vectors", target["vectors"])
            for pair in target["vectors"]:
                self._place(pair)
        if "window" in target:
            _window(target)
            places = self._places_of(_sex(target))
            _some("ranks", target.get("ranks", [0]))
            _numbers("ranks", target.get("ranks", [0]), len(places))
        _numbers("centroid", [target.get("centroid", 0)], max(1, len(self._centroids)))
        _numbers("dimensions", target.get("dimensions", ()), self._vectors.shape[1])

    def _place(self, row: Sequence[Any]) -> int:
        try:
            name, number = row
            # 1.0 and True find what 1 finds, but do not stand for it in a report.
            if not is_whole(number):
                raise KeyError(number)
            return self._places[name, number]
        except (KeyError, TypeError, ValueError):
            raise ConfigError(
                f"target: {row!r} is no vector of the pool; its speakers are "
                f"{', '.join(self._pool.names)}, their vectors are numbered from 0."
            ) from None

    def _places_of(self, sex: str | None) -> list[int]:
        """Places of the vectors of one sex, or of all."""
        if sex not in self._places_by_sex:
            places = [
                place
                for place, (name, _) in enumerate(self._rows)
                if sex is None or self._pool.sex(name) == sex
            ]
            if not places:
                raise ConfigError(f"target: the pool has no speaker of sex {sex!r}.")
            self._places_by_sex[sex] = places
        return self._places_by_sex[sex]

    def _prepare(self, sex: str | None, device: torch.device) -> PreparedPool:
        """Vectors of one sex, or of all, for the search; they stay on the device."""
        pool = self._prepared.get(sex)
        if pool is None:
            pool = PreparedPool.prepare(self._vectors[self._places_of(sex)])
        self._prepared[sex] = pool = pool.to(device)
        return pool

    def settle(self, sources: Tensor, targets: Sequence[Target]) -> list[Target]:
        """Looks for the vectors least like the sources, ``(B, D)``."""
        settled: list[Target] = [{}] * len(targets)
        for sex in {target["sex"] for target in targets}:
            items = [i for i, target in enumerate(targets) if target["sex"] == sex]
            places, pool = self._places_of(sex), self._prepare(sex, sources.device)
            ranks = [targets[i].get("ranks", [0]) for i in items]
            found = farthest(sources[items].float(), pool, 1 + max(map(max, ranks)))
            for i, row, wanted in zip(items, found.tolist(), ranks, strict=True):
                rows = [self._rows[places[row[rank]]] for rank in wanted]
                settled[i] = _settled(targets[i], rows)
        return settled

    def vectors(self, targets: Sequence[Target], device: torch.device) -> Tensor:
        """Speaker vectors of settled targets, float32 ``(B, D)``."""
        return torch.stack([self._vector(target) for target in targets]).to(device)

    def _vector(self, target: Target) -> Tensor:
        if "vectors" in target:
            return self._vectors[[self._place(row) for row in target["vectors"]]].mean(0)
        vector = self._vectors[self._place((target["speaker"], target["vector"]))]
        if "dimensions" not in target:
            return vector
        replaced = torch.zeros(len(vector), dtype=torch.bool, device="cpu")
        replaced[target["dimensions"]] = True
        return mix_dimensions(vector, self._centroids[target["centroid"]], replaced)


def _settled(target: Target, rows: Sequence[tuple[str, int]]) -> Target:
    if "ranks" in target:
        return {"vectors": [list(row) for row in rows]}
    ((speaker, vector),) = rows
    kept = {name: target[name] for name in ("centroid", "dimensions")}
    return {"speaker": speaker, "vector": vector, **kept}


def _window(target: Mapping[str, Any]) -> float:
    window = target.get("window")
    if not (isinstance(window, float) or is_whole(window)) or not 0 <= window < 1:
        raise ConfigError(f"target: window {window!r}; a number from 0 up to but not 1 is due.")
    return float(window)


def _sex(target: Mapping[str, Any]) -> str | None:
    sex = target["sex"]
    if sex not in (None, *OTHER_SEX):
        raise ConfigError(f"target: sex {sex!r}; 'f', 'm', or None for any is due.")
    return cast("str | None", sex)


def _some(name: str, values: object) -> None:
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"target: {name} {values!r}; a list of at least one is due.")


def _numbers(name: str, values: Any, end: int) -> None:
    whole = isinstance(values, Sequence) and all(map(is_whole, values))
    if not whole or not all(0 <= value < end for value in values):
        raise ConfigError(f"target: {name} {values!r}; numbers from 0 to {end - 1} are due.")
