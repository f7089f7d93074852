"""Search over whole homes: everything planted is found, each message once, with the index and without it."""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from pathlib import Path
from typing import Any, Protocol

import pytest

from bench.recollect_corpus import Options, write_corpus
from recollect.ask import archive as keep
from recollect.ask.library import Home
from recollect.ask.search.hits import SearchResult
from recollect.ask.search.search import search
from recollect.errors import UsageError
from recollect.index.access import open_index
from recollect.system.locations import MIRROR_FACTS
from tests.ask.search.deadlines import near_after
from tests.made_corpora import Made
from tests.small_home import ONE, TWO, call, lines, link, outcome, prompt, put, reply, said, uuid_of

SEEDS = (1, 7, 11)  # forks and agents of both layouts, and news of agents that repeat what was planted


class Ask(Protocol):
    def __call__(self, home: Path, query: str, **options: Any) -> SearchResult: ...


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Ask the index of a home."""

    def asked(home: Path, query: str, **options: Any) -> SearchResult:
        with open_index([home], cache=tmp_path / "cache") as opened:
            return search(query, opened=opened, **options)

    return asked


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def numbers(found: SearchResult) -> list[int]:
    """Which of the entries of small_home were found, in the order of the answer."""
    return [int(hit.uuid[-12:]) for hit in found.hits if hit.uuid]


def quoted_in(found: SearchResult) -> list[str]:
    return [hit.snippet.text for hit in found.hits]


# --- recall ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=SEEDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A generated home of 3 MB with many forks."""
    home = tmp_path_factory.mktemp("corpus") / str(request.param)
    return Made(home, write_corpus(home, Options(3, seed=request.param, sessions=14, forks=0.6)))


@pytest.fixture(scope="module")
def corpus_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("is_temporary", [False, True])
def test_every_planted_word_is_found_once(made: Made, corpus_cache: Path, is_temporary: bool) -> None:
    """For every class: as many messages as the generator planted, no id twice, newest first."""
    words = made.truth["words"]
    counts, faults = {}, []
    with open_index([made.home], cache=corpus_cache, is_temporary=is_temporary) as opened:
        for word in words:
            query = f'"{word}"' if " " in word else word
            found = search(query, opened=opened, limit=1_000)
            counts[word] = found.total
            ids, times = [hit.uuid for hit in found.hits], [hit.at or "" for hit in found.hits]
            if len(set(ids)) != found.total or times != sorted(times, reverse=True) or not found.is_complete:
                faults.append(word)

    assert {word: facts["messages"] for word, facts in words.items()} == counts
    assert [] == faults


def test_the_planted_classes_are_all_there(made: Made) -> None:
    """Otherwise finding all of them would prove nothing; some are repeated in forks."""
    words = made.truth["words"].values()

    assert all(facts["messages"] > 0 for facts in words)
    assert any(len(facts["places"]) > facts["messages"] for facts in words)


@pytest.mark.parametrize(
    ("how", "query"),
    [
        ("words", '"amber kestrel protocol"'),
        ("substring", "er kestrel prot"),
        ("substring", "mber Kestr"),  # no whole word: every log is read
        ("regex", r"amber\s+kes\w+ protocol"),
        ("regex", r"mber.kestr.*tocol"),
    ],
)
def test_a_planted_phrase_is_found_where_it_stands(
    made: Made, corpus_cache: Path, how: str, query: str
) -> None:
    """Against a plain look at the bytes."""
    held = [
        line
        for log in made.home.rglob("*.jsonl")
        for line in log.read_bytes().splitlines()
        if b"amber kestrel protocol" in line
    ]
    expected = {match[1].decode() for line in held if (match := re.search(rb'"uuid":"([^"]+)"', line))}
    with open_index([made.home], cache=corpus_cache) as opened:
        found = search(query, opened=opened, how=how, limit=1_000, seconds=120.0)

    assert (expected, len(expected)) == ({hit.uuid for hit in found.hits}, found.total)


# --- the language ------------------------------------------------------------------------------------------

TEXTS = [
    "the purple walrus",
    "a walrus, purple",
    "parseHttpHeader(line)",
    "call parse_http_header again",
    "量子缓存迁移完成",
    "nothing of the kind",
    "Größe der Datei",
    "a flat of 85㎡ in town",
]


