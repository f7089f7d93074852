"""The storage architecture, section by section; docs/design/seeds.md has the table.

Its blocks are the data and the programs here. Where client and document differ about a fact, the client counts;
shapes that only the document has are ours to read.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import Home
from recollect.ask.history import command_history
from recollect.change.rewind import rewind
from recollect.cli.main import main
from recollect.errors import StorageError, UsageError
from recollect.model.conversation.conversation import Message
from recollect.model.lines import draft
from recollect.model.lines.entry import FileHistoryNote, Kind, Summary, System
from recollect.model.lines.ids import AgentId, SessionId
from recollect.model.project_key import project_key
from recollect.model.todo import TodoItem, TodoStatus, decode_todos
from recollect.provider import ChatMessage, ClaudeStorageProvider
from recollect.store.file_backups import touched_files
from recollect.store.home import ClaudeHome
from recollect.store.logs.reader import LogReader
from recollect.store.store import Store
from recollect.store.todo_files import TodoFiles, append_with_todos, settle_todos
from tests.guard.agent.workshop import Script, Workshop, call
from tests.small_home import ONE, TALK, TWO, lines, prompt, put, reply, said, written

SESSION = "e8d973c7-481e-43d9-809d-9a4880e8cebc"
AGENT = "a753668"
TODO = {
    "content": "Task description",
    "status": "in_progress",
    "priority": "high",
    "activeForm": "Current action description (optional)",
}


@pytest.fixture
def root(own_home: Path) -> Path:
    """The Claude home of this test."""
    home = own_home / ".claude"
    home.mkdir()
    return home


def session_of(root: Path, entries: list[dict[str, Any]], session: str = SESSION) -> recollect.Session:
    put(root, session, entries)
    return recollect.Home(root).session(session)


# ---- Directory structure -----------------------------------------------------------------------------------


def whole_home(root: Path) -> recollect.Session:
    """Every place of the document's tree, with something in it."""
    log = put(root, SESSION, [{**entry, "slug": "calm-blue-fox"} for entry in TALK])
    side = {**prompt(11, None, "Inner"), "isSidechain": True, "agentId": AGENT, "sessionId": SESSION}
    (log.parent / f"agent-{AGENT}.jsonl").write_bytes(lines([side]))
    files: dict[str, str] = {
        f"todos/{SESSION}-agent-{SESSION}.json": json.dumps([TODO]),
        f"todos/{SESSION}-agent-{AGENT}.json": "[]",
        f"session-env/{SESSION}/env.sh": "export A=1\n",
        "plans/calm-blue-fox.md": "# The plan\n",
        "plans/other.md": "# Another\n",
        f"file-history/{SESSION}/0123456789abcdef@v1": "old\n",
        "history.jsonl": "".join(
            json.dumps(
                {
                    "display": text,
                    "pastedContents": {},
                    "timestamp": at,
                    "project": "/srv/app",
                    "sessionId": session,
                }
            )
            + "\n"
            for text, at, session in (
                ("Q1", 1_700_000_000_000, SESSION),
                ("/compact", 1_700_000_001_000, TWO),
            )
        ),
        "settings.json": "{}",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return recollect.Home(root).session(SESSION)


def test_directory_structure(root: Path) -> None:
    """Every place of the tree is known."""
    session = whole_home(root)
    home = ClaudeHome(root)

    assert [AGENT] == [str(agent.agent_id) for agent in session.agents()]
    assert {SESSION, AGENT} == {str(todo.agent) for todo in home.todos()}
    assert (root / "settings.json", root / "history.jsonl") == (home.settings_file, home.history_file)


def test_directory_structure_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``recollect show --prompts`` shows typed commands, plans and the session's environment."""
    whole_home(root)

    assert 0 == main(["show", SESSION, "--prompts", "--json"])
    own = json.loads(capsys.readouterr().out)
    assert 0 == main(["show", "--prompts", "--limit", "1", "--json"])
    every = json.loads(capsys.readouterr().out)

    assert [("Q1", SESSION)] == [(one["text"], one["session"]) for one in own["commands"]]
    assert [("calm-blue-fox", "# The plan\n")] == [(one["name"], one["text"]) for one in own["plans"]]
    assert [(str(root / "session-env" / SESSION / "env.sh"), 11)] == [
        (one["path"], one["bytes"]) for one in own["environment"]
    ]
    assert (["/compact"], ["calm-blue-fox", "other"]) == (
        [one["text"] for one in every["commands"]],
        [one["name"] for one in every["plans"]],
    )
    assert 0 == main(["show", SESSION, "--prompts"])
    assert "export A" not in capsys.readouterr().out


def test_directory_structure_shown_within_a_limit(root: Path) -> None:
    """A limit below one is a mistake."""
    with pytest.raises(UsageError):
        command_history(Home(root), limit=0)


def test_directory_structure_archived(root: Path, tmp_path: Path) -> None:
    """The archive keeps all of it with the session, and gives it back: byte for byte, in every place."""
    session = whole_home(root)
    home = recollect.Home(root, data=tmp_path / "data")
    home.archive(session.id)
    assert 0 == main(
        [
            "--data",
            str(tmp_path / "data"),
            "protect",
            "restore",
            SESSION,
            "--to",
            str(tmp_path / "to"),
            "--apply",
        ]
    )

    kept = {str(path.relative_to(tmp_path / "to")) for path in (tmp_path / "to").rglob("*") if path.is_file()}

    assert {
        f"projects/-srv-app/{SESSION}.jsonl",
        f"projects/-srv-app/agent-{AGENT}.jsonl",
        f"todos/{SESSION}-agent-{SESSION}.json",
        f"todos/{SESSION}-agent-{AGENT}.json",
        f"session-env/{SESSION}/env.sh",
        f"file-history/{SESSION}/0123456789abcdef@v1",
        "plans/calm-blue-fox.md",
        "history.jsonl",
    } == kept
    assert ["Q1"] == [one["display"] for one in written(tmp_path / "to" / "history.jsonl")]


def test_directory_structure_archived_prompts_stay_here(root: Path, tmp_path: Path) -> None:
    """A bundle carries no prompts, plans or environment: neither sent along, nor taken from another machine."""
    session = whole_home(root)
    recollect.Home(root, data=tmp_path / "data").archive(session.id)
    bundle, there = tmp_path / "bundle.tar", ["--data", str(tmp_path / "there")]
    assert 0 == main(["--data", str(tmp_path / "data"), "export", "--bundle", str(bundle), SESSION])
    assert 0 == main([*there, "import", str(bundle), "--archive", "--apply"])
    assert 0 == main([*there, "protect", "restore", SESSION, "--to", str(tmp_path / "to"), "--apply"])

    assert [] == [
        name for name in ("history.jsonl", "plans", "session-env") if (tmp_path / "to" / name).exists()
    ]


def test_directory_structure_archived_prompts_return_once(root: Path, tmp_path: Path) -> None:
    """Prompts that the history still has are not added again; those it lost come back before the others."""
    whole_home(root)
    data = ["--data", str(tmp_path / "data")]
    before = (root / "history.jsonl").read_bytes()
    assert 0 == main([*data, "protect", "now", SESSION])
    assert 0 == main([*data, "rm", SESSION, "--apply"])
    assert 0 == main([*data, "protect", "restore", SESSION, "--apply"])
    assert before == (root / "history.jsonl").read_bytes()

    assert 0 == main([*data, "rm", SESSION, "--apply"])
    (root / "history.jsonl").write_bytes(before.splitlines(keepends=True)[1])
    assert 0 == main([*data, "protect", "restore", SESSION, "--apply"])

    assert before == (root / "history.jsonl").read_bytes()


# ---- Core concepts -----------------------------------------------------------------------------------------


def test_1_projects(root: Path) -> None:
    """One directory for each working directory; all of its sessions are together."""
    put(root, ONE, TALK, "/home/user/myproject")
    put(root, TWO, TALK, "/home/user/myproject")

    assert "-home-user-myproject" == project_key("/home/user/myproject")
    assert {ONE, TWO} == {session.id for session in recollect.Home(root).sessions("/home/user/myproject")}


def test_2_sessions(root: Path) -> None:
    """A UUID, one JSONL file, entries in order, readable from any offset."""
    session = session_of(root, TALK)

    assert (SESSION, "/srv/app", f"{SESSION}.jsonl") == (session.id, session.cwd, session.path.name)
    assert ["user", "assistant"] * 2 == [
        entry.kind for entry in session.entries() if isinstance(entry, recollect.Entry)
    ]


def test_3_agents(root: Path) -> None:
    """All agents of a session share its id; the main agent's id is the session's."""
    session = whole_home(root)
    lists = {str(todos.agent): todos for todos in TodoFiles(session.home).lists()}

    assert {SESSION} == {str(todos.session) for todos in lists.values()}
    assert (True, False) == (lists[SESSION].is_main, lists[AGENT].is_main)
    assert {SESSION} == {entry.session_id for entry in _entries(session.agents()[0].path)}


def _entries(path: Path) -> list[recollect.Entry]:
    return [entry for entry in LogReader(path) if isinstance(entry, recollect.Entry)]


def test_4_todo_storage(root: Path) -> None:
    """The document's entry, all fields of it, under the document's names; it survives being written again."""
    files = TodoFiles(ClaudeHome(root))
    path = root / "todos" / f"{SESSION}-agent-{AGENT}.json"
    path.parent.mkdir()
    path.write_text(json.dumps([TODO]))

    found = files.read(SessionId(SESSION), AgentId(AGENT))
    files.write(SessionId(SESSION), found.items, AgentId(AGENT))

    (item,) = found.items
    assert ("Task description", TodoStatus.IN_PROGRESS) == (item.content, item.status)
    assert [TODO] == json.loads(path.read_text())


# ---- Entry types -------------------------------------------------------------------------------------------


def test_entry_types_user_and_assistant(root: Path) -> None:
    """The document's lines, with ``model`` on the line of the answer; ids and parents are the conversation."""
    user = {
        "type": "user",
        "sessionId": SESSION,
        "uuid": "11111111-0000-4000-8000-000000000001",
        "parentUuid": None,
        "timestamp": "2026-01-01T10:00:00Z",
        "message": {"role": "user", "content": "text or array of content blocks"},
    }
    answer = {
        "type": "assistant",
        "sessionId": SESSION,
        "uuid": "11111111-0000-4000-8000-000000000002",
        "parentUuid": user["uuid"],
        "timestamp": "2026-01-01T10:00:01Z",
        "message": {
            "role": "assistant",
            "content": [said("..."), {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}],
        },
        "requestId": "req_1",
        "model": "claude-sonnet-4-5",
    }

    session = session_of(root, [user, answer])

    roles = [message.role for message in session.conversation().messages]
    assert (["user", "assistant"], ["Read"]) == (roles, [made.name for made in session.tool_calls()])


def test_entry_types_queue_operation_and_system(root: Path) -> None:
    """Both are read as what they are; neither is part of what the model is sent."""
    stamp = {"sessionId": SESSION, "timestamp": "2026-01-01T10:00:00Z"}
    session = session_of(
        root,
        [
            {"type": "queue-operation", "operation": "enqueue", **stamp},
            *TALK,
            {"type": "system", "message": {"role": "system", "content": "System message text"}, **stamp},
            {"type": "queue-operation", "operation": "dequeue", **stamp},
        ],
    )

    entries = [entry for entry in session.entries() if isinstance(entry, recollect.Entry)]
    operations = [one.fields()["operation"] for one in entries if one.kind is Kind.QUEUE_OPERATION]
    assert (["enqueue", "dequeue"], 1) == (operations, sum(isinstance(one.body, System) for one in entries))
    assert "System message text" not in json.dumps(session.conversation().to_api())


def test_entry_types_tool_result(root: Path) -> None:
    """A block of a user entry, with a second form for people beside it."""
    result = {
        "type": "user",
        "message": {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "result text or structured data"}
            ],
        },
        "toolUseResult": ["..."],
    }
    use = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}}
    place = {key: value for key, value in prompt(3, 2, "").items() if key not in ("type", "message")}

    (made,) = session_of(root, [TALK[0], reply(2, 1, use), {**place, **result}]).tool_calls()

    assert ("Read", "result text or structured data") == (made.name, made.text)


