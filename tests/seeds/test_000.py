"""The implementation notes, section by section; docs/design/seeds.md has the table.

The blocks of the notes are code here. Where their method loses data, the test holds the promise instead.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import Finding, Severity
from recollect.cli.main import main
from recollect.flags import FeatureManager
from recollect.guard import sandbox as execution
from recollect.guard.library import Engine
from recollect.model.todo import TodoStatus, checked_step
from recollect.share.sync.selection import PushScan
from recollect.store.home import ClaudeHome
from recollect.store.todo_files import TodoFiles
from tests.change.migrations.old_sessions import CWD, FLAT_LINES, put_inline
from tests.small_home import (
    ONE,
    TALK,
    TWO,
    call,
    lines,
    open_in_this_process,
    outcome,
    prompt,
    put,
    reply,
    said,
    state,
    uuid_of,
)

NOW = dt.datetime(2020, 1, 16, 12, tzinfo=dt.UTC)
Entries = list[dict[str, Any]]


@pytest.fixture
def root(own_home: Path) -> Path:
    """The Claude home of this test."""
    home = own_home / ".claude"
    home.mkdir()
    return home


def session_of(root: Path, entries: Entries) -> recollect.Session:
    """The session that these entries are."""
    put(root, ONE, entries)
    return recollect.Home(root).session(ONE)


# ---- Architecture Patterns -------------------------------------------------------------------------------


def test_local_first_data_storage(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """List, show, search and cost need no network: opening a connection is an error here."""

    def refused(*_: object, **__: object) -> socket.socket:
        raise AssertionError("a connection was opened")

    put(root, ONE, TALK)
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "create_connection", refused)

    asked = (["list"], ["show", ONE], ["search", "Q1"], ["cost"])
    assert [0, 0, 0, 0] == [main([*one, "--json"]) for one in asked]
    assert ONE in capsys.readouterr().out


def test_append_only_message_storage(tmp_path: Path) -> None:
    """Each entry is one line, the bytes before it stay as they are, and the order is that of the appends."""
    with recollect.Store(tmp_path).create("/srv/app") as log:
        ids, before = [], b""
        for number in range(3):
            ids.append(log.append(recollect.user(f"Prompt {number}")))
            now = log.path.read_bytes()
            assert (True, 1) == (now.startswith(before), now[len(before) :].count(b"\n"))
            before = now

    written = [json.loads(line) for line in before.splitlines()]
    assert ids == [one["uuid"] for one in written]
    assert [None, *ids[:-1]] == [one["parentUuid"] for one in written]


@pytest.mark.parametrize(
    ("path", "name"),
    [("/Users/john/my-project", "-Users-john-my-project"), ("/home/user/app", "-home-user-app")],
)
def test_project_based_organization(root: Path, path: str, name: str) -> None:
    """A path has one directory name; the way back is the directory the entries name, as hyphens are ambiguous."""
    put(root, ONE, TALK, path)

    assert name == recollect.project_key(path)
    assert [(path, name)] == [(one.cwd, one.path.parent.name) for one in recollect.Home(root).sessions()]


# ---- Message Threading Implementation --------------------------------------------------------------------

TREE = [
    prompt(1, None, "Root"),
    reply(2, 1, said("A")),
    prompt(3, 2, "A1"),
    reply(4, 3, said("to A1")),
    prompt(5, 2, "A2"),
    reply(6, 5, said("to A2")),
    prompt(7, 1, "B"),
    reply(8, 7, said("to B")),
]


def test_uuid_based_message_linking(root: Path) -> None:
    """``nodes`` and ``edges`` of buildMessageGraph."""
    graph = session_of(root, TREE).graph
    edges: dict[str, list[str]] = {}
    for entry in TREE:
        if entry["parentUuid"]:
            edges.setdefault(entry["parentUuid"], []).append(entry["uuid"])

    assert [entry["uuid"] for entry in TREE] == list(graph.nodes)
    assert edges == {uuid: list(graph.children(uuid)) for uuid in graph.nodes if graph.children(uuid)}


def test_conversation_branching(root: Path) -> None:
    """The tree of the notes has three branches; each is a conversation of its own, and a side chain is none."""
    aside = prompt(9, 2, "Sub-agent", isSidechain=True)
    session = session_of(root, [*TREE, aside])
    texts = {
        branch.leaf: [message.text for message in session.conversation(branch.leaf).messages]
        for branch in session.branches()
    }

    assert {
        uuid_of(4): ["Root", "A", "A1", "to A1"],
        uuid_of(6): ["Root", "A", "A2", "to A2"],
        uuid_of(8): ["Root", "B", "to B"],
    } == texts


def test_conversation_state_tracking(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``activeBranches`` are those that summaries name; the head is what was last said on each."""
    summaries: Entries = [
        {"type": "summary", "summary": "First try", "leafUuid": uuid_of(4)},
        {"type": "summary", "summary": "Second try", "leafUuid": uuid_of(5)},
        {"type": "summary", "summary": "Elsewhere", "leafUuid": uuid_of(99)},
    ]
    put(root, TWO, summaries[1:])  # clients write most summaries into the next session's log
    session = session_of(root, [summaries[0], *TREE])

    found = {(one.summary, one.leaf, one.head) for one in session.active_branches()}
    assert {("First try", uuid_of(4), uuid_of(4)), ("Second try", uuid_of(5), uuid_of(6))} == found
    assert {"to A1", "to A2"} == {message.text for message in session.active_messages()}
    assert 0 == main(["show", ONE, "--tree", "--json"])
    shown = json.loads(capsys.readouterr().out)["active_branches"]
    assert found == {(one["summary"], one["leaf"], one["head"]) for one in shown}


