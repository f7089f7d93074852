"""Two homes that are written as clients, users and accidents write them, for tests of the index.

Every write gets a file time of its own, later than all before: two writes within one tick of the file
system's clock cannot be told apart by anyone. No file gets the inode of another one that was there before, which
ext4 would give it: a log that is replaced twice by such a file, with the same time or longer, and with the same beginning
and end, cannot be told from itself either.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Fields = dict[str, Any]

PROJECTS = ("-srv-app", "-srv-shop")
SESSIONS = tuple(f"{number}" * 8 + "-0000-4000-8000-000000000000" for number in range(1, 5))
AGENTS = ("a1", "a2")
_FIRST_TIME = 1_700_000_000 * 10**9


class World:
    """Homes on disk. Paths are chosen by small numbers, so that a test can shrink them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.homes = [base / "one", base / "two"]
        for home in self.homes:
            (home / "projects").mkdir(parents=True)
        self._clock = 0
        self._buried = base / "buried"
        self._buried.mkdir()
        self._torn: dict[Path, bytes] = {}

    # --- names ------------------------------------------------------------------------------

    def session(self, home: int, project: int, session: int) -> Path:
        return self._project(home, project) / f"{SESSIONS[session % 4]}.jsonl"

    def agent(self, home: int, project: int, session: int, agent: int, *, nested: bool) -> Path:
        name = f"agent-{AGENTS[agent % 2]}.jsonl"
        project_dir = self._project(home, project)
        return project_dir / SESSIONS[session % 4] / "subagents" / name if nested else project_dir / name

    def output(self, home: int, project: int, session: int, name: int) -> Path:
        return self._project(home, project) / SESSIONS[session % 4] / "tool-results" / f"{name % 2}.txt"

    def _project(self, home: int, project: int) -> Path:
        return self.homes[home % 2] / "projects" / PROJECTS[project % 2]

    def logs(self) -> list[Path]:
        """Every log there is, tool outputs not included."""
        found = (path for home in self.homes for path in home.rglob("*.jsonl"))
        return sorted(path for path in found if path.is_file())

    def some_log(self, number: int) -> Path | None:
        logs = self.logs()
        return logs[number % len(logs)] if logs else None

    # --- writing ----------------------------------------------------------------------------

    def append(self, path: Path, data: bytes) -> None:
        """As a client does: a fresh line where the last one is torn."""
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
        with path.open("ab") as log:
            log.write((b"\n" if torn else b"") + data)
        self._torn.pop(path, None)
        self.touch(path)

    def append_torn(self, path: Path, line: bytes, share: float) -> None:
        """A line cut off somewhere; the rest may come later."""
        cut = max(1, int(len(line) * share) - 1)
        self.append(path, line[:cut])
        self._torn[path] = line[cut:]

    def complete_torn(self, path: Path) -> bool:
        """Write the rest of a torn line, if nobody wrote to its log since."""
        rest = self._torn.pop(path, None)
        if rest is None or not path.exists():
            return False
        with path.open("ab") as log:
            log.write(rest)
        self.touch(path)
        return True

    def write_over(self, path: Path, data: bytes) -> None:
        """Other bytes in the same file."""
        with path.open("r+b") as log:
            log.write(data)
            log.truncate()
        self._torn.pop(path, None)
        self.touch(path)

    def replace(self, path: Path, data: bytes, *, same_time: bool = False) -> None:
        """Another file under the same name, as editors and sync programs do it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        time = path.stat().st_mtime_ns if same_time and path.exists() else None
        temporary = path.with_name("temporary")
        temporary.write_bytes(data)
        if path.exists():
            self._bury(path)
        temporary.replace(path)
        self._torn.pop(path, None)
        self.touch(path, time)

    def move(self, source: Path, target: Path) -> None:
        if source.exists() and source != target and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)

    def delete(self, path: Path) -> None:
        self._bury(path)
        self._torn.pop(path, None)

    def _bury(self, path: Path) -> None:
        """Out of the homes; its inode stays taken."""
        path.rename(self._buried / str(len(list(self._buried.iterdir()))))

    def touch(self, path: Path, time: int | None = None) -> None:
        self._clock += 1
        moment = _FIRST_TIME + self._clock * 10**9 if time is None else time
        os.utime(path, ns=(moment, moment))


def encoded(lines: Iterable[Fields | bytes]) -> bytes:
    """Lines as a log's bytes; what is bytes already stands as it is."""
    return b"".join(
        (line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()) + b"\n"
        for line in lines
    )


def forked(data: bytes, session: str, *, says_so: bool) -> bytes:
    """A copy of whole lines for another session, as --fork-session or /branch make it."""
    lines = []
    for raw in data.split(b"\n")[:-1]:
        try:
            line = json.loads(raw)
        except ValueError:
            lines.append(raw)
            continue
        if not isinstance(line, dict):
            lines.append(raw)
            continue
        before = line.get("sessionId")
        line["sessionId"] = session
        if says_so and "uuid" in line:
            line["forkedFrom"] = {"sessionId": before, "messageUuid": line["uuid"]}
        lines.append(json.dumps(line, ensure_ascii=False).encode())
    return b"".join(line + b"\n" for line in lines)