def test_entry_types_summary(root: Path) -> None:
    """The document's nested summary is kept and read without damage, and cuts nothing."""
    note = {
        "type": "summary",
        "sessionId": SESSION,
        "timestamp": "2026-01-01T10:00:00Z",
        "content": {"summary": "Condensed", "messageCount": 10, "summarizedUntil": "message-uuid"},
    }

    session = session_of(root, [*TALK, note])

    assert ([], 4) == (session.damage(), len(session.conversation().messages))
    (body,) = [
        entry.body
        for entry in session.entries()
        if isinstance(entry, recollect.Entry) and isinstance(entry.body, Summary)
    ]
    assert ("Condensed", "message-uuid", 10) == (body.summary, body.leaf_uuid, body.message_count)


def test_entry_types_file_history(root: Path) -> None:
    """``file-history`` lines are notes about a file's versions."""
    note = {
        "type": "file-history",
        "sessionId": SESSION,
        "timestamp": "2026-01-01T10:00:00Z",
        "path": "/srv/app/a.py",
        "operation": "delete",
        "snippet": "Preview of changes...",
    }

    session = session_of(root, [*TALK, note])

    kinds = [type(entry.body) for entry in session.entries() if isinstance(entry, recollect.Entry)]
    (version,) = touched_files(session.home, session.file)["/srv/app/a.py"]
    assert (FileHistoryNote, False) == (kinds[-1], version.existed)


