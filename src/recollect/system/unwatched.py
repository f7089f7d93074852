"""Work on many rows without the collector of cycles: it would look at each of a hundred thousand again and again."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """No collection meanwhile. Around a whole function, the rows it made are gone before there is one."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
