"""The Transformer that Bark's coarse and fine models share, with a static key/value cache.

Sources: specification sheet of the codec language model, sections 1.1, 1.2 and 2; entries of the
published files. Entries have the names of the Hub's ``pytorch_model.bin``; `ORIGINAL_RENAMES` makes
them of those in ``coarse_2.pt`` and ``fine_2.pt``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from voiceanon.errors import ConfigError

NORM_EPS = 1e-5
"""Epsilon of all LayerNorms (section 2)."""

MLP_FACTOR = 4
"""Inner width of the feed-forward blocks, as a multiple of the width (section 2)."""

CACHE_ALIGNMENT = 16
"""Places of the cache are rounded up to this: kernels of some devices would copy a mask whose rows
do not start at multiples of it."""


@dataclass(frozen=True, kw_only=True)
class GptConfig:
    """Sizes of a model; the defaults are those of the published coarse model (section 1.1).

    Attributes:
        layers: Transformer layers.
        heads: Attention heads, H.
        width: Features of a token, D.
        context: Positions that have an embedding.
        vocabulary: Token numbers, in and out.
    """

    layers: int = 24
    heads: int = 16
    width: int = 1024
    context: int = 1024
    vocabulary: int = 12096

    def __post_init__(self) -> None:
        """Checks what can be divided.

        Raises:
            ConfigError: The width is no multiple of the heads.
        """
        if self.heads < 1 or self.width % self.heads:
            raise ConfigError(
                f"Bark: width {self.width} cannot be divided by {self.heads} heads; official are "
                "1024 and 16."
            )

    @classmethod
    def from_published(cls, settings: Mapping[str, Any], default: GptConfig) -> GptConfig:
        """Reads the settings beside published weights.

        Args:
            settings: ``model_args`` of an original checkpoint, or a part of the Hub's
                ``config.json``.
            default: Sizes that the settings leave out.

        Raises:
            ConfigError: The settings are those of another architecture.
        """
        if settings.get("bias", False):
            raise ConfigError("Bark: the setting 'bias' is true; only models without are built.")
        sizes = {
            field: int(settings[name])
            for field, names in _SIZES.items()
            for name in names
            if name in settings
        }
        vocabularies = {
            int(settings[name])
            for name in ("vocab_size", "input_vocab_size", "output_vocab_size")
            if name in settings
        }
        if len(vocabularies) > 1:
            raise ConfigError(
                f"Bark: vocabularies of {sorted(vocabularies)} tokens; one size for input and "
                "output is due."
            )
        if vocabularies:
            sizes["vocabulary"] = vocabularies.pop()
        return replace(default, **sizes)


_SIZES = {
    "layers": ("n_layer", "num_layers"),
    "heads": ("n_head", "num_heads"),
    "width": ("n_embd", "hidden_size"),
    "context": ("block_size",),
}
"""Our field: its names in ``model_args`` and in the Hub's ``config.json``."""


