"""Table D: our decision equals what the real client does. In print mode nobody answers, so an ask is a no.

One run of the client serves a whole group: the scripted stub makes it call one tool after the
other, and each result says whether it ran. The expected values are the client's own doings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from recollect.guard.permissions.engine import FileWorld
from recollect.guard.policy.engine import PolicyEngine, RuleSet
from recollect.guard.policy.paths import Workspace
from recollect.guard.policy.rules import Rule, parse_rule
from recollect.guard.policy.terms import Mode
from recollect.model.settings.decision import RuleSource, Scope, Verdict
from tests.oracle.client_runner import Client
from tests.oracle.conftest import command_of
from tests.oracle.recorded import recorded
from tests.oracle.test_files_and_tasks import ScriptedStub
from tests.oracle.tool_client import running

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Group:
    """Settings, and calls made under them. ``stricter`` are those where we ask on purpose and the client does not."""

    calls: list[Call]
    allow: list[str] = field(default_factory=list)
    ask: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)
    scope: Scope = Scope.USER
    trusted: bool = False
    mode: str = "default"
    stricter: tuple[str, ...] = ()


def bash(*commands: str) -> list[Call]:
    return [("Bash", {"command": command}) for command in commands]


def write(*paths: str) -> list[Call]:
    return [("Write", {"file_path": path, "content": "x"}) for path in paths]


def read(*paths: str) -> list[Call]:
    return [("Read", {"file_path": path}) for path in paths]


MCP_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    answers = {
        "initialize": lambda: {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                               "serverInfo": {"name": "demo", "version": "1"}},
        "tools/list": lambda: {"tools": [{"name": "echo", "description": "Says it again.", "inputSchema": schema}]},
        "tools/call": lambda: {"content": [{"type": "text", "text": "heard"}]},
    }
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]()}), flush=True)
"""
MKDIR = ["Bash(mkdir:*)"]
GROUPS = {
    "nothing": Group(
        bash(
            "ls", "cat a.txt", "cat /etc/hostname", "ls /etc", "mkdir z", "echo hi > x", "echo hi > /dev/null"
        )
        + bash(
            "echo $(ls)",
            "X=1 ls",
            "timeout 5 ls",
            "env ls",
            "ls | wc -l",
            "find . -name a.txt",
            "find . -delete",
        )
        + bash("ls *.txt", "python3 -c 1", "cat a.txt; rm a.txt", "ls && touch y", "echo $HOME")
        + read("$CWD/a.txt", "/etc/hostname")
        + write("$CWD/n", "/tmp/n")
        + [("WebFetch", {"url": "https://x.invalid/", "prompt": "p"})],
    ),
    "prefix": Group(
        bash("mkdir b", "mkdir -p c/d", "mkdirx", "mkdir e && touch f", "mkdir g > log", "X=1 mkdir h")
        + bash(
            "mkdir $(echo i)",
            "timeout 5 mkdir j",
            "nice mkdir k",
            "env mkdir l",
            "mkdir m; mkdir n",
            "watch mkdir o",
        )
        + bash("echo q | xargs mkdir", "mkdir r 2>&1", "mkdir s 2>/dev/null"),
        allow=MKDIR,
    ),
    "exact": Group(bash("touch one", "touch one two", "touch"), allow=["Bash(touch one)"]),
    "wildcard": Group(
        bash("touch a end", "touch a b end", "touch end", "touch a endx"), allow=["Bash(touch * end)"]
    ),
    "word border": Group(bash("touch a", "touchx a"), allow=["Bash(touch *)"]),
    "deny beside allow": Group(
        bash(
            "mkdir a",
            "mkdir b/..",
            "touch x",
            "mkdir c && touch y",
            "env mkdir d",
            "echo $(mkdir e)",
            "/bin/mkdir f",
        ),
        allow=["Bash"],
        deny=MKDIR,
    ),
    "ask beside allow": Group(bash("mkdir a", "touch x", "touch y && mkdir b"), allow=["Bash"], ask=MKDIR),
    "project, not trusted": Group(bash("mkdir a"), allow=MKDIR, scope=Scope.PROJECT),
    "project, trusted": Group(bash("mkdir a"), allow=MKDIR, scope=Scope.PROJECT, trusted=True),
    "project deny": Group(bash("ls", "cat a.txt"), deny=["Bash(cat:*)"], scope=Scope.PROJECT),
    "local": Group(bash("mkdir a", "touch x"), allow=MKDIR, scope=Scope.LOCAL),
    "read deny": Group(
        bash(
            "cat secret",
            "cp secret x",
            "cat a.txt",
            "head -1 secret",
            "cat sub/../secret",
            "grep S secret",
            "cat < secret",
        )
        + read("$CWD/secret", "$CWD/a.txt"),
        allow=["Bash(cp:*)", "Write"],
        deny=["Read(./secret)"],
    ),
    "bare edit": Group(write("$CWD/n"), allow=["Edit"]),
    "bare write": Group(write("$CWD/n", "/tmp/recollect-never"), allow=["Write(x)", "Edit(sub/**)"]),
    "edit tree": Group(write("$CWD/sub/n", "$CWD/n", "$CWD/sub/.git/hooks/x"), allow=["Edit(sub/**)"]),
    "edit deny": Group(write("$CWD/n", "$CWD/m"), allow=["Write"], deny=["Edit(n)"]),
    "read whole deny": Group(write("$CWD/n"), allow=["Write"], deny=["Read"]),
    "accept edits": Group(
        write("$CWD/n", "$CWD/.git/hooks/x", "$CWD/.claude/settings.json", "/tmp/recollect-never/n")
        + bash("mkdir q", "touch r", "python3 -c 1", "mkdir /tmp/recollect-never", "rm a.txt"),
        mode="acceptEdits",
    ),
    "plan": Group(
        write("$CWD/n") + bash("ls", "mkdir q", "touch r"), allow=["Write", "Bash(touch:*)"], mode="plan"
    ),
    "don't ask": Group(bash("ls", "mkdir q", "touch r"), allow=["Bash(touch:*)"], mode="dontAsk"),
    "bypass": Group(
        bash("mkdir q", "touch r", "python3 -c 1") + write("$CWD/n", "$CWD/m"),
        ask=["Bash(touch:*)"],
        deny=["Bash(mkdir:*)", "Edit(m)"],
        mode="bypassPermissions",
    ),
    "mcp, nothing": Group([("mcp__demo__echo", {"text": "a"})]),
    "mcp server": Group([("mcp__demo__echo", {"text": "a"})], allow=["mcp__demo"]),
    "mcp glob": Group([("mcp__demo__echo", {"text": "a"})], allow=["mcp__demo__*"]),
    "mcp tool": Group([("mcp__demo__echo", {"text": "a"})], allow=["mcp__demo__echo"]),
    "mcp other": Group([("mcp__demo__echo", {"text": "a"})], allow=["mcp__demo2", "mcp__*"]),
    "mcp deny": Group([("mcp__demo__echo", {"text": "a"})], allow=["mcp__demo"], deny=["mcp__demo__echo"]),
    "asked twice": Group(
        bash("touch a", "touch b c"), allow=["Bash(touch a)", "Bash(touch:*)"], ask=["Bash(touch b:*)"]
    ),
    "more wrappers": Group(
        bash(
            "time touch a",
            "nohup touch b",
            "stdbuf -oL touch c",
            "npx touch d",
            "sudo touch e",
            "setsid touch f",
        )
        + bash("xargs -n1 touch", "find . -name x -exec touch {} +", "flock l touch g", "bash -c 'touch h'"),
        allow=["Bash(touch:*)", "Bash(find:*)", "Bash(setsid:*)", "Bash(flock:*)"],
    ),
    "deny in hiding": Group(
        bash(
            "r''m a.txt",
            "sudo rm a.txt",
            "bash -c 'rm a.txt'",
            "X=rm; $X a.txt",
            "if true; then rm a.txt; fi",
        )
        + bash("ls; rm a.txt", "(rm a.txt)", "nice -n 5 rm a.txt", "xargs rm", "eval rm a.txt"),
        deny=["Bash(rm:*)"],
    ),
    "absolute paths": Group(
        read("/etc/hostname", "/etc/hosts") + bash("cat /etc/hostname", "cat /etc/hosts"),
        allow=["Read(//etc/hostname)"],
    ),
    "not absolute": Group(read("/etc/hostname"), allow=["Read(/etc/hostname)"]),
    "cd": Group(
        bash("cd sub && ls"),
    ),
    "cd, then git": Group(bash("cd sub && git status")),
    "listing denied": Group(
        bash(
            "ls sub",
            "find sub",
            "stat secret",
            "wc -l secret",
            "sort secret",
            "file secret",
            "diff secret a.txt",
        )
        + bash("git diff --no-index secret a.txt", "ls", "grep -r S .", "cat *"),
        deny=["Read(./secret)", "Read(./sub/**)"],
        # A star, or a whole directory, that takes the denied file in: the client does not look.
        stricter=("grep -r S .", "cat *"),
    ),
    "cd out": Group(bash("cd /tmp && ls", "cd .. && cat work/a.txt", "cd /tmp && git status")),
}


