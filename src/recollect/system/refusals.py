"""Turns file system errors into our own errors with a next step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import StorageError


@contextlib.contextmanager
def as_storage_error(operation: str, path: Path) -> Iterator[None]:
    """Any ``OSError`` inside becomes a ``StorageError`` about ``path``."""
    try:
        yield
    except OSError as cause:
        hint = "check the disk and its permissions, then try again"
        raise StorageError(operation, path, cause, hint=hint) from cause