# ---- Message flow ------------------------------------------------------------------------------------------


def test_parent_child_relationships_and_reconstruction(root: Path) -> None:
    """From the latest message backward, then in order; a limit takes the last ones."""
    messages: list[Message] = list(session_of(root, TALK).conversation().messages)

    assert ["Q1", "A1", "Q2", "A2"] == [message.text for message in messages]
    assert ["Q2", "A2"] == [message.text for message in session_of(root, TALK).conversation().messages[-2:]]


def test_branching(root: Path) -> None:
    """An edited prompt is a second child: both ways stay, the later one is active; side chains never are."""
    entries = [*TALK, prompt(5, 2, "Q2 again"), reply(6, 5, said("A2 again"))]
    aside = {**prompt(7, 6, "aside"), "isSidechain": True}

    session = session_of(root, [*entries, aside])

    assert ["Q1", "A1", "Q2 again", "A2 again"] == [one.text for one in session.conversation().messages]
    (other,) = session.branches()
    assert (TALK[1]["uuid"], TALK[3]["uuid"]) == (other.forked_at, other.leaf)


# ---- Storage provider --------------------------------------------------------------------------------------


def test_storage_provider_responsibilities(tmp_path: Path) -> None:
    """Paths, sessions, messages, ancestry, forks, counts and filters: the five duties of the class."""

    async def used() -> None:
        async with ClaudeStorageProvider(tmp_path / "store") as provider:
            first = await provider.log_message("/srv/app", ChatMessage(role="user", content="Hi"), SESSION)
            answer = ChatMessage(role="assistant", content="Hello", model="claude-sonnet-4-5")
            second = await provider.log_message("/srv/app", answer, SESSION)
            assert first == (await provider.get_message("/srv/app", SESSION, first)).uuid
            ancestry = await provider.get_ancestry("/srv/app", SESSION, second)
            assert ["Hi", "Hello"] == [one.text for one in ancestry]
            fork = await provider.fork_session("/srv/app", SESSION, at=first)
            assert {SESSION, fork} == {one["sessionId"] for one in await provider.get_sessions("/srv/app")}
            assert 2 == (await provider.get_statistics("/srv/app", SESSION)).messages
            only = await provider.get_session_messages("/srv/app", SESSION, types=["user"])
            assert ["Hi"] == [one.text for one in only]

    asyncio.run(used())
    assert (tmp_path / "store" / "projects" / "-srv-app" / f"{SESSION}.jsonl").is_file()


