"""A secret's name for people: eight hex digits that say whether two are equal, and nothing else.

The digits come from a keyed hash. Without the key, which never leaves this machine, nobody
can try out guesses against them: an unkeyed hash of a password is the password for
whoever has a list of passwords.
"""

from __future__ import annotations

import hashlib
import hmac

KEY_BYTES = 32


def fingerprint(secret: str, key: bytes) -> str:
    """Eight hex digits of HMAC-SHA-256."""
    return hmac.new(key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:8]
