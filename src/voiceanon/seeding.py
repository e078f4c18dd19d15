"""(seed, key, purpose) -> generator. The only place that makes generators.

Draws are made on the CPU from a digest of the seed and of the names of what is drawn, so they
depend on nothing else: not on order, batch, workers, device or process.

PyTorch's CPU generator has 2^32 distinct starts. That bounds how many different draws one purpose
can have; the digest itself, 256 bits, keeps draws of different keys unrelated and hides the seed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from numbers import Integral

import torch

from voiceanon.errors import ConfigError
from voiceanon.types import Seed

SECRET_BYTES = 32
_FINGERPRINT_DIGITS = 16


def fresh_secret() -> bytes:
    """Draws a secret from the operating system."""
    return secrets.token_bytes(SECRET_BYTES)


def check_seed(seed: Seed) -> None:
    """Raises `ConfigError` where ``seed`` is not an integer, not bytes, or empty."""
    if seed is None or (isinstance(seed, Integral) and not isinstance(seed, bool)):
        return
    if not isinstance(seed, bytes):
        raise ConfigError(
            f"seed: expected an integer, bytes or None, got {type(seed).__name__}; encode a text "
            "secret with .encode()."
        )
    if not seed:
        raise ConfigError("seed: the secret is empty (0 bytes); pass at least one byte, or None.")


def seed_secret(seed: Seed) -> bytes:
    """Turns a seed into key material; ``None`` draws it from the operating system.

    Raises:
        ConfigError: See `check_seed`.
    """
    check_seed(seed)
    if seed is None:
        return fresh_secret()
    return b"bytes:" + seed if isinstance(seed, bytes) else b"int:%d" % int(seed)


def stream(secret: bytes, *parts: str) -> bytes:
    """Derives 32 bytes for one purpose from a secret.

    Args:
        secret: Of `seed_secret`.
        parts: Names of what is drawn, such as ``("target", system, key)``.
    """
    # Lengths go in front, so that ("a", "bc") and ("ab", "c") stay apart.
    message = b"".join(
        len(part).to_bytes(8, "big") + part
        # File names that are no valid text come with lone surrogates.
        for part in (text.encode("utf-8", "surrogatepass") for text in parts)
    )
    return hmac.new(secret, message, hashlib.sha256).digest()


def generator(source: bytes) -> torch.Generator:
    """Makes a CPU generator that starts from a `stream`."""
    return torch.Generator().manual_seed(int.from_bytes(source[:8], "big"))


def describe(seed: Seed) -> int | str:
    """What a report may say of a seed: the integer, ``"secret"`` or ``"drawn"``."""
    if seed is None:
        return "drawn"
    return "secret" if isinstance(seed, bytes) else int(seed)


def fingerprint(seed: Seed) -> str:
    """A short digest that tells whether two runs had the same seed; ``"drawn"`` for ``None``.

    Raises:
        ConfigError: See `check_seed`.
    """
    check_seed(seed)
    if seed is None:
        return "drawn"
    return stream(seed_secret(seed), "fingerprint").hex()[:_FINGERPRINT_DIGITS]
