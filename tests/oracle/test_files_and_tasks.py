"""Files and tasks, with the real client as judge: it restores what we say it would, and honours what we write.

The stub here answers each request with the next step of a script, so that the
client runs its own file and task tools; what they did is on the disk, in the log
and in the backups, and all three must agree with what we read.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.model.files.history import FileVersion, VersionSource, rewound
from recollect.model.lines import draft
from recollect.model.lines.draft import Stamp, claude_line
from recollect.model.lines.entry import User
from recollect.model.lines.ids import SessionId
from recollect.store.file_backups import backup_body, session_entries, store_backup, touched_files
from recollect.store.home import ClaudeHome, SessionFile
from tests.model.files.snapshots import snapshot
from tests.oracle.client_runner import RUN_SECONDS, ApiStub, Client, _events, _Handler
from tests.oracle.conftest import command_of
from tests.oracle.tool_client import running

SESSION = SessionId("6a0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c12")
AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CRLF, UTF16 = b"one\r\ntwo\r\n", "\ufeffone\ntwo\n".encode("utf-16-le")

Step = tuple[str, dict[str, Any]]


class ScriptedStub(ApiStub):
    """Calls the tools of ``script`` one after the other, then says that it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = _ScriptedHandler
        self.script: list[Step] = []

    def answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        if not body.get("tools") or not self.script:
            return [{"type": "text", "text": "Done."}]
        name, arguments = self.script.pop(0)
        return [{"type": "tool_use", "id": f"toolu_{len(self.asked):04d}", "name": name, "input": arguments}]


class _ScriptedHandler(_Handler):
    server: ScriptedStub

    def _stream(self, message: dict[str, Any]) -> None:
        (block,) = self.server.answer(self.server.asked[-1])
        is_call = block["type"] == "tool_use"
        events = _events({**message, "stop_reason": "tool_use" if is_call else "end_turn"})
        by_type = {event["type"]: event for event in events}
        start, delta = by_type["content_block_start"], by_type["content_block_delta"]
        if is_call:
            start["content_block"] = {**block, "input": {}}
            delta["delta"] = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            delta["delta"] = {"type": "text_delta", "text": block["text"]}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


