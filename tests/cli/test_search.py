"""`recollect search`: what people read, what programs read, and how much of it."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from recollect.cli.search import NOTE
from recollect.cli.terminal import output
from tests.small_home import ONE, TWO, outcome, prompt, put, reply, said, uuid_of


@pytest.fixture
def home(own_home: Path) -> Path:
    """The client's own home, with two sessions."""
    home = own_home / ".claude"
    put(
        home,
        ONE,
        [
            prompt(1, None, "Fix the totals", gitBranch="main"),
            reply(2, 1, said("A needle here"), gitBranch="main"),
        ],
    )
    put(
        home,
        TWO,
        [prompt(3, None, "Another needle"), prompt(4, 3, "and one more needle")],
        cwd="/srv/my shop",
    )
    return home


@pytest.fixture
def after_lunch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now is half past twelve on the day of the sessions, which were at ten."""

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Clock:
            return cls(2026, 11, 15, 12, 30, tzinfo=tz)

    monkeypatch.setattr("recollect.cli.search.dt.datetime", Clock)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert 0 == main(["search", *arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.usefixtures("after_lunch")
def test_what_people_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --flat: a head for each session, then its hits, then how to go on; the head is not repeated."""
    code = main(["search", "needle", "--flat"])
    shown = capsys.readouterr()

    assert (0, "") == (code, shown.err)
    assert (
        "Another needle  /srv/my shop\n"
        "  2 h ago  prose\n"
        "    and one more needle\n"
        "  2 h ago  prose\n"
        "    Another needle\n"
        f"  cd '/srv/my shop' && claude --resume {TWO}\n"
        "\n"
        "Fix the totals  /srv/app  main\n"
        "  2 h ago  prose\n"
        "    A needle here\n"
        f"  cd /srv/app && claude --resume {ONE}\n"
    ) == shown.out


@pytest.mark.usefixtures("after_lunch")
def test_sessions_are_numbered_with_their_best_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which session was it? Title, number of hits, date, project, branch; what was said, not what a tool printed."""
    put(
        home,
        ONE,
        [
            prompt(1, None, "Fix the totals", gitBranch="main"),
            reply(2, 1, said("A needle here"), gitBranch="main"),
            outcome(5, 2, "t", "needle needle needle"),
        ],
    )
    code = main(["search", "needle"])
    shown = capsys.readouterr()

    assert 0 == code
    assert (
        f"1  {ONE[:8]}  Fix the totals  2 hits\n"
        "   2026-11-15, 2 h ago  /srv/app  main\n"
        "   A needle here\n"
        f"2  {TWO[:8]}  Another needle  2 hits\n"
        "   2026-11-15, 2 h ago  /srv/my shop\n"
        "   and one more needle\n"
    ) == shown.out
    assert f"4 messages. Open one: recollect show {ONE[:8]}; continue it: recollect resume {ONE[:8]}\n" == (
        shown.err
    )


def test_words_that_do_not_all_occur_find_the_best_and_say_so(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the words that occur nowhere. What is excluded stays excluded."""
    code = main(["search", "zebra", "another", "needle"])
    shown = capsys.readouterr()
    main(["search", "zebra needle -more", "--json"])
    document = json.loads(capsys.readouterr().out)

    assert 0 == code
    assert "No message has all the words; the best with some of them (not found anywhere: zebra)" in shown.err
    assert f"1  {TWO[:8]}" in shown.out
    assert (True, 2) == (document["is_loose"], document["total"])


