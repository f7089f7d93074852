"""Keyed fingerprints of secrets, for everything that finds or removes them: equal ones mean equal secrets.

If the key can neither be read nor created, as on a read-only disk, a temporary one is used, and a note says that
the fingerprints are valid for this run only. What sends one line needs no more of the scan than this.
"""

from __future__ import annotations

import functools
import secrets
from pathlib import Path

from recollect.errors import StorageError
from recollect.model.secrets.fingerprint import KEY_BYTES, fingerprint
from recollect.storage.config.fingerprint_key import fingerprint_key

FOR_THIS_RUN = "the fingerprint key cannot be saved: fingerprints are valid for this run only"


class Fingerprints:
    """Computes fingerprints. The key is loaded or created on first use."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.notes: list[str] = []

    def __call__(self, secret: str) -> str:
        return fingerprint(secret, self.key)

    @functools.cached_property
    def key(self) -> bytes:
        """The key of our own directory, or, if it cannot be saved there, a temporary one."""
        try:
            return fingerprint_key(self._data)
        except StorageError:
            self.notes.append(FOR_THIS_RUN)
            return secrets.token_bytes(KEY_BYTES)
