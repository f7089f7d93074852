"""Questions to the full-text table: exact by time, each message once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import UsageError
from recollect.index.catalogue_updates import _KNOWN_ID
from recollect.index.cost_queries import _ASKED_AT
from recollect.index.database import IndexDatabase
from recollect.index.frame import KIND_CODES, Frame
from recollect.index.ingest import Ingest
from recollect.index.messages import SAME_TEXT
from recollect.index.placed import ScannedLog
from recollect.index.schema import SESSION
from recollect.index.text_queries import COUNTED, RANKED, TextFilter, TextQueries, TextQueryResult
from tests.index.message_row import MessageRow

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
        return TextQueries(self.database).newest(match, only, limit)

    def ranked(self, match: str, limit: int = 20) -> TextQueryResult:
        return TextQueries(self.database).ranked(match, EVERYTHING, limit)


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


def test_the_newest_may_be_the_first_that_were_read(index: SmallIndex) -> None:
    """An old log that was touched last: all that comes after it is older."""
    moments = [*range(20_000, 21_100), *range(1, 3_000)]
    index.log(*(said("word", at, at) for at in moments))

    assert list(range(21_099, 21_079, -1)) == times(index.newest('"word"'))


def test_what_has_no_time_comes_last(index: SmallIndex) -> None:
    """Titles and side files are found, after everything that says when it was said."""
    index.log(said("word", None, None), said("word", 5, 1), said("word", None, None), said("word", 9, 2))

    assert [9, 5, None, None] == times(index.newest('"word"'))


def test_a_copy_in_a_fork_is_not_a_second_hit(index: SmallIndex) -> None:
    """One text, with both places where it stands, the one that was read first in front."""
    first = index.log(said("word", 5, 1))
    fork = index.log(said("word", 5, 1), session="fork")
    answer = index.newest('"word"')

    assert (1, True, [[first, fork]]) == (
        answer.total,
        answer.is_exact,
        [[copy.file for copy in text.copies] for text in answer.texts],
    )


def test_a_filter_chooses_among_the_copies(index: SmallIndex) -> None:
    """Asked for the fork alone, the fork's copy is given; asked for a third log, nothing."""
    index.log(said("word", 5, 1))
    fork = index.log(said("word", 5, 1), session="fork")
    other = index.log(said("else", 6, 2))

    assert [fork] == [
        text.copies[0].file for text in index.newest('"word"', TextFilter(frozenset([fork]))).texts
    ]
    assert [] == index.newest('"word"', TextFilter(frozenset([other]))).texts


def test_a_copy_is_found_when_the_log_it_was_read_from_first_is_gone(index: SmallIndex) -> None:
    """The text row lives on with the copy."""
    first = index.log(said("word", 5, 1))
    fork = index.log(said("word", 5, 1), said("word", 7, 2))
    index.forget(first)
    answer = index.newest('"word"')

    assert ([7, 5], 2) == (times(answer), answer.total)
    assert [fork, fork] == [text.copies[0].file for text in answer.texts]


def test_two_versions_of_one_message_are_one_hit(index: SmallIndex) -> None:
    """Same uuid, other text: the newer time decides, the count is of messages."""
    index.log(said("word as it was", 5, 1))
    index.log(said("word as it is now", 8, 1), said("word", 6, 2))
    answer = index.newest('"word"')

    assert ([8, 6], 2) == (times(answer), answer.total)


def test_ids_that_are_no_uuids_do_not_make_messages_one(index: SmallIndex) -> None:
    """Other dialects count their messages from 1 in every log."""
    index.log(said("word here", 5, "msg-1"))
    index.log(said("word there", 6, "msg-1"))

    assert 2 == index.newest('"word"').total


def test_times_are_from_since_on_and_before_until(index: SmallIndex) -> None:
    """The first moment belongs to the range, the last one does not; what has no time is in no range."""
    index.log(*(said("word", at, at) for at in (4, 5, 6, 7)), said("word", None, None))

    answer = index.newest('"word"', TextFilter(since=5, until=7))

    assert ([6, 5], 2) == (times(answer), answer.total)