class Gpt(nn.Module):
    """Positions, Transformer layers and the final norm; what tokens mean is up to subclasses.

    Runs in the type of its weights or under autocast; LayerNorms and the sums over layers stay in
    the type of the weights. There is no dropout, in training mode either.
    """

    def __init__(self, config: GptConfig, *, norm_bias: bool) -> None:
        """Builds the layers with untrained weights.

        Args:
            config: Sizes.
            norm_bias: Whether the LayerNorms have biases; linear maps have none.
        """
        super().__init__()
        self.config = config
        self.position_embeds_layer = nn.Embedding(config.context, config.width)
        self.layers = nn.ModuleList(Layer(config, norm_bias) for _ in range(config.layers))
        self.layernorm_final = nn.LayerNorm(config.width, eps=NORM_EPS, bias=norm_bias)

    def whole(self, x: Tensor, cache: Tensor | None = None) -> Tensor:
        """Runs whole sequences: causal ones that fill a cache, or ones that see all of themselves.

        Args:
            x: Embedded tokens without their positions, ``(B, T, D)``, T up to ``context``.
            cache: See `new_cache`; gets keys and values of the first T places. With it, a token
                sees itself and what is before it; without it, all tokens.

        Returns:
            ``(B, T, D)`` behind the final norm.
        """
        x = x + self.position_embeds_layer.weight[: x.shape[1]]
        for number, layer in enumerate(self.layers):
            x = cast(Layer, layer)(x, None if cache is None else cache[number])
        return cast(Tensor, self.layernorm_final(x))

    def step(self, x: Tensor, positions: Tensor, cache: Tensor) -> Tensor:
        """Runs one more token of each sequence.

        Args:
            x: Embedded tokens without their positions, ``(B, D)``.
            positions: Place of each token in its own sequence, int64 ``(B,)``.
            cache: See `new_cache`; gets keys and values of these tokens.

        Returns:
            ``(B, D)`` behind the final norm.
        """
        x = (x + self.position_embeds_layer(positions))[:, None]
        rows = torch.arange(len(positions), device=x.device)
        seen = torch.arange(cache.shape[-2], device=x.device) <= positions[:, None]
        for number, layer in enumerate(self.layers):
            x = cast(Layer, layer).step(x, cache[number], (rows, positions), seen[:, None, None])
        return cast(Tensor, self.layernorm_final(x))[:, 0]

    def new_cache(self, batch: int, places: int) -> Tensor:
        """Makes room for keys and values.

        Args:
            batch: Sequences.
            places: Tokens of each.

        Returns:
            Zeros ``(layers, 2, B, H, S, D / H)`` with S at least ``places``, in the type in which
            attention computes.
        """
        config, weight = self.config, self.layernorm_final.weight
        size = -(-places // CACHE_ALIGNMENT) * CACHE_ALIGNMENT
        shape = (config.layers, 2, batch, config.heads, size, config.width // config.heads)
        # Not left as it is: masked places have weight 0, but 0 times infinity is no number.
        return torch.zeros(shape, dtype=_compute_dtype(weight), device=weight.device)


class Layer(nn.Module):
    """One Transformer layer, with the norm in front of each block."""

    def __init__(self, config: GptConfig, norm_bias: bool) -> None:
        super().__init__()
        self.layernorm_1 = nn.LayerNorm(config.width, eps=NORM_EPS, bias=norm_bias)
        self.attn = Attention(config)
        self.layernorm_2 = nn.LayerNorm(config.width, eps=NORM_EPS, bias=norm_bias)
        self.mlp = Mlp(config.width)

    def forward(self, x: Tensor, cache: Tensor | None) -> Tensor:
        """Turns ``(B, T, D)`` into the same; the rest as in `Attention.forward`."""
        x = x + self.attn(self.layernorm_1(x), cache)
        return x + cast(Tensor, self.mlp(self.layernorm_2(x)))

    def step(self, x: Tensor, cache: Tensor, place: tuple[Tensor, Tensor], seen: Tensor) -> Tensor:
        """Turns ``(B, 1, D)`` into the same; the rest as in `Attention.step`."""
        x = x + self.attn.step(self.layernorm_1(x), cache, place, seen)
        return x + cast(Tensor, self.mlp(self.layernorm_2(x)))


class Attention(nn.Module):
    """Self-attention; queries, keys and values come from one linear map."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.att_proj = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out_proj = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor, cache: Tensor | None) -> Tensor:
        """Attends within whole sequences.

        Args:
            x: Normalised input ``(B, T, D)``.
            cache: ``(2, B, H, S, D / H)``, whose first T places are filled; ``None`` for attention
                to all tokens instead of those before.
        """
        query, key, value = self._split(x)
        if cache is not None:
            cache[0, :, :, : x.shape[1]] = key
            cache[1, :, :, : x.shape[1]] = value
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=cache is not None)
        return self._join(attended)

    def step(self, x: Tensor, cache: Tensor, place: tuple[Tensor, Tensor], seen: Tensor) -> Tensor:
        """Attends from one token to what the cache holds of its sequence.

        Args:
            x: Normalised input ``(B, 1, D)``.
            cache: ``(2, B, H, S, D / H)``.
            place: Row and position of each token, int64 ``(B,)`` each, where its key and value go.
            seen: Places that count, bool ``(B, 1, 1, S)``.
        """
        query, key, value = self._split(x)
        rows, positions = place
        cache[0][rows, :, positions] = key[:, :, 0]
        cache[1][rows, :, positions] = value[:, :, 0]
        attended = F.scaled_dot_product_attention(query, cache[0], cache[1], attn_mask=seen)
        return self._join(attended)

    def _split(self, x: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value, ``(B, H, T, D / H)`` each."""
        parts: Tensor = self.att_proj(x).unflatten(-1, (3, self.heads, -1))
        return parts.permute(2, 0, 3, 1, 4).unbind(0)

    def _join(self, attended: Tensor) -> Tensor:
        return cast(Tensor, self.out_proj(attended.transpose(1, 2).flatten(2)))


class Mlp(nn.Module):
    """Feed-forward block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.in_proj = nn.Linear(width, MLP_FACTOR * width, bias=False)
        self.out_proj = nn.Linear(MLP_FACTOR * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Turns ``(B, T, D)`` into the same."""
        return cast(Tensor, self.out_proj(F.gelu(self.in_proj(x))))


ORIGINAL_RENAMES: tuple[tuple[str, str], ...] = (
    (r"^_orig_mod\.", ""),
    (r"^transformer\.wte\.", "input_embeds_layer."),
    (r"^transformer\.wtes\.", "input_embeds_layers."),
    (r"^transformer\.wpe\.", "position_embeds_layer."),
    (r"^transformer\.ln_f\.", "layernorm_final."),
    (r"^transformer\.h\.(\d+)\.", r"layers.\1."),
    (r"^(layers\.\d+)\.ln_([12])\.", r"\1.layernorm_\2."),
    (r"^(layers\.\d+\.attn)\.c_attn\.", r"\1.att_proj."),
    (r"^(layers\.\d+\.attn)\.c_proj\.", r"\1.out_proj."),
    (r"^(layers\.\d+\.mlp)\.c_fc\.", r"\1.in_proj."),
    (r"^(layers\.\d+\.mlp)\.c_proj\.", r"\1.out_proj."),
)
"""Patterns and replacements, in this order, that turn the names of ``coarse_2.pt`` and
``fine_2.pt`` into those of the Hub's file (section 1.2)."""


def is_unused_entry(name: str) -> bool:
    """Tells whether a published entry, in either form, is a causal mask (section 1.1)."""
    return name.endswith(".attn.bias")


def _compute_dtype(x: Tensor) -> torch.dtype:
    """Type in which linear maps of ``x`` compute: autocast's, if it is on."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype
