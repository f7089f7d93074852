"""Questions to the full-text table: exact by time, each message once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.errors import UsageError
from recollect.index.catalogue import _KNOWN_ID
from recollect.index.cost_queries import _ASKED_AT
from recollect.index.database import IndexDatabase
from recollect.index.frame import KIND_CODES, Frame, MessageRow, ScannedLog
from recollect.index.ingest import Ingest
from recollect.index.messages import SAME_TEXT
from recollect.index.schema import SESSION
from recollect.index.text_queries import COUNTED, RANKED, TextFilter, TextQueries, TextQueryResult

PROSE, TOOL_RESULT, TITLE = 0, 3, 4
EVERYTHING = TextFilter()


def said(text: str, at: int | None, uuid: int | str | None, column: int = PROSE) -> MessageRow:
    """A line with one text. Equal ids and texts are copies, as the digest says."""
    texts = tuple(text.encode() if place == column else None for place in range(6))
    name = uuid.to_bytes(16, "big") if isinstance(uuid, int) else uuid
    digest = None if uuid is None else sum(text.encode()) + len(text) * 1000
    return MessageRow(0, 10, name, at, KIND_CODES["user"], digest, texts)


class SmallIndex:
    """An index of logs that exist only in it; logs are numbered from 1 in the order they are added."""

    def __init__(self, path: Path) -> None:
        self.database = IndexDatabase(path)
        self._ingest = Ingest(self.database)
        self._count = 0

    def log(self, *lines: MessageRow, session: str = "s", cwd: str | None = None) -> int:
        self._count += 1
        placed = ScannedLog(f"/{self._count}.jsonl", "/home", SESSION, session, None, 1, self._count, 10, 1)
        with self._ingest.transaction():
            file = self._ingest.add_file(placed)
            rows = [line._replace(offset=number * 10) for number, line in enumerate(lines)]
            self._ingest.apply(file, Frame(0, 10 * len(rows) + 1, rows, [], cwd=cwd))
        return file

    def forget(self, file: int) -> None:
        with self._ingest.transaction():
            self._ingest.forget(file)

    def newest(self, match: str, only: TextFilter = EVERYTHING, limit: int = 20) -> TextQueryResult:
        return TextQueries(self.database).find(match, only, limit)

    def ranked(self, match: str, limit: int = 20) -> TextQueryResult:
        return TextQueries(self.database).find(match, EVERYTHING, limit, rank=True)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SmallIndex]:
    made = SmallIndex(tmp_path / "index.sqlite")
    yield made
    made.database.close()


def times(answer: TextQueryResult) -> list[int | None]:
    return [text.copies[0].at for text in answer.texts]


def test_ids_with_the_same_end_are_different_messages(index: SmallIndex) -> None:
    """Ids are looked up by their last bytes; a copy has all of them."""
    index.log(said("fox", 1, 5), said("owl", 2, "an id that ends alike"))
    index.log(said("fox", 3, 5 | 1 << 100), said("owl", 4, "one that ends alike"), said("fox", 5, 5))

    assert ([3, 1], [4, 2]) == (times(index.newest("fox")), times(index.newest("owl")))


@pytest.mark.parametrize("query", [SAME_TEXT, _KNOWN_ID, f"SELECT {_ASKED_AT} FROM copies"])
def test_an_id_is_found_without_reading_every_message(index: SmallIndex, query: str) -> None:
    plan = [
        str(row[3])
        for row in index.database.rows(f"EXPLAIN QUERY PLAN {query}", *[1] * (2 if "?2" in query else 0))
    ]

    assert any("messages USING INDEX messages_by_uuid" in step for step in plan), plan


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("disorder", [3, 900, 6_000])
def test_the_newest_are_exact_whatever_the_order_of_the_rows(
    index: SmallIndex, seed: int, disorder: int
) -> None:
    """Six spans of rows, nearly in order, or stirred within a span, or stirred altogether."""
    chance = random.Random(seed)
    moments = [number + chance.randrange(disorder) for number in range(6_000)]
    index.log(*(said("word" if number % 3 else "other", at, number) for number, at in enumerate(moments)))
    expected = sorted((at for number, at in enumerate(moments) if number % 3), reverse=True)[:20]

    assert expected == times(index.newest('"word"'))


def test_a_filter_chooses_among_the_copies(index: SmallIndex) -> None:
    """Asked for the fork alone, the fork's copy is given; asked for a third log, nothing."""
    index.log(said("word", 5, 1))
    fork = index.log(said("word", 5, 1), session="fork")
    other = index.log(said("else", 6, 2))

    assert [fork] == [
        text.copies[0].file for text in index.newest('"word"', TextFilter(frozenset([fork]))).texts
    ]
    assert [] == index.newest('"word"', TextFilter(frozenset([other]))).texts


def test_since_holds_in_the_middle_of_many_rows(index: SmallIndex) -> None:
    """Whole spans below the time are skipped, none that may hold it."""
    index.log(*(said("word", at, at) for at in range(1, 4_000)))
    answer = index.newest('"word"', TextFilter(since=3_500), limit=1_000)

    assert (list(range(3_999, 3_499, -1)), 500, True) == (times(answer), answer.total, answer.is_exact)


