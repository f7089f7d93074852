"""A pass that meets a full disk, or ctrl-C, at any call that changes a file is made good by the next one."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from recollect.agents.mirror import AgentMirror
from recollect.errors import StorageError
from recollect.system import fsops
from tests.agents import tiny_homes
from tests.agents.test_codex import ALPHA, BETA, GAMMA
from tests.agents.test_late_beginnings import write

# What changes files, and what makes them durable; a rename is part of the sync of its directory.
CALLS = ("write_all", "sync_data", "sync_file", "sync_dir", "truncate", "open_append", "_create")
Step = Callable[[Path], object]


def full_disk() -> BaseException:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FailingCalls:
    """Lets some calls pass. A disk that is full then stays so until the pass has ended; ctrl-C comes once."""

    def __init__(self, patched: pytest.MonkeyPatch, allowed: int, fault: Callable[[], BaseException]) -> None:
        self._allowed, self._fault, self._made = allowed, fault, 0
        for name in CALLS:
            patched.setattr(fsops, name, partial(self._call, name, getattr(fsops, name)))

    @property
    def has_failed(self) -> bool:
        return self._made > self._allowed

    def _call(self, name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        is_over = self.has_failed and (name == "truncate" or self._fault is KeyboardInterrupt)
        self._made += not is_over
        if is_over or not self.has_failed:
            return call(*given, **named)
        if name == "write_all":
            os.write(given[0], given[1][: len(given[1]) // 2])
        raise self._fault()


def in_halves(make: Callable[[Path], Path]) -> list[Step]:
    """A file that grows by some lines."""

    def first(home: Path) -> None:
        file = make(home)
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:4]))

    return [first, make]


def edited(home: Path) -> None:
    file = tiny_homes.codex(home)
    file.write_bytes(file.read_bytes().replace(b"ask 019a", b"ask XXXX"))


def shorter_document(home: Path) -> None:
    file = tiny_homes.gemini_document(home)
    said = json.loads(file.read_bytes())
    file.write_text(json.dumps({**said, "messages": said["messages"][:1]}))


def with_agent(home: Path) -> None:
    """A chat of Qwen, with a sub-agent and what its client notes beside it."""
    chat = tiny_homes.qwen(home)
    agent = home / "projects" / "-w" / "subagents" / tiny_homes.CHANGED / "agent-abc.jsonl"
    agent.parent.mkdir(parents=True, exist_ok=True)
    agent.write_bytes(b"".join(chat.read_bytes().splitlines(keepends=True)[:2]))
    agent.with_name("agent-abc.meta.json").write_text('{"agentType": "explore", "toolUseId": "t1"}')


def with_spilled_result(home: Path) -> None:
    tiny_homes.gemini_lines(home)
    spilled = home / "tmp" / "proj" / "tool-outputs" / f"session-{tiny_homes.CHANGED}" / "out.txt"
    spilled.parent.mkdir(parents=True, exist_ok=True)
    spilled.write_text("a long result")


def one_more_row(home: Path) -> None:
    with contextlib.closing(sqlite3.connect(home / "opencode.db")) as database:
        plan = {"todos": [{"content": "do it", "status": "pending"}]}
        state = {"status": "completed", "input": plan, "output": "ok", "metadata": {}}
        part = {"id": "prt_9", "type": "tool", "tool": "todowrite", "callID": "c9", "state": state}
        part |= {"messageID": "msg_0a2", "sessionID": "ses_0a"}
        database.execute("CREATE TABLE hologram (id TEXT)")  # of a newer client: named as a problem
        database.execute(
            "INSERT INTO part VALUES ('prt_9', 'msg_0a2', 'ses_0a', ?, ?)", (tiny_homes.MS, json.dumps(part))
        )
        database.commit()


def with_a_plan(home: Path) -> None:
    tiny_homes.opencode_database(home)
    one_more_row(home)


def one_more_file(home: Path) -> None:
    part = {"id": "prt_9", "sessionID": "ses_0a", "messageID": "msg_0a2", "type": "text", "text": "more"}
    (home / "storage" / "part" / "msg_0a2" / "prt_9.json").write_text(json.dumps(part))


HOMES: dict[str, tuple[str, list[Step]]] = {
    "codex": ("codex", in_halves(tiny_homes.codex)),
    "codex edited": ("codex", [tiny_homes.codex, edited]),
    "codex late": ("codex", [partial(write, thread=thread) for thread in (GAMMA, BETA, ALPHA)]),
    "gemini lines": ("gemini", in_halves(tiny_homes.gemini_lines)),
    "gemini results": ("gemini", [tiny_homes.gemini_lines, with_spilled_result]),
    "gemini documents": ("gemini", [shorter_document, tiny_homes.gemini_document]),
    "qwen": ("qwen", [*in_halves(tiny_homes.qwen), with_agent]),
    "opencode files": ("opencode", [tiny_homes.opencode_files, one_more_file]),
    "opencode plan": ("opencode", [with_a_plan]),
    "opencode rows": ("opencode", [tiny_homes.opencode_database, one_more_row]),
}


def held(root: Path) -> dict[str, object]:
    """Everything in a mirror."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != "mirror.lock"
    }


@pytest.mark.parametrize("fault", [full_disk, KeyboardInterrupt], ids=["full disk", "ctrl-C"])
@pytest.mark.parametrize("name", HOMES)
def test_a_pass_that_was_stopped_at_any_call_is_made_good(
    name: str, fault: Callable[[], BaseException], tmp_path: Path
) -> None:
    """The mirror is the one that no fault met: the same lines, none of them twice, and nothing left over."""
    agent, steps = HOMES[name]
    home, before, after, data = (tmp_path / one for one in ("home", "before", "after", "data"))
    before.mkdir()
    stopped = 0
    for step in steps:
        step(home)
        shutil.copytree(before, after)
        undisturbed = AgentMirror(agent, home, after)
        undisturbed.refresh()
        for allowed in itertools.count():
            shutil.copytree(before, data)
            mirror = AgentMirror(agent, home, data)
            with pytest.MonkeyPatch.context() as patched:
                failing = FailingCalls(patched, allowed, fault)
                with contextlib.suppress(StorageError, KeyboardInterrupt):
                    mirror.refresh()
            # In the process that was stopped, and in another.
            (mirror if allowed % 2 else AgentMirror(agent, home, data)).refresh()
            assert held(mirror.root) == held(undisturbed.root), allowed
            shutil.rmtree(data)
            if not failing.has_failed:
                break
            stopped += 1
        shutil.rmtree(before)
        after.rename(before)
    assert stopped > 15
