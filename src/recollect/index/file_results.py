"""What was found in files that did not change since: what a check found, which secrets a file holds.

Results are derived data like everything in the index. Without an index nothing is stored; if another process
writes it at the moment, this one stores nothing and the next run reads those files again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from recollect.errors import RecollectError
from recollect.index.access import OpenIndex, index_path, is_built, open_index
from recollect.index.database import Failure, IndexDatabase

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
        self._new: list[tuple[object, ...]] = []
        self._asked: set[str] = set()
        self._known: dict[str, tuple[Any, ...]] = {}
        if opened is not None:
            rows = opened.database.connection.execute(
                "SELECT device, inode, size, mtime, result, path FROM kept WHERE subject = ? AND rules = ?",
                (subject, rules),
            )
            self._known = {row[5]: row for row in rows}

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
        """Store a result at the end; ``codes`` are those of errors, separated by blanks."""
        seen = (state.device, state.inode, state.size, state.mtime)
        self._new.append((str(path), *seen, result, codes, self._subject, self._rules))

    def save(self) -> None:
        """Write what was added, unless another process is writing the index; drop results of other rules and of gone files."""
        opened = self._opened
        gone = [path for path in self._known if path not in self._asked and not os.path.lexists(path)]
        if opened is None or not (self._new or gone):
            return
        subject = self._subject

        def write(run: apsw.Connection) -> None:
            run.execute("DELETE FROM kept WHERE subject = ? AND rules <> ?", (subject, self._rules))
            run.executemany(
                "DELETE FROM kept WHERE subject = ? AND path = ?", [(subject, path) for path in gone]
            )
            run.executemany(
                "REPLACE INTO kept(path, device, inode, size, mtime, result, codes, subject, rules)"
                " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                self._new,
            )

        opened.write_if_free(write)


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


def codes_of_sessions(database: IndexDatabase, subject: str) -> list[str]:
    """The codes of each session log that is now as it was when it was read."""
    found = database.connection.execute(
        "SELECT kept.codes FROM sessions JOIN kept USING(path, device, inode, size, mtime)"
        " WHERE sessions.gone = 0 AND kept.subject = ?",
        (subject,),
    )
    return [str(codes) for (codes,) in found]
