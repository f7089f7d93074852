"""Search logs line by line: for a substring or a pattern, where the index cannot answer by itself.

It searches what the index would hold: the texts of a message by kind, without repetitions. Much text is read in one
process per core; little is read in this process. A pattern always runs in a separate process, because it may take
forever on one line: at the deadline the processes are killed and the answer is marked as incomplete. The deadline is
a ``time.monotonic`` time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from recollect.ask.search.question import (
    REGEX,
    SUBSTRING,
    FoundMessage,
    MessageFinder,
    Quote,
    QuoteReader,
    SearchQuery,
    fields_of,
    finder_of,
    windows_of,
)
from recollect.errors import Busy, NotFound, StorageError
from recollect.index.text_queries import MessageCopy, TextLogRow
from recollect.model.lines.damage import Line
from recollect.model.lines.ids import is_uuid
from recollect.model.views.facts import LineFacts, facts_of
from recollect.store.logs.reader import OpenLog
from recollect.system.pool import (
    DeadlinePassed,
    Run,
    WorkerPool,
    bundles,
    cores,
)

# Below this size, starting a process takes longer than reading here.
_WORTH_A_PROCESS = 16 << 20
# Bytes per batch: enough to keep a process busy, few enough to spread the work evenly.
_BUNDLE = 4 << 20
LATE = "the time was up before every log was read: there may be more hits (--seconds gives more time)"
LOST = "a process that read logs ended early: there may be more hits"


_LINES_AT_ONCE = 64
# Letters that fold into ASCII and marks that are dropped, by one byte that each has in UTF-8: the first, or the
# last if the first is also that of every arrow. A line with one of them or an escape may spell a letter in another way.
_OTHER_SPELLINGS = b"\xc3\xc4\xc5\xc6\xc7\xc8\xc9\xcc\xe1\xaa\xab\xef"
LineHint = Callable[[bytes], bool]
# Text with only one spelling, except for case: ASCII words.
_PLAIN = re.compile("[0-9A-Za-z]+")


class TextScanTask(NamedTuple):
    """A log to search: the lines at some offsets, or all."""

    path: str
    size: int
    is_tool_output: bool = False
    places: tuple[int, ...] | None = None


class SpottedLine(NamedTuple):
    """A matching line. ``digest`` tells lines with irregular ids apart.

    ``in_prose``: what people read of it matches by itself.
    """

    offset: int
    length: int
    uuid: str | None = None
    at: int | None = None
    is_forked: bool = False
    digest: bytes | None = None
    in_prose: bool = False


def scan(
    tasks: Sequence[TextScanTask],
    question: SearchQuery,
    deadline: float,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[tuple[int, SpottedLine]], str | None]:
    """Scan logs in the given order, as many as the time allows: the lines with the number of their task, unordered, and why some may be missing."""
    sizes = [task.size for task in tasks]
    is_pattern = question.how == REGEX
    is_shared = is_pattern or (cores() > 1 and sum(sizes) >= _WORTH_A_PROCESS)
    pool = WorkerPool(
        search_job,
        structs.astuple(question),
        processes=cores() if is_shared else 0,
        deadline=deadline,
        is_isolated=is_pattern,
    )
    requests = [
        [(number, tuple(tasks[number])) for number in bundle]
        for bundle in bundles(range(len(tasks)), sizes, _BUNDLE)
    ]
    done = 0

    def tell(number: int) -> None:
        nonlocal done
        done += sum(sizes[task] for task, _ in requests[number])
        if progress is not None:
            progress(done, sum(sizes))

    pieces, problem = _collected(pool, requests, tell)
    return [(number, SpottedLine(*piece)) for number, piece in pieces], problem


def quoted_by_pattern(
    found: Sequence[FoundMessage], question: SearchQuery, width: int, deadline: float
) -> list[Quote | None]:
    """The quotes at some positions, in a process that can be ended; None if the match is gone, or the time was up."""
    cut: list[Quote | None] = [None] * len(found)
    pool = WorkerPool(quotes_job, structs.astuple(question), processes=1, deadline=deadline, is_isolated=True)
    for number, piece in _collected(
        pool, [([(structs.astuple(log), structs.astuple(copy)) for log, copy in found], width)]
    )[0]:
        cut[number] = Quote(*piece)
    return cut


def _collected(
    pool: WorkerPool, requests: Sequence[object], tell: Callable[[int], None] | None = None
) -> tuple[list[tuple[int, Any]], str | None]:
    """All results that came in time, and why some may be missing."""
    pieces: list[tuple[int, Any]] = []
    problem = None
    try:
        for event in pool.events(requests):
            if not event.is_end:
                pieces.append(event.value)
            elif event.problem is not None:
                problem = LOST
            elif tell is not None:
                tell(event.task)
    except DeadlinePassed:
        problem = LATE
    except Busy as cause:
        raise Busy(
            "no process could be started to look for a pattern",
            hint="try again when the machine is less busy, or use --substring",
        ) from cause
    return pieces, problem


# --- one log -----------------------------------------------------------------------------------------------


def spotted(
    task: TextScanTask, question: SearchQuery, finder: MessageFinder, hint: LineHint | None
) -> Iterator[SpottedLine | None]:
    """The matching lines; None now and then, as a chance to stop. A log that cannot be opened has none."""
    try:
        with OpenLog(Path(task.path)) as log:
            if task.is_tool_output:
                if _output_fits(log, question, finder):
                    yield SpottedLine(0, task.size, at=None)
                return
            for line in _lines(log, hint) if task.places is None else _lines_at(log, task.places):
                yield None if line is None else _fitting(line, question, finder)
    except (NotFound, StorageError):
        return


def _lines_at(log: OpenLog, places: Iterable[int]) -> Iterator[Line]:
    for place in places:
        line = next(log.lines(place), None)
        if isinstance(line, Line) and line.offset == place:
            yield line


def _fitting(line: Line, question: SearchQuery, finder: MessageFinder) -> SpottedLine | None:
    facts = facts_of(line.data)
    if facts is None or facts.texts is None or not question.fits_time(facts.at):
        return None
    fields = fields_of(facts, question.kinds)
    if not fields or not finder.matches(fields):
        return None
    return SpottedLine(
        line.offset,
        line.end - line.offset,
        facts.uuid,
        facts.at,
        facts.is_forked,
        None if facts.uuid is None or is_uuid(facts.uuid) else _digest(facts),
        "prose" in fields and (len(fields) == 1 or finder.matches({"prose": fields["prose"]})),
    )


def _digest(facts: LineFacts) -> bytes:
    return hashlib.blake2b(repr(facts.texts).encode("utf-8", "backslashreplace"), digest_size=16).digest()


def _output_fits(log: OpenLog, question: SearchQuery, finder: MessageFinder) -> bool:
    if "tool_result" not in question.kinds or not question.fits_time(None):
        return False
    return any(finder.matches({"tool_result": text}) for text in windows_of(log))


def _lines(log: OpenLog, hint: LineHint | None) -> Iterator[Line | None]:
    """The lines of a log that may match; None now and then, as a chance to stop."""
    for number, item in enumerate(log.lines()):
        if isinstance(item, Line) and (hint is None or hint(item.data)):
            yield item
        if number % _LINES_AT_ONCE == 0:
            yield None


def _hint_of(question: SearchQuery) -> LineHint | None:
    """Says which lines may hold a substring, without decoding the others: by its longest piece that JSON and case
    folding spell in a single way."""
    pieces = _PLAIN.findall(question.text) if question.how == SUBSTRING else []
    if not pieces:
        return None
    longest = max(pieces, key=len).lower().encode()

    def may_match(data: bytes) -> bool:
        if longest in data.lower() or b"\\u" in data:
            return True
        return not data.isascii() and len(data.translate(None, _OTHER_SPELLINGS)) < len(data)

    return may_match


# --- as jobs of the pool -----------------------------------------------------------------------------------


def search_job(plain: tuple[Any, ...]) -> Run:
    """A job of ``system.pool``: the matching lines of some logs, each with the number of its log."""
    question = SearchQuery(*plain)
    finder, hint = finder_of(question), _hint_of(question)

    def run(bundle: list[tuple[int, tuple[Any, ...]]]) -> Iterator[tuple[int, tuple[Any, ...]] | None]:
        for number, task in bundle:
            for found in spotted(TextScanTask(*task), question, finder, hint):
                yield None if found is None else (number, tuple(found))

    return run


def quotes_job(plain: tuple[Any, ...]) -> Run:
    """A job of ``system.pool``: the quotes at some positions, each with its number."""
    question = SearchQuery(*plain)
    finder = finder_of(question)

    def run(task: tuple[list[tuple[Any, ...]], int]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        places, width = task
        with QuoteReader() as quotes:
            for number, (log, copy) in enumerate(places):
                quote = quotes.quote((TextLogRow(*log), MessageCopy(*copy)), finder, question.kinds, width)
                if quote is not None:
                    yield number, structs.astuple(quote)

    return run