class AskTexts(Protocol):
    def __call__(self, query: str, **options: Any) -> SearchResult: ...


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> AskTexts:
    """Asks a home of these texts, made once."""
    place = tmp_path_factory.mktemp("texts")
    put(place / "home", ONE, [prompt(number, None, text) for number, text in enumerate(TEXTS, 1)])

    def asked(query: str, **options: Any) -> SearchResult:
        with open_index([place / "home"], cache=place / "cache") as opened:
            return search(query, opened=opened, **options)

    return asked


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("walrus purple", [2, 1]),
        ('"purple walrus"', [1]),
        ("walr*", [2, 1]),
        ("walrus AND line", []),
        ("walrus OR kind", [6, 2, 1]),
        ('walrus NOT "purple walrus"', [2]),
        ("walrus -a", [1]),
        ("(purple OR nothing) -walrus", [6]),
        ("parsehttpheader", [3]),
        ("http", [4, 3]),
        ('"http header"', [4, 3]),
        ("parse_http_header", [4, 3]),
        ("缓存", [5]),
        ("存缓", []),
        ("grosse OR grösse OR grosSe", []),
        ("große OR grose OR größe", [7]),
    ],
)
def test_words_phrases_prefixes_and_operators(texts: AskTexts, query: str, expected: list[int]) -> None:
    """Any case, any order; names by their parts; Chinese by any piece of it."""
    assert expected == numbers(texts(query))


@pytest.mark.parametrize(
    ("how", "query", "options", "expected"),
    [
        ("substring", "urple wal", {}, [1]),
        ("substring", "HTTPh", {}, [3]),
        ("substring", "HTTPh", {"case": True}, []),
        ("substring", "httpH", {"case": True}, []),
        ("substring", "HttpH", {"case": True}, [3]),
        ("substring", "子缓存", {}, [5]),
        ("substring", ", ", {}, [2]),
        ("substring", "5㎡ i", {}, [8]),
        ("regex", r"^a w\w+", {}, [2]),
        ("regex", r"PURPLE (WALRUS|KIND)", {}, [1]),
        ("regex", r"PURPLE (WALRUS|KIND)", {"case": True}, []),
        ("regex", r"(?s)parse.http", {}, [4]),
        ("regex", r"call parse_http_header \w+", {}, [4]),
    ],
)
def test_substrings_and_patterns_look_at_the_text_as_written(
    texts: AskTexts, how: str, query: str, options: dict[str, Any], expected: list[int]
) -> None:
    """Also inside words and across them; case counts only where that is asked for."""
    assert expected == numbers(texts(query, how=how, seconds=60.0, **options))


def test_what_json_escapes_is_found_as_it_reads(home: Path, ask: Ask) -> None:
    """Quotes, backslashes, newlines, letters written as escapes."""
    put(home, ONE, [prompt(1, None, 'say "hi"\nC:\\new "naïve"')])

    assert [[1], [1], [1]] == [
        numbers(ask(home, text, how="substring"))
        for text in ('"hi"\nC:', "C:\\new", 'say "hi"\nC:\\new "naïve"')
    ]


# --- each message once -------------------------------------------------------------------------------------


def test_repeats_beside_a_message_are_no_hits(home: Path, ask: Ask) -> None:
    """toolUseResult, an agent's news in its parent, a snapshot, a waiting prompt: one message, one hit."""
    result = {
        **outcome(2, 1, "t1", "a needle"),
        "toolUseResult": {"stdout": "a needle", "interrupted": False},
    }
    agent = reply(3, 2, said("an agent's needle"), agentId="a1", isSidechain=True)
    news = link(
        4, 2, type="progress", data={"type": "agent_progress", "message": agent, "prompt": "a needle"}
    )
    others: list[dict[str, Any]] = [
        {"type": "queue-operation", "operation": "enqueue", "content": "a needle", "sessionId": ONE},
        {"type": "last-prompt", "lastPrompt": "a needle", "sessionId": ONE},
        {
            "type": "file-history-snapshot",
            "messageId": uuid_of(1),
            "snapshot": {"trackedFileBackups": {"needle": {}}},
        },
    ]
    put(home, ONE, [prompt(1, None, "go"), result, news, *others])
    side = home / "projects" / "-srv-app" / ONE / "subagents" / "agent-a1.jsonl"
    side.parent.mkdir(parents=True)
    side.write_bytes(lines([agent]))
    found = ask(home, "needle")

    assert ([3, 2], 2) == (numbers(found), found.total)


