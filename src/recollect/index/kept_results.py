"""Results of reading a log as it was: what a check found, which secrets it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from recollect.index.database import IndexDatabase


class KeptResult(NamedTuple):
    """A file, its state when it was read, and the encoded result."""

    path: str
    device: int
    inode: int
    size: int
    mtime: int
    result: bytes


def kept_results(database: IndexDatabase, subject: str, rules: str) -> list[KeptResult]:
    """The results of a subject that these rules gave."""
    found = database.connection.execute(
        "SELECT path, device, inode, size, mtime, result FROM kept WHERE subject = ? AND rules = ?",
        (subject, rules),
    )
    return [KeptResult(*row) for row in found]


def keep_results(
    database: IndexDatabase, subject: str, rules: str, results: Iterable[KeptResult], gone: Iterable[str]
) -> None:
    """Add or replace results, and drop those of other rules and of files that are gone."""
    with database.transaction():
        one = database.connection
        one.execute("DELETE FROM kept WHERE subject = ? AND rules <> ?", (subject, rules))
        one.executemany("DELETE FROM kept WHERE subject = ? AND path = ?", [(subject, path) for path in gone])
        one.executemany(
            "REPLACE INTO kept(path, device, inode, size, mtime, result, subject, rules) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
            [(*result, subject, rules) for result in results],
        )
