"""A list says the same from an index that was kept up to date as from one that is made anew."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recollect.ask.library import Home
from recollect.ask.list import ListQuery, SessionList, list_sessions
from recollect.index.access import open_index
from recollect.model.session import SessionSummary
from recollect.store.logs import summary
from recollect.system.locations import home_at
from tests.memory import memory
from tests.talk import assistant, call, encoded, link, log_at, mark, result, user

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
Fields = dict[str, Any]


def from_index(
    home: Path, cache: Path, query: ListQuery | None = None, *, is_temporary: bool = False
) -> SessionList:
    with open_index([home], cache=cache, is_temporary=is_temporary) as opened:
        return list_sessions([home_at(home)], opened, query)


def log_of(home: Path, session: str = ONE) -> Path:
    return home / "projects" / "-srv-app" / f"{session}.jsonl"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "projects").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "data" / "cache"


TALK = [user("u1", None, 0, "first"), assistant("a1", "u1", 1, "yes"), user("u2", "a1", 2, "second")]


def only(found: SessionList) -> SessionSummary:
    (session,) = found.sessions
    return session


# ---- random lives of a log -------------------------------------------------------------------------------


class Talk:
    """Writes what clients write: turns, parallel calls, branches, compactions, side chains, marks."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.ids: list[str] = []
        self.leaf: str | None = None

    def id(self) -> str:
        self.ids.append(f"{next(self._numbers):08d}-aaaa-4000-8000-000000000000")
        return self.ids[-1]

    def lines(self, kind: str, choice: int) -> list[Fields | bytes]:
        """Some lines of a kind; ``choice`` picks among what was written before."""
        some = self.ids[choice % len(self.ids)] if self.ids else None
        at = len(self.ids)
        before, name = self.leaf, self.id()
        match kind:
            case "prompt":
                self.leaf = name
                return [user(name, before, at, f"prompt {choice}")]
            case "answer":
                self.leaf = self.id()
                return [
                    assistant(name, before, at, "one", f"m{choice}"),
                    assistant(self.leaf, name, at, "two", f"m{choice}"),
                ]
            case "parallel":
                second, left, right = self.id(), self.id(), self.id()
                self.leaf = right
                return [
                    assistant(name, before, at, [call(f"{name}-1")], f"m{name}"),
                    assistant(second, name, at, [call(f"{name}-2")], f"m{name}"),
                    user(left, name, at, [result(f"{name}-1")]),
                    user(right, second, at, [result(f"{name}-2")]),
                ]
            case "branch":
                self.leaf = name
                return [user(name, some, at, "elsewhere")]
            case "progress":
                self.leaf = name
                return [link(name, before, at, type="progress", data={"type": "hook_progress"})]
            case "note":
                self.leaf = name
                return [link(name, before, at, type="system", subtype="local_command", content="ls")]
            case "sidechain":
                return [user(name, some, at, "aside", isSidechain=True)]
            case "again":
                return [user(some or name, before, at, "written once more")]
            case "compaction":
                self.leaf = self.id()
                boundary = link(name, None, at, type="system", subtype="compact_boundary", content="cut")
                kept = {"preservedSegment": {"headUuid": some, "anchorUuid": self.leaf, "tailUuid": before}}
                boundary["compactMetadata"] = {"trigger": "auto", "preTokens": 1, **kept}
                return [boundary, user(self.leaf, name, at, "summary", isCompactSummary=True)]
            case "timeless":
                self.leaf = name
                return [user(name, before, 0, "when?", timestamp=None)]
            case "mark":
                return [mark(some or name, explicit=bool(choice % 2), lastPrompt=f"mark {choice}")]
            case "mark here":
                return [mark(before or name, lastPrompt="")]
            case "title":
                return [{"type": "custom-title", "customTitle": ["", "My own"][choice % 2], "sessionId": ONE}]
            case "generated":
                return [{"type": "ai-title", "aiTitle": f"Made {choice}", "sessionId": ONE}]
            case "tag":
                return [{"type": "tag", "tag": ["", "later"][choice % 2], "sessionId": ONE}]
            case "place":
                self.leaf = name
                return [assistant(name, before, at, "moved", cwd=["", "/srv/b"][choice % 2], gitBranch="fix")]
            case "nested":
                self.leaf = name
                deep = '{"a":' * 70 + "1" + "}" * 70
                made = encoded([user(name, before, at, "deep", toolUseResult="@")])
                return [made.rstrip(b"\n").replace(b'"@"', deep.encode())]
        return [[b"garbage", b"", b'{"type":"user"\xff}', b"\0\0{}", b"[1]"][choice % 5]]


KINDS = [
    "prompt",
    "answer",
    "parallel",
    "branch",
    "progress",
    "note",
    "sidechain",
    "again",
    "compaction",
    "timeless",
    "mark",
    "title",
    "generated",
    "tag",
    "place",
    "nested",
    "garbage",
]
steps = st.lists(
    st.tuples(
        st.sampled_from(["append"] * 6 + ["truncate", "replace", "move", "other"]),
        st.lists(st.tuples(st.sampled_from([*KINDS, "mark here"]), st.integers(0, 9)), max_size=4),
        st.integers(0, 9),
    ),
    max_size=10,
)


