"""Extracts from an append what the database stores, with the code of the local index.

Reading never fails: a line that is not JSON, too deep or of an unknown kind is stored without facts.
Extracted values are made valid for every database (no NUL, bounded length); the lines themselves are
unchanged.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from itertools import islice

from recollect.index.frame import UsageRow
from recollect.model.cost.copies import ResponseCopy, line_rank
from recollect.model.damage import Line
from recollect.model.line_split import is_plain, split_lines
from recollect.model.line_views.facts import LineFacts, facts_of
from recollect.model.titles import FIRST_PROMPT, LONGEST_TITLE, TITLE_PARTS, said_of_session
from recollect.server.database.records import PreparedLines, TextRow
from recollect.services.indexing.extraction import usage_rows
from recollect.sync.remote import lines_of
from recollect.sync.wire import Position, plain_text

_LONGEST_NAME = 300
# How much of one line is indexed for search; the rest is stored but not found.
LONGEST_TEXT = 200_000
# Larger times are nonsense, and would overflow PostgreSQL's sums.
_LATEST = 1 << 50


def prepare(data: bytes, expected: Position, *, path: str = "", is_opaque: bool = False) -> PreparedLines:
    """Everything about these lines before they are written at ``expected`` of the log ``path``."""
    count, running = 0, expected.hash
    collected = _AppendFacts(expected.lines, path)
    is_each_taken = not is_opaque and is_plain(data)
    # A single line is not copied.
    for line in lines_of(data) if data.find(b"\n") + 1 < len(data) else (data,):
        running = sha256(running + line).digest()
        count += 1
        if is_each_taken:
            collected.take(line)
    if not is_opaque and not is_each_taken:
        collected.take_odd(data)
    return collected.prepared(data, count, Position(expected.lines + count, running))


def texts_of(data: bytes, first_line: int, wanted: range) -> list[TextRow]:
    """The texts of these lines, of a segment that begins after ``first_line`` lines; as ``prepare`` gave them."""
    if is_plain(data):
        collected = _AppendFacts(wanted.start - 1, "")
        for line in islice(lines_of(data), wanted.start - 1 - first_line, wanted.stop - 1 - first_line):
            collected.take(line)
    else:
        collected = _AppendFacts(first_line, "")
        collected.take_odd(data)
    return [row for row in collected.texts if row.line in wanted]


class _AppendFacts:
    """The lines of one append, summed up as they come."""

    _last_uuid: str | None = None
    _first_at: int | None = None
    _last_at: int | None = None
    _cwd: str | None = None
    _branch: str | None = None
    # Whether the log begins with a side chain; unknown for later lines, and rarely true.
    _begins_aside: bool | None = None

    def __init__(self, lines_before: int, path: str) -> None:
        self._line, self._path = lines_before, path
        if lines_before:
            self._begins_aside = False
        self._titles: dict[str, str] = {}
        self._usage: dict[tuple[str, str, int], UsageRow] = {}
        self.texts: list[TextRow] = []

    def prepared(self, data: bytes, count: int, after: Position) -> PreparedLines:
        return PreparedLines(
            data,
            count,
            after,
            self._last_uuid,
            self._first_at,
            self._last_at,
            self._cwd,
            self._branch,
            usage=tuple(self._usage.values()),
            texts=tuple(self.texts),
            **self._titles,
        )

    def take_odd(self, data: bytes) -> None:
        """Lines of which some are not what stands between two newlines."""
        before, start = self._line, min(1, self._line)
        for line in split_lines(
            lambda size, at: data[at - start : at - start + size], start, start + len(data), goes_on=True
        ):
            self._line = before + data.count(b"\n", 0, line.offset - start)
            if isinstance(line, Line):
                self.take(line.data)

    def take(self, line: bytes) -> None:
        self._line += 1
        facts = facts_of(line)
        if facts is None:
            return
        self._note(facts)
        self._note_title(facts, Line(line.removesuffix(b"\n")))
        if facts.texts is not None:
            text = "\n".join(part for part in facts.texts if part)
            at = _time(facts.at)
            self.texts.append(
                TextRow(self._line, at, _name(facts.type) or "", plain_text(text, LONGEST_TEXT))
            )
        if facts.response is not None:
            for number, row in enumerate(usage_rows(facts)):
                self._take_usage(row, number)

    def _note(self, facts: LineFacts) -> None:
        if facts.uuid is not None:
            self._last_uuid = plain_text(facts.uuid, _LONGEST_NAME) or None
        at = _time(facts.at)
        if at is not None and facts.is_link:
            # In the order of the log, as in the local lists.
            self._first_at = at if self._first_at is None else self._first_at
            self._last_at = at
        self._cwd = self._cwd or _name(facts.cwd)
        self._branch = _name(facts.branch) or self._branch

    def _note_title(self, facts: LineFacts, line: Line) -> None:
        if facts.is_link and self._begins_aside is None:
            self._begins_aside = facts.is_sidechain
        said = said_of_session(
            facts, line, begins_aside=self._begins_aside is True, has_prompt=FIRST_PROMPT in self._titles
        )
        if said is not None and said[0] in TITLE_PARTS:
            self._titles[said[0]] = plain_text(said[1], LONGEST_TITLE)

    def _take_usage(self, row: UsageRow, number: int) -> None:
        # A response without an id is unique: its place is its name.
        unique = f"#{self._path}#{self._line}" + f"#{number}" * bool(number)
        message = plain_text(row.message, _LONGEST_NAME) if row.message else unique
        request, at = plain_text(row.request, _LONGEST_NAME), _time(row.at)
        model, branch = _name(row.model), _name(row.branch)
        # Values are almost always valid already, and a new row costs more than the rest.
        if (message, request, at, model, branch) != (row.message, row.request, row.at, row.model, row.branch):
            row = row._replace(message=message, request=request, at=at, model=model, branch=branch)
        place = (message, row.request, row.speaker)
        known = self._usage.get(place)
        if known is None or replaces(row, known):
            self._usage[place] = row


def replaces(row: UsageRow, known: UsageRow) -> bool:
    """Whether a later line of the same log and speaker replaces an earlier one for a response."""
    return line_rank(copy_of(row, "")) >= line_rank(copy_of(known, ""))


def copy_of(row: UsageRow, path: str) -> ResponseCopy:
    """A row as the copy rules compare it; no time counts as the oldest."""
    return ResponseCopy(
        row.request, row.speaker, row.output, bool(row.has_stop), row.at or 0, bool(row.forked), path
    )


def _name(text: str | None) -> str | None:
    if not text:
        return None
    return _short_name(text) if len(text) <= _LONGEST_NAME else plain_text(text, _LONGEST_NAME)


@lru_cache(maxsize=1_024)
def _short_name(text: str) -> str:
    """Interned: branches, models and directories recur."""
    return plain_text(text, _LONGEST_NAME)


def _time(at: int | None) -> int | None:
    return at if at is not None and -_LATEST < at < _LATEST else None
