"""The index for quick answers: only if it exists or is built quickly.

A first command must not wait until all texts are indexed. Without an index and with many logs, the
caller reads what it needs from the logs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from recollect.services.indexing.access import OpenIndex, index_path, is_built, open_index
from recollect.services.indexing.first_build import is_soon_built
from recollect.system.progress import ProgressCallback


@contextlib.contextmanager
def index_at_hand(
    homes: Sequence[Path], *, cache: Path | None = None, progress: ProgressCallback | None = None
) -> Iterator[OpenIndex]:
    """The index if it exists or is built quickly; else one without a database."""
    path = index_path(homes, cache)
    if not is_built(path) and not is_soon_built(homes):
        yield OpenIndex(homes, path)
        return
    with open_index(homes, cache=cache, progress=progress) as opened:
        yield opened


@contextlib.contextmanager
def known_index(
    homes: Sequence[Path], cache: Path | None = None, progress: ProgressCallback | None = None
) -> Iterator[OpenIndex]:
    """The index if it exists, refreshed; else one without a database. Never builds one."""
    path = index_path(homes, cache)
    if not is_built(path):
        yield OpenIndex(homes, path)
        return
    with open_index(homes, cache=cache, progress=progress) as opened:
        yield opened
