"""Results of reading a log as it was: what a check found, which secrets it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from recollect.index.database import IndexDatabase


class KeptResult(NamedTuple):
    """A file, its state when it was read, and the encoded result."""

    path: str
    device: int
    inode: int
    size: int
    mtime: int
    result: bytes
    codes: str = ""


def kept_results(database: IndexDatabase, subject: str, rules: str) -> dict[str, tuple[Any, ...]]:
    """The results of a subject that these rules gave, by path: device, inode, size, mtime, result."""
    found = database.connection.execute(
        "SELECT device, inode, size, mtime, result, path FROM kept WHERE subject = ? AND rules = ?",
        (subject, rules),
    )
    return {row[5]: row for row in found}  # as they come: there are thousands


def keep_results(
    database: IndexDatabase, subject: str, rules: str, results: Iterable[KeptResult], gone: Iterable[str]
) -> None:
    """Add or replace results, and drop those of other rules and of files that are gone."""
    with database.transaction():
        one = database.connection
        one.execute("DELETE FROM kept WHERE subject = ? AND rules <> ?", (subject, rules))
        one.executemany("DELETE FROM kept WHERE subject = ? AND path = ?", [(subject, path) for path in gone])
        one.executemany(
            "REPLACE INTO kept(path, device, inode, size, mtime, result, codes, subject, rules)"
            " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*result, subject, rules) for result in results],
        )


def codes_of_sessions(database: IndexDatabase, subject: str) -> list[str]:
    """The codes of each session log that is now as it was when it was read."""
    found = database.connection.execute(
        "SELECT kept.codes FROM sessions JOIN kept USING(path, device, inode, size, mtime)"
        " WHERE sessions.gone = 0 AND kept.subject = ?",
        (subject,),
    )
    return [str(codes) for (codes,) in found]
