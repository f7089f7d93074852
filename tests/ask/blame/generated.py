"""Repositories with a known truth: people and sessions take turns on one file, and every line knows who wrote it.

Texts that a person or a session invents are never the same, except those of ``COMMON``, which stand in every file
many times. The logs are written as the client writes them: calls, results, backups, agents, forks, rewinds.
"""

from __future__ import annotations

import difflib
import random
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from recollect.model.files.history import backup_name
from recollect.model.project_key import project_key
from tests.talk import assistant, call, encoded, link, result, user

COMMON = ("}", "", "    return", "else:", "    }")


class Truth(NamedTuple):
    """Who wrote a line: the session and the prompt; None for a person."""

    session: str
    prompt: str


class TrueLine(NamedTuple):
    """A line of the file and its truth."""

    text: str
    truth: Truth | None


Lines = list[TrueLine]


def body(lines: Lines) -> str:
    return "".join(f"{line.text}\n" for line in lines)


class WrittenSession:
    """A session that is being written, with one agent at most at a time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.id = str(uuid.UUID(int=world.random.getrandbits(128), version=4))
        self.lines: list[dict[str, Any]] = []
        self.agents: dict[str, list[dict[str, Any]]] = {}
        self.prompt = ""
        self.has_changed = False
        self.cwd = world.project
        self._last: str | None = None
        self._agent: str | None = None
        self.before: dict[str, tuple[str | None, Lines]] = {}

    def _next(self) -> str:
        return str(uuid.UUID(int=self.world.random.getrandbits(128), version=4))

    def add(self, make: Any, content: Any, **fields: Any) -> str:
        name, at = self._next(), self.world.tick()
        more = {"cwd": str(self.cwd), "sessionId": self.id, **fields}
        if self._agent is None:
            self.lines.append(make(name, self._last, at, content, **more))
            self._last = name
        else:
            log = self.agents[self._agent]
            parent = log[-1]["uuid"] if log else None
            log.append(make(name, parent, at, content, isSidechain=True, agentId=self._agent, **more))
        return name

    def ask(self, parent: str | None = None) -> None:
        """A prompt; with a parent, on a branch of its own."""
        self._last = parent if parent is not None else self._last
        above, state = self._last, list(self.world.lines)
        self.prompt = self.add(user, f"Please do number {self.world.number()}")
        self.before[self.prompt] = (above, state)
        self.has_changed = False

    @property
    def truth(self) -> Truth:
        return Truth(self.id, self.prompt)

    def tool(self, name: str, given: dict[str, Any], rich: dict[str, Any] | None, **answer: Any) -> None:
        """A call and its result."""
        number = f"toolu_{self.world.number()}"
        self.add(assistant, [call(number, name, **given)])
        fields = {} if rich is None else {"toolUseResult": rich}
        self.has_changed = self.has_changed or name in ("Edit", "MultiEdit", "Write", "NotebookEdit")
        content = answer.pop("content", "done")
        self.add(user, [result(number, content, **answer)], **fields)

    def cut(self) -> None:
        """A compaction, which cuts the chain."""
        logical, self._last = self._last, None
        name = self._next()
        fields = {
            "subtype": "compact_boundary",
            "logicalParentUuid": logical,
            "content": "Conversation compacted",
        }
        more = {"cwd": str(self.cwd), "sessionId": self.id}
        self.lines.append(link(name, None, self.world.tick(), type="system", **fields, **more))
        self._last = name

    def snapshot(self, text: str) -> None:
        """A backup of the file before the first change of the turn."""
        version = self.world.number()
        name = backup_name(str(self.world.file), version)
        kept = self.world.home / "file-history" / self.id / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(self.world.encoded(text))
        at = self.lines[-1]["timestamp"]
        backup = {"backupFileName": name, "version": version, "backupTime": at}
        taken = {
            "messageId": self.prompt,
            "trackedFileBackups": {str(self.world.file.relative_to(self.cwd)): backup},
            "timestamp": at,
        }
        self.lines.append(
            {
                "type": "file-history-snapshot",
                "messageId": self.prompt,
                "snapshot": taken,
                "isSnapshotUpdate": False,
            }
        )

    def send_agent(self) -> None:
        number = f"toolu_{self.world.number()}"
        self.add(assistant, [call(number, "Task", prompt="Do it", description="it", subagent_type="x")])
        self._agent = f"a{self.world.number():07x}"
        self.agents[self._agent] = []
        self.add(user, f"Do it {self._agent}")
        self._waiting = number

    def end_agent(self) -> None:
        agent, self._agent = self._agent, None
        self.add(
            user, [result(self._waiting, "done")], toolUseResult={"agentId": agent, "status": "completed"}
        )

    def save(self) -> None:
        place = self.world.home / "projects" / project_key(str(self.cwd))
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{self.id}.jsonl").write_bytes(encoded(self.lines))
        for name, lines in self.agents.items():
            log = place / self.id / "subagents" / f"agent-{name}.jsonl"
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_bytes(encoded(lines))


class World:
    """One file, changed by people and sessions; ``lines`` is what it holds and who wrote it."""

    def __init__(self, root: Path, seed: int, *, common: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.root, self.home = root, root / "home" / ".claude"
        self.project = root / "work" / "shop"
        self.project.mkdir(parents=True)
        self.ends = self.random.choice(["\n", "\r\n"])
        self.common = common
        self._number, self._time = 0, 0.0
        self.is_notebook = self.random.random() < 0.2
        self.file = self.project / "src" / ("cart.ipynb" if self.is_notebook else "cart.py")
        self.file.parent.mkdir()
        self.lines: Lines = []
        self.exists, self.is_settled = False, True
        self._put, self._taken = set[str](), set[str]()  # what people wrote of COMMON, and what they took out
        self.sessions: list[WrittenSession] = []

    def number(self) -> int:
        self._number += 1
        return self._number

    def tick(self) -> float:
        self._time += self.random.choice([0.5, 3.0, 400.0])
        return self._time

    def encoded(self, text: str) -> bytes:
        return text.replace("\n", self.ends).encode()

    def text(self) -> str:
        """A line that nobody wrote before, or one that everybody writes."""
        if self.random.random() < self.common:
            return self.random.choice(COMMON)
        return (
            f"{' ' * self.random.choice([0, 4])}value_{self.number()} = compute({self.random.random():.3f})"
        )

    def some(self, truth: Truth | None, most: int = 4) -> Lines:
        return [TrueLine(self.text(), truth) for _ in range(self.random.randint(1, most))]

    def instead(self, at: int, end: int, truth: Truth | None, most: int = 4) -> Lines:
        """Lines in the place of others; to write the same again would be no change."""
        gone = {line.text.strip() for line in self.lines[at:end]}
        new = self.some(truth, most)
        return [
            line if line.text.strip() not in gone else TrueLine(f"other_value_{self.number()} = 1", truth)
            for line in new
        ]

    def spot(self) -> int:
        return self.random.randint(0, len(self.lines))

    # ---- people ------------------------------------------------------------------------------------------

    def person(self) -> None:
        """Insert, delete, replace or move lines.

        A common line in the place of an equal one that was deleted is no change that anyone can see: there is none.
        """
        self.exists = True
        for _ in range(self.random.randint(1, 3)):
            at = self.spot()
            end = min(len(self.lines), at + self.random.randint(0, 3))
            kind = self.random.choice(["insert", "delete", "replace", "move"])
            if not self.is_settled:
                # Of a file that was rewritten when its directory was renamed nobody can tell what it was.
                kind, end = "insert", at
            taken = {line.text.strip() for line in self.lines[at:end]}
            if kind == "insert":
                self.lines[at:at] = self.by_hand(self.some(None))
            elif kind in ("delete", "replace") and taken & self._put:
                continue
            elif kind == "delete":
                del self.lines[at:end]
                self._taken |= taken
            elif kind == "replace":
                self.lines[at:end] = self.by_hand(self.instead(at, end, None))
                self._taken |= taken
            elif not any(line.text in COMMON for line in self.lines[at:end]):
                moved = self.lines[at:end]
                del self.lines[at:end]
                to = self.spot()
                self.lines[to:to] = moved

    def by_hand(self, new: Lines) -> Lines:
        new = [
            TrueLine(f"own_value_{self.number()} = 1", None) if line.text.strip() in self._taken else line
            for line in new
        ]
        self._put |= {line.text.strip() for line in new if line.text in COMMON}
        return new

    # ---- sessions ----------------------------------------------------------------------------------------

    def write(self, session: WrittenSession) -> None:
        """The whole file again: some lines are new, the others as they were."""
        before, existed = body(self.lines), self.exists
        at, truth = self.spot(), session.truth
        end = min(len(self.lines), at + self.random.randint(0, 5))
        self.lines[at:end] = self.instead(at, end, truth, 8)
        content = body(self.lines)
        given = {"file_path": str(self.file), "content": content}
        if not existed and self.random.random() < 0.3:
            said = f"File created successfully at: {self.file}"
            session.tool("Write", given, None, content=said)
        else:
            rich = {
                "type": "update" if existed else "create",
                "filePath": str(self.file),
                "content": content,
                "structuredPatch": hunks(before, content) if existed else [],
                "originalFile": before if existed else None,
            }
            session.tool("Write", given, rich)
        self.exists = True

    def edit(self, session: WrittenSession) -> None:
        """Replace a few lines, named with what stands around them; sometimes only part of one line."""
        before = body(self.lines)
        at = self.spot()
        end = min(len(self.lines), at + self.random.randint(0, 3))
        new = self.instead(at, end, session.truth) if self.random.random() < 0.85 or at == end else []
        first, last = self._context(at, end)
        if first == last:
            return self.write(session)
        old_text = body(self.lines[first:last])
        replaced = [*self.lines[first:at], *new, *self.lines[end:last]]
        if before.count(old_text) != 1 or old_text == body(replaced):
            return None
        self.lines[first:last] = replaced
        self._edited(session, before, [(old_text, body(replaced), False)])
        return None

    def _context(self, at: int, end: int) -> tuple[int, int]:
        """As many lines around as make it unique."""
        first, last = at, end
        text = body(self.lines)
        while (first == last or text.count(body(self.lines[first:last])) != 1) and (
            first > 0 or last < len(self.lines)
        ):
            first, last = max(0, first - 1), min(len(self.lines), last + self.random.randint(0, 1))
        return first, last

    def rename_everywhere(self, session: WrittenSession) -> None:
        """``replace_all``: a word of several lines becomes another; those lines are the session's now."""
        before = body(self.lines)
        if "compute(" not in before:
            return
        word = f"compute{self.number()}("
        self.lines = [
            TrueLine(line.text.replace("compute(", word), session.truth) if "compute(" in line.text else line
            for line in self.lines
        ]
        self._edited(session, before, [("compute(", word, True)])

    def several(self, session: WrittenSession) -> None:
        """MultiEdit: two lines, each replaced by another."""
        unique = [n for n, line in enumerate(self.lines) if line.text not in COMMON]
        if len(unique) < 2:
            return
        before, steps = body(self.lines), []
        for at in self.random.sample(unique, 2):
            new = TrueLine(f"value_{self.number()} = several()", session.truth)
            steps.append((self.lines[at].text + "\n", new.text + "\n", False))
            self.lines[at] = new
        self._edited(session, before, steps)

    def _edited(self, session: WrittenSession, before: str, steps: list[tuple[str, str, bool]]) -> None:
        after, path = body(self.lines), str(self.file)
        edits = [{"old_string": old, "new_string": new, "replace_all": every} for old, new, every in steps]
        rich: dict[str, Any] = {
            "filePath": path,
            "originalFile": before,
            "structuredPatch": hunks(before, after),
            "userModified": False,
        }
        if self.random.random() < 0.3:  # newer clients leave it out; they have a backup
            rich["originalFile"] = None
            if not session.has_changed:
                session.snapshot(before)
        if len(edits) > 1:
            session.tool("MultiEdit", {"file_path": path, "edits": edits}, {**rich, "edits": edits})
            return
        old, new, every = steps[0]
        told = {**rich, "oldString": old, "newString": new, "replaceAll": every}
        session.tool("Edit", {"file_path": path, **edits[0]}, told)

    def cell(self, session: WrittenSession) -> None:
        """NotebookEdit: some lines are other ones, and the whole file is written again, perhaps with other indents."""
        before = body(self.lines)
        at = self.spot()
        end = min(len(self.lines), at + self.random.randint(0, 2))
        self.lines[at:end] = self.instead(at, end, session.truth)
        if self.random.random() < 0.3:
            blanks = " " * self.random.choice([1, 2])
            self.lines = [
                line if line.text in COMMON else TrueLine(blanks + line.text.strip(), line.truth)
                for line in self.lines
            ]
        after, path = body(self.lines), str(self.file)
        rich = {
            "new_source": "x",
            "cell_type": "code",
            "language": "python",
            "edit_mode": "replace",
            "notebook_path": path,
            "original_file": before,
            "updated_file": after,
        }
        session.tool("NotebookEdit", {"notebook_path": path, "new_source": "x"}, rich)

    def rename(self, session: WrittenSession) -> None:
        """A command gives the file another name, which it names in one of several ways."""
        old = self.file
        self.file = old.with_name(f"cart{self.number()}{old.suffix}")
        here = f"{old.relative_to(session.cwd)} {self.file.relative_to(session.cwd)}"
        command = self.random.choice(
            [
                f"mv {here}",
                f"git mv -f {here} && git status",
                f"mv '{old}' \"{self.file}\"",
                f"cd src && mv {old.name} {self.file.name}",
                f"git -C src mv {old.name} {self.file.name}",
            ]
        )
        session.tool("Bash", {"command": command}, {"stdout": "", "stderr": "", "interrupted": False})
        for one in self.sessions:
            one.before.clear()  # a rewind would bring back the old name

    def failed(self, session: WrittenSession) -> None:
        """A call that changed nothing, though it says what it would have written."""
        given = {"file_path": str(self.file), "old_string": "nowhere", "new_string": self.text()}
        session.tool("Edit", given, None, is_error=True, content="String to replace not found")
        given = {"file_path": str(self.file), "content": body(self.some(None))}
        session.tool("Write", given, None, is_error=True, content="The user does not want to proceed")

    def read(self, session: WrittenSession) -> None:
        count = len(self.lines) + 1
        file = {
            "filePath": str(self.file),
            "content": body(self.lines),
            "numLines": count,
            "startLine": 1,
            "totalLines": count,
        }
        session.tool("Read", {"file_path": str(self.file)}, {"type": "text", "file": file})

    def rewind(self, session: WrittenSession) -> None:
        """The file is as before an earlier prompt; sometimes the log shows it."""
        prompt = self.random.choice(list(session.before))
        above, state = session.before[prompt]
        if not state:
            return
        self.lines = list(state)
        session.ask(above)
        if self.random.random() < 0.5:
            session.snapshot(body(self.lines))

    def turn(self, session: WrittenSession) -> None:
        """A prompt and some calls, by the session or an agent of it."""
        session.ask()
        self.is_settled = True
        has_agent = self.random.random() < 0.25
        if has_agent:
            session.send_agent()
        if self.exists and self.random.random() < 0.5:
            self.read(session)
        if not self.exists:
            self.write(session)
        for _ in range(self.random.randint(1, 3)):
            deeds = [self.edit] * 5 + [self.write, self.rename_everywhere, self.several, self.failed]
            if self.is_notebook:  # the client refuses Edit for these
                deeds = [self.cell] * 5 + [self.write, self.failed]
            self.random.choice([*deeds, *deeds, self.rename])(session)
        if has_agent:
            session.end_agent()

    def move(self) -> None:
        """The project's directory gets another name. A session saw the file before, as sessions do."""
        if self.sessions:
            session = self.random.choice(self.sessions)
            session.ask()
            self.read(session)
        self.store()
        new = self.root / "work" / f"shop{self.number()}"
        self.project.rename(new)
        self.project, self.file = new, new / "src" / self.file.name
        self.sessions, self.is_settled = [], False

    def fork(self) -> None:
        """A copy of a session goes on; what it copied belongs to the first."""
        origin = self.random.choice([one for one in self.sessions if one.lines])
        copy = WrittenSession(self)
        copy.lines = [
            {
                **line,
                "sessionId": copy.id,
                "forkedFrom": {"sessionId": origin.id, "messageUuid": line["uuid"]},
            }
            for line in origin.lines
            if "uuid" in line
        ]
        copy._last = copy.lines[-1]["uuid"]
        self.sessions.append(copy)

    def store(self) -> None:
        if self.exists:
            self.file.write_bytes(self.encoded(body(self.lines)))
        for session in self.sessions:
            session.save()

    def run(self, steps: int) -> None:
        """People and sessions take turns; at last everything is on disk."""
        for _ in range(steps):
            self._time += 60
            chance = self.random.random()
            if chance < 0.3:
                self.person()
            elif chance < 0.36 and self.exists:
                self.move()
            elif chance < 0.42 and any(one.lines for one in self.sessions):
                self.fork()
            elif chance < 0.5 and any(one.before for one in self.sessions):
                self.rewind(self.random.choice([one for one in self.sessions if one.before]))
            else:
                if not self.sessions or (len(self.sessions) < 3 and self.random.random() < 0.4):
                    self.sessions.append(WrittenSession(self))
                self.turn(self.random.choice(self.sessions))
        self.exists = True
        self.store()


def hunks(before: str, after: str) -> list[dict[str, Any]]:
    """The client's patch for display: three lines around each change, leading tabs shown as blanks."""
    old, new = before.split("\n"), after.split("\n")
    found = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(3):
        lines: list[str] = []
        for tag, i, end_i, j, end_j in group:
            lines += [f" {line}" for line in old[i:end_i]] if tag == "equal" else []
            lines += [f"-{line}" for line in old[i:end_i]] if tag in ("delete", "replace") else []
            lines += [f"+{line}" for line in new[j:end_j]] if tag in ("insert", "replace") else []
        first, last = group[0], group[-1]
        found.append(
            {
                "oldStart": first[1] + 1,
                "oldLines": last[2] - first[1],
                "newStart": first[3] + 1,
                "newLines": last[4] - first[3],
                "lines": lines,
            }
        )
    return found