class Workshop(Client):
    """A client that keeps backups in print mode, and its home as we see it."""

    stub: ScriptedStub

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}

    @property
    def home(self) -> ClaudeHome:
        return ClaudeHome(self._home / ".claude")

    @property
    def session(self) -> SessionFile:
        (found,) = self.home.sessions()
        return found

    def work(self, *script: Step, resume: bool = False) -> None:
        """One prompt, answered by these calls."""
        self.stub.script = list(script)
        place = ("--resume", SESSION) if resume else ("--session-id", SESSION)
        tools = "Read,Write,Edit,NotebookEdit,TaskCreate,TaskUpdate,TaskList,ToolSearch"
        done = self.ask("Go on.", *place, "--permission-mode", "acceptEdits", "--allowedTools", tools)
        assert (0, []) == (done.returncode, self.stub.script), done.stdout + done.stderr

    def rewind(self, prompt: str) -> None:
        done = subprocess.run(
            [*self._command, "--resume", SESSION, "--rewind-files", prompt],
            cwd=self.cwd,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert 0 == done.returncode, done.stdout + done.stderr

    def prompts(self) -> list[str]:
        entries = session_entries(self.home, self.session)
        typed = (entry for entry in entries if isinstance(entry.body, User))
        return [
            entry.uuid or ""
            for entry in typed
            if isinstance(entry.body, User) and isinstance(entry.body.message.content, str)
        ]

    def on_disk(self, paths: list[str]) -> dict[str, bytes | None]:
        return {path: Path(path).read_bytes() if Path(path).exists() else None for path in paths}

    def heard(self) -> list[str]:
        """The results of the last request, as the model got to see them."""
        blocks = [block for message in self.stub.conversations()[-1] for block in message["content"]
                  if isinstance(block, dict) and block["type"] == "tool_result"]  # fmt: skip
        return [block["content"] for block in blocks if isinstance(block["content"], str)]


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with running(ScriptedStub()) as stub:
        yield Workshop("2.1.325", command_of("2.1.325"), tmp_path, stub)


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A workshop after two turns, for tests that only look."""
    with running(ScriptedStub()) as stub:
        shop = Workshop("2.1.325", command_of("2.1.325"), tmp_path_factory.mktemp("worked"), stub)
        two_turns(shop)
        yield shop


def two_turns(shop: Workshop) -> None:
    """Two prompts that edit, create and replace files of several kinds."""
    held = {"a.txt": b"zero\n", "crlf.txt": CRLF, "u16.txt": UTF16, "late.txt": b"late\n", "tabs.txt": b"\tone\n\ttwo\n",
            "quote.txt": "it’s “one”\n".encode()}  # fmt: skip
    for name, data in held.items():
        (shop.cwd / name).write_bytes(data)

    def at(name: str, **more: Any) -> dict[str, Any]:
        return {"file_path": str(shop.cwd / name), **more}

    def edit(name: str, old: str, new: str) -> Step:
        return "Edit", at(name, old_string=old, new_string=new)

    shop.work(
        *(("Read", at(name)) for name in held),
        edit("a.txt", "zero", "one"),
        edit("crlf.txt", "two", "TWO\nmore"),
        edit("u16.txt", "two", "TWO"),
        edit("tabs.txt", "\ttwo", "\tTWO\n\tnew"),
        edit("quote.txt", 'it\'s "one"', 'it\'s "TWO"'),
    )
    shop.work(
        edit("a.txt", "one", "two"),
        edit("late.txt", "late", "later"),
        ("Write", at("new.txt", content="new\n")),
        ("Write", at("crlf.txt", content="w1\nw2\n")),
        resume=True,
    )


def as_bytes(version: FileVersion) -> bytes | None:
    assert version.is_known
    return version.content.encode() if isinstance(version.content, str) else version.content


def test_the_last_version_of_every_file_is_what_lies_on_the_disk(worked: Workshop) -> None:
    """Line ends, encodings, tabs and curly quotes included."""
    versions = touched_files(worked.home, worked.session)

    assert 7 == len(versions)
    assert worked.on_disk(list(versions)) == {path: as_bytes(found[-1]) for path, found in versions.items()}


def test_a_rewind_leaves_what_we_say_it_would(workshop: Workshop) -> None:
    """For the second prompt and then the first: the same bytes, and the same files gone (oracle 14)."""
    two_turns(workshop)
    session = workshop.session
    assert session.id is not None
    owner = session.id

    for prompt in reversed(workshop.prompts()):
        expected = rewound(
            session_entries(workshop.home, session),
            prompt,
            str(workshop.cwd),
            body_of=lambda name: backup_body(workshop.home, owner, name),
        )
        workshop.rewind(prompt)

        assert 7 == len(expected)
        assert workshop.on_disk(list(expected)) == {
            path: as_bytes(version) for path, version in expected.items()
        }


def test_a_snapshot_of_ours_is_honoured(workshop: Workshop) -> None:
    """Backup and snapshot written by us, the file changed since: the client puts our bytes back."""
    path, prompt = workshop.cwd / "a.txt", "0f6e4f0c-7a58-4f0e-9d43-2f6d1f1b7c12"
    path.write_bytes(b"changed since")
    backup = store_backup(workshop.home, SESSION, str(path), CRLF, version=1, at=AT)
    stamp = Stamp(
        uuid=prompt,
        parent_uuid=None,
        session_id=str(SESSION),
        timestamp=AT,
        cwd=str(workshop.cwd),
        version="2.1.325",
    )
    kept = snapshot(prompt, AT, {"a.txt": backup})
    workshop.put(SESSION, [claude_line(kept, stamp), claude_line(draft.user("Q"), stamp)])

    workshop.rewind(prompt)

    assert CRLF == path.read_bytes()


def test_the_versions_of_a_session_name_their_sources(worked: Workshop) -> None:
    """The edited file: read, put aside, edited, put aside at the next prompt, edited again."""
    versions = touched_files(worked.home, worked.session)[str(worked.cwd / "a.txt")]

    assert [
        VersionSource.READ,
        VersionSource.BACKUP,
        VersionSource.EDIT,
        VersionSource.BACKUP,
        VersionSource.EDIT,
    ] == [version.source for version in versions]
