"""Matches by session: exact by time, counted once, prose first."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.index.session_texts import SessionTextQueries, SessionTextResult
from recollect.index.text_queries import COUNTED, TextFilter
from tests.index.test_text_queries import TOOL_RESULT, SmallIndex, said


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SmallIndex]:
    made = SmallIndex(tmp_path / "index.sqlite")
    yield made
    made.database.close()


def asked(
    index: SmallIndex, sessions: int = 10, *, only: TextFilter | None = None, rank: bool = False
) -> SessionTextResult:
    rows = SessionTextQueries(index.database)
    return rows.by_session(
        '"word"',
        '{"prose"} : "word"',
        only or TextFilter(),
        sessions,
        lambda text: text.copies[0].file,
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
        (one.texts[0].copies[0].file, one.texts[0].at) for one in found.sessions
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

    assert [(3, True), (1, True)] == [(one.messages, found.is_exact) for one in found.sessions]
    assert (3, 4) == (found.sessions[0].texts[0].at, found.total)


def test_filters_apply_to_the_copies(index: SmallIndex) -> None:
    """A text whose first copy is not selected is found in the other log."""
    index.log(said("word", 1, 1), session="a")
    second = index.log(said("word", 1, 1), said("word more", 2, 2), session="b")
    found = asked(index, only=TextFilter(files=frozenset([second])))

    assert [(2, second)] == [(one.messages, one.texts[0].copies[0].file) for one in found.sessions]


def test_by_rank_the_best_session_comes_first(index: SmallIndex) -> None:
    """Whatever its time."""
    index.log(said("word word word", 1, 1), session="old")
    index.log(
        *(said(f"word among many other things {number}", 5, 10 + number) for number in range(3)),
        session="new",
    )
    found = asked(index, rank=True)

    assert [1, 5] == [one.texts[0].at for one in found.sessions]