def test_since_holds_in_the_middle_of_many_rows(index: SmallIndex) -> None:
    """Whole spans below the time are skipped, none that may hold it."""
    index.log(*(said("word", at, at) for at in range(1, 4_000)))
    answer = index.newest('"word"', TextFilter(since=3_500), limit=1_000)

    assert (list(range(3_999, 3_499, -1)), 500, True) == (times(answer), answer.total, answer.is_exact)


def test_a_count_is_a_lower_bound_where_there_are_very_many(index: SmallIndex) -> None:
    """Up to the bound it is exact, far beyond it is the bound."""
    index.log(*(said("few word", at, at) for at in range(COUNTED)))
    exact = index.newest('"word"')
    index.log(*(said("word", at, COUNTED + at) for at in range(COUNTED)))
    bound = index.newest('"word"')

    assert ((COUNTED, True), (COUNTED, False)) == (
        (exact.total, exact.is_exact),
        (bound.total, bound.is_exact),
    )


def test_the_best_come_first_when_ranked(index: SmallIndex) -> None:
    """A title outweighs prose, prose a tool's output; newer is not better."""
    index.log(
        said("a word in a title", 1, None, TITLE),
        said("a word in some prose", 2, 2),
        said("a word in an output", 3, 3, TOOL_RESULT),
        said("nothing of the kind", 4, 4),
    )
    answer = index.ranked('"word"')

    assert ([1, 2, 3], 3, True) == (times(answer), answer.total, answer.is_all_ranked)


def test_of_very_many_matches_only_the_newest_are_ranked(index: SmallIndex) -> None:
    """The best of all is too old to be looked at, and the answer says that not all were ranked."""
    index.log(said("word", 1, 1, TITLE), *(said("word and more", at, at) for at in range(2, RANKED + 2)))
    answer = index.ranked('"word"')

    assert (False, False) == (answer.is_all_ranked, 1 in times(answer))


def test_a_ranked_message_is_listed_once(index: SmallIndex) -> None:
    """Also where versions of it rank beside each other."""
    index.log(said("word", 1, 1), said("word two", 2, 2))
    index.log(said("word word", 3, 1))

    assert 2 == len(index.ranked('"word"').texts)


def test_every_match_can_be_listed(index: SmallIndex) -> None:
    """Beyond any limit, with its place."""
    index.log(*(said("word", at, at) for at in range(1, 1_301)))
    rows = TextQueries(index.database).all('"word"', EVERYTHING)

    assert list(range(1_300, 0, -1)) == [text.at for text in rows]


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


@pytest.mark.parametrize(("words", "is_lazy"), [(100, True), (101, False)])
def test_the_rows_of_a_prefix_are_given_as_they_are_found(
    index: SmallIndex, words: int, is_lazy: bool
) -> None:
    """FTS5 gathers all rows of a prefix before the first; up to a hundred words are asked for one by one."""
    index.log(*(said(f"func{number}", number, number) for number in range(words)))
    asked: list[str] = []

    def noted(_: object, sql: str, values: Any) -> bool:
        asked.extend([values["match"]] if "texts(:match)" in sql else [])
        return True

    index.database.connection.exec_trace = noted

    index.newest('"func"*', limit=1)

    assert [is_lazy] == ["*" not in match for match in asked]


def test_logs_know_the_directory_of_their_session(index: SmallIndex) -> None:
    """It stands beside that of each log."""
    file = index.log(said("word", 1, 1), session="mine", cwd="/srv/app")
    log = TextQueries(index.database).logs([file, 99])[file]

    assert ("mine", "/srv/app", "/srv/app") == (log.session, log.cwd, log.session_cwd)


def test_a_session_is_all_its_logs(index: SmallIndex) -> None:
    """By the name of the session; directories are told for every log."""
    one = index.log(said("word", 1, 1), session="mine", cwd="/srv/app")
    two = index.log(said("word", 1, 2), session="mine")
    index.log(said("word", 1, 3), session="other", cwd="/srv/other")
    rows = TextQueries(index.database)

    assert frozenset([one, two]) == rows.logs_of("mine")
    assert [(1, "/srv/app"), (2, "/srv/app"), (3, "/srv/other")] == rows.places()