def test_a_count_is_a_lower_bound_where_there_are_very_many(index: SmallIndex) -> None:
    """Up to the bound it is exact, far beyond it is at least the bound."""
    index.log(*(said("few word", at, at) for at in range(COUNTED)))
    exact = index.newest('"word"')
    index.log(*(said("word", COUNTED + at, COUNTED + at) for at in range(COUNTED)))
    bound = index.newest('"word"')

    assert (COUNTED, True) == (exact.total, exact.is_exact)
    assert (True, False) == (COUNTED <= bound.total < 2 * COUNTED, bound.is_exact)


def test_of_very_many_matches_only_the_newest_are_ranked(index: SmallIndex) -> None:
    """The best of all is too old to be looked at, and the answer says that not all were ranked."""
    index.log(said("word", 1, 1, TITLE), *(said("word and more", at, at) for at in range(2, RANKED + 2)))
    answer = index.ranked('"word"')

    assert (False, False) == (answer.is_all_ranked, 1 in times(answer))


def test_an_expression_the_table_cannot_parse_is_a_usage_error(index: SmallIndex) -> None:
    """It names the expression."""
    with pytest.raises(UsageError, match="search"):
        index.newest('"')


PREFIXED = [f"func{number}" for number in range(8)]


@pytest.mark.parametrize(
    "words",
    [PREFIXED, [*PREFIXED, "func\u65e5"], [f"func{number}" for number in range(150)]],
    ids=["few", "one beyond ASCII", "more than are spelled out"],
)
def test_a_prefix_finds_all_words_that_begin_so(index: SmallIndex, words: list[str]) -> None:
    """Alone, with others, without others and under many brackets; also where a word is in no log any more."""
    gone = index.log(said("funcgone here", 0, 1))
    index.log(*(said(f"{word} {'odd' if at % 2 else 'even'}", at, 10 + at) for at, word in enumerate(words)))
    index.log(said("fun fund even", 500, 2), said("unfunc odd", 501, 3))
    index.forget(gone)
    newest_first = list(reversed(range(len(words))))

    def asked(match: str) -> list[int | None]:
        return times(index.newest(match, limit=200))

    assert newest_first == asked('"func"*')
    assert newest_first == asked(f'{"(" * 20}"func"*{")" * 20}')
    assert [at for at in newest_first if at % 2] == asked('"func"* AND "odd"')
    assert [501, *(at for at in newest_first if at % 2)] == asked('"odd" OR ("func"* NOT "even")')
    assert [500] == asked('"even" NOT "func"*')
    assert [0] == [at for at in asked('{prose} : ("func0"*)') if at == 0]
    assert [] == asked('{title} : ("func"*)')
    assert [] == asked('"nothing"*')


def asked(
    index: SmallIndex, sessions: int = 10, *, only: TextFilter | None = None, rank: bool = False
) -> TextQueryResult:
    return TextQueries(index.database).find(
        '"word"',
        only or TextFilter(),
        0,
        sessions=sessions,
        prose='{"prose"} : "word"',
        best=lambda text: text.copies[0].file,
        rank=rank,
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_the_newest_sessions_are_exact_whatever_the_order_of_the_rows(index: SmallIndex, seed: int) -> None:
    """Forty sessions whose lines are stirred over several spans of rows; with more matches than are counted."""
    chance = random.Random(seed)
    newest: dict[int, int] = {}
    number = 0
    for session in chance.sample(range(40), 40):
        moments = [chance.randrange(10_000_000) for _ in range(60)]
        lines = []
        for at in moments:
            number += 1
            lines.append(said("word", at, number))
        newest[index.log(*lines, session=f"s{session}")] = max(moments)
    found = asked(index, 7)
    best = sorted(newest, key=lambda file: newest[file], reverse=True)[:7]

    assert [(file, newest[file]) for file in best] == [
        (text.copies[0].file, text.at) for text, _ in found.sessions
    ]
    assert (found.total >= COUNTED, found.total >= 2_400) == (True, found.is_exact)


def test_prose_is_preferred_and_counts_are_of_messages(index: SmallIndex) -> None:
    """The newest match is what a tool printed; a message with two versions counts once."""
    index.log(
        said("word one", 1, 1),
        said("word two", 2, 2),
        said("word two, again", 3, 2),
        said("word word word", 9, 3, TOOL_RESULT),
        session="a",
    )
    index.log(said("word", 5, 4, TOOL_RESULT), session="b")
    found = asked(index)

    assert [(3, True), (1, True)] == [(count, found.is_exact) for _, count in found.sessions]
    assert (3, 4) == (found.sessions[0][0].at, found.total)


def test_filters_apply_to_the_copies(index: SmallIndex) -> None:
    """A text whose first copy is not selected is found in the other log."""
    index.log(said("word", 1, 1), session="a")
    second = index.log(said("word", 1, 1), said("word more", 2, 2), session="b")
    found = asked(index, only=TextFilter(files=frozenset([second])))

    assert [(2, second)] == [(count, text.copies[0].file) for text, count in found.sessions]