def fork_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**entry, "forkedFrom": {"sessionId": ONE, "messageUuid": entry["uuid"]}} for entry in entries]


TALK = [prompt(1, None, "a needle"), prompt(2, 1, "more")]


def test_a_forked_message_is_shown_where_it_was_said_first(home: Path, ask: Ask) -> None:
    """Also where the original was written to after the fork was made."""
    original = put(home, ONE, TALK)
    put(home, TWO, [*fork_of(TALK), prompt(3, 2, "a second needle")])
    os.utime(original, (2_000_000_000, 2_000_000_000))
    found = ask(home, "needle")

    assert ([(3, TWO), (1, ONE)], 2) == (
        list(zip(numbers(found), (hit.session for hit in found.hits), strict=True)),
        found.total,
    )


def test_asked_for_a_fork_its_own_copy_is_found(home: Path, ask: Ask) -> None:
    """And asked for the original, that one."""
    put(home, ONE, TALK)
    fork = put(home, TWO, [*fork_of(TALK), prompt(3, 2, "something else")])
    found = ask(home, "needle", session=TWO)

    assert ([1], [TWO], [str(fork)], 1) == (
        numbers(found),
        [hit.session for hit in found.hits],
        [hit.path for hit in found.hits],
        found.total,
    )
    assert [ONE] == [hit.session for hit in ask(home, "needle", session=ONE).hits]


def test_a_substring_is_found_once_as_well(home: Path, ask: Ask) -> None:
    """Whether the index narrowed it down or not."""
    put(home, ONE, TALK)
    put(home, TWO, fork_of(TALK))

    assert [(1, [ONE]), (1, [ONE])] == [
        (found.total, [hit.session for hit in found.hits])
        for found in (ask(home, "eedl", how="substring"), ask(home, "a needle", how="substring"))
    ]


def test_odd_ids_do_not_hide_one_another(home: Path, ask: Ask) -> None:
    """Messages of other programs may be numbered from 1 in every session; an exact copy is still one."""
    for session, text in ((ONE, "a needle"), (TWO, "a needle too")):
        put(home, session, [{**prompt(1, None, text), "uuid": "m1"}])
    put(home, "7c2d9c1e-0000-4000-8000-000000000003", [{**prompt(1, None, "a needle"), "uuid": "m1"}])

    assert 2 == ask(home, "needle").total


def test_lines_without_an_id_are_told_apart_by_their_place(home: Path, ask: Ask) -> None:
    """The first lines of two logs."""
    for session in (ONE, TWO):
        put(home, session, [{"type": "ai-title", "aiTitle": "A needle", "sessionId": session}])

    assert {ONE, TWO} == {hit.session for hit in ask(home, "needle").hits}


# --- kinds -------------------------------------------------------------------------------------------------


@pytest.fixture
def kinds_home(home: Path) -> Path:
    """One message of each kind, all with the same word."""
    thinking = {"type": "thinking", "thinking": "a needle in thought", "signature": "eA=="}
    used = {**call("t1"), "input": {"file_path": "/needle/in/input"}}
    side = home / "projects" / "-srv-app" / ONE / "tool-results" / "t9.txt"
    put(
        home,
        ONE,
        [
            prompt(1, None, "a needle in prose"),
            reply(2, 1, thinking),
            reply(3, 2, used),
            outcome(4, 3, "t1", "a needle in a result"),
            {"type": "custom-title", "customTitle": "Needle title", "sessionId": ONE},
            link(5, 4, type="system", subtype="informational", content="a needle in a remark"),
        ],
    )
    side.parent.mkdir(parents=True)
    side.write_text("a needle in a side file")
    return home