def test_filtering_and_compaction(tmp_path: Path) -> None:
    """A conversation is summarised before the model's window ends; the file keeps what the summary stands for."""
    workshop = Workshop(tmp_path)
    script = Script([call("TodoWrite", {"todos": []}, "t1")], "<summary>So far.</summary>", "Done.")

    workshop.agent(script, compact_at=10).run("A long task")

    session = workshop.read_back()
    (compaction,) = session.compactions()
    first = next(message for message in session.conversation().messages if message.role == "user")
    assert "Summary:\nSo far." in first.text
    assert 1 == len(script.asked[-1]["messages"])
    assert b"A long task" in session.path.read_bytes()
    assert compaction is not None


# ---- Data consistency --------------------------------------------------------------------------------------


def test_atomic_writes(tmp_path: Path) -> None:
    """Readers never see part of an entry, at any moment of a hundred appends.

    The file system may show the bytes of one write in two halves; the reader takes only what is whole.
    """
    store = Store(tmp_path)
    seen: list[list[recollect.Entry | recollect.Damage]] = []
    stop = threading.Event()
    with store.create("/srv/app", session=SESSION) as log:
        log.append(draft.user("first"))

        def watch() -> None:
            while not stop.is_set():
                seen.append(list(LogReader(log.path)))

        reader = threading.Thread(target=watch)
        reader.start()
        for number in range(100):
            log.append(draft.user(f"{number} {'x' * 2_000}"))
        stop.set()
        reader.join()

    counts = [len(items) for items in seen]
    assert (sorted(counts), []) == (
        counts,
        [item for items in seen for item in items if not isinstance(item, recollect.Entry)],
    )
    assert 101 == len(written(log.path))


