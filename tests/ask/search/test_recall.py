"""Questions are answered by the session that fits best, whichever of its words that session uses."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from recollect import Home
from recollect.ask.search.recall import RecallResult, recall
from recollect.errors import UsageError
from recollect.index.access import OpenIndex, open_index
from tests.small_home import call, lines, outcome, prompt, put, reply, said

CART, LOGIN, DOCS, OTHER = (f"3f2a9c1e-0000-4000-8000-{number:012d}" for number in range(1, 5))
FILLER = [
    ("please look at the failing build", "The build fails because a dependency is missing; I added it."),
    ("write the release notes", "The notes list every change since the last version."),
    ("rename the module", "Renamed the module and its tests."),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@contextlib.contextmanager
def opened(home: Path) -> Iterator[OpenIndex]:
    with open_index([home], cache=home.parent / "cache") as index:
        assert index.database is not None
        yield index


def ask(home: Path, question: str, **options: Any) -> RecallResult:
    with opened(home) as index:
        return recall(question, opened=index, **options)


def sessions(found: RecallResult) -> list[str | None]:
    return [one.session for one in found.sessions]


def talk(*turns: tuple[str, str], start: int = 1) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for number, (asked, answered) in enumerate(turns):
        place = start + 2 * number
        entries += [
            prompt(place, place - 1 if number else None, asked),
            reply(place + 1, place, said(answered)),
        ]
    return entries


def shop(home: Path) -> None:
    """Three sessions of different subjects, in two projects."""
    cart = (
        "the cart shows 10.99999 instead of 11",
        "Prices were floats; the rounding is exact with Decimal.",
    )
    put(home, CART, talk(*FILLER, cart, start=100))
    login = ("users are logged out at midnight", "The session token was refreshed with the wrong clock.")
    put(home, LOGIN, talk(*FILLER, login, start=200))
    put(home, DOCS, talk(*FILLER, ("describe the cart in the handbook", "Done."), start=300), cwd="/srv/docs")


def test_a_question_is_answered_although_no_message_has_all_its_words(home: Path) -> None:
    shop(home)
    found = ask(home, "how did we fix the wrong rounding of prices in the cart?")
    assert sessions(found)[0] == CART
    assert "rounding" in found.sessions[0].hits[0].snippet.text
    assert found.missing == ["fix"]
    assert sessions(ask(home, "why did people get logged off during the night, token clock?"))[0] == LOGIN


def test_other_forms_of_a_word_are_found(home: Path) -> None:
    shop(home)
    assert sessions(ask(home, "rounded price"))[0] == CART
    assert sessions(ask(home, "refreshing tokens"))[0] == LOGIN


def test_a_rare_word_counts_more_than_common_ones(home: Path) -> None:
    put(home, CART, talk(("build module notes version", "build module notes version"), *FILLER, start=100))
    put(home, LOGIN, talk(*FILLER, ("the walrus", "ok"), start=200))
    put(home, DOCS, talk(*FILLER, start=300))
    assert sessions(ask(home, "module with the walrus"))[0] == LOGIN


def test_what_people_read_counts_more_than_what_a_tool_was_given(home: Path) -> None:
    tool = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "walrus migration"}}
    put(home, CART, [prompt(1, None, "go on"), reply(2, 1, tool)])
    put(home, LOGIN, talk(("walrus migration", "ok"), start=10))
    assert sessions(ask(home, "walrus migration")) == [LOGIN, CART]


def test_tool_output_is_asked_only_for_words_that_nobody_said(home: Path) -> None:
    shop(home)
    printed = [
        prompt(1, None, "run it"),
        reply(2, 1, call("t")),
        outcome(3, 2, "t", "ERR_QUOKKA_77 module module"),
    ]
    put(home, OTHER, printed)
    found = ask(home, "what was ERR_QUOKKA_77")
    assert sessions(found)[0] == OTHER
    assert found.sessions[0].hits[0].kind == "tool_result"
    assert OTHER not in sessions(ask(home, "module", limit=10))


def test_a_question_of_stop_words_is_asked_with_them(home: Path) -> None:
    put(home, CART, talk(("to be or not to be", "that is it"), start=1))
    put(home, LOGIN, talk(("walrus", "ok"), start=10))
    assert sessions(ask(home, "what to be or not")) == [CART]


def test_chinese_is_found_by_its_parts(home: Path) -> None:
    put(home, CART, talk(("给视觉语言模型论文做幻灯片", "好的"), start=1))
    put(home, LOGIN, talk(("修复登录错误", "好的"), start=10))
    assert sessions(ask(home, "那份幻灯片在哪里"))[0] == CART


def test_messages_beside_each_other_answer_better_than_words_far_apart(home: Path) -> None:
    near = talk(("the walrus is slow", "I see"), ("so use the quokka", "done"), *FILLER * 4, start=100)
    far = talk(("the walrus is slow", "I see"), *FILLER * 4, ("so use the quokka", "done"), start=200)
    put(home, CART, near)
    put(home, LOGIN, far)
    found = ask(home, "walrus quokka")
    assert sessions(found) == [CART, LOGIN]
    first, second = (one.strength or 0 for one in found.sessions)
    assert first > second


def test_a_project_and_a_session_narrow_it(home: Path) -> None:
    shop(home)
    assert sessions(ask(home, "cart", project="/srv/docs")) == [DOCS]
    assert set(sessions(ask(home, "cart", project="/srv/app"))) == {CART}
    assert sessions(ask(home, "cart", session=DOCS)) == [DOCS]
    assert CART not in sessions(ask(home, "cart", without=[CART]))
    assert sessions(ask(home, "cart", project="/srv/nowhere")) == []


def test_times_narrow_it(home: Path) -> None:
    shop(home)  # small_home counts its seconds from 10:00
    until = dt.datetime(2026, 11, 15, 10, 4, tzinfo=dt.UTC)
    assert sessions(ask(home, "cart", until=until)) == [CART]
    assert sessions(ask(home, "cart", since=until)) == [DOCS]


def test_what_a_fork_copied_is_found_once(home: Path) -> None:
    entries = talk(*FILLER, ("the walrus", "I see"), start=1)
    put(home, CART, entries)
    with opened(home):
        pass
    fork = [{**one, "forkedFrom": {"sessionId": CART, "messageUuid": one["uuid"]}} for one in entries]
    put(home, LOGIN, fork)
    assert sessions(ask(home, "walrus")) == [CART]
    # The fork has it too: asked alone, or without the first, it answers.
    assert sessions(ask(home, "walrus", without=[CART])) == [LOGIN]


def test_what_is_deleted_is_not_found(home: Path) -> None:
    shop(home)
    log = put(home, OTHER, talk(("the walrus", "I see"), start=400))
    assert sessions(ask(home, "walrus")) == [OTHER]
    log.unlink()
    found = ask(home, "walrus")
    assert (sessions(found), found.missing) == ([], ["walrus"])


def test_a_log_that_grows_is_found_by_its_new_words(home: Path) -> None:
    shop(home)
    log = put(home, OTHER, talk(("the walrus", "I see"), start=400))
    ask(home, "walrus")
    with log.open("ab") as file:
        file.write(lines([{**prompt(410, 401, "the quokka"), "sessionId": OTHER}]))
    assert sessions(ask(home, "quokka")) == [OTHER]


def test_an_agents_words_belong_to_its_session(home: Path) -> None:
    log = put(home, CART, talk(*FILLER, start=1))
    agent = log.parent / CART / "subagents" / "agent-a1b2c3.jsonl"
    agent.parent.mkdir(parents=True)
    entry = {**prompt(50, None, "look for the walrus"), "isSidechain": True, "agentId": "a1b2c3"}
    agent.write_bytes(lines([{**entry, "sessionId": CART}]))
    found = ask(home, "walrus")
    assert sessions(found) == [CART]
    assert found.sessions[0].hits[0].agent == "a1b2c3"


def test_other_wordings_help(home: Path) -> None:
    shop(home)
    assert ask(home, "penguin").sessions == []
    assert sessions(ask(home, "penguin", also=["rounding of prices"]))[0] == CART


def test_a_weak_best_answer_says_so(home: Path) -> None:
    shop(home)
    strong = ask(home, "rounding prices Decimal")
    assert not strong.is_weak
    weak = ask(home, "penguin colony in the antarctic cart winter")
    assert weak.sessions
    assert weak.is_weak
    assert "penguin" in weak.missing
    assert ask(home, "penguin").is_weak


def test_answers_are_paged(home: Path) -> None:
    shop(home)
    everything = ask(home, "build module notes", limit=10)
    pages: list[str | None] = []
    for skip in range(3):
        one = ask(home, "build module notes", limit=1, skip=skip)
        assert one.total == everything.total == 3
        pages += sessions(one)
    assert pages == sessions(everything)


def test_quotes_of_a_session_are_different_messages(home: Path) -> None:
    put(home, CART, talk(("walrus one", "walrus two"), ("walrus one", "walrus three"), start=1))
    quotes = ask(home, "walrus", quotes=3).sessions[0].hits
    assert sorted(hit.snippet.text for hit in quotes) == ["walrus one", "walrus three", "walrus two"]


def test_a_message_that_changed_since_is_not_quoted(home: Path) -> None:
    shop(home)
    log = put(home, OTHER, talk(("the walrus swims", "I see"), start=400))
    with opened(home) as index:
        log.write_bytes(log.read_bytes().replace(b"000000000400", b"000000000999"))
        assert OTHER not in sessions(recall("walrus", opened=index))


@pytest.mark.parametrize("wrong", [{"question": " "}, {"limit": 0}, {"skip": -1}])
def test_what_cannot_be_asked_is_refused(home: Path, wrong: dict[str, Any]) -> None:
    shop(home)
    with pytest.raises(UsageError):
        ask(home, **{"question": "cart", **wrong})


def test_the_library_asks_the_same(home: Path, tmp_path: Path) -> None:
    shop(home)
    found = Home(home, data=tmp_path / "data").recall("rounding of prices", project="/srv/app")
    assert sessions(found)[0] == CART


@pytest.mark.parametrize("text", ['a "quoted', "NOT (", "x" * 5000, "\x00\ud800", "-- ; DROP", "*", "^a:b"])
def test_no_question_breaks_it(home: Path, text: str) -> None:
    shop(home)
    assert isinstance(ask(home, f"cart {text}").sessions, Sequence)
