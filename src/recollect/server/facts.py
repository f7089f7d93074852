"""Extracts from an append what the database stores, with the code of the local index.

Reading never fails: a line that is not JSON, too deep or of an unknown kind is stored without facts.
Extracted values are made valid for every database (no NUL, bounded length); the lines themselves are
unchanged.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import islice

from recollect.index.extraction import usage_rows
from recollect.index.frame import UsageRow
from recollect.model.lines.damage import Line, is_plain, split_lines
from recollect.model.text.titles import FIRST_PROMPT, LONGEST_TITLE, NEXT_PROMPT, TITLE_PARTS, said_of_session
from recollect.model.views.facts import LineFacts, facts_of
from recollect.server.database.records import PreparedLines, TextRow
from recollect.share.sync.wire import Position, lines_of, plain_text

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
    after = Position(expected.lines + count, running)
    usage, texts = tuple(collected.usage), tuple(collected.texts)
    return PreparedLines(data, count, after, collected.last_uuid, collected.about, usage, texts)


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
    """What the lines of one append say, summed up as they come."""

    def __init__(self, lines_before: int, path: str) -> None:
        self._line, self._path = lines_before, path
        # Whether the log begins with a side chain; unknown for later lines, and rarely true.
        self._begins_aside: bool | None = False if lines_before else None
        self.last_uuid: str | None = None
        self.about: dict[str, str | int] = {}
        self.usage: list[UsageRow] = []
        self.texts: list[TextRow] = []

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
            text = plain_text("\n".join(part for part in facts.texts if part), LONGEST_TEXT)
            self.texts.append(TextRow(self._line, _time(facts.at), _name(facts.type) or "", text))
        if facts.response is not None:
            self.usage += [self._named(row, number) for number, row in enumerate(usage_rows(facts))]

    def _note(self, facts: LineFacts) -> None:
        if facts.uuid is not None:
            self.last_uuid = plain_text(facts.uuid, _LONGEST_NAME) or None
        at = _time(facts.at)
        if at is not None and facts.is_link:
            # In the order of the log, as in the local lists.
            self.about.setdefault("first_at", at)
            self.about["last_at"] = at
        if cwd := _name(facts.cwd):
            self.about.setdefault("cwd", cwd)
        if branch := _name(facts.branch):
            self.about["branch"] = branch

    def _note_title(self, facts: LineFacts, line: Line) -> None:
        if facts.is_link and self._begins_aside is None:
            self._begins_aside = facts.is_sidechain
        prompts = sum(part in self.about for part in (FIRST_PROMPT, NEXT_PROMPT))
        said = said_of_session(facts, line, begins_aside=self._begins_aside is True, prompts=prompts)
        if said is not None and said[0] in TITLE_PARTS:
            self.about[said[0]] = plain_text(said[1], LONGEST_TITLE)

    def _named(self, row: UsageRow, number: int) -> UsageRow:
        """Usage with names that every database accepts. A response without an id is unique: its place is its name."""
        unique = f"#{self._path}#{self._line}" + f"#{number}" * bool(number)
        return row._replace(
            message=plain_text(row.message, _LONGEST_NAME) if row.message else unique,
            request=plain_text(row.request, _LONGEST_NAME),
            at=_time(row.at),
            model=_name(row.model),
            branch=_name(row.branch),
        )


def _name(text: str | None) -> str | None:
    return (plain_text(text, _LONGEST_NAME) or None) if text else None


def _time(at: int | None) -> int | None:
    return at if at is not None and -_LATEST < at < _LATEST else None