def test_concurrent_access(tmp_path: Path) -> None:
    """Several sessions are written at once, each in its own file and in its own order."""
    store = Store(tmp_path)
    names = [str(uuid.uuid4()) for _ in range(4)]

    def write(name: str) -> None:
        with store.create("/srv/app", session=name) as log:
            for number in range(20):
                log.append(draft.user(str(number)))

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for name in names:
        (log,) = tmp_path.glob(f"projects/*/{name}.jsonl")
        assert [str(number) for number in range(20)] == [one["message"]["content"] for one in written(log)]


def test_cleanup_reset(tmp_path: Path) -> None:
    """``reset`` takes a project's history away, and it can be taken back."""

    async def used() -> tuple[int, int, int]:
        async with ClaudeStorageProvider(tmp_path) as provider:
            await provider.log_message("/srv/app", ChatMessage(role="user", content="Hi"), SESSION)
            (gone,) = await provider.reset("/srv/app")
            after = len(await provider.get_sessions("/srv/app"))
            await provider.restore(gone.batch)
            return 1, after, len(await provider.get_sessions("/srv/app"))

    assert (1, 0, 1) == asyncio.run(used())


# ---- Integration points ------------------------------------------------------------------------------------


def test_with_file_history_undo_of_a_turn(tmp_path: Path) -> None:
    """Edit, create: one command takes back what a whole turn did to the files, and one takes that back."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    old, new = Path(workshop.file("old.txt", "one\n")), workshop.project / "new.txt"
    workshop.agent(
        Script(
            [call("Read", {"file_path": str(old)}, "t1")],
            [
                call("Edit", {"file_path": str(old), "old_string": "one", "new_string": "two"}, "t2"),
                call("Write", {"file_path": str(new), "content": "made\n"}, "t3"),
            ],
            "Done.",
        )
    ).run("Change files")
    where = ["--home", str(workshop.home.root), "--data", str(workshop.data)]
    name = str(workshop.session.log.id)

    assert 0 == main([*where, "files", name, "--rewind"])
    assert ("two\n", True) == (old.read_text(), new.exists())
    assert 0 == main([*where, "files", name, "--rewind", "--apply"])
    assert ("one\n", False) == (old.read_text(), new.exists())
    assert 0 == main([*where, "undo", _newest_change(workshop), "--apply"])
    assert ("two\n", True) == (old.read_text(), new.exists())


def _newest_change(workshop: Workshop) -> str:
    from recollect.change import undo

    return undo.changes(workshop.data)[0].id


def test_with_file_history_cross_referenced_by_session(tmp_path: Path) -> None:
    """The versions of a file are found by its session, with the state before the session."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    path = workshop.file("a.txt", "one")
    workshop.agent(
        Script(
            [call("Read", {"file_path": path}, "t1")],
            [call("Write", {"file_path": path, "content": "two"}, "t2")],
            "Done.",
        )
    ).run("Go")

    session = workshop.read_back()

    assert ["one", "two"] == [
        version.content if isinstance(version.content, str) else (version.content or b"").decode()
        for version in touched_files(session.home, session.file)[path]
        if version.source != "backup"
    ]
    assert rewind(session, None, workshop.data).undo is not None