# ---- Tool Integration Patterns ---------------------------------------------------------------------------


def test_request_response_cycle(root: Path) -> None:
    """Request, result and the client's own record of it are one call."""
    result = outcome(3, 2, "toolu_123", "file contents here")
    result["toolUseResult"] = {"type": "text", "file": {"filePath": "/a", "content": "file contents here"}}
    session = session_of(
        root, [prompt(1, None, "Q"), reply(2, 1, call("toolu_123")), result, reply(4, 3, said("A"))]
    )
    (found,) = session.tool_calls()

    assert ("Read", {"file_path": "/a"}, "ok") == (found.name, json.loads(found.input), found.status)
    assert (uuid_of(2), uuid_of(3), "file contents here") == (found.uuid, found.result_uuid, found.text)


def test_tool_permission_system(tmp_path: Path) -> None:
    """The example patterns: deny comes first, and what no pattern allows is not allowed."""
    engine = Engine(
        allow=["Bash(find:*)", "Read(//safe/path/*)", "Bash(rm:*)"], deny=["Bash(rm:*)"], cwd=tmp_path
    )
    asked = ["Bash(find . -name a)", "Read(/safe/path/a)", "Read(/other/a)", "Bash(rm -r a)", "Bash(curl x)"]

    assert ["allow", "allow", "ask", "deny", "ask"] == [engine.check(one).verdict for one in asked]


# ---- Cost and Usage Tracking -----------------------------------------------------------------------------


def timed_answer(**fields: Any) -> dict[str, Any]:
    """An answer with cost and duration, as the first clients wrote it."""
    answer = reply(2, 1, said("A"), **fields)
    answer["message"]["usage"] = {
        "input_tokens": 1_000,
        "output_tokens": 500,
        "cache_creation_input_tokens": 2_000,
        "cache_read_input_tokens": 4_000,
    }
    return answer


def test_token_based_cost_calculation(root: Path) -> None:
    """``calculateCost`` with the rates of Sonnet 4.5, exact."""
    session = session_of(root, [prompt(1, None, "Q"), timed_answer()])
    expected = (1_000 * 3 + 500 * 15 + 2_000 * 3.75 + 4_000 * 0.30) / 1_000_000
    spent = recollect.price(session.conversation().messages[1])

    assert spent is not None
    assert (f"{expected:.4f}", expected) == (str(spent.usd), float(session.spending().usd))