class Permitted(Client):
    """A client with one settings file."""

    stub: ScriptedStub

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "IS_SANDBOX": "1"}

    def settle(self, group: Group) -> None:
        below = self.cwd / ".claude"
        file = {
            Scope.USER: self.config / "settings.json",
            Scope.PROJECT: below / "settings.json",
            Scope.LOCAL: below / "settings.local.json",
        }[group.scope]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            json.dumps({"permissions": {"allow": group.allow, "ask": group.ask, "deny": group.deny}})
        )
        if group.trusted:
            trust = {"projects": {str(self.cwd): {"hasTrustDialogAccepted": True}}}
            (self._home / ".claude.json").write_text(json.dumps(trust))
        (self.cwd / "sub").mkdir()
        server = {"command": sys.executable, "args": ["-c", MCP_SERVER]}
        (self.cwd / ".mcp.json").write_text(json.dumps({"mcpServers": {"demo": server}}))
        for name in ("a.txt", "secret"):
            (self.cwd / name).write_text("S\n")

    def ran(self, group: Group) -> list[bool]:
        """Which of the calls were carried out."""
        self._command = command_of(self.version)
        self.stub.script = [self.placed(call) for call in group.calls]
        done = self.ask("Go on.", "--permission-mode", group.mode)
        # It ends with 1 when a mode's check on the server could not be made; the call was refused then.
        assert (True, []) == (done.returncode in (0, 1), self.stub.script), done.stdout + done.stderr
        results = [
            block
            for message in self.stub.conversations()[-1]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        return [
            not block.get("is_error") or str(block["content"]).startswith("Exit code") for block in results
        ]

    def placed(self, call: Call) -> Call:
        return call[0], json.loads(json.dumps(call[1]).replace("$CWD", str(self.cwd)))

    def decided(self, group: Group) -> list[bool]:
        """What our engine says to the same calls under the same settings."""
        source = RuleSource(group.scope, anchor=str(self.cwd))
        lists = ((Verdict.ALLOW, group.allow), (Verdict.ASK, group.ask), (Verdict.DENY, group.deny))
        parsed = [parse_rule(text, verdict, source) for verdict, texts in lists for text in texts]
        rules = RuleSet(tuple(rule for rule in parsed if isinstance(rule, Rule)), ())
        workspace = Workspace(str(self.cwd), (), str(self._home), group.trusted)
        engine = PolicyEngine(rules, workspace, Mode(group.mode), FileWorld())
        return [engine.decide(*self.placed(call)).verdict is Verdict.ALLOW for call in group.calls]


@pytest.fixture
def permitted(tmp_path: Path) -> Iterator[Permitted]:
    with running(ScriptedStub()) as stub:
        yield Permitted("2.1.325", [], tmp_path, stub)


@pytest.mark.parametrize("name", GROUPS)
def test_we_decide_what_the_client_does(name: str, permitted: Permitted) -> None:
    """Call by call: allowed by us is carried out by the client, asked or denied by us is not."""
    group = GROUPS[name]
    permitted.settle(group)
    ours = permitted.decided(group)
    theirs = recorded(f"permissions: {name}", settled(group), lambda: permitted.ran(group))
    shown = [next(iter(arguments.values())) for _, arguments in group.calls]
    expected = [(call, did and call not in group.stricter) for call, did in zip(shown, theirs, strict=True)]
    assert expected == list(zip(shown, ours, strict=True))


def settled(group: Group) -> str:
    """Everything that the client gets to see of a group."""
    rules = (group.allow, group.ask, group.deny)
    return json.dumps([group.calls, rules, group.scope.name, group.trusted, group.mode])


def test_the_table_is_long_enough() -> None:
    """At least 25 pairs of settings and call, few of them where we are stricter on purpose."""
    pairs = sum(len(group.calls) for group in GROUPS.values())
    stricter = sum(len(group.stricter) for group in GROUPS.values())
    assert (True, True) == (pairs >= 80, stricter <= 5)
