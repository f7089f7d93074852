"""Every counted response, one row each, read lazily from the index; if asked for, every copy of one too.

Rows come in the order of time; SQLite sorts large results in a file, so memory does not grow. Only reads;
knows nothing of prices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, cast

from recollect.index.database import IndexDatabase
from recollect.index.schema import QUARTER_MS


class CountedResponseRow(NamedTuple):
    """A response with the number of its log. Times are milliseconds since 1970."""

    message: str | None
    request: str
    log: int
    at: int | None
    model: str | None
    branch: str | None
    tool: str | None
    variant: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int
    is_counted: bool = True


def counted_responses(
    database: IndexDatabase,
    *,
    files: Collection[int] | None = None,
    models: Collection[int] | None = None,
    since: int | None = None,
    until: int | None = None,
    with_copies: bool = False,
) -> Iterator[CountedResponseRow]:
    """The responses of some logs and models (numbers; None means all), from ``since`` on, before ``until``.

    ``with_copies``: also what some log says of a response that counts elsewhere.
    """
    limits = [
        f"one.{name} IN ({','.join(str(int(number)) for number in sorted(numbers))})"
        for name, numbers in (("file", files), ("model", models))
        if numbers is not None
    ]
    limits += [f"one.at >= {int(since)}"] if since is not None else []
    limits += [f"one.at < {int(until)}"] if until is not None else []
    if since is not None or until is not None:
        # A response without a time, stored as the first quarter of 1970, is neither before nor after anything.
        limits.append(f"NOT one.at BETWEEN 0 AND {QUARTER_MS - 1}")
    database.map_file()
    rows = database.connection.execute(
        "SELECT message, request, file, at, model.text, branch.text, tool.text, variant, input, output,"  # noqa: S608 - whole numbers and constants
        " cache_write_5m, cache_write_1h, cache_read, web_searches, counted"
        " FROM copies AS one JOIN responses ON responses.id = response"
        " LEFT JOIN names AS model ON model.id = one.model LEFT JOIN names AS branch ON branch.id = one.branch"
        " LEFT JOIN names AS tool ON tool.id = one.tool"
        f" WHERE {' AND '.join(['1' if with_copies else 'counted', *limits])} ORDER BY at, one.id"
    )
    for row in rows:
        *columns, counted = cast("tuple[Any, ...]", row)
        yield CountedResponseRow._make((*columns, bool(counted)))
