"""A small world for permission decisions, the real client asked in it, and our engine asked in it.

A case is a JSON object: ``tool`` and ``input`` of a call, ``layers`` (settings by layer), ``mode`` (None: the
settings decide) and ``trusted``. Places are marks: ``$CWD`` the project, ``$OUT`` a directory outside it, ``$NEVER``
one that does not exist, ``$HOME`` the home (in a command it stays the shell's variable).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from recollect.guard.permissions.engine import ProjectEngine, permit
from recollect.store.home import ClaudeHome
from tests.oracle.client_runner import Client
from tests.oracle.conftest import command_of
from tests.oracle.test_files_and_tasks import ScriptedStub

Case = dict[str, Any]

FILES = {
    **dict.fromkeys(("a.txt", "secret", "f", "k.key", ".env", "sub/x.txt", "sub/secret", "sub/.env"), "S\n"),
    **dict.fromkeys(("sub/deep/k.key", "sub/deep/secret", "dir/x", "dir2/x", "src/a", "src/locked/y"), "S\n"),
    "a.json": "{}",
    "x.sh": "true\n",
    "script.sed": "p\n",
    "n.ipynb": '{"cells":[],"metadata":{},"nbformat":4,"nbformat_minor":5}',
}
LINKS = {"link-to-secret": "secret", "link-to-etc": "/etc/hostname", "src/link-locked": "locked"}
LINKS_OUT = {"link-out": "", "src/link-out": "", "src/link-file": "/out.txt"}
MCP_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [{"name": name, "description": "Says it again.", "inputSchema": schema} for name in ("echo", "fail")]
    answers = {
        "initialize": lambda: {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                               "serverInfo": {"name": "demo", "version": "1"}},
        "tools/list": lambda: {"tools": tools},
        "tools/call": lambda: {"content": [{"type": "text", "text": "heard"}]},
    }
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]()}), flush=True)
"""
_DENIED = re.compile(
    r"has been denied|No such tool available|denied by your permission settings|denied by permission|denied access to"
    r"|covered by a Read deny rule|blocked by permission rules"
)
_ASKED = re.compile(
    r"haven't granted it|requires? (?:explicit )?(?:approval|confirmation)|needs approval|was blocked|plan mode"
    r"|Auto mode is unavailable|sensitive file"
)
_UNDECIDED = re.compile(r"<tool_use_error>|Refusing to write|Invalid URL|cannot fetch localhost")
"""The call failed before or after the decision for a reason of its own."""