def test_a_question_is_answered_by_the_sessions_that_fit_best(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --best at once, and where no message has all its words."""
    third = "7c2d9c1e-0000-4000-8000-000000000003"
    put(home, third, [prompt(50, None, "prices are rounded wrongly"), reply(51, 50, said("Decimal now"))])
    question = ["the", "price", "roundings", "so", "wrong"]
    code = main(["search", "--best", *question])
    asked = capsys.readouterr()
    main(["search", *question])
    fallen_back = capsys.readouterr()
    document = printed(capsys, "--best", *question)
    main(["search", "--best", "zebra", "decimal", "yak", "gnu", "lynx", "puma"])
    weak = capsys.readouterr()

    assert 0 == code
    assert asked.out.startswith(f"1  {third[:8]}  prices are rounded wrongly  1 hit\n")
    assert "No message has all the words" not in asked.err
    assert "No message has all the words; the best with some of them" in fallen_back.err
    assert fallen_back.out == asked.out
    assert (False, False) == (document["is_loose"], document["is_weak"])
    assert 0.3 <= document["sessions"][0]["strength"] <= 1
    assert "weak: even the best answer has little of the question" in weak.err


def test_a_question_shows_what_was_concluded(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last message of the agent in the turn that is about it; neither the prompt, which is the title, nor how sure it is."""
    third, fourth = (f"7c2d9c1e-0000-4000-8000-00000000000{number}" for number in (3, 4))
    asked = [prompt(50, None, "Which cache for the catalogue?"), reply(51, 50, said("Looking at the cache."))]
    decided = reply(52, 51, said("We decided: the cache of the catalogue is an LRU of 100 entries."))
    end = [
        reply(53, 52, said("All tests pass.")),
        prompt(54, 53, "Thanks"),
        reply(55, 54, said("A cache is fun.")),
    ]
    put(home, third, [*asked, decided, *end])
    put(home, fourth, [prompt(60, None, "Another cache"), reply(61, 60, said("Seven files were moved."))])

    assert 0 == main(["search", "what did we decide about the cache of the catalogue"])
    rows = capsys.readouterr().out.splitlines()
    document = printed(capsys, "what did we decide about the cache of the catalogue")

    assert [
        f"1  {third[:8]}  Which cache for the catalogue?  4 hits",
        f"2  {fourth[:8]}  Another cache  1 hit",
    ] == rows[::3]
    assert [
        "We decided: the cache of the catalogue is an LRU of 100 entries.",
        "Seven files were moved.",
    ] == [row.strip() for row in rows[2::3]]
    assert [uuid_of(52), uuid_of(61)] == [one["answer"]["uuid"] for one in document["sessions"]]


def test_a_long_conclusion_takes_three_lines(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(home, ONE, [prompt(1, None, "Why?"), reply(2, 1, said("Zebra " + "stripes and more " * 40))])
    assert 0 == main(["search", "why are there zebra stripes?"])
    (passage,) = [row for row in capsys.readouterr().out.splitlines() if "Zebra" in row]
    assert 150 < len(passage) <= 3 * 77


@pytest.mark.parametrize(
    "words", ["is not a function", "how to", '"what did we say"', "what AND why AND when AND who"]
)
def test_words_of_an_error_are_no_question(
    home: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    """They are to occur, all of them."""
    put(home, ONE, [prompt(1, None, words.replace('"', ""))])
    assert [None] == [one["strength"] for one in printed(capsys, words)["sessions"]]


def test_ten_sessions_are_shown_unless_more_are_asked_for(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest ten of twelve; with --limit all."""
    for number in range(12):
        name = f"{number:08d}-0000-4000-8000-000000000009"
        put(home, name, [prompt(100 + number, None, f"haystack {number}")])
    found = printed(capsys, "haystack")
    main(["search", "haystack"])
    told = capsys.readouterr().err

    assert [f"{number:08d}" for number in range(11, 1, -1)] == [
        one["session"][:8] for one in found["sessions"]
    ]
    assert (12, True) == (found["total"], "--limit N shows more sessions" in told)
    assert 12 == len(printed(capsys, "haystack", "--limit", "20")["sessions"])


def test_an_answer_cut_short_is_no_success(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 5, and never "no message matches": the rest was not read."""
    put(home, ONE, [prompt(1, None, "a" * 60 + "b")])
    code = main(["search", "--regex", "(a|aa)+$", "--seconds", "0.3"])
    shown = capsys.readouterr()

    assert 5 == code
    assert "the time was up before every log was read" in shown.err
    assert "No message matches so far: not every log was read. Try --seconds N" in shown.err


def test_what_programs_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document with the keys others rely on, and a word on what the texts are."""
    document = printed(capsys, "needle", "-p", "app", "--flat")
    del document["took_ms"], document["hits"][0]["path"], document["hits"][0]["offset"]

    assert {
        "query": "needle",
        "note": NOTE,
        "hits": [
            {
                "session": ONE,
                "agent": None,
                "uuid": uuid_of(2),
                "kind": "prose",
                "at": "2026-11-15T10:00:02.000Z",
                "project": "/srv/app",
                "branch": "main",
                "title": "Fix the totals",
                "snippet": {"text": "A needle here", "marks": [[2, 8]]},
                "resume": f"cd /srv/app && claude --resume {ONE}",
            }
        ],
        "total": 1,
        "total_is_exact": True,
        "left_out": 0,
        "is_cut_short": False,
        "is_loose": False,
        "is_weak": False,
        "notes": [],
        "sessions": [],
    } == document


def test_a_document_is_never_larger_than_allowed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many hits as fit, newest first; it says how many were left out."""
    put(home, ONE, [prompt(number, None, f"needle {'x ' * 150}") for number in range(1, 101)])
    assert 0 == main(["search", "needle", "--limit", "100", "--json", "--max-bytes", "9000"])
    out = capsys.readouterr().out
    document = json.loads(out)

    assert len(out.encode()) <= 9_000
    assert (100, True) == (len(document["hits"]) + document["left_out"], len(out.encode()) > 7_000)
    assert uuid_of(100) == document["hits"][0]["uuid"]


def test_even_a_hostile_query_fits_into_the_smallest_document(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thousand characters that JSON writes with six each."""
    assert 0 == main(["search", "--substring", "\x01" * 1_000, "--json", "--max-bytes", "4000"])
    out = capsys.readouterr().out

    assert (True, 0) == (len(out.encode()) <= 4_000, json.loads(out)["total"])


def test_a_limit_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """How many there are in all."""
    main(["search", "needle", "--limit", "1", "--flat"])

    assert "1 of 3 messages" in capsys.readouterr().err


def test_nothing_found_is_said_with_a_way_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a failure: exit 0, nothing on stdout."""
    code = main(["search", "haystack"])
    shown = capsys.readouterr()

    assert (0, "", "No message matches. Try fewer words, a prefix*, or --substring.\n") == (
        code,
        shown.out,
        shown.err,
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["needle AND"], "AND without a word after it"),
        (["("], "("),
        (["--regex", "(a"], "regex '(a'"),
        (["needle", "--substring", "--regex"], "exclude each other"),
        (["needle", "--kind", "prosa"], "no such kind"),
        (["needle", "--since", "soon"], "date 'soon'"),
        (["needle", "--limit", "0"], "limit 0"),
        (["needle", "--max-bytes", "10"], "--max-bytes 10"),
        (["needle", "--seconds", "0"], "seconds 0"),
    ],
)
def test_what_cannot_be_asked_is_exit_2(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    """One clear message, nothing on stdout."""
    code = main(["search", *arguments])
    shown = capsys.readouterr()

    assert (2, "", True) == (code, shown.out, reason in shown.err)


def test_nothing_a_transcript_says_drives_the_terminal(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Title, snippet, match, branch, directory and command show controls as escapes."""
    hostile = "needle \x1b[31mred\x07 \u202eback"
    third = "7c2d9c1e-0000-4000-8000-000000000003"
    put(home, third, [prompt(8, None, hostile, gitBranch="a\x1bb")], cwd="/srv/a\x1b[2Jb")
    main(["search", "--substring", "needle \x1b["])
    grouped = capsys.readouterr().out
    main(["search", "--flat", "--substring", "needle \x1b["])
    out = capsys.readouterr().out

    assert not any(char in out + grouped for char in "\x1b\x07\u202e")
    assert "needle \\x1b[31mred\\x07 \\u{202e}back  1 hit\n" in grouped
    assert ["needle \\x1b[31mred\\x07 \\u{202e}back  /srv/a\\x1b[2Jb  a\\x1bb"] == out.splitlines()[:1]


def test_matches_are_coloured_on_a_terminal(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word that was found, and nothing else of the snippet."""
    monkeypatch.setattr(output, "coloured", lambda: True)
    main(["search", "needle", "-p", "app"])

    assert "A \x1b[33mneedle\x1b[0m here" in capsys.readouterr().out