def test_every_kind_of_text_is_found_and_named(kinds_home: Path, ask: Ask) -> None:
    """What has no time comes last: titles, and results too large for the log."""
    found = ask(kinds_home, "needle")

    assert ["other", "tool_result", "tool_input", "thinking", "prose"] == [hit.kind for hit in found.hits[:5]]
    assert {("title", "Needle title"), ("tool_result", "a needle in a side file")} == {
        (hit.kind, hit.snippet.text) for hit in found.hits[5:]
    }


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["prose"], ["prose"]),
        (["thinking", "tool_input"], ["tool_input", "thinking"]),
        (["title"], ["title"]),
    ],
)
@pytest.mark.parametrize("how", ["words", "substring"])
def test_only_the_kinds_that_are_asked_for(
    kinds_home: Path, ask: Ask, kinds: list[str], expected: list[str], how: str
) -> None:
    """In the order of the answer, whatever the order of the question."""
    assert expected == [hit.kind for hit in ask(kinds_home, "needle", kinds=kinds, how=how).hits]


def test_words_may_be_spread_over_the_texts_of_one_message(home: Path, ask: Ask) -> None:
    """One line with a thought and an answer; the kind is that of the first text with a part of it."""
    put(
        home,
        ONE,
        [prompt(1, None, "go"), reply(2, 1, said("apples"), {"type": "thinking", "thinking": "pears"})],
    )

    assert [(2, "prose")] == [
        (int(hit.uuid[-2:]), hit.kind) for hit in ask(home, "pears apples").hits if hit.uuid
    ]
    assert ["thinking"] == [hit.kind for hit in ask(home, "pears").hits]


def test_a_word_deep_in_a_large_result_is_found_and_quoted(home: Path, ask: Ask) -> None:
    """More than 20 KB into it, the snippet is cut there."""
    put(
        home,
        ONE,
        [prompt(1, None, "go"), outcome(2, 1, "t1", "filler line\n" * 3_000 + "the needle" + "\nmore" * 9)],
    )
    found = ask(home, "needle", width=40)

    assert [2] == numbers(found)
    assert "the needle more" in quoted_in(found)[0]
    assert ["needle"] == [
        found.hits[0].snippet.text[start:stop] for start, stop in found.hits[0].snippet.marks
    ]


# --- filters -----------------------------------------------------------------------------------------------


def test_a_project_is_a_path_or_part_of_a_name(home: Path, ask: Ask) -> None:
    """A path takes in what lies below; a name fits the last part of the directory only."""
    put(home, ONE, [prompt(1, None, "needle")], cwd="/srv/shop/api")
    put(home, TWO, [prompt(2, None, "needle")], cwd="/srv/shopping")

    assert [[1], [1], [2], [2], [2, 1]] == [
        numbers(ask(home, "needle", project=project))
        for project in ("/srv/shop", "API", "shop", "/srv/shopping/", "/srv")
    ]


