"""Small sessions for the tests of commands, line by line, and text that attacks terminals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recollect.cli.terminal.text import visible_lines

SESSION = "3f2a9c1e-0000-4000-8000-000000000001"
OTHER = "5b1d9c1e-0000-4000-8000-000000000002"


class SessionLog:
    """Lines of one session; each follows the one before unless told otherwise."""

    def __init__(self, session: str = SESSION, cwd: str = "/srv/app", minute: int = 0) -> None:
        self.session, self.cwd, self.minute = session, cwd, minute
        self.lines: list[str] = []
        self.last: str | None = None

    def add(self, kind: str, uuid: str, parent: str | None = "", **fields: Any) -> SessionLog:
        """A link of the chain, ten seconds after the one before."""
        second = 10 * len(self.lines)
        line = {
            "parentUuid": self.last if parent == "" else parent,
            "isSidechain": False,
            "type": kind,
            "uuid": uuid,
            "sessionId": self.session,
            "cwd": self.cwd,
            "timestamp": f"2026-11-15T{10 + (self.minute * 60 + second) // 3600:02}:"
            f"{(self.minute + second // 60) % 60:02}:{second % 60:02}.000Z",
            **fields,
        }
        self.last = uuid
        return self.meta(line)

    def prompt(self, uuid: str, text: str, parent: str | None = "", **fields: Any) -> SessionLog:
        """What somebody typed."""
        return self.add("user", uuid, parent, message={"role": "user", "content": text}, **fields)

    def answer(
        self, uuid: str, *blocks: dict[str, Any], parent: str | None = "", model: str = "claude-sonnet-4-5"
    ) -> SessionLog:
        """A whole answer of the model: a million input tokens, which cost six dollars (long context)."""
        message = {
            "id": f"msg_{uuid}",
            "role": "assistant",
            "model": model,
            "content": list(blocks),
            "usage": {"input_tokens": 1_000_000, "output_tokens": 0},
        }
        return self.add("assistant", uuid, parent, message=message, requestId=f"req_{uuid}")

    def result(self, uuid: str, call: str, text: str, parent: str | None = "", **more: Any) -> SessionLog:
        """What a tool gave back."""
        block = {"type": "tool_result", "tool_use_id": call, "content": text, **more}
        return self.add("user", uuid, parent, message={"role": "user", "content": [block]})

    def boundary(self, uuid: str, before: str) -> SessionLog:
        """A compaction as client 2.1 writes it."""
        return self.add(
            "system",
            uuid,
            None,
            subtype="compact_boundary",
            content="Conversation compacted",
            logicalParentUuid=before,
            compactMetadata={"trigger": "manual", "preTokens": 9},
        )

    def meta(self, line: dict[str, Any]) -> SessionLog:
        """Any other line."""
        self.lines.append(json.dumps(line))
        return self

    def raw(self, line: str) -> SessionLog:
        """Bytes that need not be a line."""
        self.lines.append(line)
        return self

    def write(self, home: Path) -> Path:
        """The log in a home."""
        project = home / "projects" / "-srv-app"
        project.mkdir(parents=True, exist_ok=True)
        path = project / f"{self.session}.jsonl"
        path.write_text("".join(line + "\n" for line in self.lines), encoding="utf-8")
        return path


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def call(name: str, identity: str, **values: Any) -> dict[str, Any]:
    """A call of a tool."""
    return {"type": "tool_use", "id": identity, "name": name, "input": values}


def talk() -> SessionLog:
    """A prompt, an answer with a call, its result, a last answer."""
    return (
        SessionLog()
        .prompt("u1", "Why is it red?")
        .answer("a1", text("I look."), call("Bash", "c1", command="make test"))
        .result("r1", "c1", "E  assert 1 == 2\n1 failed", is_error=True)
        .answer("a2", text("Because 1 is not 2."))
    )


def branched() -> SessionLog:
    """A second prompt was given up for another; the later one is active."""
    return (
        SessionLog()
        .prompt("u1", "Start")
        .answer("a1", text("Started"))
        .prompt("u2", "First try")
        .answer("a2", text("Tried first"))
        .prompt("u3", "Second try", parent="a1")
        .answer("a3", text("Tried second"))
    )


def compacted() -> SessionLog:
    """Two messages, a compaction that cuts the chain, a summary, one more exchange."""
    return (
        SessionLog()
        .prompt("u1", "Long ago")
        .answer("a1", text("Long answer"))
        .boundary("b1", "a1")
        .prompt("s1", "Summary so far", isCompactSummary=True)
        .prompt("u2", "Go on")
        .answer("a2", text("Gone on"))
    )


# One hundred ways to drive a terminal: every control character of C0 (but tab and newline) and of C1,
# DEL, and the sequences that drive terminals: titles, clipboard, links, modes, answers, bidi, zero width.
PAYLOADS = [
    *(chr(code) for code in range(0x20) if chr(code) not in "\t\n"),
    *(chr(code) for code in range(0x7F, 0xA0)),
    *(
        f"\x1b{sequence}"
        for sequence in [
            "[2J",
            "[H",
            "[31m",
            "[?1049h",
            "[?25l",
            "[6n",
            "[c",
            "[>0c",
            "[5n",
            "[1;1H",
            "[999D",
            "[0K",
            "[3J",
            "[8m",
            "[?2004h",
            "[!p",
            "[20t",
            "[21t",
            "c",
            "7",
        ]
    ),
    *(
        f"\x1b]{sequence}"
        for sequence in [
            "0;owned\x07",
            "2;owned\x1b\\",
            "52;c;cm0gLXJm\x07",
            "8;;http://evil.example\x07x",
            "4;1;?\x07",
            "1337;File=:AA==\x07",
        ]
    ),
    "\x1bP+q544e\x1b\\",
    "\x1b_G\x1b\\",
    "\x1b^x\x1b\\",
    "a\rb",
    "a\x08\x08b",
    "\u202eevil",
    "\u2066x\u2069",
    "zero\u200bwidth",
    "\ufeffbom",
    "\u2028line",
    "&#27;[31m",
]
assert len(PAYLOADS) == 100


def hostile() -> SessionLog:
    """Every payload in every place that a command prints."""
    log = SessionLog(cwd="/srv/" + "".join(PAYLOADS))
    for number, payload in enumerate(PAYLOADS):
        log.prompt(f"u{number}{payload}", f"ask {payload} it", parent="" if number else None)
        log.answer(
            f"a{number}",
            {"type": "thinking", "thinking": f"think {payload}", "signature": payload},
            text(f"say **{payload}** `{payload}`\n```{payload}\n{payload}\n```"),
            call(f"Tool{payload}", f"c{number}", command=f"run {payload}", more=f"1\n{payload}"),
            {"type": f"odd{payload}", "what": payload},
            {"type": "document", "source": {}, "title": payload},
            model=f"m{payload}",
        )
        log.result(f"r{number}", f"c{number}", f"got {payload}\nmore {payload}")
        log.prompt(f"x{number}", f"branch {payload}", parent=f"u{number}{payload}")
        log.last = f"r{number}"
    log.boundary("b1", log.last or "")
    log.prompt("z1", "After " + "".join(PAYLOADS))
    log.answer("z2", text("".join(PAYLOADS)))
    title = "".join(PAYLOADS[::3])
    log.meta({"type": "custom-title", "customTitle": f"T {title}", "sessionId": SESSION})
    log.meta({"type": "tag", "tag": f"t{title}", "sessionId": SESSION})
    return log.raw("{torn \x1b[31m")


def drives_a_terminal(shown: str) -> list[str]:
    """Characters that must not reach a terminal: controls but tab and newline, and what is invisible."""
    return sorted({character for character in shown if visible_lines(character) != character})
