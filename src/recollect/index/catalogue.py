"""The catalogue: what a list shows of every session. ``catalogue_updates`` keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from recollect.index.schema import AGENT, SESSION
from recollect.model.titles import title_of

if TYPE_CHECKING:
    from recollect.index.database import IndexDatabase

# Read but not listed: deleted logs, and logs that were never read.
_ROWS = f"""
SELECT files.id, path, home, session, size, mtime, inode = 0, files.first_at, last_at, place.text, names.text,
  custom_title, ai_title, last_prompt, first_prompt, tag, continued_in, catalogue.lines, catalogue.messages, has_conversation,
  damaged, files.messages
FROM files LEFT JOIN catalogue ON catalogue.file = files.id
  LEFT JOIN names AS place ON place.id = files.cwd LEFT JOIN names ON names.id = files.branch
WHERE role = {SESSION} AND NOT gone
"""  # noqa: S608 - a number of the schema
_NEWEST = " ORDER BY last_at DESC NULLS LAST, mtime DESC, session DESC, path DESC LIMIT ?"
_AGENTS = f"""
SELECT home, session, sum(agents) FROM (
  SELECT home, session, 1 AS agents FROM files WHERE role = {AGENT} AND NOT gone AND NOT coalesce(is_warm_up, 0)
  UNION ALL
  SELECT home, session, inline_agents FROM files JOIN catalogue ON catalogue.file = files.id
  WHERE role = {SESSION} AND NOT gone AND inline_agents
) GROUP BY home, session
"""  # noqa: S608 - numbers of the schema
_LOGS = f"""
SELECT path, role, session, agent, size, mtime, inode, device, names.text FROM files
  LEFT JOIN names ON names.id = files.cwd
WHERE home = ? AND role IN ({SESSION}, {AGENT}) AND NOT gone AND inode ORDER BY path
"""  # noqa: S608 - numbers of the schema
_UNCOUNTED = f"""
SELECT files.id, path, consumed FROM files JOIN catalogue ON catalogue.file = files.id
WHERE role = {SESSION} AND NOT gone AND catalogue.messages IS NULL
"""  # noqa: S608 - a number of the schema
_TYPED = """
SELECT path FROM files WHERE id IN (
  SELECT file FROM messages WHERE id IN (SELECT rowid FROM typed WHERE prompt MATCH ?))
"""
# The shortest word by which a prompt is found.
SHORTEST_WORD = 3


class CatalogueRow(NamedTuple):
    """A session in the index. Times are milliseconds; a text is '' if it was removed."""

    file: int
    path: str
    home: str
    session: str | None
    size: int
    mtime_ns: int
    is_archived: bool
    first_at: int | None
    last_at: int | None
    cwd: str | None
    branch: str | None
    custom_title: str | None
    ai_title: str | None
    last_prompt: str | None
    first_prompt: str | None
    tag: str | None
    continued_in: str | None
    lines: int | None
    messages: int | None
    has_conversation: bool | None
    damaged: int
    entries: int  # lines with an id

    @property
    def title(self) -> str:
        """What a list calls it; "" where nothing names it."""
        return title_of(self.custom_title, self.ai_title, self.last_prompt, self.first_prompt)


class CataloguedLog(NamedTuple):
    """A log of a session or of an agent in a home."""

    path: str
    role: int
    session: str | None
    agent: str | None
    size: int
    mtime_ns: int
    inode: int
    device: int
    cwd: str | None


def rows(database: IndexDatabase, limit: int | None = None) -> list[CatalogueRow]:
    """Sessions by time of their last message, newest first; those without any time last."""
    found = database.connection.execute(_ROWS + _NEWEST, (-1 if limit is None else limit,))
    return [*map(CatalogueRow._make, found)]


def newest_of(database: IndexDatabase, session: str) -> CatalogueRow | None:
    """One session, of several logs with its id the one that was last spoken in."""
    found = database.connection.execute(f"{_ROWS} AND session = ?{_NEWEST}", (session, 1))
    return next(map(CatalogueRow._make, found), None)


def by_path(database: IndexDatabase) -> dict[str, CatalogueRow]:
    """The same by their logs, in no order: sorting ten thousand takes longer than reading them."""
    found = map(CatalogueRow._make, database.connection.execute(_ROWS))
    return {row.path: row for row in found}


def sizes(database: IndexDatabase) -> tuple[int, int]:
    """How many sessions there are, and how many of them only the archive has."""
    asked = (
        f"SELECT count(*), count(*) FILTER (WHERE NOT inode) FROM files WHERE role = {SESSION} AND NOT gone"  # noqa: S608 - a number of the schema
    )
    return cast("tuple[int, int]", tuple(database.rows(asked)[0]))


def agents(database: IndexDatabase) -> dict[tuple[str, str], int]:
    """How many sub-agents there are, by home and session: those with a log, and those in the session's own."""
    found = cast("list[tuple[str, str | None, int]]", database.rows(_AGENTS))
    return {(home, session or ""): count for home, session, count in found}


def logs(database: IndexDatabase, home: str) -> list[CataloguedLog]:
    """The logs of sessions and agents in a home, by path."""
    return [CataloguedLog(*row) for row in database.connection.execute(_LOGS, (home,))]


def uncounted(database: IndexDatabase) -> list[tuple[int, str, int]]:
    """Logs whose messages must be counted: number, path, how far they were read."""
    return cast("list[tuple[int, str, int]]", database.rows(_UNCOUNTED))


def damage(database: IndexDatabase) -> list[tuple[str, str, int]]:
    """Damaged lines of existing logs: path, code, count."""
    found = database.rows(
        "SELECT path, code, damage.lines FROM damage JOIN files ON files.id = file WHERE NOT gone ORDER BY mtime DESC"
    )
    return cast("list[tuple[str, str, int]]", found)


def typed(database: IndexDatabase, word: str) -> set[str]:
    """The logs in which a user typed text that contains a word of three or more lower-case letters."""
    quoted = '"' + word.replace('"', '""') + '"'
    return {cast("str", row[0]) for row in database.rows(_TYPED, quoted)}