@example([("append", [("prompt", 0)], 0), ("append", [("answer", 0)], 0), ("append", [("again", 0)], 0)])
@example([("append", [("prompt", 0)], 0), ("append", [("sidechain", 0), ("mark", 2)], 0)])
@example(
    [
        ("append", [("prompt", 0)], 0),
        ("truncate", [], 0),
        ("append", [("prompt", 0), ("sidechain", 0)], 0),
        ("append", [("again", 0)], 0),
    ]
)
@settings(max_examples=2_000 if TORTURE else 40, deadline=None)
@given(steps)
def test_reading_on_says_what_reading_anew_says(edits: list[tuple[str, list[tuple[str, int]], int]]) -> None:
    """After every edit of a home: appended, cut, replaced and moved logs, each refreshed as it goes."""
    with tempfile.TemporaryDirectory(dir=memory()) as base:
        home, cache = Path(base) / "home", Path(base) / "data" / "cache"
        talk, log = Talk(), log_of(home)
        log.parent.mkdir(parents=True)
        for number, (how, kinds, choice) in enumerate(edits):
            lines = [line for kind, pick in kinds for line in talk.lines(kind, pick)]
            data = b"".join(one + b"\n" if isinstance(one, bytes) else encoded([one]) for one in lines)
            edited(log, how, data, choice)
            for one in home.glob("projects/*/*.jsonl"):
                os.utime(one, ns=(number * 10**9 + one.stat().st_size, (number + 1) * 10**9))

            anew = from_index(home, cache, is_temporary=True)
            assert anew.sessions == from_index(home, cache).sessions


def edited(log: Path, how: str, data: bytes, choice: int) -> None:
    before = log.read_bytes() if log.exists() else b""
    match how:
        case "truncate":
            log.write_bytes(before[: len(before) * choice // 10])
        case "replace":
            log.unlink(missing_ok=True)
            log.write_bytes(data)
        case "move" if log.exists():
            target = log.parent.with_name(f"-srv-{choice}") / log.name
            target.parent.mkdir(exist_ok=True)
            log.replace(target)
        case "other":
            log_of(log.parents[2], TWO).write_bytes(data)
        case _:
            with log.open("ab") as end:
                end.write(data)


# ---- what it costs ---------------------------------------------------------------------------------------


@pytest.fixture
def not_read_again(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    read: list[Path] = []

    def refused(path: Path, stop: int | None = None) -> summary.LogCounts:
        read.append(path)
        return original(path, stop)

    original = summary.log_counts
    monkeypatch.setattr(summary, "log_counts", refused)
    monkeypatch.setattr("recollect.index.catalogue.log_counts", refused)
    return read


def test_a_branch_is_counted_once(home: Path, cache: Path, not_read_again: list[Path]) -> None:
    """The log is read again for it, and the answer kept."""
    log = log_at(log_of(home), TALK)
    assert 3 == only(from_index(home, cache)).messages
    with log.open("ab") as end:
        end.write(encoded([user("u3", "u1", 5, "another way")]))

    assert 2 == only(from_index(home, cache)).messages
    assert 2 == only(from_index(home, cache)).messages
    assert [log] == not_read_again


def test_a_count_that_cannot_be_kept_is_given_all_the_same(
    home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds the index's lock."""
    log = log_at(log_of(home), TALK)
    from_index(home, cache)
    with log.open("ab") as end:
        end.write(encoded([user("u3", "u1", 5, "another way")]))
    with open_index([home], cache=cache) as opened, contextlib.closing(opened.lock(0.0)) as lock, lock:
        assert 2 == only(list_sessions([home_at(home)], opened)).messages
        assert opened.database.value("SELECT messages FROM catalogue") is None


# ---- what is listed --------------------------------------------------------------------------------------


def test_a_file_without_a_conversation_does_not_stand_first(home: Path, cache: Path) -> None:
    """However new it is; the order is that of the lines' own times."""
    spoken = log_at(log_of(home), TALK)
    empty = log_at(log_of(home, TWO), [{"type": "summary", "summary": "x", "leafUuid": "y"}])
    os.utime(spoken, (1, 1))

    found = from_index(home, cache).sessions
    assert [(ONE, True), (TWO, False)] == [(one.id, one.last_at is not None) for one in found]
    assert empty.stat().st_mtime > spoken.stat().st_mtime


def test_what_only_the_archive_has_is_listed_and_marked(home: Path, cache: Path) -> None:
    """With its title and its counts."""
    import datetime as dt

    from recollect.ask.archive import add, archive_at

    log = log_at(log_of(home), TALK)
    archive = archive_at(cache.parent)
    with archive.adding():
        add(archive, Home(home).session(ONE), dt.datetime.now(dt.UTC))
    log.unlink()

    one = only(from_index(home, cache))
    assert (ONE, True, "first", 3, 3) == (one.id, one.is_archive_only, one.title, one.messages, one.lines)


def test_a_limit_leaves_the_total_as_it_is(home: Path, cache: Path) -> None:
    """And the same sessions are shown."""
    log_at(log_of(home), TALK)
    log_at(log_of(home, TWO), [user("x", None, 90, "newer")])
    query = ListQuery(limit=1, with_usage=False)

    found = from_index(home, cache, query)
    assert ([TWO], 2) == ([one.id for one in found.sessions], found.total)


def test_sub_agents_are_counted_in_the_home_of_their_session(tmp_path: Path) -> None:
    """Two homes with the same session: one agent in the first, two in the second, however they are listed."""
    homes = [tmp_path / "a", tmp_path / "b"]
    for number, home in enumerate(homes, start=1):
        log = log_at(log_of(home), [user("u", None, 0, "go")])
        for name in range(number):
            log_at(log.with_suffix("") / "subagents" / f"agent-{name}.jsonl", [user("v", None, 0, "do")])
    roots, cache = [home_at(home) for home in homes], tmp_path / "data" / "cache"
    with open_index(homes, cache=cache) as opened:
        found = list_sessions(roots, opened).sessions

    assert {str(homes[0]): 1, str(homes[1]): 2} == {one.home: one.agents for one in found}