def test_times_are_those_of_the_messages(home: Path, ask: Ask) -> None:
    """From the first moment on, before the last one; 10:00:02 is the second message."""
    put(home, ONE, [prompt(number, None, "needle") for number in (1, 2, 3)])
    second = dt.datetime(2026, 11, 15, 10, 0, 2, tzinfo=dt.UTC)

    assert ([3, 2], [1], [2]) == (
        numbers(ask(home, "needle", since=second)),
        numbers(ask(home, "needle", until=second)),
        numbers(ask(home, "needle", since=second, until=second + dt.timedelta(seconds=1))),
    )


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of this process cannot be changed here")
def test_a_time_without_a_zone_is_local(home: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """In New York it is five in the morning when the second message is written."""
    put(home, ONE, [prompt(number, None, "needle") for number in (1, 2, 3)])
    with monkeypatch.context() as here:
        here.setenv("TZ", "EST5EDT")
        time.tzset()
        found = ask(home, "needle", since=dt.datetime.fromisoformat("2026-11-15T05:00:02"))
    time.tzset()

    assert [3, 2] == numbers(found)


def test_a_limit_keeps_the_newest_and_the_count_of_all(home: Path, ask: Ask) -> None:
    """Times decide, not the order in the log."""
    put(home, ONE, [prompt(number, None, "needle") for number in (3, 1, 5, 2, 4)])
    found = ask(home, "needle", limit=2)

    assert ([5, 4], 5, True) == (numbers(found), found.total, found.is_complete)


# --- where it comes from -----------------------------------------------------------------------------------


def test_a_hit_says_where_it_stands_and_how_to_go_on(home: Path, ask: Ask) -> None:
    """Session, time, directory, branch, title, place, and a line for the shell."""
    entries = [prompt(1, None, "Fix the totals", gitBranch="main"), prompt(2, 1, "a needle", gitBranch="fix")]
    log = put(home, ONE, entries, cwd="/srv/my app")
    (hit,) = ask(home, "needle").hits
    moved = [{**entry, "sessionId": ONE, "cwd": "/srv/my app"} for entry in entries]

    assert (ONE, None, uuid_of(2), "prose", "2026-11-15T10:00:02.000Z") == (
        hit.session,
        hit.agent,
        hit.uuid,
        hit.kind,
        hit.at,
    )
    assert ("/srv/my app", "fix", "Fix the totals") == (hit.project, hit.branch, hit.title)
    assert (str(log), len(lines(moved[:1])), "a needle", [(2, 8)]) == (
        hit.path,
        hit.offset,
        hit.snippet.text,
        hit.snippet.marks,
    )
    # By its path: no client that is started here looks into this home.
    assert f"cd '/srv/my app' && claude --resume {log}" == hit.resume


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([], "the first needle"),
        ([{"type": "last-prompt", "lastPrompt": "asked last"}], "asked last"),
        (
            [
                {"type": "ai-title", "aiTitle": "By the model"},
                {"type": "last-prompt", "lastPrompt": "asked last"},
            ],
            "By the model",
        ),
        (
            [
                {"type": "custom-title", "customTitle": "Mine"},
                {"type": "ai-title", "aiTitle": "By the model"},
            ],
            "Mine",
        ),
        (
            [{"type": "custom-title", "customTitle": "Old"}, {"type": "custom-title", "customTitle": "New"}],
            "New",
        ),
    ],
)
def test_the_title_is_the_clients(home: Path, ask: Ask, more: list[dict[str, Any]], expected: str) -> None:
    """What the user named it, else the model, else the last prompt, else the first."""
    put(home, ONE, [prompt(1, None, "the first needle"), *more])

    assert [expected] == [hit.title for hit in ask(home, "needle").hits]


@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_an_agents_hit_belongs_to_its_session(home: Path, ask: Ask, layout: str) -> None:
    """Title and resume command are the session's, whether its place or its lines say whose it is."""
    log = put(home, ONE, [prompt(1, None, "Send an agent")])
    agent = log.parent / (f"{ONE}/subagents/agent-a1.jsonl" if layout == "nested" else "agent-a1.jsonl")
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_bytes(lines([prompt(2, None, "agent's needle", agentId="a1", isSidechain=True)]))
    (hit,) = ask(home, "needle").hits

    assert (ONE, "a1", "Send an agent", f"cd /srv/app && claude --resume {log}") == (
        hit.session,
        hit.agent,
        hit.title,
        hit.resume,
    )
    assert ([2], []) == (numbers(ask(home, "needle", session=ONE)), numbers(ask(home, "needle", session=TWO)))
    assert [2] == numbers(ask(home, "needle", project="/srv/app"))


# --- what changed meanwhile --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["words", "substring"])
@pytest.mark.parametrize("change", ["rewritten", "another", "shorter", "gone"])
def test_a_log_that_changed_since_it_was_indexed_is_not_quoted(
    home: Path, tmp_path: Path, how: str, change: str
) -> None:
    """The hit of the index stays, without text and with a note; what must be verified is not found."""
    log = put(home, ONE, [prompt(1, None, "Start"), prompt(2, 1, "the old needle word")])
    with open_index([home], cache=tmp_path / "cache"):
        pass
    if change == "rewritten":
        log.write_bytes(log.read_bytes().replace(b"old needle", b"new thread"))
    elif change == "another":
        log.write_bytes(log.read_bytes().replace(uuid_of(2).encode(), uuid_of(7).encode()))
    elif change == "shorter":
        log.write_bytes(log.read_bytes()[:-20])
    else:
        log.unlink()
    with open_index([home], cache=tmp_path / "cache", is_refreshed=False) as opened:
        found = search("old needle word", opened=opened, how=how)
        if how == "words":
            assert ([""], True) == (quoted_in(found), "could not be quoted" in found.notes[0])
        else:
            assert [""] * (change == "another") == quoted_in(found)


