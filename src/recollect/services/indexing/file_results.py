"""What was found in files that did not change since, from the index.

Results are derived data like everything in the index. Without an index nothing is kept; if another process
writes it at the moment, this one keeps nothing and the next run reads those files again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from recollect.errors import Busy, RecollectError
from recollect.index.database import Failure
from recollect.index.kept_results import KeptResult, keep_results, kept_results
from recollect.services.indexing.access import OpenIndex, index_path, is_built, open_index

SeenState = tuple[int, int, int, int]
"""Device, inode, size and modification time of a file, in nanoseconds."""


class ReadState(Struct, frozen=True, array_like=True):
    """What a file was when it was read: another file, or a changed one, has another."""

    device: int
    inode: int
    size: int
    mtime: int

    @staticmethod
    def of(stat: os.stat_result) -> ReadState:
        return ReadState(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


class FileResults:
    """The results of one subject by the rules of now, and those that are to be added."""

    def __init__(self, subject: str, rules: str, opened: OpenIndex | None = None) -> None:
        self._subject, self._rules, self._opened = subject, rules, opened
        self._new: list[KeptResult] = []
        self._asked: set[str] = set()
        self._known: dict[str, tuple[Any, ...]] = {}
        if opened is not None and opened.database is not None:
            self._known = kept_results(opened.database, subject, rules)

    def get(self, path: str, seen: SeenState | None = None) -> bytes | None:
        """The result of a file that is still as it was, or as the caller has just ``seen`` it."""
        known = self._known.get(path)
        if known is None:
            return None
        self._asked.add(path)
        if seen is None or not seen[1]:  # a listing may come without inodes
            try:
                now = os.stat(path)  # noqa: PTH116 - no Path for thousands of names
            except OSError:
                return None
            seen = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
        result: bytes = known[4]
        return result if known[:4] == seen else None

    def add(self, path: Path, state: ReadState, result: bytes, codes: str = "") -> None:
        """Keep a result; ``codes`` are those of errors, separated by blanks."""
        if self._opened is not None:
            self._new.append(
                KeptResult(str(path), state.device, state.inode, state.size, state.mtime, result, codes)
            )

    def save(self) -> None:
        """Write what was added, unless another process is writing the index."""
        opened = self._opened
        gone = [path for path in self._known if path not in self._asked and not os.path.lexists(path)]
        if opened is None or opened.database is None or not (self._new or gone):
            return
        with (
            contextlib.suppress(Busy, RecollectError, OSError, Failure),
            contextlib.closing(opened.lock(0.0)) as lock,
            lock,
        ):
            if not opened.is_replaced:
                keep_results(opened.database, self._subject, self._rules, self._new, gone)


@contextlib.contextmanager
def file_results(
    subject: str, rules: str, homes: Sequence[Path], cache: Path | None, *, is_wanted: bool = True
) -> Iterator[FileResults]:
    """The results in the index of some homes; none where there is no index. What was added is saved at the end."""
    if not is_wanted or not is_built(index_path(homes, cache)):
        yield FileResults(subject, rules)
        return
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(open_index(homes, cache=cache, is_refreshed=False))
            known = FileResults(subject, rules, opened)
        except (RecollectError, Failure):
            known = FileResults(subject, rules)
        yield known
        known.save()