# ---- Usage patterns: the programs of the document ----------------------------------------------------------


def test_starting_and_resuming_a_session(tmp_path: Path) -> None:
    """The two programs, with the document's own calls."""

    async def program() -> list[str]:
        provider = ClaudeStorageProvider(base_dir=tmp_path / ".claude")
        session_id = str(uuid.uuid4())
        await provider.log_message(
            project_path="/path/to/project",
            message=ChatMessage(role="user", content="Hello"),
            session_id=session_id,
        )
        conversations = await provider.get_sessions(project_path="/path/to/project")
        messages = await provider.get_session_messages(
            project_path="/path/to/project", session_id=conversations[0]["sessionId"], limit=50
        )
        await provider.close()
        return [message.text for message in messages]

    assert ["Hello"] == asyncio.run(program())


def test_creating_a_sub_agent(tmp_path: Path) -> None:
    """A short id, the parent's session, a log and a todo list of its own."""
    agent_id = "a" + secrets.token_hex(3)

    async def program() -> None:
        async with ClaudeStorageProvider(base_dir=tmp_path) as provider:
            await provider.log_message(
                project_path="/path/to/project",
                message=ChatMessage(role="user", content="Inner"),
                session_id=SESSION,
                agent_id=agent_id,
            )

    asyncio.run(program())

    assert 1 == len(list(tmp_path.glob(f"projects/-path-to-project/**/agent-{agent_id}.jsonl")))
    assert (tmp_path / "todos" / f"{SESSION}-agent-{agent_id}.json").is_file()


