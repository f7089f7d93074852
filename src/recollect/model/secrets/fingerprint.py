"""A display name for a secret: eight hex digits that show whether two secrets are equal, and nothing else.

The digits come from a keyed hash. The key never leaves this machine, so guesses cannot be tested against
them. An unkeyed hash of a password would reveal it to anyone with a list of passwords.
"""

from __future__ import annotations

import hashlib
import hmac

KEY_BYTES = 32


def fingerprint(secret: str, key: bytes) -> str:
    """Eight hex digits of HMAC-SHA-256."""
    return hmac.new(key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:8]
