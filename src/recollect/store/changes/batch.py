"""Batches: changes that one command makes belong together, and one `undo` takes them back."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterator
from contextvars import ContextVar

_open: ContextVar[str] = ContextVar("batch", default="")


@contextlib.contextmanager
def one_batch(what: str) -> Iterator[str]:
    """Changes made inside belong together; gives the id of the batch. ``what`` is the command's word."""
    if outer := _open.get():
        yield outer
        return
    now = dt.datetime.now(dt.UTC)
    token = _open.set(f"{now:%Y%m%dT%H%M%S}-{what}-{os.urandom(3).hex()}")
    try:
        yield _open.get()
    finally:
        _open.reset(token)


def open_batch() -> str:
    """The id of the batch that is open; empty if there is none."""
    return _open.get()


def word_of(batch: str) -> str:
    """The word of the command that made a batch."""
    return batch.partition("-")[2].rpartition("-")[0]