class PermissionWorld:
    """A home, a project and files outside it, below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.home, self.cwd, self.out = self.root / "h", self.root / "w" / "proj", self.root / "out"

    def build(self) -> None:
        """Make every file; what a call has changed is made good again."""
        names = ("docs/d.txt", "other.txt", ".claude/sub/x.txt")
        outside = [self.home / name for name in names] + [self.out / "out.txt", self.out / "sub/x.txt"]
        outside.append(self.cwd.parent / "outside.txt")
        for path, text in {
            **{self.cwd / name: text for name, text in FILES.items()},
            **dict.fromkeys(outside, "S"),
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name, target in {
            **LINKS,
            **{name: f"{self.out}{rest}" for name, rest in LINKS_OUT.items()},
        }.items():
            if not os.path.lexists(self.cwd / name):
                os.symlink(target, self.cwd / name)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        subprocess.run(["git", "init", "-q"], cwd=self.cwd, env=environment, check=True)
        for skill in ("greet", "other"):
            file = self.cwd / ".claude/skills" / skill / "SKILL.md"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"---\nname: {skill}\ndescription: Greets people {skill}\n---\nGreet them.\n")
        server = {"command": sys.executable, "args": ["-c", MCP_SERVER]}
        (self.cwd / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": server}}))

    def settle(self, layers: Mapping[str, Any], *, trusted: bool) -> None:
        """Write the settings files of a case, and remove those of the case before."""
        files = {
            "user": self.home / ".claude/settings.json",
            "project": self.cwd / ".claude/settings.json",
            "local": self.cwd / ".claude/settings.local.json",
        }
        for layer, file in files.items():
            file.unlink(missing_ok=True)
            if layer in layers:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(self.placed(layers[layer])))
        trust = {"projects": {str(self.cwd): {"hasTrustDialogAccepted": True}}} if trusted else {}
        (self.home / ".claude.json").write_text(json.dumps(trust))

    def placed(self, value: Any, *, command: bool = False) -> Any:
        """The value with its places filled in."""
        text = json.dumps(value)
        places = {
            "$CWD": self.cwd,
            "$OUT": self.out,
            "$NEVER": self.root / "never",
            "$OTHER": self.root / "other",
        }
        for mark, place in places.items():
            text = text.replace(mark, str(place))
        return json.loads(text if command else text.replace("$HOME", str(self.home)))

    def call(self, case: Case) -> tuple[str, dict[str, Any]]:
        """The call of a case in this world."""
        return case["tool"], self.placed(case["input"], command="command" in case["input"])


@contextlib.contextmanager
def engine_in(home: Path, cwd: Path, mode: str | None) -> Iterator[ProjectEngine]:
    """Our engine for a world, with its home as the user's."""
    before = os.environ.get("HOME", "")
    os.environ["HOME"] = str(home)
    try:
        nothing = cwd.parent / "no-managed-settings.json"
        yield permit(ClaudeHome(home / ".claude", home / ".claude.json"), cwd, mode=mode, managed=nothing)
    finally:
        os.environ["HOME"] = before


class PermissionClient(Client):
    """The client in a permission world."""

    stub: ScriptedStub

    def __init__(self, world: PermissionWorld, stub: ScriptedStub) -> None:
        super().__init__("2.1.325", command_of("2.1.325"), world.root / "client", stub)
        self.world = world
        self.cwd, self._home = world.cwd, world.home
        (self._home / "tmp").mkdir(parents=True, exist_ok=True)

    def _environment(self) -> dict[str, str]:
        kept = {"CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1"}  # a cd of one call does not move the next
        return {**super()._environment(), **kept, "IS_SANDBOX": "1"}

    def answers(self, cases: Sequence[Case]) -> list[tuple[str, str]]:
        """The verdict and the text of the result for cases with the same settings and mode, in one run.

        A harmless command goes first: before any command has run, the client asks about variables of the shell.
        """
        self.stub.script = [("Bash", {"command": "true"}), *map(self.world.call, cases)]
        self.stub.asked.clear()
        mode = cases[0]["mode"]
        done = self.ask("Go on.", *(("--permission-mode", mode) if mode else ()))
        found = max(map(_results, self.stub.conversations()), key=len, default=[])[1:]
        assert (len(found), self.stub.script) == (len(cases), []), f"{len(found)} {done.stdout} {done.stderr}"
        tools = (case["tool"] for case in cases)
        return [(verdict_of(tool, *one), one[1]) for tool, one in zip(tools, found, strict=True)]


def _results(conversation: list[dict[str, Any]]) -> list[tuple[bool, str]]:
    """Whether each call failed, and what it gave back."""
    blocks = [
        block
        for message in conversation
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    texts = (block.get("content") for block in blocks)
    return [
        (bool(block.get("is_error")), text if isinstance(text, str) else json.dumps(text))
        for block, text in zip(blocks, texts, strict=True)
    ]


def verdict_of(tool: str, is_error: bool, text: str) -> str:
    """The client's decision, read from the result of the call; a command that ran and failed was allowed.

    Empty when the result does not tell.
    """
    if not is_error or text.startswith("Exit code"):
        return "allow"
    if _DENIED.search(text):
        return "deny"
    if _ASKED.search(text):
        return "ask"
    if _UNDECIDED.search(text):
        return ""
    return "ask" if tool == "Bash" else "allow"