def test_saving_todos(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that a program wrote with ``json.dump`` is a todo list like any other."""
    put(root, SESSION, TALK)
    todo_path = root / "todos" / f"{SESSION}-agent-{SESSION}.json"
    todo_path.parent.mkdir()
    with todo_path.open("w") as f:
        json.dump([TODO], f)

    assert 0 == main(["show", SESSION, "--todos", "--json"])

    assert "Task description" in capsys.readouterr().out


# ---- Design rationale --------------------------------------------------------------------------------------


def test_why_jsonl(root: Path) -> None:
    """A torn last line costs nothing before it, and unknown fields and types survive."""
    log = put(
        root, SESSION, [{**TALK[0], "new": {"field": 1}}, {"type": "from-the-future", "x": 1}, *TALK[1:]]
    )
    before = log.read_bytes()
    log.write_bytes(before + b'{"type":"user","mess')

    session = recollect.Home(root).session(SESSION)

    raw = b"".join(entry.raw + b"\n" for entry in session.entries() if isinstance(entry, recollect.Entry))
    assert (before, 4) == (raw, len(session.conversation().messages))


def test_why_separate_agent_files(tmp_path: Path) -> None:
    """An agent's log is read without the session's, and both are written at once."""
    with Store(tmp_path).create("/srv/app", session=SESSION) as log, log.agent_log(AGENT) as agent:
        threads = [
            threading.Thread(target=lambda one=one: [one.append(draft.user(str(n))) for n in range(20)])
            for one in (log, agent)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert 20 == len(written(agent.path)) == len(written(log.path))
    assert {AGENT} == {line["agentId"] for line in written(agent.path)}


def test_why_redundant_session_id(root: Path) -> None:
    """One pattern finds all todos of a session."""
    whole_home(root)

    assert 2 == len(list(root.glob(f"todos/{SESSION}-agent-*.json")))


def test_why_separate_todos(root: Path) -> None:
    """Changing todos leaves the log alone, byte for byte."""
    session = whole_home(root)
    before = session.path.read_bytes()
    files = TodoFiles(ClaudeHome(root))
    todos = files.read(SessionId(SESSION))

    files.write(SessionId(SESSION), todos.moved(0, TodoStatus.COMPLETED))

    assert (before, "completed") == (
        session.path.read_bytes(),
        json.loads((root / "todos" / f"{SESSION}-agent-{SESSION}.json").read_text())[0]["status"],
    )


# ---- Future considerations ---------------------------------------------------------------------------------


def test_scalability(root: Path, tmp_path: Path) -> None:
    """Sessions are archived, and found through an index that follows the logs."""
    put(root, SESSION, [*TALK, prompt(5, 4, "the zebra crossing")])
    home = Home(root, data=tmp_path / "data")

    assert 1 == len(list(home.search("zebra").hits))
    assert 1 == len(home.archive(SESSION).archived)


def items(*texts: str) -> tuple[TodoItem, ...]:
    return decode_todos(json.dumps([{"content": text, "status": "pending"} for text in texts]).encode())


class _FullDisk(TodoFiles):
    """The file cannot be written: as if the machine had stopped after the log."""

    def write(self, *_: Any, **__: Any) -> Any:
        raise StorageError("write", Path("todos"), OSError(28, "No space left on device"), hint="make room")


def test_consistency_transaction_over_todos_and_log(tmp_path: Path) -> None:
    """An entry and the todo list it leads to are stored together."""
    files = TodoFiles(ClaudeHome(tmp_path))
    with Store(tmp_path).create("/srv/app", session=SESSION) as log:
        append_with_todos(log, files, draft.user("Plan it"), items("one"))
        append_with_todos(log, files, draft.user("Go on"), items("one", "two"))

    (first, second) = written(log.path)
    assert ([1, 2], ["Plan it", "Go on"]) == (
        [len(line["todos"]) for line in (first, second)],
        [line["message"]["content"] for line in (first, second)],
    )
    assert items("one", "two") == files.read(SessionId(SESSION)).items


def test_consistency_after_a_crash_between_log_and_todos(tmp_path: Path) -> None:
    """What the log has and the file lacks is made good; what another program changed since is left alone."""
    home = ClaudeHome(tmp_path)
    files = TodoFiles(home)
    with Store(tmp_path).create("/srv/app", session=SESSION) as log:
        append_with_todos(log, files, draft.user("Plan it"), items("one"))
        with pytest.raises(StorageError):
            append_with_todos(log, _FullDisk(home), draft.user("Go on"), items("one", "two"))
        assert items("one") == files.read(SessionId(SESSION)).items

        assert (True, False) == (settle_todos(log, files), settle_todos(log, files))
        assert items("one", "two") == files.read(SessionId(SESSION)).items

        with pytest.raises(StorageError):
            append_with_todos(log, _FullDisk(home), draft.user("More"), items("three"))
        files.write(SessionId(SESSION), items("another program"))
        assert False is settle_todos(log, files)
    assert items("another program") == files.read(SessionId(SESSION)).items


def test_consistency_transaction_of_the_provider(tmp_path: Path) -> None:
    """``log_message`` takes the todos along, ``get_todos`` reads them; the flat layout has none."""

    async def used() -> tuple[TodoItem, ...]:
        async with ClaudeStorageProvider(tmp_path) as provider:
            message = ChatMessage(role="user", content="Plan it")
            await provider.log_message("/srv/app", message, SESSION, todos=items("one"))
            return await provider.get_todos("/srv/app", SESSION)

    assert items("one") == asyncio.run(used())
    with Store(tmp_path / "flat", layout="flat").create("/srv/app") as log, pytest.raises(UsageError):
        append_with_todos(log, TodoFiles(ClaudeHome(tmp_path)), draft.user("x"), items("one"))


def test_consistency_of_the_agent(tmp_path: Path) -> None:
    """The agent's TodoWrite is one step: the result in the log holds the list."""
    workshop = Workshop(tmp_path)
    todos = [{"content": "Step", "status": "pending", "activeForm": "Stepping"}]

    workshop.agent(Script([call("TodoWrite", {"todos": todos}, "t1")], "Done.")).run("Go")

    line = next(line for line in workshop.lines() if "todos" in line)
    assert (todos, "Step") == (
        [{name: one[name] for name in todos[0]} for one in line["todos"]],
        TodoFiles(workshop.home).read(workshop.session.log.id).items[0].content,
    )


def test_consistency_orphans(root: Path) -> None:
    """Todos whose session has no log are named."""
    (root / "todos").mkdir()
    (root / "todos" / f"{SESSION}-agent-{AGENT}.json").write_text("[]")

    (found,) = Home(root).todos()

    assert (SESSION, True) == (found.session, found.orphan)


def test_migration_format_version(tmp_path: Path) -> None:
    """Every line says its version: the client's on claude lines, the format's own on flat ones."""
    for layout, field in (("claude", "version"), ("flat", "formatVersion")):
        with Store(tmp_path / layout, layout=layout).create("/srv/app") as log:
            log.append(draft.user("Hi"))
            log.append(draft.assistant("Hello", model="claude-sonnet-4-5"))
            log.append(draft.assistant([draft.tool_use("t1", "Read", {})], model="claude-sonnet-4-5"))
            log.append(draft.tool_result("t1", "text", tool="Read"))
        assert {"2.1.325" if layout == "claude" else 1} == {line[field] for line in written(log.path)}


def test_migration_a_later_version_is_kept_and_not_guessed(tmp_path: Path) -> None:
    """A flat line of a version that does not exist yet is no prompt of ours; its bytes stay."""
    from recollect.model.lines.codec import decode
    from recollect.model.lines.damage import Line

    raw = b'{"type":"user","content":"Hi","formatVersion":2}'
    later, now = decode(Line(raw)), decode(Line(raw.replace(b"2}", b"1}")))

    assert ("unknown-shape", raw) == (getattr(later, "kind", None), getattr(later, "raw", None))
    assert "user" == getattr(now, "kind", None)


def test_compression(root: Path, tmp_path: Path) -> None:
    """An archived session is smaller, and is read like any other."""
    many = [prompt(1, None, "Q")] + [reply(n, n - 1, said(f"answer {n} " * 50)) for n in range(2, 400)]
    put(root, SESSION, many)
    home = Home(root, data=tmp_path / "data")
    (copy,) = home.archive(SESSION).archived
    (root / "projects" / "-srv-app" / f"{SESSION}.jsonl").unlink()

    session = Home(root, data=tmp_path / "data").session(SESSION)
    last = session.conversation().messages[-1]

    assert copy.manifest.raw_bytes > 5 * copy.manifest.stored_bytes
    assert (True, "answer 399 " * 50) == (session.is_archived, last.text)
