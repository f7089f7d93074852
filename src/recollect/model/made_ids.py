"""Deterministic ids: the same input always gives the same id.

The model has no randomness. Where a line needs an id and the caller gives none, it is derived from existing
data, so that repeating the work gives the same bytes and a repeated append can be recognised.
"""

from __future__ import annotations

import hashlib


def derived_uuid(seed: str, index: int) -> str:
    """An id that looks random but depends only on seed and index."""
    digest = bytearray(
        hashlib.blake2b(f"{index}\0{seed}".encode("utf-8", "replace"), digest_size=16).digest()
    )
    digest[6] = digest[6] & 0x0F | 0x40
    digest[8] = digest[8] & 0x3F | 0x80
    name = digest.hex()
    return f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"


def derived_id(prefix: str, seed: str) -> str:
    """An id in the form the API uses, the same for the same seed."""
    return prefix + hashlib.blake2b(seed.encode("utf-8", "replace"), digest_size=12).hexdigest()
