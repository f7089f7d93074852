"""Deterministic ids: the same input always gives the same id.

The model has no randomness. Where a line needs an id and the caller gives none, it is derived from existing
data, so that repeating the work gives the same bytes and a repeated append can be recognised.
"""

from __future__ import annotations

import hashlib

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def derived_uuid(seed: str, index: int) -> str:
    """An id that looks random but depends only on seed and index."""
    return uuid_of(f"{index}\0{seed}".encode("utf-8", "replace"))


def uuid_of(data: bytes) -> str:
    """An id that looks random but depends only on these bytes."""
    name = hashlib.blake2b(data, digest_size=16).hexdigest()
    # Version 4, variant 1: what other readers take for a random id.
    return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-{_VARIANT[name[16]]}{name[17:20]}-{name[20:]}"


def derived_id(prefix: str, seed: str) -> str:
    """An id in the form the API uses, the same for the same seed."""
    return prefix + hashlib.blake2b(seed.encode("utf-8", "replace"), digest_size=12).hexdigest()