def test_a_pattern_that_takes_for_ever_leaves_an_incomplete_answer(
    home: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found before is shown and quoted; the answer says that there may be more."""
    put(home, ONE, [prompt(1, None, "aaa"), prompt(2, 1, "a" * 60 + "!")])
    # However slow the start: the time is nearly up once the first message was spotted, and up soon after.
    near_after(monkeypatch, 1)
    found = ask(home, "(a+)+$", how="regex", seconds=60.0)

    assert ([1], ["aaa"], False) == (numbers(found), quoted_in(found), found.is_complete)
    assert "time was up" in found.notes[0]


# --- what cannot be asked ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "options", "reason"),
    [
        ("", {}, "the query is empty"),
        ('"open', {}, "without a closing one"),
        ("NOT needle", {}, "only words to exclude"),
        ("(", {"how": "regex"}, "regex"),
        ("needle", {"kinds": ["prosa"]}, "no such kind"),
        ("needle", {"kinds": []}, "none given"),
        ("needle", {"limit": 0}, "too small"),
        ("needle", {"width": 3}, "too small"),
        ("needle", {"seconds": 0.0}, "must be more than 0"),
        ("needle", {"how": "guess"}, "unknown kind of search"),
        ("needle", {"how": "substring", "rank": True}, "cannot be ranked"),
        ("needle", {"case": True}, "ignores case"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    home: Path, ask: Ask, query: str, options: dict[str, Any], reason: str
) -> None:
    """With its reason, before anything is read."""
    with pytest.raises(UsageError, match=reason):
        ask(home, query, **options)


def test_ranked_the_best_comes_first(home: Path, ask: Ask) -> None:
    """The word has more weight in a short text."""
    put(home, ONE, [prompt(1, None, "needle"), prompt(2, 1, "a needle in a long text about other things")])

    assert [1, 2] == numbers(ask(home, "needle", rank=True))


def test_a_home_that_is_not_there_has_nothing(tmp_path: Path, ask: Ask) -> None:
    """No error: there may be no home yet."""
    assert ([], 0, True) == (
        (found := ask(tmp_path / "nowhere", "needle")).hits,
        found.total,
        found.is_complete,
    )


@pytest.mark.parametrize(("how", "query"), [("words", "needle"), ("substring", "eedl")])
def test_what_only_the_archive_has_is_found(
    home: Path, tmp_path: Path, ask: Ask, how: str, query: str
) -> None:
    """The session, its agent, and how to go on."""
    log = put(home, ONE, [prompt(1, None, "a needle")])
    put(home, TWO, [prompt(2, None, "another needle")])
    side = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    side.parent.mkdir(parents=True)
    side.write_bytes(lines([prompt(3, None, "a needle of an agent", isSidechain=True, agentId="a1")]))
    keep.add_all(keep.archive_at(tmp_path), list(Home(home).sessions()), dt.datetime.now(dt.UTC))
    log.unlink()
    side.unlink()
    found = ask(home, query, how=how)

    assert ([3, 2, 1], f"recollect resume {ONE}") == (numbers(found), found.hits[2].resume)


@pytest.mark.parametrize("where", ["mirror", "copy"])
def test_another_agents_session_is_continued_by_its_own_client(tmp_path: Path, ask: Ask, where: str) -> None:
    """Which `recollect resume` knows; `claude` would not find it."""
    home = tmp_path / ("codex-1234" if where == "mirror" else "home")
    log = put(home, ONE, [prompt(1, None, "a needle")])
    log.write_bytes(b'{"type":"foreign-source","agent":"codex"}\n' + log.read_bytes())
    if where == "mirror":
        (home / MIRROR_FACTS).touch()

    assert [f"recollect resume {ONE}"] == [hit.resume for hit in ask(home, "needle").hits]
