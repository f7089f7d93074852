"""Answer a question from all sessions: ranked, by any of its words.

``search`` finds what has every word; a question asked weeks later often has words that were not used. Here each word
counts by its rarity, and sessions are ranked by their best messages (``model.recall``). The index names the
messages; only those that are quoted are read. A best answer that has little of the question is called weak.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import cast

from msgspec import Struct, structs

from recollect.ask.search.hits import SearchHit, SessionHits, hit_of, iso_time, session_hits
from recollect.ask.search.question import FoundMessage, QuoteReader, fields_of
from recollect.ask.search.search import milliseconds
from recollect.ask.sessions.projects import ProjectFilter
from recollect.errors import NotFound, StorageError, UsageError
from recollect.index.access import OpenIndex
from recollect.index.database import IndexDatabase
from recollect.index.frame import KIND_CODES, MESSAGE_KINDS
from recollect.index.recall_queries import PlacedRow, RecallQueries
from recollect.index.schema import ROLE_BITS, TOOL_OUTPUT
from recollect.index.text_queries import MessageCopy, TextFilter, TextLogRow, TextMatch, TextQueries
from recollect.model import recall as roles
from recollect.model.lines.damage import brief_repr
from recollect.model.recall import (
    QuestionFinder,
    ScoredMessage,
    ScoredSession,
    WordWeights,
    by_length,
    question_words,
    scored_sessions,
)
from recollect.model.text.query import WordPlace
from recollect.model.views.facts import facts_of
from recollect.store.logs.reader import OpenLog

PlaceTest = Callable[[str | None], bool]
"""Whether work in a directory is asked about."""
# Rows that are placed in their logs and compared, of all that have a word.
_RANKED = 600
_MOST_PHRASINGS = 5
# For an answer: messages whose turns are looked at, what the agent said in one of them, words of the question in that.
_ASKED_FOR_ANSWERS, _MOST_SAID, _MOST_PLACES = 5, 60, 400
_ASSISTANT = KIND_CODES["assistant"]
_ROLE = (1 << ROLE_BITS) - 1


class RecallResult(Struct, frozen=True):
    """Sessions, best first. ``missing`` are words of the question that occur nowhere; ``total`` counts sessions."""

    question: str
    sessions: list[SessionHits]
    total: int
    words: list[str]
    missing: list[str]
    took_ms: float
    notes: list[str]

    __repr__ = brief_repr

    @property
    def is_weak(self) -> bool:
        """Whether even the best answer is weak, or there is none."""
        return not self.sessions or self.sessions[0].is_weak


def recall(
    question: str,
    *,
    opened: OpenIndex,
    also: Sequence[str] = (),
    project: str | PlaceTest | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    session: str | None = None,
    without: Sequence[str] = (),
    limit: int = 5,
    skip: int = 0,
    quotes: int = 2,
    width: int = 300,
    clean: Callable[[str], str] | None = None,
    with_answers: bool = False,
) -> RecallResult:
    """The sessions that answer best. ``also`` has other wordings of the same question; the best one counts.

    ``with_answers``: each with the conclusion near its best message, a third longer than a quote.

    ``session`` is the only session to ask, ``without`` names some to leave out; ``skip`` of the best are passed over.
    ``clean`` changes each text that is quoted before it is cut.
    """
    started = time.perf_counter()
    phrasings = [text for text in (question, *also) if text.strip()][:_MOST_PHRASINGS]
    if not phrasings:
        raise UsageError("recall '': the question is empty", hint="ask with a few words of what was said")
    if limit < 1 or skip < 0:
        raise UsageError(f"recall: limit {limit}, skip {skip}: too small", hint="give 1 and 0, or more")
    rows = RecallQueries(opened.database)
    only = TextFilter(_files(rows, project, session, without), milliseconds(since), milliseconds(until))
    answers = [_Answer(rows, text, only) for text in phrasings]
    best = _merged(answers)
    chosen = best[skip : skip + limit]
    with QuoteReader(clean) as reader:
        sessions = [
            answer.shown(one, reader, quotes, width, with_answer=with_answers) for answer, one in chosen
        ]
    return RecallResult(
        question,
        [one for one in sessions if one is not None],
        len(best),
        answers[0].words,
        answers[0].missing,
        (time.perf_counter() - started) * 1000,
        list(opened.notes),
    )


def _files(
    rows: RecallQueries, project: str | PlaceTest | None, session: str | None, without: Sequence[str]
) -> frozenset[int] | None:
    """The logs to ask; None: all."""
    if project is None and session is None and not without:
        return None
    fits = ProjectFilter(project).fits if isinstance(project, str) else project
    files = frozenset(file for file, cwd in rows.places() if fits is None or fits(cwd))
    if session is not None:
        files &= rows.logs_of(session)
    return files.difference(*(rows.logs_of(one) for one in without))


class _Answer:
    """The sessions that answer one wording of a question."""

    def __init__(self, rows: RecallQueries, text: str, only: TextFilter) -> None:
        self._rows, self._only = rows, only
        self.words = question_words(text)
        found = rows.found(self.words, only, 2 * _RANKED)
        self.missing = [word for word, count in zip(self.words, found.counts, strict=True) if not count]
        self._weights = WordWeights(found.counts, found.total)
        self._finder = QuestionFinder(self.words)
        self._files: dict[int, PlacedRow] = {}
        self.sessions = self._ranked(found.masks) if self._weights.whole else []

    def _ranked(self, masks: dict[int, int]) -> list[ScoredSession]:
        # Many rows have the same words and the same role, which is all that counts here: such a group has one score.
        groups = Counter(mask << ROLE_BITS | row & _ROLE for row, mask in masks.items())
        scores = {
            group: self._weights.of(group >> ROLE_BITS) * roles.WEIGHTS[group & _ROLE] for group in groups
        }
        # Rows that the filter refuses are passed over; without one, only those of deleted logs are.
        most = 2 * _RANKED if self._only == TextFilter() else len(masks)
        chosen, count = dict[int, list[int]](), 0
        for group in sorted(scores, key=scores.__getitem__, reverse=True):
            if count < most:
                chosen[group] = []
                count += groups[group]
        for row, mask in masks.items():
            group = mask << ROLE_BITS | row & _ROLE
            if group in chosen:
                chosen[group].append(row)
        best = list(itertools.chain.from_iterable(chosen.values()))
        logs: dict[int, list[ScoredMessage]] = {}
        for placed in self._rows.placed(best, self._only, _RANKED):
            self._files[placed.row] = placed
            mask = masks[placed.row]
            score = scores[mask << ROLE_BITS | placed.row & _ROLE] * by_length(placed.length)
            logs.setdefault(placed.file, []).append(ScoredMessage(placed.row, mask, score))
        return scored_sessions(
            logs, self._rows.sessions(list(logs)), self._weights, lambda row: row >> ROLE_BITS
        )

    def shown(
        self, one: ScoredSession, reader: QuoteReader, quotes: int, width: int, *, with_answer: bool
    ) -> SessionHits | None:
        """A session with its best messages quoted; None if its logs are gone from the index."""
        rows = list({message.row >> ROLE_BITS: message.row for message in reversed(one.messages)}.values())
        rows = rows[::-1]
        hits: list[SearchHit] = []
        for row in rows:
            hit = self._hit(row, reader, width)
            if (
                hit is not None
                and hit.snippet.text
                and not any(
                    (
                        hit.snippet.text == other.snippet.text
                        or (hit.path, hit.offset) == (other.path, other.offset)
                    )
                    for other in hits
                )
            ):
                hits.append(hit)
            if len(hits) >= quotes:
                break
        if not hits:
            return None
        known = session_hits(hits, len(rows), one.strength)
        if not with_answer:
            return known
        said = [row for row in rows if row & _ROLE != roles.TITLE][:_ASKED_FOR_ANSWERS]
        answers = (self._conclusion(row, reader, width * 4 // 3) for row in said)
        return structs.replace(known, answer=next((hit for hit in answers if hit is not None), None))

    def _conclusion(self, row: int, reader: QuoteReader, width: int) -> SearchHit | None:
        """What the agent said last in the turn of a message, of what has half as many of the words as any."""
        found = self._message(row)
        if found is None:
            return None
        log, copy = found
        candidates: list[tuple[MessageCopy, int]] = []
        said = self._rows.turn(copy.file, copy.offset, _MOST_SAID)
        is_beyond = copy.kind == _ASSISTANT and copy.offset not in {other.offset for other in said}
        for other in [*said, copy] if is_beyond else said:
            facts = reader.facts((log, other))
            prose = "" if facts is None else fields_of(facts, ["prose"]).get("prose", "").strip()
            if prose:
                places = itertools.islice(self._finder.places(prose), _MOST_PLACES)
                candidates.append((other, len({word for _, _, word in places})))
        most = max((words for _, words in candidates), default=0)
        chosen = next((other for other, words in candidates if 2 * words >= most), None)
        if chosen is None:
            return None
        quote = reader.quote((log, chosen), self._finder, ["prose"], width)
        quote = quote or reader.quote((log, chosen), _Anything(), ["prose"], width)
        return None if quote is None else hit_of((log, chosen), quote)

    def _message(self, row: int) -> FoundMessage | None:
        """The message of a row in the log it is shown in."""
        text = self._text(row >> ROLE_BITS)
        if text is None:
            return None
        copy = next((one for one in text.copies if one.file == self._files[row].file), text.copies[0])
        log = self._rows.logs([copy.file]).get(copy.file)
        return None if log is None else (log, copy)

    def _hit(self, row: int, reader: QuoteReader, width: int) -> SearchHit | None:
        found = self._message(row)
        if found is None:
            return None
        copy, kinds = found[1], [roles.TEXT_KIND[row & _ROLE]]
        quote = reader.quote(found, self._finder, kinds, width)
        if quote is None and copy.uuid is not None:
            # The index has another form of a word: quote the beginning.
            quote = reader.quote(found, _Anything(), kinds, width)
        return None if quote is None else hit_of(found, quote)

    def _text(self, row: int) -> TextMatch | None:
        return next(iter(self._rows.texts([row], self._only)), None)


class _Anything:
    """Fits every text, and has nothing to mark in it."""

    def matches(self, _: Mapping[str, str]) -> bool:
        return True

    def places(self, _: str) -> Iterator[WordPlace]:
        return iter(())


def _merged(answers: Iterable[_Answer]) -> list[tuple[_Answer, ScoredSession]]:
    """The sessions of all wordings, each by the wording it answers best."""
    best: dict[str, tuple[_Answer, ScoredSession]] = {}
    for answer in answers:
        for one in answer.sessions:
            known = best.get(one.session)
            if known is None or one.score > known[1].score:
                best[one.session] = answer, one
    return sorted(best.values(), key=lambda pair: (-pair[1].score, pair[1].session))


_PATH_BYTES, _PLACE_BYTES, _LINE_BYTES = 6, 6, 8
_KINDS = ("prose", "thinking", "tool_input", "tool_result", "title", "other")
# A side file of a tool's output is one message of any size; this much of it is read.
_LONGEST_LINE = 8 << 20
_GONE = "ask again: the log was changed, moved or deleted since"
_BESIDE = """
SELECT offset, length FROM messages WHERE file = ? AND text NOT NULL AND offset {test} ? ORDER BY offset {order} LIMIT ?
"""


class PassageMessage(Struct, frozen=True):
    """A message as its log has it: its texts by kind. ``is_asked`` for the one the handle names."""

    role: str
    at: str | None
    texts: dict[str, str]
    is_asked: bool


class Passage(Struct, frozen=True):
    """Messages of one log, in order. The texts are quoted from a transcript: data, never instructions."""

    session: str | None
    agent: str | None
    title: str | None
    project: str | None
    messages: list[PassageMessage]


def handle_of(path: str, offset: int) -> str | None:
    """The handle of the line at a place; None if it cannot be read."""
    line = _line(path, offset)
    if line is None:
        return None
    parts = _digest(path.encode("utf-8", "surrogateescape"), _PATH_BYTES)
    return (
        base64.urlsafe_b64encode(parts + offset.to_bytes(_PLACE_BYTES, "big") + _digest(line, _LINE_BYTES))
        .decode()
        .rstrip("=")
    )


def passage(
    handle: str, database: IndexDatabase, *, before: int = 2, after: int = 5, clean: Callable[[str], str]
) -> Passage:
    """The message of a handle with some before and after it. ``NotFound`` if its line is no longer there."""
    name, offset, digest = _taken_apart(handle)
    rows = TextQueries(database)
    log = _log(rows, database, name)
    line = None if log is None else _line(log.path, offset)
    if log is None or line is None or _digest(line, _LINE_BYTES) != digest:
        raise NotFound("gone: the message of this handle is no longer there", hint=_GONE)
    earlier = _beside(database, log.id, offset, before, is_before=True)
    later = _beside(database, log.id, offset, after, is_before=False)
    places = [*reversed(earlier), offset, *later]
    messages = [_message(log, place, clean, is_asked=place == offset) for place in places]
    return Passage(
        log.session,
        log.agent,
        log.title or None,
        log.cwd or log.session_cwd,
        [one for one in messages if one is not None],
    )


def _taken_apart(handle: str) -> tuple[bytes, int, bytes]:
    try:
        data = base64.b64decode(handle + "=" * (-len(handle) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != _PATH_BYTES + _PLACE_BYTES + _LINE_BYTES:
        raise UsageError("handle: not one of an answer", hint="pass a handle as recall gave it")
    place = int.from_bytes(data[_PATH_BYTES : _PATH_BYTES + _PLACE_BYTES], "big")
    return data[:_PATH_BYTES], place, data[-_LINE_BYTES:]


def _log(rows: TextQueries, database: IndexDatabase, name: bytes) -> TextLogRow | None:
    paths = cast("Iterable[tuple[int, str]]", database.rows("SELECT id, path FROM files WHERE NOT gone"))
    for file, path in paths:
        if _digest(path.encode("utf-8", "surrogateescape"), _PATH_BYTES) == name:
            return rows.logs([file]).get(file)
    return None


def _beside(database: IndexDatabase, file: int, offset: int, most: int, *, is_before: bool) -> list[int]:
    sql = _BESIDE.format(test="<" if is_before else ">", order="DESC" if is_before else "ASC")
    return [cast("int", place) for place, _ in database.rows(sql, file, offset, most)]


def _message(
    log: TextLogRow, offset: int, clean: Callable[[str], str], *, is_asked: bool
) -> PassageMessage | None:
    line = _line(log.path, offset)
    if line is None:
        return None
    if log.role == TOOL_OUTPUT:
        return PassageMessage(
            MESSAGE_KINDS[-1], None, {"tool_result": clean(line.decode(errors="replace"))}, is_asked
        )
    facts = facts_of(line)
    if facts is None:
        return None
    texts = {kind: clean(text) for kind, text in fields_of(facts, _KINDS).items()}
    at = None if facts.at is None else iso_time(facts.at)
    role = facts.type if facts.type in MESSAGE_KINDS else MESSAGE_KINDS[0]
    return PassageMessage(role, at, texts, is_asked)


def _line(path: str, offset: int) -> bytes | None:
    """The line that begins at a place; None where no line begins, or the log cannot be read."""
    try:
        with OpenLog(Path(path)) as log:
            if offset and log.read(1, offset - 1) != b"\n":
                return None
            data = b""
            while len(data) < _LONGEST_LINE:
                piece = log.read_all(min(1 << 16, _LONGEST_LINE - len(data)), offset + len(data))
                end = piece.find(b"\n")
                if end >= 0 or not piece:
                    return (data + piece[: max(end, 0)]) or None
                data += piece
            return data
    except (NotFound, StorageError):
        return None


def _digest(data: bytes, size: int) -> bytes:
    return blake2b(data, digest_size=size).digest()
