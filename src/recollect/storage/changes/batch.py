"""One command, one batch: what a command changes is listed and taken back as a whole.

A command that is carried out opens a batch. Every change of the journal and every removal to the trash inside it
records the batch's id, however many there are and in whichever home. A batch inside a batch is the outer one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
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
    token = _open.set(f"{now:%Y%m%dT%H%M%S}-{what}-{secrets.token_hex(3)}")
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