def test_performance_metrics(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``calculateMetrics``: tokens per second from the recorded duration, tokens per dollar from the recorded cost."""
    put(root, ONE, [prompt(1, None, "Q"), timed_answer(costUSD=0.05, durationMs=2_500)])
    question, answer = recollect.Home(root).session(ONE).conversation().messages
    found = recollect.performance(answer)

    assert found is not None
    assert (2_500, 500 * 1000 / 2_500, 500 / 0.05) == (
        found.duration_ms,
        found.tokens_per_second,
        found.tokens_per_dollar,
    )
    assert recollect.performance(question) is None
    assert 0 == main(["show", ONE, "--performance", "--json"])
    shown = [one["performance"] for one in json.loads(capsys.readouterr().out)["messages"]]
    assert [None, (200.0, 10_000.0)] == [
        one and (one["tokens_per_second"], one["tokens_per_dollar"]) for one in shown
    ]
    assert 0 == main(["show", ONE, "--performance", "--no-pager"])
    assert "2.5 s, 500 tokens, 200.0 tokens/s, 10,000.0 tokens/$" in capsys.readouterr().out


def test_performance_metrics_without_a_recorded_duration(root: Path) -> None:
    """Newer clients record neither: the speed is unknown, the cost is ours, and no division fails."""
    session = session_of(root, [prompt(1, None, "Q"), timed_answer(durationMs=0)])
    found = recollect.performance(session.conversation().messages[1])

    assert found is not None
    assert (None, round(500 / 0.0192, 1)) == (found.tokens_per_second, found.tokens_per_dollar)


# ---- Feature Flag System (Statsig) -----------------------------------------------------------------------


@pytest.fixture
def caches(root: Path) -> Path:
    """Evaluations of two users; that of the second was fetched an hour later."""
    directory = root / "statsig"
    directory.mkdir()
    times = {}
    for number, user in enumerate(("aaaa1111", "bbbb2222")):
        name = f"statsig.cached.evaluations.{user}"
        gates = {"1": {"name": "new_diff", "value": number == 0, "rule_id": "r"}}
        configs = {"2": {"name": "limits", "value": {"most": number}}}
        data = {"data": {"feature_gates": gates, "dynamic_configs": configs}}
        (directory / name).write_text(json.dumps(data))
        times[name] = round((NOW - dt.timedelta(hours=2 - number)).timestamp() * 1000)
    (directory / "statsig.last_modified_time.evaluations").write_text(json.dumps(times))
    return root


def test_cached_evaluation_storage(caches: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``getCachedEvaluation(userHash)``: one cache a user; past its time to live it counts no more."""

    def enabled(user: str | None, ttl: dt.timedelta = dt.timedelta(hours=24)) -> tuple[bool, str]:
        manager = FeatureManager(caches, clock=lambda: NOW, ttl=ttl, user_hash=user)
        return manager.enabled("new_diff"), manager.reason("new_diff").partition(":")[0]

    assert [(True, "cache"), (False, "cache"), (False, "cache"), (False, "default")] == [
        enabled(user) for user in ("aaaa1111", "bbbb2222", None, "cccc3333")
    ]
    assert [(False, "default"), (False, "cache")] == [
        enabled(user, dt.timedelta(minutes=90)) for user in ("aaaa1111", "bbbb2222")
    ]
    assert 1 == main(["rules", "flags", "--user", "aaaa1111", "--json"])  # it has expired by now
    told = json.loads(capsys.readouterr().out)
    assert ("aaaa1111", {"new_diff": True}) == (told["user_hash"], told["gates"])


def test_dynamic_configuration(caches: Path) -> None:
    """``initializeFeatures``: gates and configs by their names; a program's own values come first."""
    manager = FeatureManager(caches, clock=lambda: NOW, user_hash="bbbb2222")
    own = FeatureManager(caches, {"new_diff": True, "limits": {"most": 9}}, clock=lambda: NOW)

    assert (False, {"most": 1}) == (manager.enabled("new_diff", default=True), manager.config("limits"))
    assert (True, {"most": 9}) == (own.enabled("new_diff"), own.config("limits"))


# ---- Todo System Implementation --------------------------------------------------------------------------

TODOS: Entries = [
    {"content": "Write tests", "status": "pending", "priority": "high", "id": "1"},
    {"content": "Ship", "status": "in_progress", "priority": "low", "id": "2", "extra": [1]},
]


@pytest.fixture
def todo_file(root: Path) -> Path:
    """``.claude/todos/${sessionId}.json``, of a session that exists."""
    put(root, ONE, TALK)
    path = root / "todos" / f"{ONE}.json"
    path.parent.mkdir()
    path.write_text(json.dumps(TODOS, indent=2))
    return path


def test_session_based_todo_storage(root: Path, todo_file: Path) -> None:
    """``loadTodosForSession`` and ``saveTodosForSession``: the same file, also where it is named by the session alone."""
    files = TodoFiles(ClaudeHome(root))
    read = files.read(recollect.SessionId(ONE))
    assert (todo_file, ["Write tests", "Ship"]) == (read.path, [item.content for item in read.items])
    assert [read.items] == [one.items for one in files.lists()]

    files.write(recollect.SessionId(ONE), read.items[1:])
    assert [todo_file] == list(todo_file.parent.iterdir())
    assert TODOS[1:] == json.loads(todo_file.read_text())
    assert () == files.read(recollect.SessionId(TWO)).items
    assert [f"todos/{ONE}.json"] == [one.key for one in PushScan(root).files() if not one.is_log]
    (listed,) = recollect.Home(root).todos(ONE)
    assert ("todos", ["Ship"]) == (listed.kind, [item.text for item in listed.items])


def test_todo_state_transitions() -> None:
    """The table of ``isValidTransition``, all sixteen pairs."""
    valid = {
        "pending": ["in_progress", "cancelled"],
        "in_progress": ["completed", "cancelled"],
        "completed": [],
        "cancelled": [],
    }
    for before, allowed in valid.items():
        for after in TodoStatus:
            if after in allowed:
                assert after == checked_step("todo", before, after)
            else:
                with pytest.raises(recollect.IllegalTransition):
                    checked_step("todo", before, after)


def test_todo_state_transitions_by_command(
    root: Path, todo_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``todos set`` plans, takes a valid step, keeps every other field, refuses the rest, and can be undone."""
    before = state(root)
    assert 0 == main(["show", ONE, "--todos", "--set", "1", "in_progress"])
    assert (True, before) == ("Would move 1. Write tests" in capsys.readouterr().out, state(root))

    assert 0 == main(["show", ONE, "--todos", "--set", "1", "in_progress", "--apply", "--json"])
    done = json.loads(capsys.readouterr().out)
    assert (True, "pending", "in_progress") == (done["applied"], done["before"], done["after"])
    assert [{**TODOS[0], "status": "in_progress"}, TODOS[1]] == json.loads(todo_file.read_text())

    refused = [("1", "pending"), ("2", "done"), ("9", "completed")]
    assert [2, 2, 3] == [main(["show", ONE, "--todos", "--set", *words, "--apply"]) for words in refused]
    assert 0 == main([*done["undo"].split()[1:]])
    assert TODOS == json.loads(todo_file.read_text())


def test_todo_state_transitions_of_a_task(root: Path) -> None:
    """Tasks of newer clients take the same steps; a session that a client has open is left alone."""
    put(root, ONE, TALK)
    path = root / "tasks" / ONE / "1.json"
    path.parent.mkdir(parents=True)
    task = {"id": "1", "subject": "T", "description": "", "status": "pending", "blocks": [], "blockedBy": []}
    path.write_text(json.dumps(task))
    home = recollect.Home(root)

    planned = home.move_todo(ONE, "1", "in_progress")
    assert (None, [path]) == (planned.undo, list(path.parent.iterdir()))
    assert home.move_todo(ONE, "1", "in_progress", apply=True).undo is not None
    assert {**task, "status": "in_progress"} == json.loads(path.read_text())
    open_in_this_process(root, ONE)
    with pytest.raises(recollect.Busy):
        home.move_todo(ONE, "1", "completed", apply=True)


# ---- Data Integrity and Validation -----------------------------------------------------------------------


def codes(root: Path, **options: Any) -> set[str]:
    """What ``check`` finds in the sessions of a home."""
    report = recollect.Home(root).check(ONE, with_secrets=False, **options)
    return {finding.code for finding in report.findings}


def odd_id() -> Entries:
    return [prompt(1, None, "Q"), reply(2, 1, said("A")), {**prompt(3, 2, "Q2"), "uuid": "not-a-uuid"}]


def missing_parent() -> Entries:
    return [*TALK, prompt(9, 77, "Q3"), reply(10, 9, said("A3"))]


def test_message_validation_rules(root: Path) -> None:
    """``valid-uuid`` and ``valid-parent-reference``: each is found where it is broken, and only there."""
    found = []
    for entries in (TALK, odd_id(), missing_parent()):
        put(root, ONE, entries)
        found.append(codes(root))

    assert (set(), True, True) == (
        found[0],
        "invalid-id" in found[1],
        bool({"missing-parent", "history-cut"} & found[2]),
    )


def test_message_validation_rules_in_the_order_of_time(root: Path) -> None:
    """``chronological-ordering``: the times of parent and child are there to be compared, by a rule of one's own.

    Clients themselves write children a little older than their parents, so it is no error by itself.
    """

    def time_order(session: recollect.Session) -> Iterator[Finding]:
        nodes = session.graph.nodes
        for node in nodes.values():
            above = nodes.get(node.parent or "")
            if above is not None and (node.at_ms or 0) < (above.at_ms or 0):
                yield Finding("before-parent", Severity.ERROR, "older than its parent", "", uuid=node.uuid)

    late = {**TALK[1], "timestamp": "2026-11-15T09:00:00.000Z"}
    put(root, ONE, [TALK[0], late, *TALK[2:]])
    assert "time_order/before-parent" in codes(root, rules=[time_order])
    put(root, ONE, TALK)
    assert set() == codes(root, rules=[time_order])


def test_message_validation_rules_of_a_caller(root: Path) -> None:
    """``ValidationRule``: a name and a function, beside the table; its findings have a place and count for the exit."""

    class NoSecretProjects:
        name = "house"

        def __call__(self, session: recollect.Session, /) -> Iterator[Finding]:
            for message in session.messages():
                if "secret" in message.text:
                    yield Finding("secret-word", Severity.ERROR, "names it", "rename it", uuid=message.uuid)

    log = put(root, ONE, [prompt(1, None, "the secret plan"), reply(2, 1, said("A"))])
    report = recollect.Home(root).check(ONE, with_secrets=False, rules=[NoSecretProjects()])
    (found,) = report.findings

    assert ("house/secret-word", str(log), ONE, uuid_of(1)) == (
        found.code,
        found.path,
        found.session,
        found.uuid,
    )
    assert (1, {"house/secret-word": 1}) == (report.exit_code, report.summary.by_code)
    with pytest.raises(ZeroDivisionError):
        codes(root, rules=[lambda session: [1 // 0]])


def test_conversation_consistency_checks(root: Path) -> None:
    """``validateConversation``: orphans, repeated ids, circles; a sound conversation has none."""
    twice = [*TALK, {**prompt(3, 2, "Another text"), "uuid": uuid_of(3)}]
    ring = [prompt(1, 2, "Q"), reply(2, 1, said("A")), *[{**one, "parentUuid": None} for one in TALK[2:3]]]
    found = []
    for entries in (TALK, missing_parent(), twice, ring):
        session = session_of(root, entries)
        graph = session.graph
        found.append((len(graph.orphans), graph.duplicates, [sorted(one) for one in graph.cycles]))

    circle = [[uuid_of(1), uuid_of(2)]]
    assert [(0, [], []), (1, [], []), (0, [uuid_of(3)], []), (0, [], circle)] == found


# ---- Performance Optimizations ---------------------------------------------------------------------------


def test_lazy_loading_strategies(root: Path) -> None:
    """``loadSummary``, ``loadMessages(offset, limit)`` and ``streamMessages``."""
    title = {"type": "summary", "summary": "Old title", "leafUuid": uuid_of(4)}
    log = put(root, ONE, [title, *TALK])
    loader, session = recollect.ConversationLoader(lambda _: log), recollect.SessionId(ONE)

    bodies = [entry.body for entry in loader.load_summary(session)]
    assert ["Old title"] == [body.summary for body in bodies if isinstance(body, recollect.Summary)]
    assert [uuid_of(2), uuid_of(3)] == [one.uuid for one in loader.load_messages(session, 1, 2)]
    assert [uuid_of(4)] == [one.uuid for one in loader.load_messages(session, -1, 5)]
    stream = loader.stream_messages(session)
    assert uuid_of(1) == next(stream).uuid
    stream.close()


def test_memory_management(root: Path) -> None:
    """The least recently used conversation goes first, and each eviction is told with its size."""
    third = "7c1d9c1e-0000-4000-8000-000000000003"
    names = (ONE, TWO, third)
    for name in names:
        put(root, name, TALK)
    told: list[tuple[str, int]] = []
    cache = recollect.ConversationCache(
        budget_bytes=2 * 700 * (1 + len(TALK)), on_evict=lambda path, size: told.append((path.stem, size))
    )
    home = recollect.Home(root, cache=cache)

    for name in (ONE, TWO, ONE, third):
        assert 4 == len(home.session(name).conversation().messages)

    assert [(TWO, 700 * (1 + len(TALK)))] == told
    seen = cache.statistics
    assert (1, 3, 1, 2) == (seen.hits, seen.misses, seen.evictions, seen.logs)
    assert [True, False, True] == [home.session(name).path in cache for name in names]


# ---- Security Considerations -----------------------------------------------------------------------------


def test_path_sanitization(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``sanitizePath`` over the roots given, and over home, temporary files and working directory without any."""
    inside, beside = tmp_path / "root", tmp_path / "root-two"
    for directory in (inside, beside):
        directory.mkdir()
    (inside / "way-out").symlink_to(beside)
    monkeypatch.chdir(inside)

    assert inside / "a" / "b" == recollect.sanitize_path("a/x/../b", [inside])
    assert inside == recollect.sanitize_path(inside, [inside])
    outside = ("../root-two/a", beside / "a", inside / "way-out" / "a", "/etc/passwd", "..")
    for path in outside:
        with pytest.raises(recollect.NotPermitted, match="outside the allowed directories"):
            recollect.sanitize_path(path, [inside])
    with pytest.raises(recollect.NotPermitted):
        recollect.sanitize_path(inside, [])
    usual = (Path.home() / "a", Path(os.path.realpath(tempfile.gettempdir())) / "a", inside / "a")
    assert list(usual) == [recollect.sanitize_path(path) for path in usual]
    with pytest.raises(recollect.NotPermitted):
        recollect.sanitize_path("/etc/passwd")
    with pytest.raises(recollect.UsageError):
        recollect.sanitize_path("a\0b", [inside])


def test_tool_execution_sandboxing(tmp_path: Path) -> None:
    """``executeBashCommand``: allowed commands, working directory, output and timeout."""

    def run(*words: str, seconds: float = 30) -> execution.RunResult:
        return execution.run(
            words,
            cwd=tmp_path,
            confinement=execution.Confinement(backend="unconfined", commands=("sh", "pwd")),
            limits=execution.RunLimits(seconds=seconds),
        )

    done = run("sh", "-c", "pwd; echo no >&2; exit 3")
    assert (f"{tmp_path}\n".encode(), b"no\n", 3, False) == (
        done.stdout,
        done.stderr,
        done.exit_code,
        done.interrupted,
    )
    tries = (run("sh", "-c", "echo begun; sleep 300", seconds=seconds) for seconds in (0.5, 5, 50))
    late = next(one for one in tries if one.stdout)  # a busy machine may take a while to begin
    assert (b"begun\n", True, True) == (late.stdout, late.interrupted, late.timed_out)
    for name in ("rm", "/bin/sh", "./sh"):
        with pytest.raises(recollect.NotPermitted, match="only sh, pwd may be run"):
            run(name, "-c", "true")


def test_tool_execution_sandboxing_by_command(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``run --command`` and ``--memory``: another program is not started, and one that takes too much is ended."""
    monkeypatch.chdir(tmp_path)
    (root / "settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash"]}}))
    first = ["rules", "run", "--unconfined", "--json"]

    assert 2 == main([*first, "--command", "make", "--", "touch", "made"])
    assert ("only make may be run" in capsys.readouterr().err, False) == (True, (tmp_path / "made").exists())
    greedy = "import time; data = bytearray(600 << 20); print(len(data)); time.sleep(60)"
    words = ["--memory", "64M", "--command", sys.executable, "--", sys.executable, "-c", greedy]
    assert 0 != main([*first, *words])
    told = json.loads(capsys.readouterr().out)
    assert ("", True) == (told["stdout"], told["ended_by"] == "memory" or "MemoryError" in told["stderr"])
    assert 2 == main([*first, "--memory", "much", "--", "touch", "made"])


# ---- Migration Strategies --------------------------------------------------------------------------------


def test_version_migration_framework(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan to a target version runs its steps in order, says what each does, and every step can be rolled back."""
    log = root / "projects" / "flat" / "2026-11-15.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(lines(FLAT_LINES))
    put_inline(root)
    before = state(root)

    assert 0 == main(["data", "migrate", "--to", "2.1.325", "--all", "--cwd", CWD, "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert before == state(root)
    assert [
        "flat-to-claude",
        "todos-to-tasks",
        "flat-agents-to-subagents",
        "side-chains-to-agent-files",
    ] == plan["steps"]
    assert {"2026-11-15": ["flat-to-claude"], ONE: ["side-chains-to-agent-files"]} == {
        one["session"]: [step["step"] for step in one["steps"]] for one in plan["sessions"]
    }
    assert 0 == main(["data", "migrate", "--to", "2.1.325", "--all", "--cwd", CWD, "--apply", "--json"])
    done = json.loads(capsys.readouterr().out)
    assert (False, 1) == (log.exists(), len(done["undo"]))
    for line in done["undo"]:
        assert 0 == main(line.split()[1:])
    assert before.keys() == state(root).keys()
    assert {name: found[2] for name, found in before.items()} == {
        name: found[2] for name, found in state(root).items()
    }


def test_version_migration_framework_over_several_steps(root: Path) -> None:
    """``migrateConversation`` to flat: sub-agents first, then the dialect; and back again, in the library."""
    put_inline(root)
    home = recollect.Home(root)
    texts = [message.text for message in home.session(ONE).conversation().messages]

    planned = home.migrate(ONE, "flat")
    assert ["side-chains-to-agent-files", "claude-to-flat"] == [one.step for one in planned.steps]
    assert () == planned.changes
    done = home.migrate(ONE, "flat", apply=True)
    kinds = {json.loads(line)["type"] for line in home.session(ONE).path.read_text().splitlines()}
    assert (2, True) == (len(done.changes), kinds <= {"user", "assistant", "tool_call", "tool_result"})
    for change in reversed(done.changes):
        home.undo(change)
    assert texts == [message.text for message in home.session(ONE).conversation().messages]
    with pytest.raises(recollect.UsageError, match="not known"):
        home.migrate(ONE, "next")


def test_version_migration_framework_restores_what_failed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a later step fails, the steps before it are rolled back: every byte as before."""
    from msgspec import structs

    from recollect.change import migrations

    def broken(*_: object) -> None:
        raise recollect.DamagedData("broken", hint="none")

    put_inline(root)
    before = state(root)
    steps = tuple(
        structs.replace(step, planned=broken) if step.name == "claude-to-flat" else step
        for step in migrations.STEPS
    )
    monkeypatch.setattr(migrations, "STEPS", steps)

    with pytest.raises(recollect.DamagedData):
        recollect.Home(root).migrate(ONE, "flat", apply=True)
    assert {name: found[2] for name, found in before.items()} == {
        name: found[2] for name, found in state(root).items()
    }
